//! The sections of the file: their keys, defaults and limits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::decode::Protocol;
use crate::flow::Identity;

use super::Config;
use super::secret::Secret;
use super::section::Section;
use super::values::show_duration;

/// `[receivers.NAME]`: one listening address.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceiverConfig {
    /// NAME, the label of its metrics.
    pub name: String,
    /// UDP address. `[::]` takes IPv4 too.
    pub listen: SocketAddr,
    /// Protocols that are decoded; others are dropped and counted.
    pub protocols: Vec<Protocol>,
    /// Sockets and reader threads.
    pub workers: usize,
    /// Receive buffer of each socket. The default survives a stall of 200 ms at 100,000 datagrams a
    /// second of 1,400 bytes.
    pub receive_buffer_bytes: u64,
    /// Elements without a column are kept, as text, in the column `extra`.
    pub keep_unknown_elements: bool,
    /// One packet in so many is looked at, by exporters that do not say it themselves.
    pub sampling_interval: Option<f64>,
    /// The exporters send sampling rates in little-endian order.
    pub little_endian_sampling: bool,
}

/// `[clickhouse]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClickHouseConfig {
    /// URL of the HTTP interface.
    pub endpoint: String,
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
    /// How long to wait for the answer to an insert. Behind it the outcome is unknown and the batch is
    /// sent again.
    pub response_timeout: Duration,
    /// `[clickhouse.batch]`.
    pub batch: BatchConfig,
    /// `[clickhouse.retry]`.
    pub retry: RetryConfig,
}

/// `[clickhouse.batch]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BatchConfig {
    /// Rows of one insert.
    pub max_rows: usize,
    /// Age of the first row at which a batch is sent although it is not full.
    pub max_latency: Duration,
    /// Rows that wait for the flusher; more are dropped.
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

/// `[state]`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StateConfig {
    /// Where templates are kept over a restart, if they are.
    pub directory: Option<PathBuf>,
}

/// `[management]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ManagementConfig {
    /// Address of the HTTP server.
    pub listen: SocketAddr,
}

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// Ports that flow exporters send to by convention: NetFlow, IPFIX (RFC 7011 section
/// 10.3.4) and sFlow (IANA).
const DEFAULT_PORTS: [(&str, u16); 3] = [("netflow", 2055), ("ipfix", 4739), ("sflow", 6343)];

/// Reads the whole file.
pub(super) fn read(root: Section<'_>) -> Config {
    let config = Config {
        identity: identity(root.section("identity")),
        receivers: receivers(root.section("receivers")),
        clickhouse: clickhouse(root.section("clickhouse")),
        skew_max: clock(root.section("clock")),
        state: state(root.section("state")),
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

fn receivers(section: Section<'_>) -> Vec<ReceiverConfig> {
    let receivers: Vec<_> = section
        .sections(&["_LISTEN"])
        .into_iter()
        .map(|(name, keys)| receiver(name, keys))
        .collect();
    for (index, receiver) in receivers.iter().enumerate() {
        let mut earlier = receivers.iter().take(index);
        if let Some(other) = earlier.find(|other| overlap(other.listen, receiver.listen)) {
            let text = format!("{} is taken by the receiver {}", receiver.listen, other.name);
            section.mistake(&receiver.name, text);
        }
        if !is_receiver_name(&receiver.name) {
            section.mistake(&receiver.name, RECEIVER_NAME_RULE);
        }
    }
    section.finish();
    if receivers.is_empty() { default_receivers() } else { receivers }
}

/// The name is a metric label, a thread's name and a part of environment variables.
const RECEIVER_NAME_RULE: &str = "a receiver's name has 1 to 32 characters of a-z, 0-9, _ and -";

fn is_receiver_name(name: &str) -> bool {
    let is_allowed = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-')
    };
    (1..=32).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// Whether two sockets cannot have these addresses at the same time. `[::]` takes IPv4 too.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let has_any = a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() != 0 && a.port() == b.port() && (has_any || a.ip() == b.ip())
}

fn receiver(name: String, section: Section<'_>) -> ReceiverConfig {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let default = default_receiver(name, any);
    let listen =
        section.parsed("listen", None, "an address and a port, \"0.0.0.0:2055\"", |text| {
            text.parse().ok().map(Some)
        });
    let receiver = ReceiverConfig {
        listen: listen.unwrap_or(any),
        protocols: section.list("protocols", default.protocols, &protocol_names(), |text| {
            Protocol::ALL.into_iter().find(|protocol| protocol.label() == text)
        }),
        workers: match section.count("workers", 0, 0..=256) {
            0 => default.workers,
            workers => workers,
        },
        receive_buffer_bytes: section.bytes(
            "receive-buffer",
            default.receive_buffer_bytes,
            64 << 10..=1 << 30,
        ),
        keep_unknown_elements: section.bool("keep-unknown-elements", false),
        sampling_interval: match section.count("sampling-interval", 0, 0..=1_000_000_000) {
            0 => None,
            #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
            interval => Some(interval as f64),
        },
        little_endian_sampling: section.bool("little-endian-sampling", false),
        name: default.name,
    };
    if receiver.protocols.is_empty() {
        section.mistake("protocols", format!("must name at least one of {}", protocol_names()));
    }
    if !section.has("listen") {
        section.mistake("listen", "is missing; for example \"0.0.0.0:2055\"");
    }
    section.finish();
    receiver
}

fn default_receivers() -> Vec<ReceiverConfig> {
    let any = IpAddr::from(Ipv6Addr::UNSPECIFIED);
    let receivers =
        DEFAULT_PORTS.map(|(name, port)| default_receiver(name.into(), (any, port).into()));
    receivers.into()
}

fn default_receiver(name: String, listen: SocketAddr) -> ReceiverConfig {
    ReceiverConfig {
        name,
        listen,
        protocols: Protocol::ALL.into(),
        workers: std::thread::available_parallelism().map_or(1, usize::from),
        receive_buffer_bytes: 32 << 20,
        keep_unknown_elements: false,
        sampling_interval: None,
        little_endian_sampling: false,
    }
}

fn protocol_names() -> String {
    Protocol::ALL.map(|protocol| format!("\"{}\"", protocol.label())).join(", ")
}

fn clickhouse(section: Section<'_>) -> ClickHouseConfig {
    let config = ClickHouseConfig {
        endpoint: section.parsed(
            "endpoint",
            "http://127.0.0.1:8123".to_owned(),
            "a URL, \"http://HOST:8123\"",
            |text| is_endpoint(text).then(|| text.to_owned()),
        ),
        database: section.parsed("database", "tidegate".to_owned(), DATABASE_RULE, |text| {
            is_database_name(text).then(|| text.to_owned())
        }),
        username: section.text("username", "default"),
        password: section.secret("password"),
        manage_schema: section.bool("manage-schema", true),
        compress_requests: section.bool("compress-requests", true),
        response_timeout: section.duration("response-timeout", 30 * SECOND, SECOND..=HOUR),
        batch: batch(section.section("batch")),
        retry: retry(section.section("retry")),
    };
    section.finish();
    config
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
