//! `[receivers.NAME]`: the listening addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use crate::decode::Protocol;

use super::exporters::sampling_interval;
use super::section::Section;
use super::sections::OnRowError;
use super::values::is_short_name;

/// `[receivers.NAME]`: one listening address.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceiverConfig {
    /// NAME, the label of its metrics.
    pub name: String,
    /// Its address. `[::]` takes IPv4 too.
    pub listen: SocketAddr,
    /// Protocols that are decoded; others are dropped and counted.
    pub protocols: Vec<Protocol>,
    /// How exporters send.
    pub transport: Transport,
    /// Elements without a column are kept, as text, in the column `extra`.
    pub keep_unknown_elements: bool,
    /// One packet in so many is looked at, by exporters that do not say it themselves.
    pub sampling_interval: Option<f64>,
    /// The exporters send sampling rates in little-endian order.
    pub little_endian_sampling: bool,
    /// What becomes of batches with rows of this receiver that ClickHouse refuses.
    pub on_row_error: Option<OnRowError>,
}

/// How exporters send to a receiver, and what goes with that.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Transport {
    /// Datagrams of every protocol.
    Udp(UdpConfig),
    /// Connections of IPFIX, RFC 7011 section 10.4.
    Tcp(TcpConfig),
}

/// `transport = "udp"`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UdpConfig {
    /// Sockets and reader threads.
    pub workers: usize,
    /// Receive buffer of each socket. The default survives a stall of 200 ms at 100,000 datagrams a
    /// second of 1,400 bytes.
    pub receive_buffer_bytes: u64,
}

/// `transport = "tcp"`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TcpConfig {
    /// Connections at a time; more are refused. The default keeps their buffers below 16 MiB.
    pub connections_max: usize,
    /// A connection without a byte for this long is closed. Exporters may be quiet through a night's lull;
    /// of hosts that are gone the kernel tells earlier.
    pub idle_timeout: Duration,
}

impl ReceiverConfig {
    /// Whether a receiver can go on with the sockets of another.
    #[must_use]
    pub fn has_same_sockets(&self, other: &Self) -> bool {
        (&self.name, self.listen, &self.transport) == (&other.name, other.listen, &other.transport)
    }

    /// Whether sockets of two receivers cannot have their addresses at the same time. `[::]` takes IPv4 too.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let has_any = self.listen.ip().is_unspecified() || other.listen.ip().is_unspecified();
        self.transport.label() == other.transport.label()
            && self.listen.port() != 0
            && self.listen.port() == other.listen.port()
            && (has_any || self.listen.ip() == other.listen.ip())
    }
}

impl Transport {
    /// The name in the configuration.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Udp(_) => "udp",
            Self::Tcp(_) => "tcp",
        }
    }
}

/// Ports that flow exporters send to by convention: NetFlow, IPFIX (RFC 7011 section
/// 10.3.4) and sFlow (IANA).
const DEFAULT_PORTS: [(&str, u16); 3] = [("netflow", 2055), ("ipfix", 4739), ("sflow", 6343)];

/// Of every connection, at most; one file descriptor each.
const CONNECTIONS_MAX: usize = 10_000;

const IDLE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30 * 60);
const IDLE_TIMEOUT_MAX: Duration = Duration::from_secs(7 * 86_400);

/// Reads `[receivers]`.
pub(super) fn read(section: Section<'_>, is_batched: bool) -> Vec<ReceiverConfig> {
    let receivers: Vec<_> = section
        .sections(&["_LISTEN"])
        .into_iter()
        .map(|(name, keys)| receiver(name, keys, is_batched))
        .collect();
    for (index, receiver) in receivers.iter().enumerate() {
        let mut earlier = receivers.iter().take(index);
        if let Some(other) = earlier.find(|other| other.overlaps(receiver)) {
            let text = format!("{} is taken by the receiver {}", receiver.listen, other.name);
            section.mistake(&receiver.name, text);
        }
        if !is_short_name(&receiver.name) {
            section.mistake(&receiver.name, RECEIVER_NAME_RULE);
        }
    }
    section.finish();
    if receivers.is_empty() { default_receivers() } else { receivers }
}

/// The name is a metric label, a thread's name and a part of environment variables.
const RECEIVER_NAME_RULE: &str = "a receiver's name has 1 to 32 characters of a-z, 0-9, _ and -";

fn receiver(name: String, section: Section<'_>, is_batched: bool) -> ReceiverConfig {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let listen =
        section.parsed("listen", None, "an address and a port, \"0.0.0.0:2055\"", |text| {
            text.parse().ok().map(Some)
        });
    if !section.has("listen") {
        section.mistake("listen", "is missing; for example \"0.0.0.0:2055\"");
    }
    let is_tcp = section.parsed("transport", false, "\"udp\" or \"tcp\"", |text| match text {
        "udp" => Some(false),
        "tcp" => Some(true),
        _ => None,
    });
    let receiver = ReceiverConfig {
        name,
        listen: listen.unwrap_or(any),
        protocols: protocols(&section, is_tcp),
        transport: if is_tcp { tcp(&section) } else { udp(&section) },
        keep_unknown_elements: section.bool("keep-unknown-elements", false),
        sampling_interval: sampling_interval(&section),
        little_endian_sampling: section.bool("little-endian-sampling", false),
        on_row_error: OnRowError::read(&section, is_batched),
    };
    section.finish();
    receiver
}

fn protocols(section: &Section<'_>, is_tcp: bool) -> Vec<Protocol> {
    let default = if is_tcp { vec![Protocol::Ipfix] } else { Protocol::ALL.into() };
    let protocols = section.list("protocols", default, &protocol_names(), |text| {
        Protocol::ALL.into_iter().find(|protocol| protocol.label() == text)
    });
    if protocols.is_empty() {
        section.mistake("protocols", format!("must name at least one of {}", protocol_names()));
    } else if is_tcp && protocols.iter().any(|&protocol| protocol != Protocol::Ipfix) {
        section.mistake("protocols", "must be [\"ipfix\"] with transport = \"tcp\"");
    }
    protocols
}

fn udp(section: &Section<'_>) -> Transport {
    for key in ["max-connections", "idle-timeout"] {
        section.refuse(key, "goes with transport = \"tcp\" only");
    }
    let default = default_udp();
    Transport::Udp(UdpConfig {
        workers: match section.count("workers", 0, 0..=256) {
            0 => default.workers,
            workers => workers,
        },
        receive_buffer_bytes: section.bytes(
            "receive-buffer",
            default.receive_buffer_bytes,
            64 << 10..=1 << 30,
        ),
    })
}

fn tcp(section: &Section<'_>) -> Transport {
    section.refuse("workers", "goes with transport = \"udp\" only: a TCP receiver has one thread");
    section.refuse(
        "receive-buffer",
        "goes with transport = \"udp\" only: the kernel sizes buffers of TCP, net.ipv4.tcp_rmem",
    );
    Transport::Tcp(TcpConfig {
        connections_max: section.count("max-connections", 256, 1..=CONNECTIONS_MAX),
        idle_timeout: section.duration(
            "idle-timeout",
            IDLE_TIMEOUT_DEFAULT,
            Duration::from_secs(1)..=IDLE_TIMEOUT_MAX,
        ),
    })
}

fn default_receivers() -> Vec<ReceiverConfig> {
    let any = IpAddr::from(Ipv6Addr::UNSPECIFIED);
    let receivers = DEFAULT_PORTS.map(|(name, port)| ReceiverConfig {
        name: name.to_owned(),
        listen: (any, port).into(),
        protocols: Protocol::ALL.into(),
        transport: Transport::Udp(default_udp()),
        keep_unknown_elements: false,
        sampling_interval: None,
        little_endian_sampling: false,
        on_row_error: None,
    });
    receivers.into()
}

fn default_udp() -> UdpConfig {
    UdpConfig {
        workers: std::thread::available_parallelism().map_or(1, usize::from),
        receive_buffer_bytes: 32 << 20,
    }
}

fn protocol_names() -> String {
    Protocol::ALL.map(|protocol| format!("\"{}\"", protocol.label())).join(", ")
}
