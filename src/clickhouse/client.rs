//! A connection to one ClickHouse, for a thread that may wait.
//!
//! Its users are plain threads; a small runtime is behind it. The crate `clickhouse` does the HTTP.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clickhouse::{Client, Compression};
use http_body_util::Empty;
use hyper_util::client::legacy::{Builder, Client as HttpClient};
use hyper_util::rt::TokioExecutor;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::config::ClickHouseConfig;
use crate::patience::Patience;

use super::connector::Connector;
use super::errors::ClickHouseError;
use super::insert::Insert;

/// A statement that is not an insert answers within this, or the server is taken to hang.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

/// Servers close idle connections, some after 3 s. An insert that meets such an end would have no answer.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Body bytes handed to the HTTP client at a time; it copies none of them.
const BODY_PART_BYTES: usize = 1 << 20;

/// One ClickHouse server, one user.
pub struct Connection {
    endpoint: String,
    client: Client,
    /// For what needs no user.
    http: HttpClient<Connector, Empty<Bytes>>,
    connect_timeout: Duration,
    runtime: Arc<Runtime>,
    patience: Patience,
}

impl Connection {
    /// A connection to the first endpoint of the configuration; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// The system gives no epoll instance.
    pub fn new(config: &ClickHouseConfig) -> io::Result<Self> {
        Ok(Self::to(config, &config.endpoints[0], &runtime()?, &Patience::default()))
    }

    /// A connection to one of the endpoints of the configuration, whose requests end with `patience`.
    pub(super) fn to(
        config: &ClickHouseConfig,
        endpoint: &str,
        runtime: &Arc<Runtime>,
        patience: &Patience,
    ) -> Self {
        let connector = Connector::new(config);
        let client = Client::with_http_client(pool().build(connector.clone()))
            .with_url(endpoint)
            .with_user(&config.username)
            .with_password(config.password.expose())
            .with_compression(Compression::None)
            .with_product_info("tidegate", env!("CARGO_PKG_VERSION"));
        Self {
            endpoint: endpoint.to_owned(),
            client,
            http: pool().build(connector),
            connect_timeout: config.connect_timeout,
            runtime: Arc::clone(runtime),
            patience: patience.clone(),
        }
    }

    /// Its URL, as the configuration has it.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Runs a statement without a result.
    ///
    /// # Errors
    ///
    /// ClickHouse refused or does not answer.
    pub fn execute(&self, sql: &str) -> Result<(), ClickHouseError> {
        self.wait(QUERY_TIMEOUT, self.client.query_raw(sql).execute())
    }

    /// Runs a query and returns its result as tab-separated text.
    ///
    /// # Errors
    ///
    /// ClickHouse refused or does not answer.
    pub fn query(&self, sql: &str) -> Result<String, ClickHouseError> {
        self.query_as(sql, "TSV", QUERY_TIMEOUT)
    }

    /// The same in another format of ClickHouse, for people who wait for it.
    ///
    /// # Errors
    ///
    /// ClickHouse refused or does not answer.
    pub fn query_as(
        &self,
        sql: &str,
        format: &str,
        limit: Duration,
    ) -> Result<String, ClickHouseError> {
        let bytes = self.wait(limit, async {
            self.client.query_raw(sql).fetch_bytes(format)?.collect().await
        })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Runs a statement that may take long.
    ///
    /// # Errors
    ///
    /// ClickHouse refused or does not answer.
    pub fn execute_within(&self, sql: &str, limit: Duration) -> Result<(), ClickHouseError> {
        self.wait(limit, self.client.query_raw(sql).execute())
    }

    /// Sends one insert.
    ///
    /// # Errors
    ///
    /// ClickHouse refused, or does not answer within `timeout`; then the insert may have been stored, and
    /// sending the same bytes with the same token again is safe.
    pub fn insert(&self, insert: &Insert<'_>, timeout: Duration) -> Result<(), ClickHouseError> {
        let Insert { sql, settings, token, body, views } = *insert;
        let token = settings.has_tokens().then_some(("insert_deduplication_token", token));
        let settings = settings.iter().chain(token).chain([views.setting()]);
        let insert = self.client.insert_formatted_with(sql);
        let mut insert =
            settings.fold(insert, |insert, (name, value)| insert.with_setting(name, value));
        self.wait(timeout, async move {
            let mut rest = body.clone();
            while !rest.is_empty() {
                insert.send(rest.split_to(rest.len().min(BODY_PART_BYTES))).await?;
            }
            insert.end().await
        })
    }

    /// Asks whether the server is there, without waiting: the answer comes while the thread waits for
    /// something else of the same runtime.
    pub(super) fn ping(&self) -> JoinHandle<bool> {
        let (http, limit) = (self.http.clone(), self.connect_timeout);
        let uri = format!("{}/ping", self.endpoint.trim_end_matches('/')).parse();
        self.runtime.spawn(async move {
            let Ok(uri) = uri else { return false };
            let answer = tokio::time::timeout(limit, http.get(uri)).await;
            answer.is_ok_and(|answer| answer.is_ok_and(|answer| answer.status().is_success()))
        })
    }

    fn wait<T>(
        &self,
        limit: Duration,
        request: impl Future<Output = clickhouse::error::Result<T>>,
    ) -> Result<T, ClickHouseError> {
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = self.patience.ended() => Err(ClickHouseError::Abandoned),
                answer = tokio::time::timeout(limit, request) => match answer {
                    Ok(result) => result.map_err(ClickHouseError::from),
                    Err(_) => Err(ClickHouseError::TimedOut(limit)),
                },
            }
        })
    }
}

/// A runtime for connections: what one of them has begun goes on while another is waited for.
pub(super) fn runtime() -> io::Result<Arc<Runtime>> {
    Ok(Arc::new(tokio::runtime::Builder::new_current_thread().enable_all().build()?))
}

fn pool() -> Builder {
    let mut pool = HttpClient::builder(TokioExecutor::new());
    pool.pool_idle_timeout(IDLE_TIMEOUT);
    pool
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
