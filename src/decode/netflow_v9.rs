//! NetFlow version 9, RFC 3954: a header of 20 bytes, then sets up to the end of the datagram.
//!
//! The header's count is not used: devices disagree on whether it counts records or sets.

use super::exporters::SequenceKey;
use super::message::MessageReader;
use super::tally::{DropReason, Protocol};
use super::template_set::Layout;
use super::wire::Wire;

/// Packet header, RFC 3954 section 5.1.
struct Header {
    uptime_ms: u32,
    unix_seconds: u32,
    sequence: u32,
    source_id: u32,
}

/// Decodes a datagram.
pub(super) fn decode(payload: &[u8], reader: &mut MessageReader<'_>) {
    let mut wire = Wire(payload);
    let Some(header) = read_header(&mut wire) else {
        return reader.output.tally.drop(DropReason::Truncated, payload.len());
    };
    let key =
        SequenceKey { protocol: Protocol::NetflowV9, domain_id: header.source_id, agent: None };
    reader.note_sequence(key, header.sequence, Some(1));
    let timing = reader.timing(i64::from(header.unix_seconds) * 1_000, Some(header.uptime_ms));
    let mut context = reader.context(Protocol::NetflowV9, header.source_id, timing);
    reader.read_sets(wire.0, wire.len(), &mut context, layout_of);
}

fn layout_of(set_id: u16) -> Option<Layout> {
    match set_id {
        0 => Some(Layout::NetflowV9Data),
        1 => Some(Layout::NetflowV9Options),
        _ => None,
    }
}

fn read_header(wire: &mut Wire<'_>) -> Option<Header> {
    let _version = wire.u16()?;
    let _count = wire.u16()?;
    let (uptime_ms, unix_seconds) = (wire.u32()?, wire.u32()?);
    let (sequence, source_id) = (wire.u32()?, wire.u32()?);
    Some(Header { uptime_ms, unix_seconds, sequence, source_id })
}
