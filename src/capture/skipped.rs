//! The closed set of reasons why a packet yields no datagram, and their counts.

use std::fmt;

/// Why a packet yields no datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Skip {
    LinkType,
    RecordType,
    NotIp,
    NotUdp,
    Truncated,
    Malformed,
}

/// Packets of a capture that yielded no datagram, by reason. Fragments that were put together are
/// not among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Captured on an interface whose link type is not read.
    pub link_type: u64,
    /// In pcapng's obsolete Packet Block.
    pub record_type: u64,
    /// Neither IPv4 nor IPv6: ARP, LLDP and the like.
    pub not_ip: u64,
    /// IP, but not UDP; tunnels are not looked into.
    pub not_udp: u64,
    /// Cut by the snaplen, or shorter than its headers say.
    pub truncated: u64,
    /// Headers that contradict themselves, or fragments that do.
    pub malformed: u64,
    /// Datagrams, not packets, of which not all fragments are in the file.
    pub fragments_incomplete: u64,
}

impl Skipped {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_reason().iter().map(|(_, count)| count).sum()
    }

    /// The counts with their names, in the order of the fields.
    #[must_use]
    pub fn by_reason(&self) -> [(&'static str, u64); 7] {
        [
            ("link_type", self.link_type),
            ("record_type", self.record_type),
            ("not_ip", self.not_ip),
            ("not_udp", self.not_udp),
            ("truncated", self.truncated),
            ("malformed", self.malformed),
            ("fragments_incomplete", self.fragments_incomplete),
        ]
    }

    pub(super) fn count(&mut self, skip: Skip) {
        let counter = match skip {
            Skip::LinkType => &mut self.link_type,
            Skip::RecordType => &mut self.record_type,
            Skip::NotIp => &mut self.not_ip,
            Skip::NotUdp => &mut self.not_udp,
            Skip::Truncated => &mut self.truncated,
            Skip::Malformed => &mut self.malformed,
        };
        *counter += 1;
    }
}

/// `skipped not_ip=3 truncated=1`: reasons that occurred; `skipped 0` when there were none.
impl fmt::Display for Skipped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.total() == 0 {
            return formatter.write_str("skipped 0");
        }
        formatter.write_str("skipped")?;
        for (reason, count) in self.by_reason().into_iter().filter(|(_, count)| *count > 0) {
            write!(formatter, " {reason}={count}")?;
        }
        Ok(())
    }
}
