//! Everything that flows are enriched from, as one immutable whole.

use std::sync::Arc;

use crate::config::ExporterConfig;
use crate::hostnames::HostNames;
use crate::snmp::Interfaces;

use super::applications::Rules;
use super::autonomous_systems::AsOrder;
use super::exporters::ExporterTable;
use super::geoip::Database;
use super::prefixes::Prefixes;

/// The tables of one moment. A row is enriched from one of them, never from two.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    pub(super) exporters: Arc<ExporterTable>,
    pub(super) prefixes: Arc<Prefixes>,
    /// Later ones win field by field.
    pub(super) geoip: Vec<Arc<Database>>,
    pub(super) as_order: AsOrder,
    pub(super) rules: Option<Arc<Rules>>,
    pub(super) has_iana_services: bool,
    pub(super) snmp: Arc<Interfaces>,
    pub(super) host_names: HostNames,
}

impl Tables {
    /// Tables without any of a file.
    #[must_use]
    pub fn new(exporters: &[ExporterConfig], snmp: Arc<Interfaces>, host_names: HostNames) -> Self {
        let exporters = Arc::new(ExporterTable::new(exporters));
        Self { exporters, snmp, host_names, ..Self::default() }
    }
}
