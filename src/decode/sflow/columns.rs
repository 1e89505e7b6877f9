//! Flow samples to the columns of a chunk.

use crate::decode::packet;
use crate::decode::plan::{MessageContext, Output};
use crate::decode::sampling::Sampling;
use crate::flow::{Chunk, Column};

use super::flow_sample::Sample;

/// Writes one row for each sample.
pub(super) fn write(samples: &[Sample], context: &MessageContext<'_>, output: &mut Output<'_>) {
    let mut rest = samples;
    while !rest.is_empty() {
        let (chunk, room) = output.writer.chunk_for(context.timing.timestamp_ms, context.now);
        let (rows, later) = rest.split_at(rest.len().min(room));
        write_rows(rows, context, chunk);
        chunk.finish(rows.len());
        rest = later;
    }
    output.tally.flows += samples.len() as u64;
    for tunnel in samples.iter().filter_map(|sample| sample.packet.tunnel) {
        output.tally.tunnels[tunnel as usize] += 1;
    }
}

fn write_rows(rows: &[Sample], context: &MessageContext<'_>, chunk: &mut Chunk) {
    let count = rows.len();
    context.write(count, chunk);
    let timestamp = context.timing.timestamp_ms.to_le_bytes();
    chunk.fill(Column::FirstSwitched, count, timestamp);
    chunk.fill(Column::DeltaSwitched, count, timestamp);
    chunk.fill(Column::LastSwitched, count, timestamp);
    chunk.fill(Column::Packets, count, 1_u64.to_le_bytes());
    write_rate(rows, context, chunk);
    packet::write(chunk, rows, |row| &row.packet);
    let put32 = |chunk: &mut Chunk, column, value: fn(&Sample) -> u32| {
        packet::put(chunk, column, rows, |row| value(row).to_le_bytes());
    };
    put32(chunk, Column::InputSnmp, |row| row.input);
    put32(chunk, Column::OutputSnmp, |row| row.output);
    put32(chunk, Column::SrcAs, |row| row.src_as);
    put32(chunk, Column::DstAs, |row| row.dst_as);
    packet::put(chunk, Column::Bytes, rows, |row| u64::from(row.bytes).to_le_bytes());
    packet::put(chunk, Column::ForwardingStatus, rows, |row| [row.forwarding_status]);
    packet::put(chunk, Column::Vlan, rows, |row| vlan(row).to_le_bytes());
    packet::put(chunk, Column::PostVlan, rows, |row| row.post_vlan.to_le_bytes());
    packet::put(chunk, Column::NextHop, rows, |row| row.next_hop);
    packet::put(chunk, Column::BgpNextHop, rows, |row| row.bgp_next_hop);
    packet::put(chunk, Column::SrcMaskLen, rows, |row| [row.src_mask]);
    packet::put(chunk, Column::DstMaskLen, rows, |row| [row.dst_mask]);
    packet::put(chunk, Column::PostNatSrcAddr, rows, |row| row.post_nat_src_addr);
    packet::put(chunk, Column::PostNatDstAddr, rows, |row| row.post_nat_dst_addr);
    packet::put(chunk, Column::PostNatSrcPort, rows, |row| row.post_nat_src_port.to_le_bytes());
    packet::put(chunk, Column::PostNatDstPort, rows, |row| row.post_nat_dst_port.to_le_bytes());
}

/// What the switch says of the VLAN on the way in, else the packet's tag.
fn vlan(row: &Sample) -> u16 {
    if row.vlan == 0 { row.packet.vlan } else { row.vlan }
}

/// A rate of 0 says nothing, so the receiver's counts, or one packet in one is assumed.
fn write_rate(rows: &[Sample], context: &MessageContext<'_>, chunk: &mut Chunk) {
    let unknown = context.options.fallback_sampling();
    packet::put(chunk, Column::SamplingInterval, rows, |row| {
        let interval = if row.rate == 0 { unknown.interval } else { f64::from(row.rate) };
        interval.to_le_bytes()
    });
    if rows.iter().any(|row| row.rate == 0) {
        let record = chunk.intern(Column::SamplingProvenance, Sampling::RECORD).to_le_bytes();
        let unknown = chunk.intern(Column::SamplingProvenance, unknown.provenance).to_le_bytes();
        packet::put(chunk, Column::SamplingProvenance, rows, |row| {
            if row.rate == 0 { unknown } else { record }
        });
    }
}
