//! The IPFIX template of the synthetic exporters and its records (RFC 7011).
//!
//! The same fields as in v9, with absolute times and counters of eight octets. Interfaces and AS
//! numbers take two octets, reduced as RFC 7011 section 6.2 allows, so that 22 records fit an MTU.

use super::flows::Flow;
use super::message::Field;
use super::v9;

/// Template of records with IPv4 addresses.
pub const TEMPLATE_V4: u16 = 300;
/// Template of records with IPv6 addresses.
pub const TEMPLATE_V6: u16 = 301;
/// Records of a message with IPv4 addresses: 22 of 63 octets fit an MTU of 1500.
pub const RECORDS_V4_MAX: usize = 22;
/// Records of a message with IPv6 addresses: 14 of 99 octets fit an MTU of 1500.
pub const RECORDS_V6_MAX: usize = 14;

/// Elements of IANA's registry. The first three are the addresses.
pub const FIELDS_V4: [Field; 20] = fields([8, 12, 15], 4);
/// The same with sourceIPv6Address, destinationIPv6Address and ipNextHopIPv6Address.
pub const FIELDS_V6: [Field; 20] = fields([27, 28, 62], 16);

/// Bytes of a message header, RFC 7011 section 3.1.
const HEADER_BYTES: usize = 16;

/// Whether bytes are whole IPFIX messages, one after another, so that they may go over TCP: there the
/// lengths in the headers are the only framing (RFC 7011 section 10.4).
#[must_use]
pub fn is_messages(mut bytes: &[u8]) -> bool {
    while let [0, 10, high, low, ..] = *bytes {
        let length = usize::from(u16::from_be_bytes([high, low]));
        match bytes.get(length..).filter(|_| length >= HEADER_BYTES) {
            Some([]) => return true,
            Some(rest) => bytes = rest,
            None => return false,
        }
    }
    false
}

const fn fields(addresses: [u16; 3], octets: u16) -> [Field; 20] {
    [
        Field::new(addresses[0], octets),
        Field::new(addresses[1], octets),
        Field::new(addresses[2], octets),
        Field::new(10, 2),  // ingressInterface
        Field::new(14, 2),  // egressInterface
        Field::new(2, 8),   // packetDeltaCount
        Field::new(1, 8),   // octetDeltaCount
        Field::new(152, 8), // flowStartMilliseconds
        Field::new(153, 8), // flowEndMilliseconds
        Field::new(7, 2),   // sourceTransportPort
        Field::new(11, 2),  // destinationTransportPort
        Field::new(6, 1),   // tcpControlBits
        Field::new(4, 1),   // protocolIdentifier
        Field::new(5, 1),   // ipClassOfService
        Field::new(16, 2),  // bgpSourceAsNumber
        Field::new(17, 2),  // bgpDestinationAsNumber
        if octets == 4 { Field::new(9, 1) } else { Field::new(29, 1) }, // source prefix length
        if octets == 4 { Field::new(13, 1) } else { Field::new(30, 1) }, // destination's
        Field::new(61, 1),  // flowDirection
        Field::new(48, 1),  // samplerId, 0: not sampled
    ]
}

/// Octets of a record after its addresses.
const REST_BYTES: usize = 51;

/// Appends a record of [`FIELDS_V4`] or [`FIELDS_V6`].
pub fn write_record(bytes: &mut Vec<u8>, flow: &Flow, now_unix_ms: u64, is_v6: bool) {
    v9::write_addresses(bytes, flow, is_v6);
    let started = now_unix_ms.saturating_sub(u64::from(flow.started_ago_ms));
    let ended = now_unix_ms.saturating_sub(u64::from(flow.ended_ago_ms));
    let mut rest = [0; REST_BYTES];
    rest[0..2].copy_from_slice(&flow.input.to_be_bytes());
    rest[2..4].copy_from_slice(&flow.output.to_be_bytes());
    rest[4..12].copy_from_slice(&u64::from(flow.packets).to_be_bytes());
    rest[12..20].copy_from_slice(&u64::from(flow.octets).to_be_bytes());
    rest[20..28].copy_from_slice(&started.to_be_bytes());
    rest[28..36].copy_from_slice(&ended.to_be_bytes());
    rest[36..38].copy_from_slice(&flow.source_port.to_be_bytes());
    rest[38..40].copy_from_slice(&flow.destination_port.to_be_bytes());
    rest[40..43].copy_from_slice(&[flow.tcp_flags, flow.protocol, flow.tos]);
    rest[43..45].copy_from_slice(&flow.source_as.to_be_bytes());
    rest[45..47].copy_from_slice(&flow.destination_as.to_be_bytes());
    let (source_mask, destination_mask) = v9::masks(flow, is_v6);
    rest[47..50].copy_from_slice(&[source_mask, destination_mask, flow.direction]);
    bytes.extend_from_slice(&rest);
}

#[cfg(test)]
mod tests {
    use super::is_messages;
    use crate::traffic::{IpfixHeader, MessageBuilder};

    #[test]
    fn only_whole_messages_may_go_over_tcp() {
        let message = MessageBuilder::ipfix(IpfixHeader::default()).raw_set(300, &[1]).finish();
        assert!(is_messages(&message));
        assert!(is_messages(&message.repeat(3)));
        let padded = [&message[..], &[0; 4]].concat();
        let version_9 = [&[0, 9], &message[2..]].concat();
        let no_length = [&[0, 10, 0, 0][..], &[0; 12]].concat();
        for bytes in
            [&[][..], &[0, 10], &message[1..], &message[..20], &padded, &version_9, &no_length]
        {
            assert!(!is_messages(bytes), "{bytes:?}");
        }
    }
}
