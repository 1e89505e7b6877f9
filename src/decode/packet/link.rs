//! Ethernet, VLAN tags and MPLS.

use super::{MPLS_LABELS_MAX, Packet, at, u8_at, u16_at, u32_at};

/// Ethernet II frame, RFC 894 and IEEE 802.3 clause 3: destination, source, type.
mod ethernet {
    pub(super) const DESTINATION: usize = 0;
    pub(super) const SOURCE: usize = 6;
    pub(super) const TYPE: usize = 12;
    pub(super) const HEADER_BYTES: usize = 14;
}

/// VLAN tag, IEEE 802.1Q clause 9.6: three bits priority, one drop eligible, twelve VLAN id; then the
/// type of what follows.
mod vlan {
    pub(super) const TYPE: usize = 2;
    pub(super) const TAG_BYTES: usize = 4;
    pub(super) const ID_MASK: u16 = 0x0fff;
}

/// LLC and SNAP behind an 802.3 length, RFC 1042: DSAP and SSAP 0xaa, control 3, OUI 0, type.
mod snap {
    pub(super) const HEAD: [u8; 6] = [0xaa, 0xaa, 3, 0, 0, 0];
    pub(super) const TYPE: usize = 6;
    pub(super) const HEADER_BYTES: usize = 8;
}

/// IEEE 802 EtherTypes.
mod ethertype {
    /// Below this the field is the length of an 802.3 frame, IEEE 802.3 clause 3.2.6.
    pub(super) const MIN: u16 = 0x0600;
    pub(super) const IPV4: u16 = 0x0800;
    pub(super) const IPV6: u16 = 0x86dd;
    pub(super) const MPLS: u16 = 0x8847;
    /// Upstream-assigned labels, RFC 5332 section 4.
    pub(super) const MPLS_UPSTREAM: u16 = 0x8848;
    /// IEEE 802.1Q customer tag.
    pub(super) const VLAN: u16 = 0x8100;
    /// IEEE 802.1ad service tag.
    pub(super) const SERVICE_VLAN: u16 = 0x88a8;
    /// Stacked tags from before 802.1ad; many switches still have it as default.
    pub(super) const OLD_QINQ: u16 = 0x9100;
}

/// Tags that are looked behind. QinQ has two; a header of tags only would cost a turn for 4 bytes each.
const VLAN_TAGS_MAX: usize = 4;

/// Label stack entry, RFC 3032 section 2.1: label 20 bits, class 3, bottom of stack 1, TTL 8.
const MPLS_ENTRY_BYTES: usize = 4;
const MPLS_LABEL_SHIFT: u32 = 12;
const MPLS_BOTTOM: u32 = 1 << 8;

impl Packet {
    pub(super) fn ethernet(&mut self, bytes: &[u8]) {
        self.dst_mac = mac_at(bytes, ethernet::DESTINATION).unwrap_or(0);
        self.src_mac = mac_at(bytes, ethernet::SOURCE).unwrap_or(0);
        let Some(mut kind) = u16_at(bytes, ethernet::TYPE) else { return };
        let mut rest = &bytes[ethernet::HEADER_BYTES..];
        for _ in 0..VLAN_TAGS_MAX {
            if !matches!(kind, ethertype::VLAN | ethertype::SERVICE_VLAN | ethertype::OLD_QINQ) {
                break;
            }
            let Some(tag) = u16_at(rest, 0) else { return };
            // Id 0 only carries a priority, IEEE 802.1Q table 9-2.
            if self.vlan == 0 {
                self.vlan = tag & vlan::ID_MASK;
            }
            let Some(inner) = u16_at(rest, vlan::TYPE) else { return };
            kind = inner;
            rest = &rest[vlan::TAG_BYTES..];
        }
        if kind < ethertype::MIN && rest.starts_with(&snap::HEAD) {
            let Some(inner) = u16_at(rest, snap::TYPE) else { return };
            kind = inner;
            rest = &rest[snap::HEADER_BYTES..];
        }
        match kind {
            ethertype::IPV4 => self.ipv4(rest),
            ethertype::IPV6 => self.ipv6(rest),
            ethertype::MPLS | ethertype::MPLS_UPSTREAM => self.mpls(rest),
            _ => {}
        }
    }

    pub(super) fn mpls(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        for label in 0..MPLS_LABELS_MAX {
            let Some(entry) = u32_at(rest, 0) else { return };
            self.mpls_labels[label] = entry >> MPLS_LABEL_SHIFT;
            self.mpls_label_count += 1;
            rest = &rest[MPLS_ENTRY_BYTES..];
            if entry & MPLS_BOTTOM != 0 {
                return self.behind_mpls(rest);
            }
        }
    }

    /// MPLS does not say what it carries: IP is told by the version in its first four bits, and the
    /// control word of a pseudowire begins with 0 so that it cannot be taken for IP (RFC 4928 section 3).
    fn behind_mpls(&mut self, bytes: &[u8]) {
        match u8_at(bytes, 0).map(|byte| byte >> 4) {
            Some(4) => self.ipv4(bytes),
            Some(6) => self.ipv6(bytes),
            _ => {}
        }
    }
}

/// A MAC address as the number that the columns hold: the first byte is the highest.
fn mac_at(bytes: &[u8], offset: usize) -> Option<u64> {
    let [a, b, c, d, e, f] = at(bytes, offset)?;
    Some(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
}
