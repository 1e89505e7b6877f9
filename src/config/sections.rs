//! The sections of the file: their keys, defaults and limits.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::flow::Identity;

use super::Config;
use super::receivers;
use super::schema::{self, SchemaConfig};
use super::secret::Secret;
use super::section::Section;
use super::snmp;
use super::values::show_duration;

/// `on-row-error`: what becomes of a batch that ClickHouse refuses for what is in it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OnRowError {
    /// All its rows become dead letters.
    #[default]
    Fail,
    /// The rows that are refused become dead letters, the others are stored.
    Quarantine,
}

/// Without batches there is nothing to keep or to search.
const NEEDS_BATCHES: &str = "goes with clickhouse.batch.enabled = true only";

impl OnRowError {
    /// The name in the configuration.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Quarantine => "quarantine",
        }
    }

    /// Reads the key of a section, if it is there.
    pub(super) fn read(section: &Section<'_>, is_batched: bool) -> Option<Self> {
        let read = section.parsed("on-row-error", None, "\"fail\" or \"quarantine\"", |text| {
            let known = [Self::Fail, Self::Quarantine];
            known.into_iter().find(|it| it.label() == text).map(Some)
        });
        if read == Some(Self::Quarantine) && !is_batched {
            section.mistake("on-row-error", NEEDS_BATCHES);
        }
        read
    }
}

/// `[clickhouse]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClickHouseConfig {
    /// URLs of HTTP interfaces, one at least. The first one is used while it answers.
    pub endpoints: Vec<String>,
    /// Database of the tables.
    pub database: String,
    /// User.
    pub username: String,
    /// Password of the user.
    pub password: Secret,
    /// Create and keep the schema; otherwise it is only checked.
    pub manage_schema: bool,
    /// Compress inserts with LZ4.
    pub compress_requests: bool,
    /// Without batching: whether ClickHouse gathers inserts of its own accord.
    pub async_inserts: Option<bool>,
    /// How long to wait until a connection is there, of which nothing was sent then.
    pub connect_timeout: Duration,
    /// How long to wait for the answer to an insert. Behind it the outcome is unknown and the batch is
    /// sent again.
    pub response_timeout: Duration,
    /// `[clickhouse.batch]`.
    pub batch: BatchConfig,
    /// `[clickhouse.retry]`.
    pub retry: RetryConfig,
    /// `[clickhouse.errors]`.
    pub errors: ErrorsConfig,
    /// `[clickhouse.schema]` and `[clickhouse.rollups]`.
    pub schema: SchemaConfig,
    /// For receivers that do not say it themselves.
    pub on_row_error: Option<OnRowError>,
    /// Inserts that the search for refused rows of one batch may take.
    pub quarantine_inserts_max: usize,
}

impl ClickHouseConfig {
    /// Whether ClickHouse gathers inserts of its own accord, and why. Who does not manage the schema has rules
    /// on the server, whose refusals must come back.
    #[must_use]
    pub fn gathers_inserts(&self) -> (bool, &'static str) {
        match self.async_inserts {
            _ if self.batch.enabled => (false, "batches are inserted"),
            Some(wanted) => (wanted, "clickhouse.async-inserts"),
            None => (self.manage_schema, "clickhouse.manage-schema"),
        }
    }
}

/// `[clickhouse.batch]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BatchConfig {
    /// Gather rows; otherwise each datagram is an insert of its own, for which its reader waits.
    pub enabled: bool,
    /// Rows of one insert.
    pub max_rows: usize,
    /// Age of the first row at which a batch is sent although it is not full.
    pub max_latency: Duration,
    /// Rows that wait for the flusher; more are dropped, or wait with their exporter over TCP.
    pub queue_capacity_rows: usize,
    /// How long stopping may take.
    pub shutdown_grace_period: Duration,
}

/// `[clickhouse.retry]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RetryConfig {
    /// Longest pause before a batch is sent again.
    pub delay: Duration,
    /// Refusals after which a batch is given up.
    pub max_attempts: u32,
}

/// `[clickhouse.errors]`: codes that are treated in another way than tidegate knows.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ErrorsConfig {
    /// Codes after which a batch is sent again.
    pub retryable: Vec<u32>,
    /// Codes after which it is not.
    pub permanent: Vec<u32>,
}

/// `[state]`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StateConfig {
    /// Where templates are kept over a restart, if they are.
    pub directory: Option<PathBuf>,
}

/// `[spool]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SpoolConfig {
    /// Where batches wait that cannot be delivered, if they are kept on disk.
    pub directory: Option<PathBuf>,
    /// Disk that they may take; more are dropped.
    pub max_bytes: u64,
    /// Bring each batch to the disk before it counts as spooled, so that it outlives a power cut.
    pub fsync: bool,
    /// Rows a second that are delivered from the spool beside live ones.
    pub drain_rate_rows: usize,
}

/// `[management]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ManagementConfig {
    /// Address of the HTTP server.
    pub listen: SocketAddr,
}

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Reads the whole file.
pub(super) fn read(root: Section<'_>) -> Config {
    let clickhouse = clickhouse(root.section("clickhouse"));
    let is_batched = clickhouse.batch.enabled;
    let config = Config {
        identity: identity(root.section("identity")),
        receivers: receivers::read(root.section("receivers"), is_batched),
        clickhouse,
        skew_max: clock(root.section("clock")),
        state: state(root.section("state")),
        spool: spool(root.section("spool"), is_batched),
        snmp: snmp::read(root.section("snmp")),
        management: management(root.section("management")),
    };
    root.finish();
    config
}

fn identity(section: Section<'_>) -> Identity {
    let identity = Identity {
        tenant: section.text("tenant", "default"),
        organisation: section.text("organisation", "default"),
        zone: section.text("zone", "default"),
        system: section.text("system", &host_name()),
    };
    section.finish();
    identity
}

fn clickhouse(section: Section<'_>) -> ClickHouseConfig {
    let batch = batch(section.section("batch"));
    let config = ClickHouseConfig {
        endpoints: endpoints(&section),
        database: section.parsed("database", "tidegate".to_owned(), DATABASE_RULE, |text| {
            is_database_name(text).then(|| text.to_owned())
        }),
        username: section.text("username", "default"),
        password: section.secret("password"),
        manage_schema: section.bool("manage-schema", true),
        compress_requests: section.bool("compress-requests", true),
        // Linux asks at 0, 1 and 3 seconds and next at 7: two packets may be lost.
        connect_timeout: section.duration(
            "connect-timeout",
            5 * SECOND,
            Duration::from_millis(10)..=HOUR,
        ),
        response_timeout: section.duration("response-timeout", 30 * SECOND, SECOND..=HOUR),
        async_inserts: async_inserts(&section, batch.enabled),
        on_row_error: OnRowError::read(&section, batch.enabled),
        batch,
        retry: retry(section.section("retry")),
        errors: errors(section.section("errors")),
        schema: schema::read(section.section("schema"), section.section("rollups")),
        quarantine_inserts_max: quarantine(section.section("quarantine")),
    };
    section.finish();
    config
}

/// What ClickHouse gathers is acknowledged before it is checked and stored.
fn async_inserts(section: &Section<'_>, is_batched: bool) -> Option<bool> {
    let wanted = section.bool("async-inserts", false);
    if is_batched && wanted {
        section.mistake(
            "async-inserts",
            "goes with clickhouse.batch.enabled = false only: an answer must mean stored",
        );
    }
    section.has("async-inserts").then_some(wanted)
}

fn endpoints(section: &Section<'_>) -> Vec<String> {
    let default = vec!["http://127.0.0.1:8123".to_owned()];
    let endpoints =
        section.one_or_more("endpoint", default, "a URL, \"http://HOST:8123\"", |text| {
            is_endpoint(text).then(|| text.to_owned())
        });
    let mut servers = HashSet::new();
    for endpoint in &endpoints {
        if !servers.insert(endpoint.trim_end_matches('/')) {
            section.mistake("endpoint", format!("{endpoint} is there twice"));
        }
    }
    endpoints
}

/// `http://`, a host, perhaps a port; no user, path or query, which would be left out silently.
fn is_endpoint(text: &str) -> bool {
    let Ok(uri) = text.parse::<hyper::Uri>() else { return false };
    let Some(host) = uri.host().filter(|host| !host.is_empty()) else { return false };
    let host_and_port = match uri.port_u16() {
        None => host.to_owned(),
        Some(port) => format!("{host}:{port}"),
    };
    uri.scheme_str() == Some("http")
        && uri.authority().is_some_and(|authority| authority.as_str() == host_and_port)
        && uri.path() == "/"
        && uri.query().is_none()
}

const DATABASE_RULE: &str = "a name of letters, digits, _ and -, at most 64";

fn is_database_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=64).contains(&text.len()) && text.bytes().all(is_allowed)
}

fn batch(section: Section<'_>) -> BatchConfig {
    let config = BatchConfig {
        enabled: section.bool("enabled", true),
        // Fewer make an insert cost more than its rows, and chunks more than what they hold.
        max_rows: section.count("max-rows", 50_000, 100..=1_000_000),
        max_latency: section.duration(
            "max-latency",
            SECOND,
            Duration::from_millis(10)..=60 * SECOND,
        ),
        queue_capacity_rows: section.count("queue-capacity", 400_000, 1..=100_000_000),
        shutdown_grace_period: section.duration(
            "shutdown-grace-period",
            5 * SECOND,
            Duration::from_millis(20)..=HOUR,
        ),
    };
    if config.queue_capacity_rows < config.max_rows {
        section
            .mistake("queue-capacity", format!("must be at least max-rows, {}", config.max_rows));
    }
    if config.shutdown_grace_period < 2 * config.max_latency {
        let least = show_duration(2 * config.max_latency);
        section.mistake(
            "shutdown-grace-period",
            format!("must be at least twice max-latency, \"{least}\""),
        );
    }
    section.finish();
    config
}

fn retry(section: Section<'_>) -> RetryConfig {
    let attempts = section.count("max-attempts", 10, 1..=1_000);
    let config = RetryConfig {
        delay: section.duration("delay", 5 * SECOND, Duration::from_millis(1)..=HOUR),
        max_attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
    };
    section.finish();
    config
}

/// A row is found in 32 inserts of a batch of 50,000, and twenty scattered ones in about 400. What needs more
/// is not a few bad rows.
fn quarantine(section: Section<'_>) -> usize {
    let inserts_max = section.count("max-inserts", 1_000, 1..=1_000_000);
    section.finish();
    inserts_max
}

fn errors(section: Section<'_>) -> ErrorsConfig {
    let codes =
        |key| section.list(key, Vec::new(), "error codes, [241, 469]", |it| it.parse().ok());
    let config = ErrorsConfig { retryable: codes("retryable"), permanent: codes("permanent") };
    if let Some(code) = config.permanent.iter().find(|code| config.retryable.contains(code)) {
        section.mistake("permanent", format!("{code} is in retryable too"));
    }
    section.finish();
    config
}

/// A time-zone mistake is an hour at least; a clock that drifts without NTP stays below half of one.
fn clock(section: Section<'_>) -> Duration {
    let skew_max = section.duration("skew-threshold", HOUR / 2, SECOND..=24 * HOUR);
    section.finish();
    skew_max
}

fn state(section: Section<'_>) -> StateConfig {
    let directory = section.text("directory", "");
    section.finish();
    StateConfig { directory: (!directory.is_empty()).then(|| directory.into()) }
}

fn spool(section: Section<'_>, is_batched: bool) -> SpoolConfig {
    let directory = section.text("directory", "");
    if !directory.is_empty() && !is_batched {
        section.mistake("directory", NEEDS_BATCHES);
    }
    let config = SpoolConfig {
        directory: (!directory.is_empty()).then(|| directory.into()),
        // Less is hardly a batch, uncompressed.
        max_bytes: section.bytes("max-size", 4 * GIB, 16 * MIB..=GIB << 14),
        fsync: section.bool("fsync", true),
        // A third of what a ClickHouse on two cores takes: ten minutes of 20,000 flows a second are gone
        // in two, and the traffic of now goes on.
        drain_rate_rows: section.count("drain-rate", 100_000, 1_000..=100_000_000),
    };
    section.finish();
    config
}

fn management(section: Section<'_>) -> ManagementConfig {
    let default = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
    let config = ManagementConfig {
        listen: section.parsed(
            "listen",
            default,
            "an address and a port, \"127.0.0.1:8080\"",
            |text| text.parse().ok(),
        ),
    };
    section.finish();
    config
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "default".to_owned() } else { name.trim().to_owned() }
}
