//! `[[exporters]]`: what is known of exporters beside what they send.

use ipnet::IpNet;

use super::section::Section;
use super::values::parse_prefix;

/// `[[exporters]]`: one exporter, or all of a prefix.
#[derive(Clone, Debug, PartialEq)]
pub struct ExporterConfig {
    /// Addresses that datagrams come from; of sFlow the agent's.
    pub address: IpNet,
    /// Only of this observation domain, source id or sub-agent.
    pub observation_domain: Option<u32>,
    /// The column `exporterName`.
    pub name: String,
    /// In the stead of `identity.tenant`; empty: that.
    pub tenant: String,
    /// In the stead of `identity.organisation`; empty: that.
    pub organisation: String,
    /// In the stead of `identity.zone`; empty: that.
    pub zone: String,
    /// One packet in so many is looked at, when the exporter does not say it itself.
    pub sampling_interval: Option<f64>,
    /// `[[exporters.interfaces]]`.
    pub interfaces: Vec<InterfaceConfig>,
}

/// `[[exporters.interfaces]]`: what is written here wins over what the exporter says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InterfaceConfig {
    /// ifIndex.
    pub index: u32,
    /// Its name; empty: as the exporter says.
    pub name: String,
    /// Its description; empty: as the exporter says.
    pub alias: String,
    /// Mbit/s; 0: as the exporter says.
    pub speed_mbit: u32,
    /// Which side it faces.
    pub boundary: Option<Boundary>,
}

/// Which side of the operator's network an interface faces.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Boundary {
    /// Other networks: transit, peers, customers.
    External,
    /// The own network.
    Internal,
}

/// One packet in a billion is more than any exporter can.
const SAMPLING_INTERVAL_MAX: usize = 1_000_000_000;

/// Reads `[[exporters]]`.
pub(super) fn read(root: &Section<'_>) -> Vec<ExporterConfig> {
    let mut known = Vec::new();
    let read = root.tables("exporters").into_iter().map(|section| {
        let exporter = exporter(&section);
        let key = (exporter.address, exporter.observation_domain);
        if section.has("address") && known.contains(&key) {
            section.mistake("address", "is there before, with the same observation-domain");
        }
        known.push(key);
        section.finish();
        exporter
    });
    read.collect()
}

fn exporter(section: &Section<'_>) -> ExporterConfig {
    let address = section.parsed("address", None, PREFIX_RULE, |text| parse_prefix(text).map(Some));
    if !section.has("address") {
        section.mistake("address", "is missing; for example \"192.0.2.1\" or \"192.0.2.0/24\"");
    }
    ExporterConfig {
        address: address.unwrap_or_default(),
        observation_domain: section.number("observation-domain"),
        name: section.text("name", ""),
        tenant: section.text("tenant", ""),
        organisation: section.text("organisation", ""),
        zone: section.text("zone", ""),
        sampling_interval: sampling_interval(section),
        interfaces: interfaces(section),
    }
}

const PREFIX_RULE: &str = "an address or a prefix without bits behind its length, \"192.0.2.0/24\"";

/// One packet in so many; 0 is what the exporter says, or 1.
pub(super) fn sampling_interval(section: &Section<'_>) -> Option<f64> {
    match section.count("sampling-interval", 0, 0..=SAMPLING_INTERVAL_MAX) {
        0 => None,
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        interval => Some(interval as f64),
    }
}

fn interfaces(section: &Section<'_>) -> Vec<InterfaceConfig> {
    let mut known = Vec::new();
    let read = section.tables("interfaces").into_iter().map(|section| {
        let interface = interface(&section);
        if !section.has("index") {
            section.mistake("index", "is missing: the ifIndex");
        } else if known.contains(&interface.index) {
            section.mistake("index", "is there before");
        }
        known.push(interface.index);
        section.finish();
        interface
    });
    read.collect()
}

fn interface(section: &Section<'_>) -> InterfaceConfig {
    let speed = section.count("speed", 0, 0..=u32::MAX as usize);
    InterfaceConfig {
        index: section.number("index").unwrap_or_default(),
        name: section.text("name", ""),
        alias: section.text("alias", ""),
        speed_mbit: u32::try_from(speed).unwrap_or(u32::MAX),
        boundary: section.parsed(
            "boundary",
            None,
            "\"external\" or \"internal\"",
            |text| match text {
                "external" => Some(Some(Boundary::External)),
                "internal" => Some(Some(Boundary::Internal)),
                _ => None,
            },
        ),
    }
}
