//! `[hostnames]`: names of addresses by reverse DNS.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;

use super::section::Section;
use super::values::{parse_prefix, show_duration};

/// `[hostnames]`.
#[derive(Clone, Debug, PartialEq)]
pub struct HostNamesConfig {
    /// Ask for names at all.
    pub enabled: bool,
    /// DNS servers; none are those of `/etc/resolv.conf`.
    pub servers: Vec<SocketAddr>,
    /// Addresses of which an answer is kept.
    pub cache_size: usize,
    /// How long to wait for an answer, all servers together.
    pub timeout: Duration,
    /// A name is asked for again after this at the latest, whatever its TTL says.
    pub max_ttl: Duration,
    /// And after this at the earliest.
    pub min_ttl: Duration,
    /// An address without a name is asked for again after this at the latest.
    pub negative_ttl: Duration,
    /// Questions that may wait for an answer at a time.
    pub concurrency: usize,
    /// Only addresses in these are asked for; none are all.
    pub prefixes: Vec<IpNet>,
}

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// As many as resolv.conf(5) takes; each has a part of the timeout.
const SERVERS_MAX: usize = 3;

/// The port of DNS (RFC 1035 section 4.2).
const DNS_PORT: u16 = 53;

const SERVERS: &str =
    "addresses, with a port if it is not 53, [\"192.0.2.1\", \"[2001:db8::1]:5353\"]";
const PREFIXES: &str = "prefixes, [\"192.0.2.0/24\", \"2001:db8::/32\"]";

pub(super) fn read(section: Section<'_>) -> HostNamesConfig {
    let config = HostNamesConfig {
        enabled: section.bool("enabled", false),
        servers: section.list("servers", Vec::new(), SERVERS, parse_server),
        // About 20 MB with names of 30 bytes; ten million are what a large machine has memory for.
        cache_size: section.count("cache-size", 100_000, 1_000..=10_000_000),
        // A resolver that has to ask others needs a second; one that takes longer than a minute is silent.
        timeout: section.duration("timeout", 2 * SECOND, SECOND / 10..=60 * SECOND),
        max_ttl: section.duration("max-ttl", DAY, SECOND..=30 * DAY),
        // Less than a minute is for failover of services, and would ask for busy addresses all the time.
        min_ttl: section.duration("min-ttl", 60 * SECOND, SECOND..=DAY),
        negative_ttl: section.duration("negative-ttl", HOUR, SECOND..=DAY),
        // Each has a socket. At 20 ms an answer 64 are 3,000 names a second, which fills the cache in half a minute.
        concurrency: section.count("concurrency", 64, 1..=1_000),
        prefixes: section.list("prefixes", Vec::new(), PREFIXES, parse_prefix),
    };
    if config.servers.len() > SERVERS_MAX {
        section.mistake("servers", format!("has more than {SERVERS_MAX} servers"));
    }
    for (key, most) in [("max-ttl", config.max_ttl), ("negative-ttl", config.negative_ttl)] {
        if most < config.min_ttl {
            let least = show_duration(config.min_ttl);
            section.mistake(key, format!("must be at least min-ttl, \"{least}\""));
        }
    }
    section.finish();
    config
}

fn parse_server(text: &str) -> Option<SocketAddr> {
    let address = || text.parse::<IpAddr>().ok().map(|address| (address, DNS_PORT).into());
    let server: SocketAddr = text.parse().ok().or_else(address)?;
    (server.port() != 0).then_some(server)
}
