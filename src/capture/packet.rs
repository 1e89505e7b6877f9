//! From a frame to the UDP payload in it: pure, one packet at a time.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use etherparse::{
    EtherType, IpFragOffset, IpNumber, Ipv6ExtensionsSlice, Ipv6FragmentHeaderSlice,
    LaxIpPayloadSlice, LaxNetSlice, LaxSlicedPacket, TransportSlice, UdpSlice,
};

use super::skipped::Skip;
use super::{Datagram, LinkType};

/// Linux cooked capture v1 (`LINKTYPE_LINUX_SLL`): the protocol is its last field.
const SLL_BYTES: usize = 16;
const SLL_PROTOCOL: usize = 14;
/// Linux cooked capture v2 (`LINKTYPE_LINUX_SLL2`): the protocol is its first field.
const SLL2_BYTES: usize = 20;
const SLL2_PROTOCOL: usize = 0;
/// BSD loopback: an address family that the IP version repeats.
const LOOPBACK_BYTES: usize = 4;

/// What a packet holds for us.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Udp(Udp<'a>),
    Fragment(Fragment<'a>),
}

/// A whole UDP datagram.
#[derive(Debug)]
pub(super) struct Udp<'a> {
    source: SocketAddr,
    destination: SocketAddr,
    payload: &'a [u8],
}

/// Part of the IP payload of a UDP datagram.
#[derive(Debug)]
pub(super) struct Fragment<'a> {
    pub(super) key: FragmentKey,
    pub(super) offset: IpFragOffset,
    pub(super) has_more: bool,
    pub(super) payload: &'a [u8],
}

/// What fragments of one datagram share: RFC 791 section 3.2, RFC 8200 section 4.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FragmentKey {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    identification: u32,
}

/// Looks for UDP in a frame. `is_cut` tells a short frame from a wrong one.
pub(super) fn parse(link: LinkType, frame: &[u8], is_cut: bool) -> Result<Content<'_>, Skip> {
    let broken = if is_cut { Skip::Truncated } else { Skip::Malformed };
    let packet = open(link, frame, broken)?;
    let Some(net) = &packet.net else {
        return Err(if packet.stop_err.is_some() { broken } else { Skip::NotIp });
    };
    let (source, destination, fragment) = match net {
        LaxNetSlice::Arp(_) => return Err(Skip::NotIp),
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            (
                IpAddr::V4(Ipv4Addr::from(header.source())),
                IpAddr::V4(Ipv4Addr::from(header.destination())),
                (
                    u32::from(header.identification()),
                    header.fragments_offset(),
                    header.more_fragments(),
                ),
            )
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            let fragment = fragment_header(ip.extensions());
            (
                IpAddr::V6(Ipv6Addr::from(header.source())),
                IpAddr::V6(Ipv6Addr::from(header.destination())),
                fragment.unwrap_or((0, IpFragOffset::ZERO, false)),
            )
        }
    };
    let payload = net.ip_payload_ref().ok_or(Skip::NotIp)?;
    if payload.ip_number != IpNumber::UDP {
        return Err(if packet.stop_err.is_some() { broken } else { Skip::NotUdp });
    }
    if payload.incomplete {
        return Err(Skip::Truncated);
    }
    if payload.fragmented {
        let (identification, offset, has_more) = fragment;
        let key = FragmentKey { source, destination, identification };
        return Ok(Content::Fragment(Fragment { key, offset, has_more, payload: payload.payload }));
    }
    let Some(TransportSlice::Udp(udp)) = &packet.transport else {
        return Err(broken);
    };
    check_length(udp, payload)?;
    Ok(Content::Udp(Udp::new(source, destination, udp)))
}

/// The fragment header among the extension headers. Not with etherparse's iterator: that takes them to be
/// whole and reads behind the packet where they are cut.
fn fragment_header(extensions: &Ipv6ExtensionsSlice<'_>) -> Option<(u32, IpFragOffset, bool)> {
    let mut kind = extensions.first_header()?;
    let mut rest = extensions.slice();
    loop {
        let length = usize::from(*rest.get(1)?);
        let header_bytes = match kind {
            IpNumber::IPV6_FRAGMENTATION_HEADER => {
                let header = Ipv6FragmentHeaderSlice::from_slice(rest).ok()?;
                let offset = header.fragment_offset();
                return Some((header.identification(), offset, header.more_fragments()));
            }
            IpNumber::AUTHENTICATION_HEADER => (length + 2) * 4,
            IpNumber::IPV6_HEADER_HOP_BY_HOP
            | IpNumber::IPV6_ROUTE_HEADER
            | IpNumber::IPV6_DESTINATION_OPTIONS => (length + 1) * 8,
            _ => return None,
        };
        kind = IpNumber(*rest.first()?);
        rest = rest.get(header_bytes..)?;
    }
}

impl<'a> Udp<'a> {
    /// The datagram in an IP payload that was put together from fragments.
    pub(super) fn of_ip_payload(key: &FragmentKey, bytes: &'a [u8]) -> Result<Self, Skip> {
        let udp = UdpSlice::from_slice(bytes).map_err(|_| Skip::Malformed)?;
        Ok(Self::new(key.source, key.destination, &udp))
    }

    pub(super) fn to_datagram(&self, time_unix_ns: i64) -> Datagram {
        Datagram {
            time_unix_ns,
            source: self.source,
            destination: self.destination,
            payload: self.payload.to_vec(),
        }
    }

    fn new(source: IpAddr, destination: IpAddr, udp: &UdpSlice<'a>) -> Self {
        Self {
            source: SocketAddr::new(source, udp.source_port()),
            destination: SocketAddr::new(destination, udp.destination_port()),
            payload: udp.payload(),
        }
    }
}

/// Takes the link layer off. Only a broken IP header right at the start is an error here.
fn open(link: LinkType, frame: &[u8], broken: Skip) -> Result<LaxSlicedPacket<'_>, Skip> {
    match link {
        LinkType::ETHERNET => LaxSlicedPacket::from_ethernet(frame).map_err(|_| broken),
        LinkType::LINUX_SLL => cooked(frame, SLL_PROTOCOL, SLL_BYTES).ok_or(broken),
        LinkType::LINUX_SLL2 => cooked(frame, SLL2_PROTOCOL, SLL2_BYTES).ok_or(broken),
        LinkType::NULL | LinkType::LOOP => {
            let ip = frame.get(LOOPBACK_BYTES..).ok_or(broken)?;
            LaxSlicedPacket::from_ip(ip).map_err(|_| broken)
        }
        link if link.is_supported() => LaxSlicedPacket::from_ip(frame).map_err(|_| broken),
        _ => Err(Skip::LinkType),
    }
}

/// A header of fixed length with an EtherType in it.
fn cooked(frame: &[u8], protocol: usize, length: usize) -> Option<LaxSlicedPacket<'_>> {
    let ether_type = u16::from_be_bytes(frame.get(protocol..protocol + 2)?.try_into().ok()?);
    Some(LaxSlicedPacket::from_ether_type(EtherType(ether_type), frame.get(length..)?))
}

/// RFC 768: the length covers header and data. 0 is taken as "the rest of the packet".
fn check_length(udp: &UdpSlice<'_>, ip: &LaxIpPayloadSlice<'_>) -> Result<(), Skip> {
    let length = usize::from(udp.length());
    if length > ip.payload.len() {
        return Err(Skip::Truncated);
    }
    if length != 0 && length < etherparse::UdpHeader::LEN {
        return Err(Skip::Malformed);
    }
    Ok(())
}
