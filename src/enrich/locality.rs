//! Whether an address is of the public Internet.
//!
//! Private is what IANA's registries of special-purpose addresses call not globally reachable (RFC 6890), but for
//! the prefixes of documentation, and multicast whose scope is less than global.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Where an address can be reached from.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Locality {
    /// The address is not known.
    #[default]
    Unknown,
    /// The Internet routes it.
    Public,
    /// Only a network, a link or a host does.
    Private,
}

impl Locality {
    /// In the order of their numbers.
    pub(super) const ALL: [Self; 3] = [Self::Unknown, Self::Public, Self::Private];

    /// Of an address; IPv4 addresses are mapped.
    #[must_use]
    pub fn of(address: Ipv6Addr) -> Self {
        let is_private = match address.to_ipv4_mapped() {
            _ if is_unknown(address) => return Self::Unknown,
            Some(address) => is_private_ipv4(address),
            None => is_private_ipv6(address),
        };
        if is_private { Self::Private } else { Self::Public }
    }

    /// Of a flow between two addresses: public when either is.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Public, _) | (_, Self::Public) => Self::Public,
            (Self::Unknown, Self::Unknown) => Self::Unknown,
            _ => Self::Private,
        }
    }

    /// The value of the columns.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Public => "PUBLIC",
            Self::Private => "PRIVATE",
        }
    }
}

/// All zero means not known, of either family.
fn is_unknown(address: Ipv6Addr) -> bool {
    address.is_unspecified() || address == Ipv4Addr::UNSPECIFIED.to_ipv6_mapped()
}

fn is_private_ipv4(address: Ipv4Addr) -> bool {
    match address.octets() {
        // This network, RFC 791 section 3.2; loopback, RFC 1122 section 3.2.1.3; private, RFC 1918.
        [0 | 10 | 127, ..] | [172, 16..=31, ..] | [192, 168, ..] => true,
        // Shared by carrier-grade NAT, RFC 6598; link-local, RFC 3927; protocol assignments, RFC 6890;
        // benchmarks, RFC 2544.
        [100, 64..=127, ..] | [169, 254, ..] | [192, 0, 0, _] | [198, 18..=19, ..] => true,
        // Multicast of the link, RFC 5771 section 4, and of an organisation, RFC 2365.
        [224, 0, 0, _] | [239, ..] => true,
        // Reserved, RFC 1112 section 4, and broadcast, RFC 919.
        [240..=255, ..] => true,
        _ => false,
    }
}

fn is_private_ipv6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    match first {
        // Unique local, RFC 4193.
        0xfc00..=0xfdff => true,
        // Link-local, RFC 4291 section 2.5.6, and the old site-local, RFC 3879.
        0xfe80..=0xfeff => true,
        // Multicast of less than global scope, RFC 7346 section 2.
        0xff00..=0xffff => first & 0xf != 0xe,
        // Discard-only, RFC 6666; NAT64 of a network, RFC 8215; segment routing, RFC 9602.
        0x100 if address.segments()[1..4] == [0; 3] => true,
        0x64 if (second, address.segments()[2]) == (0xff9b, 1) => true,
        0x5f00 => true,
        // Benchmarks, RFC 5180.
        0x2001 if (second, address.segments()[2]) == (2, 0) => true,
        _ => address.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn of(text: &str) -> Locality {
        Locality::of(match text.parse().unwrap() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        })
    }

    #[test]
    fn what_the_internet_does_not_route_is_private() {
        for text in [
            "0.1.2.3",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "169.254.1.1",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.251",
            "239.1.2.3",
            "240.0.0.1",
            "255.255.255.255",
            "::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "ff05::1:3",
            "ff08::1",
            "100::1",
            "64:ff9b:1::1",
            "5f00::1",
            "2001:2::1",
        ] {
            assert_eq!(of(text), Locality::Private, "{text}");
        }
    }

    #[test]
    fn the_neighbours_of_private_prefixes_are_public() {
        for text in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "224.0.1.1",
            "232.1.1.1",
            "238.255.255.255",
            "2001:db8::1",
            "2001:4860::1",
            "2a00::1",
            "64:ff9b::1",
            "fbff::1",
            "ff0e::1",
            "ff3e::1",
            "100:0:0:1::1",
            "2001:2:1::1",
        ] {
            assert_eq!(of(text), Locality::Public, "{text}");
        }
    }

    #[test]
    fn a_flow_is_public_when_either_side_is_and_unknown_when_neither_is_known() {
        assert_eq!(of("::"), Locality::Unknown);
        assert_eq!(of("0.0.0.0"), Locality::Unknown);
        let all = [Locality::Unknown, Locality::Private, Locality::Public];
        for (index, a) in all.into_iter().enumerate() {
            for b in all.into_iter().take(index + 1) {
                assert_eq!((a.with(b), b.with(a)), (a, a));
            }
        }
    }
}
