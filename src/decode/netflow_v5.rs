//! NetFlow version 5: a header of 24 bytes and up to 30 records of 48 bytes, all big-endian.
//!
//! The layout is Cisco's; a record is a template known in advance, with the elements of NetFlow v9.

use std::sync::LazyLock;

use super::message::MessageReader;
use super::plan::Plan;
use super::sampling::Sampling;
use super::tally::{DropReason, Protocol};
use super::template::Field;
use super::wire::Wire;

const RECORD_BYTES: usize = 48;

/// Element and length of each field. Padding is given as element 210, paddingOctets.
const RECORD: [(u16, u16); 20] = [
    (8, 4),   // srcaddr
    (12, 4),  // dstaddr
    (15, 4),  // nexthop
    (10, 2),  // input
    (14, 2),  // output
    (2, 4),   // dPkts
    (1, 4),   // dOctets
    (22, 4),  // First
    (21, 4),  // Last
    (7, 2),   // srcport
    (11, 2),  // dstport
    (210, 1), // pad1
    (6, 1),   // tcp_flags
    (4, 1),   // prot
    (5, 1),   // tos
    (16, 2),  // src_as
    (17, 2),  // dst_as
    (9, 1),   // src_mask
    (13, 1),  // dst_mask
    (210, 2), // pad2
];

static PLAN: LazyLock<Plan> = LazyLock::new(|| {
    let field = |&(id, length)| Field { enterprise: 0, id, length };
    Plan::compile(&RECORD.iter().map(field).collect::<Vec<_>>())
});

struct Header {
    count: u16,
    uptime_ms: u32,
    unix_seconds: u32,
    unix_nanos: u32,
    engine: (u8, u8),
    sampling: u16,
}

/// Decodes a datagram. The header's count is checked against the bytes that are there: trusting it
/// makes flows of whatever lies behind the datagram.
pub(super) fn decode(payload: &[u8], reader: &mut MessageReader<'_>) {
    let mut wire = Wire(payload);
    let Some(header) = read_header(&mut wire) else {
        return reader.output.tally.drop(DropReason::Truncated, payload.len());
    };
    let record_bytes = usize::from(header.count) * RECORD_BYTES;
    let Some(records) = wire.take(record_bytes).filter(|records| !records.is_empty()) else {
        return reader.output.tally.drop(DropReason::BadCount, payload.len());
    };
    let export_ms =
        i64::from(header.unix_seconds) * 1_000 + i64::from(header.unix_nanos / 1_000_000);
    let timing = reader.timing(export_ms, Some(header.uptime_ms));
    let mut context = reader.context(Protocol::NetflowV5, 0, timing);
    context.engine = header.engine;
    context.sampling = Sampling::from_v5_header(header.sampling);
    PLAN.write_flows(records, &context, &mut reader.output);
    if !wire.is_all_zero() {
        reader.output.tally.drop(DropReason::TrailingBytes, wire.len());
    }
}

fn read_header(wire: &mut Wire<'_>) -> Option<Header> {
    let _version = wire.u16()?;
    let (count, uptime_ms) = (wire.u16()?, wire.u32()?);
    let (unix_seconds, unix_nanos) = (wire.u32()?, wire.u32()?);
    let _flow_sequence = wire.u32()?;
    let engine = (wire.u8()?, wire.u8()?);
    let sampling = wire.u16()?;
    Some(Header { count, uptime_ms, unix_seconds, unix_nanos, engine, sampling })
}
