//! The header of a sampled packet to columns, from the link layer to the ports.
//!
//! sFlow samples carry the first bytes of a packet, and so do the packet sections of IPFIX. The bytes
//! may end anywhere: every layer fills what is there and never reads beyond. Of a tunnel the outer
//! packet is what the row says; what is inside is recognised and counted only.

mod columns;
mod link;
mod network;
mod transport;

pub(super) use columns::{put, write};

/// Labels of one MPLS stack that are kept and looked behind. IPFIX has elements for ten
/// (mplsTopLabelStackSection to mplsLabelStackSection10).
const MPLS_LABELS_MAX: usize = 10;

/// What the first byte of a header belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Link {
    Ethernet,
    Ipv4,
    Ipv6,
    Mpls,
}

/// A packet within a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(usize)]
pub enum Tunnel {
    /// IP protocol 47, RFC 2784.
    Gre,
    /// UDP port 4789, RFC 7348.
    Vxlan,
    /// IPv4 or IPv6 in IP, protocols 4 (RFC 2003) and 41 (RFC 4213).
    IpIp,
}

impl Tunnel {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Gre, Self::Vxlan, Self::IpIp];

    /// The metric label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Gre => "gre",
            Self::Vxlan => "vxlan",
            Self::IpIp => "ipip",
        }
    }
}

/// What a packet header says; 0 is what it does not.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Packet {
    pub(super) src_mac: u64,
    pub(super) dst_mac: u64,
    /// The outermost VLAN id that is not 0.
    pub(super) vlan: u16,
    /// The first labels of the stack, the top one first.
    pub(super) mpls_labels: [u32; MPLS_LABELS_MAX],
    pub(super) mpls_label_count: u8,
    /// 4 or 6.
    pub(super) ip_version: u8,
    /// Of the whole packet, without the link layer.
    pub(super) ip_bytes: u32,
    /// IPv4 addresses are mapped.
    pub(super) src_addr: [u8; 16],
    pub(super) dst_addr: [u8; 16],
    pub(super) protocol: u8,
    pub(super) tos: u8,
    pub(super) ttl: u8,
    pub(super) flow_label: u32,
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
    pub(super) tcp_flags: u16,
    pub(super) icmp_type: u8,
    pub(super) icmp_code: u8,
    pub(super) tunnel: Option<Tunnel>,
}

impl Packet {
    /// Reads the first bytes of a packet.
    pub(super) fn parse(link: Link, bytes: &[u8]) -> Self {
        let mut packet = Self::default();
        match link {
            Link::Ethernet => packet.ethernet(bytes),
            Link::Ipv4 => packet.ipv4(bytes),
            Link::Ipv6 => packet.ipv6(bytes),
            Link::Mpls => packet.mpls(bytes),
        }
        packet
    }

    fn labels(&self) -> &[u32] {
        &self.mpls_labels[..self.mpls_label_count.into()]
    }
}

/// `N` bytes at `offset`, or `None` when the header is cut before their end.
#[inline]
fn at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk::<N>().copied()
}

#[inline]
fn u8_at(bytes: &[u8], offset: usize) -> Option<u8> {
    bytes.get(offset).copied()
}

#[inline]
fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    at(bytes, offset).map(u16::from_be_bytes)
}

#[inline]
fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    at(bytes, offset).map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests;
