//! NetFlow versions 1, 5 and 7: a header and records of a fixed layout, all big-endian.
//!
//! The layouts are Cisco's. Each is a template known in advance, with the elements of NetFlow v9.

use std::sync::LazyLock;

use super::exporters::SequenceKey;
use super::message::MessageReader;
use super::plan::Plan;
use super::sampling::Sampling;
use super::tally::{DropReason, Protocol};
use super::template::Field;
use super::wire::Wire;

/// paddingOctets, and what no column takes.
const SKIP: u16 = 210;

/// What all three versions begin with: addresses, interfaces, counters, times and ports.
const COMMON: [(u16, u16); 11] = [
    (8, 4),  // srcaddr
    (12, 4), // dstaddr
    (15, 4), // nexthop
    (10, 2), // input
    (14, 2), // output
    (2, 4),  // dPkts
    (1, 4),  // dOctets
    (22, 4), // First
    (21, 4), // Last
    (7, 2),  // srcport
    (11, 2), // dstport
];

/// pad1, prot, tos, flags; retransmissions and padding.
const V1_REST: [(u16, u16); 5] = [(SKIP, 2), (4, 1), (5, 1), (6, 1), (SKIP, 7)];

/// pad1, `tcp_flags`, prot, tos, `src_as`, `dst_as`, `src_mask`, `dst_mask`, pad2.
const V5_REST: [(u16, u16); 9] =
    [(SKIP, 1), (6, 1), (4, 1), (5, 1), (16, 2), (17, 2), (9, 1), (13, 1), (SKIP, 2)];

/// As version 5, and at the end the router that the switch bypassed.
const V7_REST: [(u16, u16); 10] =
    [(SKIP, 1), (6, 1), (4, 1), (5, 1), (16, 2), (17, 2), (9, 1), (13, 1), (SKIP, 2), (SKIP, 4)];

static V1: LazyLock<Format> = LazyLock::new(|| Format::new(Protocol::NetflowV1, &V1_REST));
static V5: LazyLock<Format> = LazyLock::new(|| Format::new(Protocol::NetflowV5, &V5_REST));
static V7: LazyLock<Format> = LazyLock::new(|| Format::new(Protocol::NetflowV7, &V7_REST));

struct Format {
    protocol: Protocol,
    record_bytes: usize,
    plan: Plan,
}

struct Header {
    count: u16,
    uptime_ms: u32,
    unix_seconds: u32,
    unix_nanos: u32,
    /// Version 1 has none.
    flow_sequence: Option<u32>,
    /// Version 5 only.
    engine: (u8, u8),
    sampling: u16,
}

impl Format {
    fn new(protocol: Protocol, rest: &[(u16, u16)]) -> Self {
        let field = |&(id, length): &(u16, u16)| Field { enterprise: 0, id, length };
        let fields: Vec<_> = COMMON.iter().chain(rest).map(field).collect();
        let plan = Plan::compile(&fields);
        Self { protocol, record_bytes: plan.record_bytes_min(), plan }
    }
}

/// Decodes a datagram of version 1.
pub(super) fn decode_v1(payload: &[u8], reader: &mut MessageReader<'_>) {
    decode(&V1, payload, reader);
}

/// Decodes a datagram of version 5.
pub(super) fn decode_v5(payload: &[u8], reader: &mut MessageReader<'_>) {
    decode(&V5, payload, reader);
}

/// Decodes a datagram of version 7.
pub(super) fn decode_v7(payload: &[u8], reader: &mut MessageReader<'_>) {
    decode(&V7, payload, reader);
}

/// The header's count is checked against the bytes that are there: trusting it makes flows of whatever
/// lies behind the datagram, and the version word 1 is that of TFTP and STUN requests too.
fn decode(format: &Format, payload: &[u8], reader: &mut MessageReader<'_>) {
    let mut wire = Wire(payload);
    let Some(header) = read_header(format.protocol, &mut wire) else {
        return reader.output.tally.drop(DropReason::Truncated, payload.len());
    };
    let record_bytes = usize::from(header.count) * format.record_bytes;
    let Some(records) = wire.take(record_bytes).filter(|records| !records.is_empty()) else {
        return reader.output.tally.drop(DropReason::BadCount, payload.len());
    };
    if let Some(number) = header.flow_sequence {
        let engine = u32::from(u16::from_be_bytes([header.engine.0, header.engine.1]));
        let key = SequenceKey { protocol: format.protocol, domain_id: engine, agent: None };
        reader.note_sequence(key, number, Some(header.count.into()));
    }
    let export_ms =
        i64::from(header.unix_seconds) * 1_000 + i64::from(header.unix_nanos / 1_000_000);
    let timing = reader.timing(export_ms, Some(header.uptime_ms));
    let mut context = reader.context(format.protocol, 0, timing);
    context.engine = header.engine;
    context.sampling = Sampling::from_v5_header(header.sampling)
        .unwrap_or_else(|| reader.options.fallback_sampling());
    format.plan.write_flows(records, &context, &mut reader.output);
    if !wire.is_all_zero() {
        reader.output.tally.drop(DropReason::TrailingBytes, wire.len());
    }
}

fn read_header(protocol: Protocol, wire: &mut Wire<'_>) -> Option<Header> {
    let _version = wire.u16()?;
    let (count, uptime_ms) = (wire.u16()?, wire.u32()?);
    let (unix_seconds, unix_nanos) = (wire.u32()?, wire.u32()?);
    let (mut flow_sequence, mut engine, mut sampling) = (None, (0, 0), 0);
    if protocol != Protocol::NetflowV1 {
        flow_sequence = Some(wire.u32()?);
        let rest = (wire.u8()?, wire.u8()?, wire.u16()?);
        // Reserved in version 7.
        if protocol == Protocol::NetflowV5 {
            (engine, sampling) = ((rest.0, rest.1), rest.2);
        }
    }
    Some(Header { count, uptime_ms, unix_seconds, unix_nanos, flow_sequence, engine, sampling })
}
