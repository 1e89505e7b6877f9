//! The records of a flow sample.

use crate::decode::packet::{Link, Packet};
use crate::decode::wire::{Wire, map_ipv4};

use super::flow_sample::Sample;
use super::xdr;

/// `flow_data` formats of enterprise 0, section 5, and of "sFlow Port NAT Structures" (sflow_pnat.txt).
mod format {
    pub(super) const SAMPLED_HEADER: u32 = 1;
    pub(super) const SAMPLED_ETHERNET: u32 = 2;
    pub(super) const SAMPLED_IPV4: u32 = 3;
    pub(super) const SAMPLED_IPV6: u32 = 4;
    pub(super) const EXTENDED_SWITCH: u32 = 1001;
    pub(super) const EXTENDED_ROUTER: u32 = 1002;
    pub(super) const EXTENDED_GATEWAY: u32 = 1003;
    pub(super) const EXTENDED_NAT: u32 = 1007;
    pub(super) const EXTENDED_NAT_PORT: u32 = 1020;
}

/// `header_protocol`, section 5. Of other link layers only the length is known.
mod header_protocol {
    pub(super) const ETHERNET: u32 = 1;
    pub(super) const IPV4: u32 = 11;
    pub(super) const IPV6: u32 = 12;
    pub(super) const MPLS: u32 = 13;
}

/// "Unknown" for a number, section 5.
const UNKNOWN: u32 = u32::MAX;

/// What became of a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Record {
    Read,
    /// Of a format that no column takes.
    Skipped,
    /// Shorter than its format.
    Bad,
}

/// The descriptions of the packet itself. An agent sends one of them or several, in any order; the
/// packet's header knows best, and the others fill in what it does not say.
#[derive(Debug, Default)]
pub(super) struct Found {
    header: Option<(Packet, u32)>,
    ethernet: Option<Ethernet>,
    ip: Option<(Packet, u32)>,
}

#[derive(Debug)]
struct Ethernet {
    length: u32,
    src_mac: u64,
    dst_mac: u64,
}

impl Found {
    /// Puts the packet into the sample; `None` when nothing described it.
    pub(super) fn complete(self, sample: &mut Sample) -> Option<()> {
        let Self { header, ethernet, ip } = self;
        let frame_length = header.map(|(_, length)| length);
        let ethernet_length = ethernet.as_ref().map(|ethernet| ethernet.length);
        let ip_length = ip.map(|(_, length)| length);
        sample.bytes = frame_length.or(ethernet_length).or(ip_length)?;
        let mut packet = header.map(|(packet, _)| packet).unwrap_or_default();
        if let Some((ip, _)) = ip.filter(|_| packet.ip_version == 0) {
            let Packet { src_mac, dst_mac, vlan, mpls_labels, mpls_label_count, .. } = packet;
            packet = Packet { src_mac, dst_mac, vlan, mpls_labels, mpls_label_count, ..ip };
        }
        if let Some(ethernet) = ethernet.filter(|_| (packet.src_mac, packet.dst_mac) == (0, 0)) {
            packet.src_mac = ethernet.src_mac;
            packet.dst_mac = ethernet.dst_mac;
        }
        sample.packet = packet;
        Some(())
    }
}

/// Reads one record. Bytes behind what its format defines are later extensions.
pub(super) fn read(format: u32, bytes: &[u8], sample: &mut Sample, found: &mut Found) -> Record {
    let mut wire = Wire(bytes);
    let wire = &mut wire;
    let read = match format {
        format::SAMPLED_HEADER => keep_first(&mut found.header, sampled_header(wire)),
        format::SAMPLED_ETHERNET => keep_first(&mut found.ethernet, sampled_ethernet(wire)),
        format::SAMPLED_IPV4 => keep_first(&mut found.ip, sampled_ip(wire, 4)),
        format::SAMPLED_IPV6 => keep_first(&mut found.ip, sampled_ip(wire, 6)),
        format::EXTENDED_SWITCH => extended_switch(wire, sample),
        format::EXTENDED_ROUTER => extended_router(wire, sample),
        format::EXTENDED_GATEWAY => extended_gateway(wire, sample),
        format::EXTENDED_NAT => extended_nat(wire, sample),
        format::EXTENDED_NAT_PORT => extended_nat_port(wire, sample),
        _ => return Record::Skipped,
    };
    if read.is_some() { Record::Read } else { Record::Bad }
}

fn keep_first<T>(slot: &mut Option<T>, read: Option<T>) -> Option<()> {
    let read = read?;
    slot.get_or_insert(read);
    Some(())
}

/// `sampled_header`. A header that announces more bytes than the record has is read as far as it goes.
fn sampled_header(wire: &mut Wire<'_>) -> Option<(Packet, u32)> {
    let protocol = wire.u32()?;
    let frame_length = wire.u32()?;
    let _stripped = wire.u32()?;
    let header_length = usize::try_from(wire.u32()?).unwrap_or(usize::MAX);
    let header = wire.take(header_length.min(wire.len()))?;
    let link = match protocol {
        header_protocol::ETHERNET => Link::Ethernet,
        header_protocol::IPV4 => Link::Ipv4,
        header_protocol::IPV6 => Link::Ipv6,
        header_protocol::MPLS => Link::Mpls,
        _ => return Some((Packet::default(), frame_length)),
    };
    Some((Packet::parse(link, header), frame_length))
}

/// `sampled_ethernet`. A MAC address is opaque data of six bytes, so XDR pads it to eight.
fn sampled_ethernet(wire: &mut Wire<'_>) -> Option<Ethernet> {
    let length = wire.u32()?;
    let mut mac = || {
        let [a, b, c, d, e, f, ..] = wire.array::<8>()?;
        Some(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    };
    let (src_mac, dst_mac) = (mac()?, mac()?);
    let _ethertype = wire.u32()?;
    Some(Ethernet { length, src_mac, dst_mac })
}

/// `sampled_ipv4` and `sampled_ipv6`, which differ in their addresses.
fn sampled_ip(wire: &mut Wire<'_>, ip_version: u8) -> Option<(Packet, u32)> {
    let length = wire.u32()?;
    let protocol = to_u8(wire.u32()?);
    let mut address = || match ip_version {
        4 => wire.array().map(map_ipv4),
        _ => wire.array(),
    };
    let (src_addr, dst_addr) = (address()?, address()?);
    let (src_port, dst_port) = (to_u16(wire.u32()?), to_u16(wire.u32()?));
    let tcp_flags = to_u16(wire.u32()?);
    let tos = to_u8(wire.u32()?);
    let packet = Packet {
        ip_version,
        src_addr,
        dst_addr,
        protocol,
        src_port,
        dst_port,
        tcp_flags,
        tos,
        ..Packet::default()
    };
    Some((packet, length))
}

/// `extended_switch`.
fn extended_switch(wire: &mut Wire<'_>, sample: &mut Sample) -> Option<()> {
    let src_vlan = wire.u32()?;
    let _src_priority = wire.u32()?;
    let dst_vlan = wire.u32()?;
    let _dst_priority = wire.u32()?;
    let id = |vlan| if vlan == UNKNOWN { 0 } else { to_u16(vlan) };
    sample.vlan = id(src_vlan);
    sample.post_vlan = id(dst_vlan);
    Some(())
}

/// `extended_router`.
fn extended_router(wire: &mut Wire<'_>, sample: &mut Sample) -> Option<()> {
    let next_hop = xdr::address(wire).ok()?;
    let (src_mask, dst_mask) = (wire.u32()?, wire.u32()?);
    sample.next_hop = next_hop;
    sample.src_mask = to_u8(src_mask);
    sample.dst_mask = to_u8(dst_mask);
    Some(())
}

/// `extended_gateway`: of the path to the destination the last AS is the destination's. The path is a
/// list of segments, each a set or a sequence of AS numbers; communities and local preference follow.
fn extended_gateway(wire: &mut Wire<'_>, sample: &mut Sample) -> Option<()> {
    let next_hop = xdr::address(wire).ok()?;
    let _router_as = wire.u32()?;
    let src_as = wire.u32()?;
    let _src_peer_as = wire.u32()?;
    let mut dst_as = 0;
    for _ in 0..wire.u32()? {
        let _segment_type = wire.u32()?;
        let length = usize::try_from(wire.u32()?).ok()?;
        let path = wire.take(length.checked_mul(4)?)?;
        if let Some(last) = path.last_chunk::<4>() {
            dst_as = u32::from_be_bytes(*last);
        }
    }
    sample.bgp_next_hop = next_hop;
    sample.src_as = src_as;
    sample.dst_as = dst_as;
    Some(())
}

/// `extended_nat`.
fn extended_nat(wire: &mut Wire<'_>, sample: &mut Sample) -> Option<()> {
    let (src_addr, dst_addr) = (xdr::address(wire).ok()?, xdr::address(wire).ok()?);
    sample.post_nat_src_addr = src_addr;
    sample.post_nat_dst_addr = dst_addr;
    Some(())
}

/// `extended_nat_port`.
fn extended_nat_port(wire: &mut Wire<'_>, sample: &mut Sample) -> Option<()> {
    let (src_port, dst_port) = (wire.u32()?, wire.u32()?);
    sample.post_nat_src_port = to_u16(src_port);
    sample.post_nat_dst_port = to_u16(dst_port);
    Some(())
}

/// Saturated, as every value that is too large for its column.
fn to_u8(value: u32) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

fn to_u16(value: u32) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}
