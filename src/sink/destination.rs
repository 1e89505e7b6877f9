//! Where batches go. A destination sees bytes and a token, nothing of flows.

use bytes::Bytes;

use crate::clickhouse::{Class, ClickHouseError, Connection, InsertSettings, SchemaError, ensure};
use crate::config::ClickHouseConfig;

/// Rows of one partition, encoded once and sent unchanged on every try.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Identifies the batch: the destination stores a token once.
    pub token: String,
    /// Its rows.
    pub rows: usize,
    /// The body of the insert.
    pub bytes: Bytes,
}

/// Takes batches.
pub trait Destination: Send {
    /// Makes ready for batches; called before the first one, and again until it succeeds.
    ///
    /// # Errors
    ///
    /// It cannot be reached, or cannot be used as configured.
    fn prepare(&mut self) -> Result<(), DeliveryError>;

    /// Stores `batch`. Whatever the outcome, the same batch may be delivered again.
    ///
    /// # Errors
    ///
    /// The batch is not known to be stored.
    fn deliver(&mut self, batch: &Batch) -> Result<(), DeliveryError>;
}

/// Why a batch is not known to be stored.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// This batch failed.
    #[error(transparent)]
    Batch(#[from] ClickHouseError),
    /// No batch can succeed before somebody changes the configuration or the server.
    #[error(transparent)]
    Fatal(#[from] Fatal),
}

/// The destination cannot be used as it is configured.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Fatal(pub String);

/// The table `flows` of one ClickHouse.
#[derive(Debug)]
pub struct ClickHouse {
    connection: Connection,
    config: ClickHouseConfig,
    insert_sql: String,
    /// Known when prepared.
    settings: Option<InsertSettings>,
}

impl ClickHouse {
    /// A destination that is not prepared yet.
    ///
    /// # Errors
    ///
    /// The system gives no epoll instance.
    pub fn new(config: &ClickHouseConfig) -> std::io::Result<Self> {
        Ok(Self {
            connection: Connection::new(config)?,
            insert_sql: format!("INSERT INTO `{}`.flows FORMAT Native", config.database),
            config: config.clone(),
            settings: None,
        })
    }

    /// A refusal at the start says what to do; an outage passes.
    fn explain(&self, error: SchemaError) -> DeliveryError {
        let ClickHouseConfig { endpoint, username, database, .. } = &self.config;
        let advice = match error {
            SchemaError::Differs { .. } => String::new(),
            SchemaError::ClickHouse(ClickHouseError::Refused { code: 192..=194 | 516, .. }) => {
                format!("; check clickhouse.username (\"{username}\") and clickhouse.password")
            }
            SchemaError::ClickHouse(ClickHouseError::Refused { code: 60 | 81, .. }) => {
                format!("; create {database}.flows, or set clickhouse.manage-schema = true")
            }
            SchemaError::ClickHouse(ClickHouseError::Refused { code: 497, .. }) => {
                format!("; grant it to {username}, or set clickhouse.manage-schema = false")
            }
            SchemaError::ClickHouse(error) if error.class() != Class::Permanent => {
                return error.into();
            }
            SchemaError::ClickHouse(_) => String::new(),
        };
        Fatal(format!("ClickHouse at {endpoint}: {error}{advice}")).into()
    }
}

impl Destination for ClickHouse {
    /// Sees to the schema and learns which settings the server knows.
    fn prepare(&mut self) -> Result<(), DeliveryError> {
        ensure(&self.connection, &self.config).map_err(|error| self.explain(error))?;
        self.settings = Some(InsertSettings::probe(&self.connection)?);
        Ok(())
    }

    fn deliver(&mut self, batch: &Batch) -> Result<(), DeliveryError> {
        let Some(settings) = &self.settings else {
            self.prepare()?;
            return self.deliver(batch);
        };
        self.connection.insert(&self.insert_sql, settings, &batch.token, &batch.bytes)?;
        Ok(())
    }
}
