//! One rule, as it is written: an application and what its flows have.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};

use super::WITH_PORTS;

/// A rule. What is empty is any.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Rule {
    pub(super) application: Arc<str>,
    pub(super) protocols: Vec<u8>,
    /// Ports of the service; in order, and none touches another.
    pub(super) ports: Vec<RangeInclusive<u16>>,
    /// Addresses of the service.
    pub(super) prefixes: Vec<IpNet>,
    /// Addresses of the other side.
    pub(super) peers: Vec<IpNet>,
    pub(super) exporters: Vec<IpNet>,
}

impl Rule {
    /// The protocols that it is about: a rule with ports alone is about those that have ports.
    pub(super) fn protocols(&self) -> &[u8] {
        if self.protocols.is_empty() && !self.ports.is_empty() {
            return &WITH_PORTS;
        }
        &self.protocols
    }

    /// Whether neither protocol nor port matters.
    pub(super) const fn is_any_transport(&self) -> bool {
        self.protocols.is_empty() && self.ports.is_empty()
    }
}

/// Ranges in order, of which no two overlap or touch.
pub(super) fn joined(mut ranges: Vec<RangeInclusive<u16>>) -> Vec<RangeInclusive<u16>> {
    ranges.sort_by_key(|range| *range.start());
    let mut joined: Vec<RangeInclusive<u16>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if *range.start() <= last.end().saturating_add(1) => {
                *last = *last.start()..=*last.end().max(range.end());
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// A prefix of IPv4 that is written as one of IPv6 (`::ffff:10.0.0.0/104`) as one of IPv4, so that both are the same.
pub(super) fn unmapped(prefix: IpNet) -> IpNet {
    /// Bits before the address of IPv4 (RFC 4291 section 2.5.5.2).
    const MAPPED_BITS: u8 = 96;
    let (IpAddr::V6(address), Some(length)) =
        (prefix.network(), prefix.prefix_len().checked_sub(MAPPED_BITS))
    else {
        return prefix;
    };
    let v4 = address.to_ipv4_mapped().and_then(|address| Ipv4Net::new(address, length).ok());
    v4.map_or(prefix, IpNet::V4)
}
