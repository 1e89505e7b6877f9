//! What the configuration knows of exporters.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use prefix_trie::joint::JointPrefixMap;

use crate::config::{Boundary, ExporterConfig};

/// Exporters by address and observation domain.
#[derive(Clone, Default)]
pub struct ExporterTable(JointPrefixMap<IpNet, Vec<Arc<KnownExporter>>>);

/// One table `[[exporters]]`. Empty texts say nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownExporter {
    pub(super) observation_domain: Option<u32>,
    pub(super) name: Arc<str>,
    pub(super) tenant: Arc<str>,
    pub(super) organisation: Arc<str>,
    pub(super) zone: Arc<str>,
    pub(super) sampling_interval: Option<f64>,
    /// By ifIndex.
    pub(super) interfaces: HashMap<u32, KnownInterface>,
}

/// One table `[[exporters.interfaces]]`. Empty texts and 0 say nothing.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct KnownInterface {
    pub(super) name: Arc<str>,
    pub(super) alias: Arc<str>,
    pub(super) speed_mbit: u32,
    pub(super) boundary: Option<Boundary>,
}

impl ExporterTable {
    /// The table of `[[exporters]]`.
    #[must_use]
    pub fn new(exporters: &[ExporterConfig]) -> Self {
        let mut table = JointPrefixMap::<IpNet, Vec<_>>::default();
        for exporter in exporters {
            let known = Arc::new(KnownExporter::of(exporter));
            table.entry(exporter.address).or_default().push(known);
        }
        Self(table)
    }

    /// What is known of an exporter's domain: what is of this domain alone before what is of all, then what has
    /// the longest prefix.
    #[must_use]
    pub fn find(&self, address: IpAddr, domain_id: u32) -> Option<&Arc<KnownExporter>> {
        // From the shortest prefix to the longest.
        let around = self.0.cover_values(&address.into()).flatten();
        let mut found: Option<&Arc<KnownExporter>> = None;
        for exporter in around {
            match (exporter.observation_domain, found) {
                (Some(domain), _) if domain != domain_id => {}
                (None, Some(better)) if better.observation_domain.is_some() => {}
                _ => found = Some(exporter),
            }
        }
        found
    }
}

impl KnownExporter {
    fn of(config: &ExporterConfig) -> Self {
        let interfaces = config.interfaces.iter().map(|interface| {
            let known = KnownInterface {
                name: interface.name.as_str().into(),
                alias: interface.alias.as_str().into(),
                speed_mbit: interface.speed_mbit,
                boundary: interface.boundary,
            };
            (interface.index, known)
        });
        Self {
            observation_domain: config.observation_domain,
            name: config.name.as_str().into(),
            tenant: config.tenant.as_str().into(),
            organisation: config.organisation.as_str().into(),
            zone: config.zone.as_str().into(),
            sampling_interval: config.sampling_interval,
            interfaces: interfaces.collect(),
        }
    }
}

impl std::fmt::Debug for ExporterTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ExporterTable").field(&self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_comes_before_the_prefix_and_the_longer_prefix_before_the_shorter() {
        let exporter = |address: &str, observation_domain, name: &str| ExporterConfig {
            address: crate::config::parse_prefix(address).unwrap(),
            observation_domain,
            name: name.to_owned(),
            tenant: String::new(),
            organisation: String::new(),
            zone: String::new(),
            sampling_interval: None,
            interfaces: Vec::new(),
        };
        let table = ExporterTable::new(&[
            exporter("192.0.2.1", None, "one"),
            exporter("192.0.2.0/24", Some(7), "seven"),
            exporter("192.0.2.0/24", None, "net"),
            exporter("192.0.0.0/16", Some(7), "wide seven"),
            exporter("2001:db8::/32", None, "six"),
        ]);
        let find = |address: &str, domain_id| {
            table.find(address.parse().unwrap(), domain_id).map(|known| &*known.name)
        };
        assert_eq!(find("192.0.2.1", 0), Some("one"));
        assert_eq!(find("192.0.2.1", 7), Some("seven"));
        assert_eq!(find("192.0.2.2", 0), Some("net"));
        assert_eq!(find("192.0.3.1", 7), Some("wide seven"));
        assert_eq!(find("192.0.3.1", 8), None);
        assert_eq!(find("2001:db8::1", 0), Some("six"));
    }
}
