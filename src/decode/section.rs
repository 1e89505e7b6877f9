//! Packet sections: flow records that carry the first bytes of a packet (RFC 5476, RFC 7133).

use crate::flow::{Chunk, Column};

use super::packet::{self, Link, Packet};
use super::records::{Place, Records};
use super::template::Field;

/// Elements that carry a packet from its link layer on: layer2packetSectionData (104, deprecated) and
/// dataLinkFrameSection (315).
const FRAME_SECTIONS: [u16; 2] = [104, 315];

/// Element that carries a packet from its IP header on: ipHeaderPacketSection (313).
const IP_SECTION: u16 = 313;

/// Addresses: a record that has them does not need its section.
const ADDRESSES: [u16; 4] = [8, 12, 27, 28];

/// Whether an element carries a packet.
pub(super) fn is_section(field: &Field) -> bool {
    field.is_iana(&FRAME_SECTIONS) || field.is_iana(&[IP_SECTION])
}

/// The packet section of a template's records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    place: Place,
    is_frame: bool,
}

impl Section {
    /// The section that tells what the records of a template do not.
    pub(super) fn of(fields: &[Field], places: &[Place]) -> Option<Self> {
        if fields.iter().any(|field| field.is_iana(&ADDRESSES)) {
            return None;
        }
        let index = fields.iter().position(is_section)?;
        let is_frame = fields[index].is_iana(&FRAME_SECTIONS);
        Some(Self { place: places[index], is_frame })
    }

    /// Writes what the headers say; every record is one packet, of the length in its IP header.
    pub(super) fn write(self, records: &impl Records, chunk: &mut Chunk) {
        let packets: Vec<Packet> = records
            .values(self.place)
            .map(|bytes| Packet::parse(self.link(bytes), bytes))
            .collect();
        packet::write(chunk, &packets, |packet| packet);
        packet::put(chunk, Column::Bytes, &packets, |it| u64::from(it.ip_bytes).to_le_bytes());
        chunk.fill(Column::Packets, packets.len(), 1_u64.to_le_bytes());
    }

    fn link(self, bytes: &[u8]) -> Link {
        match bytes.first() {
            _ if self.is_frame => Link::Ethernet,
            Some(first) if first >> 4 == 6 => Link::Ipv6,
            _ => Link::Ipv4,
        }
    }
}
