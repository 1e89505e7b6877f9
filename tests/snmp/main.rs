//! Interfaces by SNMP: what the walker knows is what Debian's snmpd serves and net-snmp's own tools read.
//!
//! `tests/install-tools` installs both. Agents that do wrong are fakes: snmpd does not.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unreachable_pub, reason = "modules of this test")]

mod agents;
#[path = "../common/mod.rs"]
mod common;
mod fake;
mod faults;
mod keeping;
mod large;
mod rows;
mod snmpd;

use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{config, wait_until};
use tidegate::config::SnmpConfig;
use tidegate::decode::{Datagram, Decoder, DecoderOptions, Exporters};
use tidegate::flow::ChunkWriter;
use tidegate::snmp::{Walker, WatchedExporter};
use tidegate::telemetry::{Metrics, unix_ms};
use tidegate::traffic::{IpfixHeader, MessageBuilder};

/// Addresses that a datagram came from, in an hour: the tests have short intervals, and nobody is silent.
fn exporters(addresses: &[&str]) -> Arc<Exporters> {
    let exporters = Arc::new(Exporters::default());
    let mut decoder = Decoder::new(DecoderOptions::default(), Arc::clone(&exporters));
    for address in addresses {
        let payload = MessageBuilder::ipfix(IpfixHeader::default()).finish();
        let datagram = Datagram {
            exporter: ip(address),
            source_port: 0,
            received_ms: unix_ms() + 3_600_000,
            payload: &payload,
        };
        decoder.decode(&datagram, Instant::now(), &mut ChunkWriter::new(1));
    }
    exporters
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// `[snmp]` with short times, and these lines.
fn snmp(agents: &str) -> SnmpConfig {
    let text = format!("[snmp]\ninterval = \"1m\"\ntimeout = \"300ms\"\nretries = 1\n{agents}");
    let mut snmp = config(&text).snmp;
    snmp.interval = Duration::from_secs(2);
    snmp
}

/// `[[snmp.agents]]`.
fn agent(range: &str, port: u16, more: &str) -> String {
    format!("[[snmp.agents]]\nrange = \"{range}\"\nport = {port}\n{more}\n")
}

/// The same with the community that the agents of the tests know.
fn public(range: &str, port: u16) -> String {
    agent(range, port, "community = \"public\"")
}

/// A walker with its metrics.
struct Running {
    walker: Walker,
    metrics: Metrics,
}

impl Running {
    fn start(agents: &str, directory: Option<&Path>, addresses: &[&str]) -> Self {
        let metrics = Metrics::default();
        let walker = Walker::start(&snmp(agents), directory, exporters(addresses), &metrics);
        Self { walker: walker.unwrap(), metrics }
    }

    /// Waits until an exporter was walked, well or not.
    fn walked(&self, address: &str) -> WatchedExporter {
        let mut found = None;
        wait_until(&format!("{address} was walked"), || {
            found = self.exporter(address).filter(|it| {
                it.next_walk_ms.is_some() && (it.last_success_ms.is_some() || it.failures > 0)
            });
            found.is_some()
        });
        found.unwrap()
    }

    fn exporter(&self, address: &str) -> Option<WatchedExporter> {
        self.walker.watched().list().into_iter().find(|it| it.target.ip() == ip(address))
    }

    /// Its interfaces: ifIndex, name, alias, speed.
    fn interfaces(&self, address: &str) -> Vec<(u32, String, String, u32)> {
        let table = self.walker.interfaces().of(ip(address)).unwrap_or_default();
        let mut interfaces: Vec<_> = table
            .iter()
            .map(|(&index, it)| (index, it.name.to_string(), it.alias.to_string(), it.speed_mbit))
            .collect();
        interfaces.sort();
        interfaces
    }

    /// Mean time of its walks.
    fn seconds_a_walk(&self) -> f64 {
        let text = self.metrics.render();
        let value = |what: &str| {
            let name = format!("tidegate_snmp_walk_seconds_{what} ");
            let line = text.lines().find_map(|line| line.strip_prefix(&name));
            line.unwrap().trim().parse::<f64>().unwrap()
        };
        value("sum") / value("count")
    }

    fn walks(&self, outcome: &str) -> u64 {
        let label = format!("outcome=\"{outcome}\"");
        common::Scrape::parse(&self.metrics.render()).sum("tidegate_snmp_walks_total", &[&label])
    }
}

/// A UDP port that is free on every address.
fn free_port() -> u16 {
    UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
}
