//! Where batches go. A destination sees bytes and a token, nothing of flows.

use std::time::Duration;

use bytes::Bytes;

use crate::clickhouse::{
    ClickHouseError, Connection, Insert, InsertSettings, SchemaError, Views, ensure,
};
use crate::config::{ClickHouseConfig, OnRowError};

/// A table that batches go to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Target {
    /// `flows`, in the Native format.
    Flows,
    /// `flows_dead_letter`, as a JSON object for each row.
    DeadLetters,
}

/// Rows of one partition, encoded once and sent unchanged on every try.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Identifies the batch: the destination stores a token once.
    pub token: String,
    /// Where it goes.
    pub target: Target,
    /// What becomes of its rows when ClickHouse refuses some.
    pub on_row_error: OnRowError,
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
    fn deliver(&mut self, batch: &Batch, views: Views) -> Result<(), DeliveryError>;
}

/// Why a batch is not known to be stored.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// This try failed.
    #[error(transparent)]
    Try(#[from] ClickHouseError),
    /// No batch can succeed before somebody changes the configuration or the server.
    #[error(transparent)]
    Fatal(#[from] Fatal),
}

/// The destination cannot be used as it is configured.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Fatal(pub String);

/// Longest wait for an answer. A server that needs more for one insert is taken to hang.
const RESPONSE_TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// The table `flows` of one ClickHouse.
#[derive(Debug)]
pub struct ClickHouse {
    connection: Connection,
    config: ClickHouseConfig,
    insert_flows: String,
    insert_dead_letters: String,
    /// Doubled for the next try when the answer did not come in time: the server has the whole insert to
    /// do again, and would else never be waited for.
    response_timeout: Duration,
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
            insert_flows: format!("INSERT INTO `{}`.flows FORMAT Native", config.database),
            insert_dead_letters: format!(
                "INSERT INTO `{}`.flows_dead_letter FORMAT JSONEachRow",
                config.database
            ),
            response_timeout: config.response_timeout,
            config: config.clone(),
            settings: None,
        })
    }

    /// A start that only somebody can mend says what to do; anything else may pass.
    fn explain(&self, error: SchemaError) -> DeliveryError {
        let ClickHouseConfig { endpoint, username, database, manage_schema, .. } = &self.config;
        let error = match error {
            SchemaError::ClickHouse(error) => error,
            SchemaError::Differs { .. } => {
                return Fatal(format!("ClickHouse at {endpoint}: {error}")).into();
            }
        };
        let ClickHouseError::Refused { code, .. } = error else { return error.into() };
        let advice = match code {
            192..=194 | 516 => {
                format!("check clickhouse.username (\"{username}\") and clickhouse.password")
            }
            60 | 81 => format!("create {database}.flows, or set clickhouse.manage-schema = true"),
            497 if *manage_schema => {
                format!("grant it to {username}, or set clickhouse.manage-schema = false")
            }
            497 => format!("grant it to {username}"),
            _ => return error.into(),
        };
        Fatal(format!("ClickHouse at {endpoint}: {error}; {advice}")).into()
    }
}

impl Destination for ClickHouse {
    /// Sees to the schema and learns which settings the server knows.
    fn prepare(&mut self) -> Result<(), DeliveryError> {
        let settings = ensure(&self.connection, &self.config)
            .and_then(|()| Ok(InsertSettings::probe(&self.connection)?))
            .map_err(|error| self.explain(error))?;
        self.settings = Some(settings);
        Ok(())
    }

    fn deliver(&mut self, batch: &Batch, views: Views) -> Result<(), DeliveryError> {
        let Some(settings) = &self.settings else {
            self.prepare()?;
            return self.deliver(batch, views);
        };
        let insert = Insert {
            sql: match batch.target {
                Target::Flows => &self.insert_flows,
                Target::DeadLetters => &self.insert_dead_letters,
            },
            settings,
            token: &batch.token,
            body: &batch.bytes,
            views,
        };
        let outcome = self.connection.insert(&insert, self.response_timeout);
        self.response_timeout = match outcome {
            Err(ClickHouseError::TimedOut(waited)) => (2 * waited).min(RESPONSE_TIMEOUT_MAX),
            _ => self.config.response_timeout,
        };
        Ok(outcome?)
    }
}
