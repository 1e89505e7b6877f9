//! NetFlow v5 on the wire: a header of 24 octets and up to 30 records of 48. The format has no RFC;
//! the layout is Cisco's, "NetFlow Export Datagram Format".

use super::flows::Flow;
use super::wire::{low_u32, seconds};

/// Records of a datagram, at most.
pub const RECORDS_MAX: usize = 30;
/// Octets of a record.
pub const RECORD_BYTES: usize = 48;

/// Header of a datagram.
#[derive(Debug, Clone, Copy, Default)]
pub struct Header {
    /// Milliseconds since the exporter started.
    pub uptime_ms: u32,
    /// Milliseconds since 1970; written as seconds and nanoseconds.
    pub now_unix_ms: u64,
    /// Flows sent before this datagram.
    pub sequence: u32,
    /// Slot of the flow switching engine.
    pub engine_id: u8,
    /// Mode in the upper two bits, interval in the others; 0 when nothing is sampled.
    pub sampling: u16,
}

/// Writes a datagram with as many records as there are flows, into an emptied buffer.
pub fn write(bytes: &mut Vec<u8>, header: &Header, flows: &[Flow]) {
    bytes.clear();
    let count = u16::try_from(flows.len()).unwrap_or(u16::MAX);
    let nanoseconds = low_u32(header.now_unix_ms % 1_000) * 1_000_000;
    bytes.extend_from_slice(&[0, 5]);
    bytes.extend_from_slice(&count.to_be_bytes());
    bytes.extend_from_slice(&header.uptime_ms.to_be_bytes());
    bytes.extend_from_slice(&seconds(header.now_unix_ms).to_be_bytes());
    bytes.extend_from_slice(&nanoseconds.to_be_bytes());
    bytes.extend_from_slice(&header.sequence.to_be_bytes());
    bytes.extend_from_slice(&[0, header.engine_id]);
    bytes.extend_from_slice(&header.sampling.to_be_bytes());
    for flow in flows {
        bytes.extend_from_slice(&record(flow, header.uptime_ms));
    }
}

fn record(flow: &Flow, uptime_ms: u32) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[0..4].copy_from_slice(&flow.source.v4().octets());
    record[4..8].copy_from_slice(&flow.destination.v4().octets());
    record[8..12].copy_from_slice(&flow.next_hop.v4().octets());
    record[12..14].copy_from_slice(&flow.input.to_be_bytes());
    record[14..16].copy_from_slice(&flow.output.to_be_bytes());
    record[16..20].copy_from_slice(&flow.packets.to_be_bytes());
    record[20..24].copy_from_slice(&flow.octets.to_be_bytes());
    record[24..28].copy_from_slice(&uptime_ms.wrapping_sub(flow.started_ago_ms).to_be_bytes());
    record[28..32].copy_from_slice(&uptime_ms.wrapping_sub(flow.ended_ago_ms).to_be_bytes());
    record[32..34].copy_from_slice(&flow.source_port.to_be_bytes());
    record[34..36].copy_from_slice(&flow.destination_port.to_be_bytes());
    record[37] = flow.tcp_flags;
    record[38] = flow.protocol;
    record[39] = flow.tos;
    record[40..42].copy_from_slice(&flow.source_as.to_be_bytes());
    record[42..44].copy_from_slice(&flow.destination_as.to_be_bytes());
    record[44] = flow.source_mask;
    record[45] = flow.destination_mask;
    record
}
