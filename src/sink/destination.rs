//! Where batches go. A destination sees bytes and a token, nothing of flows.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tracing::warn;

use crate::clickhouse::{
    Block, ClickHouseError, Connection, EndpointInUse, Endpoints, Insert, InsertSettings, Login,
    Method, SharedLogin, Views, encode_batch,
};
use crate::config::{ClickHouseConfig, OnRowError};
use crate::patience::Patience;
use crate::schema::{SchemaError, ensure};

/// A table that batches go to.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Target {
    /// `flows`, in the Native format.
    Flows,
    /// `flows_dead_letter`, as a JSON object for each row.
    DeadLetters,
}

impl Target {
    pub(super) const ALL: [Self; 2] = [Self::Flows, Self::DeadLetters];

    /// Its name in the database.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::DeadLetters => "flows_dead_letter",
        }
    }

    /// The table with that name, which the spool keeps.
    pub(super) fn named(label: &str) -> Self {
        let known = Self::ALL.into_iter().find(|target| target.label() == label);
        known.unwrap_or(Self::Flows)
    }
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
    /// Place of the first one in the batch that it was cut from, 0 of a whole one.
    pub first_row: usize,
    /// The body of the insert.
    pub bytes: Bytes,
}

impl Batch {
    /// The batch that it was cut from, or itself.
    pub(super) fn root(&self) -> &str {
        self.token.split('/').next().unwrap_or_default()
    }

    /// Some of its rows; `way` is how they were cut, beside the cuts that it has behind it.
    pub(super) fn part(
        &self,
        block: &Block,
        rows: Range<usize>,
        way: &str,
        method: Method,
    ) -> Self {
        let separator = if self.token.contains('/') { "" } else { "/" };
        Self {
            token: format!("{}{separator}{way}", self.token),
            rows: rows.len(),
            first_row: self.first_row + rows.start,
            bytes: encode_batch(&block.chunks(rows), method),
            ..self.clone()
        }
    }
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

/// The table `flows` of the endpoint in use.
#[derive(Debug)]
pub struct ClickHouse {
    endpoints: Endpoints,
    /// The user of now; `config` has the one of the connections.
    login: SharedLogin,
    config: ClickHouseConfig,
    insert_flows: String,
    insert_dead_letters: String,
    /// Doubled for the next try when the answer did not come in time: the server has the whole insert to
    /// do again, and would else never be waited for.
    response_timeout: Duration,
    /// Of the endpoint in use, when it is prepared. Each change prepares anew: a server that was away may be
    /// another version, or empty.
    settings: Option<InsertSettings>,
    /// An endpoint has been prepared: from now on rows wait rather than end the collector.
    is_started: bool,
    /// Token of the last batch. A batch that was tried may be on its endpoint in part, and stays there.
    last_token: String,
}

impl ClickHouse {
    /// A destination that is not prepared yet, whose requests end with `patience`. It is always the user of
    /// `login`.
    ///
    /// # Errors
    ///
    /// The system gives no epoll instance.
    pub fn new(
        config: &ClickHouseConfig,
        login: SharedLogin,
        in_use: Arc<EndpointInUse>,
        patience: &Patience,
    ) -> std::io::Result<Self> {
        Ok(Self {
            login,
            endpoints: Endpoints::new(config, in_use, patience)?,
            insert_flows: format!("INSERT INTO `{}`.flows FORMAT Native", config.database),
            insert_dead_letters: format!(
                "INSERT INTO `{}`.flows_dead_letter FORMAT JSONEachRow",
                config.database
            ),
            response_timeout: config.response_timeout,
            config: config.clone(),
            settings: None,
            is_started: false,
            last_token: String::new(),
        })
    }

    /// Becomes another user when there is one.
    fn renew_login(&mut self) {
        let login = self.login.load();
        if **login != Login::of(&self.config) {
            self.config.username.clone_from(&login.username);
            self.config.password.clone_from(&login.password);
            drop(login);
            self.endpoints.log_in(&self.config);
            self.settings = None;
        }
    }

    /// Sees to the schema of a server and learns which settings it knows.
    fn settings_of(&self, server: &Connection) -> Result<InsertSettings, DeliveryError> {
        ensure(server, &self.config)
            .and_then(|()| Ok(InsertSettings::probe(server)?))
            .map(|settings| match self.config.gathers_inserts() {
                (true, _) => settings.gathered(),
                (false, _) => settings,
            })
            .map_err(|error| self.explain(server.endpoint(), error))
    }

    /// Uses the first endpoint again when it answers and is as it must be.
    fn return_to_first(&mut self) {
        if !self.endpoints.first_answers(Instant::now()) {
            return;
        }
        let first = self.endpoints.first();
        match self.settings_of(first) {
            Ok(settings) => {
                self.settings = Some(settings);
                self.endpoints.use_first();
            }
            Err(error) => warn!(endpoint = first.endpoint(), %error,
                "The first endpoint answers and cannot be used, another one stays in use."),
        }
    }

    /// What a server says when it is prepared is about the server, not the batch: the next one may do. Only
    /// what the first says at the start, or the only one, may end the collector.
    fn pass_over(&mut self, error: DeliveryError) -> DeliveryError {
        let is_start = !self.is_started && self.endpoints.is_first_in_use();
        let error = match error {
            DeliveryError::Fatal(_) if is_start || self.endpoints.is_one() => return error,
            DeliveryError::Fatal(Fatal(reason)) => ClickHouseError::Unusable(reason),
            DeliveryError::Try(ClickHouseError::Abandoned) => return error,
            DeliveryError::Try(error) if error.is_of_server() => error,
            DeliveryError::Try(error) => ClickHouseError::Unusable(error.to_string()),
        };
        self.fail_over(&error);
        error.into()
    }

    fn fail_over(&mut self, error: &ClickHouseError) {
        if self.endpoints.fail_over(error, Instant::now()) {
            self.settings = None;
        }
    }

    /// A start that only somebody can mend says what to do; anything else may pass.
    fn explain(&self, endpoint: &str, error: SchemaError) -> DeliveryError {
        let ClickHouseConfig { username, database, manage_schema, .. } = &self.config;
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
    fn prepare(&mut self) -> Result<(), DeliveryError> {
        self.renew_login();
        let settings = self.settings_of(self.endpoints.in_use());
        self.settings = Some(settings.map_err(|error| self.pass_over(error))?);
        self.is_started = true;
        Ok(())
    }

    fn deliver(&mut self, batch: &Batch, views: Views) -> Result<(), DeliveryError> {
        self.renew_login();
        if self.last_token != batch.token {
            self.last_token.clone_from(&batch.token);
            self.return_to_first();
        }
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
        let outcome = self.endpoints.in_use().insert(&insert, self.response_timeout);
        self.response_timeout = match outcome {
            Err(ClickHouseError::TimedOut(waited)) => {
                (2 * waited).min(RESPONSE_TIMEOUT_MAX.max(self.config.response_timeout))
            }
            _ => self.config.response_timeout,
        };
        if let Err(error) = &outcome {
            self.fail_over(error);
        }
        Ok(outcome?)
    }
}
