//! The interfaces of an exporter: the last counters that its sFlow agents sent of each.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::limit::Limit;

/// Interfaces. A large chassis has some thousands, logical ones included; those of all exporters take about
/// 50 MiB.
pub(super) const INTERFACES_MAX: Limit = Limit { of_one: 4_096, in_all: 262_144 };

/// What tells an interface from the others of an exporter.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct InterfaceKey {
    /// Address of the sFlow agent.
    pub agent: IpAddr,
    /// Sub-agent; each counts its own interfaces.
    pub sub_agent: u32,
    /// ifIndex.
    pub if_index: u32,
}

/// Generic interface counters, sflow_version_5.txt section 5, `if_counters`; named after the interfaces
/// group of SNMP (RFC 2863). A counter whose bits are all 1 is one that the agent does not know.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[expect(missing_docs, reason = "the fields of if_counters")]
pub struct InterfaceCounters {
    pub if_type: u32,
    /// Bits a second.
    pub speed_bits: u64,
    /// 0 unknown, 1 full duplex, 2 half duplex, 3 in, 4 out.
    pub direction: u32,
    /// Bit 0: ifAdminStatus is up; bit 1: ifOperStatus is up.
    pub status: u32,
    pub in_octets: u64,
    pub in_unicast_packets: u32,
    pub in_multicast_packets: u32,
    pub in_broadcast_packets: u32,
    pub in_discards: u32,
    pub in_errors: u32,
    pub in_unknown_protocols: u32,
    pub out_octets: u64,
    pub out_unicast_packets: u32,
    pub out_multicast_packets: u32,
    pub out_broadcast_packets: u32,
    pub out_discards: u32,
    pub out_errors: u32,
    pub promiscuous_mode: u32,
}

/// One interface as it was last reported.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Interface {
    /// Which one.
    pub key: InterfaceKey,
    /// The last values.
    pub counters: InterfaceCounters,
    /// When they were received, milliseconds since 1970.
    pub received_ms: i64,
}

/// The interfaces of one exporter.
#[derive(Debug)]
pub(super) struct Interfaces {
    /// Locked for an update every some seconds for each interface, and for reads of the management
    /// server.
    known: Mutex<HashMap<InterfaceKey, (InterfaceCounters, i64)>>,
    /// Interfaces of all exporters, against [`INTERFACES_MAX`].
    total: Arc<AtomicUsize>,
}

impl Interfaces {
    pub(super) fn new(total: Arc<AtomicUsize>) -> Self {
        Self { known: Mutex::default(), total }
    }

    /// Replaces the values of an interface. Returns false when it is one too many.
    pub(super) fn update(
        &self,
        key: InterfaceKey,
        counters: InterfaceCounters,
        received_ms: i64,
    ) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = known.contains_key(&key) || INTERFACES_MAX.add_one(known.len(), &self.total);
        if has_room {
            known.insert(key, (counters, received_ms));
        }
        has_room
    }

    pub(super) fn count(&self) -> usize {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// All of them, in the order of their keys.
    pub(super) fn list(&self) -> Vec<Interface> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let interface = |(&key, &(counters, received_ms)): (_, &(_, _))| Interface {
            key,
            counters,
            received_ms,
        };
        let mut list: Vec<_> = known.iter().map(interface).collect();
        drop(known);
        list.sort_by_key(|interface| interface.key);
        list
    }
}

/// An exporter that makes room for another takes its interfaces with it.
impl Drop for Interfaces {
    fn drop(&mut self) {
        self.total.fetch_sub(self.count(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_count_as_long_as_their_exporter_is_known() {
        let total = Arc::default();
        let interfaces = Interfaces::new(Arc::clone(&total));
        for if_index in [1, 2, 2] {
            let key = InterfaceKey { agent: [192, 0, 2, 1].into(), sub_agent: 0, if_index };
            assert!(interfaces.update(key, InterfaceCounters::default(), 0));
        }
        assert_eq!((interfaces.count(), total.load(Ordering::Relaxed)), (2, 2));
        drop(interfaces);
        assert_eq!(total.load(Ordering::Relaxed), 0);
    }
}
