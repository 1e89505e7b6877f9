//! Columns to columns: who, where and what the flows of a chunk are.
//!
//! A reader enriches a chunk when it closes it, before the queue. Everything comes from one set of [`Tables`], which is
//! swapped whole when a file or the configuration changes; rows that were decoded before are enriched
//! from the old one. Nothing here waits, and no flow is lost here: what a source does not know stays empty.
//!
//! The order, each step using what the ones before it wrote:
//!
//! 1. exporter: name, tenant, organisation, zone and sampling fallback of `[[exporters]]` (`sources.rs`);
//! 2. interfaces: name, description and speed, from `[[exporters]]` over what the exporter said over SNMP, and
//!    the direction by their boundaries (`interfaces.rs`);
//! 3. addresses: locality, AS, country, city, site and role (`addresses.rs`);
//! 4. application: of the exporter, else by rule, else IANA's name of the port (`labels.rs`);
//! 5. host names, if they are asked for (`host_names.rs`).

mod addresses;
pub mod applications;
mod autonomous_systems;
mod csv;
mod enricher;
mod exporters;
mod facts;
mod files;
mod geoip;
mod host_names;
mod interfaces;
mod labels;
mod locality;
mod metrics;
mod mistakes;
mod prefixes;
mod sources;
mod tables;
mod texts;

use std::net::Ipv6Addr;

use ipnet::IpNet;

pub use enricher::Enricher;
pub use exporters::ExporterTable;
pub use files::{FileState, TableFiles};
pub use geoip::{Database, GeoRecord};
pub use locality::Locality;
pub use mistakes::Mistakes;
pub use prefixes::{Network, Prefixes};
pub use tables::Tables;

/// An address as a prefix of its whole length, IPv4 as such when it is mapped.
fn prefix_of(address: Ipv6Addr) -> IpNet {
    address.to_canonical().into()
}
