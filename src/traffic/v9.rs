//! The NetFlow v9 template of the synthetic exporters and its records (RFC 3954).

use super::flows::Flow;
use super::message::Field;

/// Template of records with IPv4 addresses.
pub const TEMPLATE_V4: u16 = 256;
/// Template of records with IPv6 addresses.
pub const TEMPLATE_V6: u16 = 257;
/// Records of a datagram with IPv4 addresses: 24 of 55 octets fit an MTU of 1500.
pub const RECORDS_V4_MAX: usize = 24;
/// Records of a datagram with IPv6 addresses: 15 of 91 octets fit an MTU of 1500.
pub const RECORDS_V6_MAX: usize = 15;

/// Field types of RFC 3954 section 8. The first three are the addresses.
pub const FIELDS_V4: [Field; 20] = fields([8, 12, 15], 4);
/// The same with IPV6_SRC_ADDR, IPV6_DST_ADDR and IPV6_NEXT_HOP.
pub const FIELDS_V6: [Field; 20] = fields([27, 28, 62], 16);

const fn fields(addresses: [u16; 3], octets: u16) -> [Field; 20] {
    [
        Field::new(addresses[0], octets),
        Field::new(addresses[1], octets),
        Field::new(addresses[2], octets),
        Field::new(10, 4), // INPUT_SNMP
        Field::new(14, 4), // OUTPUT_SNMP
        Field::new(2, 4),  // IN_PKTS
        Field::new(1, 4),  // IN_BYTES
        Field::new(22, 4), // FIRST_SWITCHED
        Field::new(21, 4), // LAST_SWITCHED
        Field::new(7, 2),  // L4_SRC_PORT
        Field::new(11, 2), // L4_DST_PORT
        Field::new(6, 1),  // TCP_FLAGS
        Field::new(4, 1),  // PROTOCOL
        Field::new(5, 1),  // SRC_TOS
        Field::new(16, 4), // SRC_AS
        Field::new(17, 4), // DST_AS
        if octets == 4 { Field::new(9, 1) } else { Field::new(29, 1) }, // SRC_MASK
        if octets == 4 { Field::new(13, 1) } else { Field::new(30, 1) }, // DST_MASK
        Field::new(61, 1), // DIRECTION
        Field::new(48, 1), // FLOW_SAMPLER_ID, 0: not sampled
    ]
}

/// Octets of a record after its addresses.
const REST_BYTES: usize = 43;

/// Appends a record of [`FIELDS_V4`] or [`FIELDS_V6`].
pub fn write_record(bytes: &mut Vec<u8>, flow: &Flow, uptime_ms: u32, is_v6: bool) {
    write_addresses(bytes, flow, is_v6);
    let mut rest = [0; REST_BYTES];
    rest[2..4].copy_from_slice(&flow.input.to_be_bytes());
    rest[6..8].copy_from_slice(&flow.output.to_be_bytes());
    rest[8..12].copy_from_slice(&flow.packets.to_be_bytes());
    rest[12..16].copy_from_slice(&flow.octets.to_be_bytes());
    rest[16..20].copy_from_slice(&uptime_ms.wrapping_sub(flow.started_ago_ms).to_be_bytes());
    rest[20..24].copy_from_slice(&uptime_ms.wrapping_sub(flow.ended_ago_ms).to_be_bytes());
    rest[24..26].copy_from_slice(&flow.source_port.to_be_bytes());
    rest[26..28].copy_from_slice(&flow.destination_port.to_be_bytes());
    rest[28..31].copy_from_slice(&[flow.tcp_flags, flow.protocol, flow.tos]);
    rest[33..35].copy_from_slice(&flow.source_as.to_be_bytes());
    rest[37..39].copy_from_slice(&flow.destination_as.to_be_bytes());
    let (source_mask, destination_mask) = masks(flow, is_v6);
    rest[39..42].copy_from_slice(&[source_mask, destination_mask, flow.direction]);
    bytes.extend_from_slice(&rest);
}

/// Source, destination and next hop.
pub(super) fn write_addresses(bytes: &mut Vec<u8>, flow: &Flow, is_v6: bool) {
    for host in [flow.source, flow.destination, flow.next_hop] {
        if is_v6 {
            bytes.extend_from_slice(&host.v6().octets());
        } else {
            bytes.extend_from_slice(&host.v4().octets());
        }
    }
}

/// Prefix lengths; in IPv6 a local network has 64 bits and a foreign one is known by 48.
pub(super) fn masks(flow: &Flow, is_v6: bool) -> (u8, u8) {
    let mask = |v4: u8| match (is_v6, v4) {
        (false, v4) => v4,
        (true, 24) => 64,
        (true, _) => 48,
    };
    (mask(flow.source_mask), mask(flow.destination_mask))
}
