//! What is known of interfaces, as readers see it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

/// An interface of an exporter, RFC 2863.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Interface {
    /// `ifName`, or `ifDescr` of those that have none.
    pub name: Arc<str>,
    /// `ifAlias`: what the operator wrote; may be empty.
    pub alias: Arc<str>,
    /// `ifHighSpeed`, or `ifSpeed` in its unit; 0 is unknown.
    pub speed_mbit: u32,
}

/// The interfaces of one exporter, by ifIndex.
pub type InterfaceTable = HashMap<u32, Interface>;

/// Those of all exporters, by the address that flows come from.
pub type Tables = HashMap<IpAddr, Arc<InterfaceTable>>;

/// The table of now. Whoever reads takes no lock and sees a whole walk or none of it.
#[derive(Debug, Default)]
pub struct Interfaces(ArcSwap<Tables>);

impl Interfaces {
    /// Everything, as it is now. For as long as the guard lives nothing of it changes.
    #[must_use]
    pub fn load(&self) -> Guard<Arc<Tables>> {
        self.0.load()
    }

    /// The interfaces of one exporter.
    #[must_use]
    pub fn of(&self, exporter: IpAddr) -> Option<Arc<InterfaceTable>> {
        self.0.load().get(&exporter).map(Arc::clone)
    }

    /// Returns the table of before. Who keeps it for a while has no reader free the memory of it.
    pub(super) fn replace(&self, tables: Tables) -> Arc<Tables> {
        self.0.swap(Arc::new(tables))
    }
}
