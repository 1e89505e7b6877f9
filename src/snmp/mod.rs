//! Interfaces by SNMP.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// One interface.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Interface {
    /// ifName.
    pub name: Arc<str>,
    /// ifAlias.
    pub alias: Arc<str>,
    /// Mbit/s.
    pub speed_mbit: u32,
}

/// By exporter and ifIndex.
pub type InterfacesByAddress = HashMap<IpAddr, Arc<HashMap<u32, Interface>>>;

/// The table.
pub type Interfaces = arc_swap::ArcSwap<InterfacesByAddress>;
