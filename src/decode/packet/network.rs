//! IPv4 and IPv6 with its extension headers.

use crate::decode::wire::map_ipv4;

use super::{Packet, at, u8_at, u16_at, u32_at};

/// RFC 791 section 3.1.
mod ipv4 {
    pub(super) const VERSION_IHL: usize = 0;
    pub(super) const TOS: usize = 1;
    pub(super) const TOTAL_LENGTH: usize = 2;
    pub(super) const FRAGMENT: usize = 6;
    pub(super) const TTL: usize = 8;
    pub(super) const PROTOCOL: usize = 9;
    pub(super) const SOURCE: usize = 12;
    pub(super) const DESTINATION: usize = 16;
    pub(super) const HEADER_BYTES_MIN: usize = 20;
    /// The lower 13 bits of the fragment field, in units of 8 bytes.
    pub(super) const FRAGMENT_OFFSET_MASK: u16 = 0x1fff;
}

/// RFC 8200 section 3.
mod ipv6 {
    pub(super) const VERSION_CLASS_LABEL: usize = 0;
    pub(super) const PAYLOAD_LENGTH: usize = 4;
    pub(super) const NEXT_HEADER: usize = 6;
    pub(super) const HOP_LIMIT: usize = 7;
    pub(super) const SOURCE: usize = 8;
    pub(super) const DESTINATION: usize = 24;
    pub(super) const HEADER_BYTES: usize = 40;
    pub(super) const CLASS_SHIFT: u32 = 20;
    pub(super) const FLOW_LABEL_MASK: u32 = 0x000f_ffff;
}

/// Extension headers, RFC 8200 section 4: next header, then a length that each kind counts its own way.
mod extension {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    /// RFC 4302.
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const DESTINATION: u8 = 60;
    /// RFC 6275.
    pub(super) const MOBILITY: u8 = 135;
    /// RFC 7401.
    pub(super) const HOST_IDENTITY: u8 = 139;
    /// RFC 5533.
    pub(super) const SHIM6: u8 = 140;

    pub(super) const NEXT_HEADER: usize = 0;
    pub(super) const LENGTH: usize = 1;
    /// RFC 8200 section 4.5; its upper 13 bits are the offset.
    pub(super) const FRAGMENT_OFFSET: usize = 2;
    pub(super) const FRAGMENT_OFFSET_SHIFT: u16 = 3;
    pub(super) const FRAGMENT_BYTES: usize = 8;
}

/// Extension headers that are looked behind. RFC 8200 section 4.1 names six, destination options twice.
const EXTENSIONS_MAX: usize = 8;

impl Packet {
    pub(super) fn ipv4(&mut self, bytes: &[u8]) {
        let Some(version_ihl) = u8_at(bytes, ipv4::VERSION_IHL).filter(|byte| byte >> 4 == 4)
        else {
            return;
        };
        self.ip_version = 4;
        self.tos = u8_at(bytes, ipv4::TOS).unwrap_or(0);
        self.ip_bytes = u16_at(bytes, ipv4::TOTAL_LENGTH).unwrap_or(0).into();
        self.ttl = u8_at(bytes, ipv4::TTL).unwrap_or(0);
        self.protocol = u8_at(bytes, ipv4::PROTOCOL).unwrap_or(0);
        self.src_addr = at(bytes, ipv4::SOURCE).map_or([0; 16], map_ipv4);
        self.dst_addr = at(bytes, ipv4::DESTINATION).map_or([0; 16], map_ipv4);
        let header_bytes = usize::from(version_ihl & 0x0f) * 4;
        let fragment = u16_at(bytes, ipv4::FRAGMENT).unwrap_or(0);
        // Only the first fragment begins with the ports.
        if header_bytes < ipv4::HEADER_BYTES_MIN || fragment & ipv4::FRAGMENT_OFFSET_MASK != 0 {
            return;
        }
        if let Some(payload) = bytes.get(header_bytes..) {
            self.transport(payload);
        }
    }

    pub(super) fn ipv6(&mut self, bytes: &[u8]) {
        if u8_at(bytes, ipv6::VERSION_CLASS_LABEL).is_none_or(|byte| byte >> 4 != 6) {
            return;
        }
        self.ip_version = 6;
        let word = u32_at(bytes, ipv6::VERSION_CLASS_LABEL).unwrap_or(0);
        self.tos = (word >> ipv6::CLASS_SHIFT).to_le_bytes()[0];
        // Behind this header of 40 bytes. 0 is a jumbogram, or what a network card fills in (RFC 2675).
        let payload_bytes = u16_at(bytes, ipv6::PAYLOAD_LENGTH).filter(|bytes| *bytes > 0);
        self.ip_bytes = payload_bytes.map_or(0, |payload| u32::from(payload) + 40);
        self.flow_label = word & ipv6::FLOW_LABEL_MASK;
        self.ttl = u8_at(bytes, ipv6::HOP_LIMIT).unwrap_or(0);
        self.protocol = u8_at(bytes, ipv6::NEXT_HEADER).unwrap_or(0);
        self.src_addr = at(bytes, ipv6::SOURCE).unwrap_or([0; 16]);
        self.dst_addr = at(bytes, ipv6::DESTINATION).unwrap_or([0; 16]);
        if let Some(payload) = bytes.get(ipv6::HEADER_BYTES..).and_then(|b| self.extensions(b)) {
            self.transport(payload);
        }
    }

    /// Steps over extension headers; `protocol` becomes the last next header that was seen. `None` when
    /// what follows has no ports: the header is cut, the packet is a later fragment, or there are more
    /// extension headers than [`EXTENSIONS_MAX`].
    fn extensions<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let mut rest = bytes;
        for _ in 0..EXTENSIONS_MAX {
            let length = || u8_at(rest, extension::LENGTH).map(usize::from);
            let header_bytes = match self.protocol {
                extension::HOP_BY_HOP
                | extension::ROUTING
                | extension::DESTINATION
                | extension::MOBILITY
                | extension::HOST_IDENTITY
                | extension::SHIM6 => (length()? + 1) * 8,
                extension::AUTHENTICATION => (length()? + 2) * 4,
                extension::FRAGMENT => extension::FRAGMENT_BYTES,
                _ => return Some(rest),
            };
            let is_fragment = self.protocol == extension::FRAGMENT;
            self.protocol = u8_at(rest, extension::NEXT_HEADER)?;
            if is_fragment {
                let offset = u16_at(rest, extension::FRAGMENT_OFFSET)?;
                if offset >> extension::FRAGMENT_OFFSET_SHIFT != 0 {
                    return None;
                }
            }
            rest = rest.get(header_bytes..)?;
        }
        None
    }
}
