//! Where a packet was captured: link type, and what its timestamps count.

use std::fmt;

use pcap_parser::{IDB_MAGIC, InterfaceDescriptionBlock, PcapHeader};

const NANOSECONDS: u64 = 1_000_000_000;

/// A link type number of the pcap registry (`LINKTYPE_...`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: four bytes of address family in the byte order of the writer.
    pub const NULL: Self = Self(0);
    /// Ethernet, also with 802.1Q and 802.1ad tags.
    pub const ETHERNET: Self = Self(1);
    /// Raw IP as some BSD systems number it.
    pub const RAW_BSD: Self = Self(12);
    /// Raw IP as OpenBSD numbers it.
    pub const RAW_OPENBSD: Self = Self(14);
    /// Raw IP, version 4 or 6.
    pub const RAW: Self = Self(101);
    /// OpenBSD loopback: as [`Self::NULL`], but big-endian.
    pub const LOOP: Self = Self(108);
    /// Linux "cooked" capture, version 1: what `-i any` writes.
    pub const LINUX_SLL: Self = Self(113);
    /// Raw IPv4.
    pub const IPV4: Self = Self(228);
    /// Raw IPv6.
    pub const IPV6: Self = Self(229);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);

    /// Whether packets of this link type are read.
    #[must_use]
    pub fn is_supported(self) -> bool {
        matches!(
            self,
            Self::NULL
                | Self::ETHERNET
                | Self::RAW_BSD
                | Self::RAW_OPENBSD
                | Self::RAW
                | Self::LOOP
                | Self::LINUX_SLL
                | Self::IPV4
                | Self::IPV6
                | Self::LINUX_SLL2
        )
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// What the file says about the interface of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interface {
    pub(super) link: LinkType,
    /// Bytes kept of a packet; 0 means all.
    snaplen_bytes: u32,
    /// Timestamp units in a second.
    units_per_second: u64,
    /// Seconds to add to every timestamp.
    offset_s: i64,
}

impl Interface {
    /// draft-ietf-opsawg-pcap section 4: the upper bits of the link type field say whether frames
    /// carry a checksum, the lower 16 are the type.
    pub(super) fn of_pcap(header: &PcapHeader) -> Self {
        let [_, _, high, low] = header.network.0.to_be_bytes();
        Self {
            link: LinkType(u16::from_be_bytes([high, low])),
            snaplen_bytes: header.snaplen,
            units_per_second: if header.is_nanosecond_precision() {
                NANOSECONDS
            } else {
                1_000_000
            },
            offset_s: 0,
        }
    }

    /// draft-ietf-opsawg-pcapng section 4.2: `if_tsresol` counts in powers of ten, or of two with
    /// the top bit set.
    pub(super) fn of_pcapng(block: &InterfaceDescriptionBlock<'_>) -> Self {
        let exponent = u32::from(block.if_tsresol & 0x7f);
        let base: u64 = if block.if_tsresol & 0x80 == 0 { 10 } else { 2 };
        // The parser reads the offset little-endian in every section.
        let is_big_endian = block.block_type != IDB_MAGIC;
        let offset_s = block.if_tsoffset;
        Self {
            link: LinkType(u16::try_from(block.linktype.0).unwrap_or(u16::MAX)),
            snaplen_bytes: block.snaplen,
            // A finer unit than 64 bits can count leaves every time at the offset: no date is known.
            units_per_second: base.checked_pow(exponent).unwrap_or(u64::MAX),
            offset_s: if is_big_endian { offset_s.swap_bytes() } else { offset_s },
        }
    }

    /// Bytes captured of a packet that has `original` bytes and no length of its own.
    pub(super) fn captured(self, original: u32) -> u32 {
        if self.snaplen_bytes == 0 { original } else { original.min(self.snaplen_bytes) }
    }

    pub(super) fn pcap_time(self, seconds: u32, units: u32) -> i64 {
        self.unix_ns(u64::from(seconds), u64::from(units))
    }

    pub(super) fn pcapng_time(self, high: u32, low: u32) -> i64 {
        let units = (u64::from(high) << 32) | u64::from(low);
        self.unix_ns(units / self.units_per_second, units % self.units_per_second)
    }

    /// Saturates: a time outside 1678..2262 is not one that a capture was made at.
    fn unix_ns(self, seconds: u64, units: u64) -> i64 {
        let fraction = u128::from(units) * u128::from(NANOSECONDS);
        let fraction_ns = i64::try_from(fraction / u128::from(self.units_per_second));
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_add(self.offset_s);
        seconds.saturating_mul(1_000_000_000).saturating_add(fraction_ns.unwrap_or(i64::MAX))
    }
}
