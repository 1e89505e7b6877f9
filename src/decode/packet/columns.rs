//! Packets to the columns of a chunk, one column of all packets at a time.

use crate::flow::{Chunk, Column};

use super::Packet;

/// Writes the columns that packets fill into the next rows of `chunk`, one row for each of `rows`.
pub(in crate::decode) fn write<T>(chunk: &mut Chunk, rows: &[T], packet: impl Fn(&T) -> &Packet) {
    put(chunk, Column::SrcAddr, rows, |row| packet(row).src_addr);
    put(chunk, Column::DstAddr, rows, |row| packet(row).dst_addr);
    put(chunk, Column::SrcPort, rows, |row| packet(row).src_port.to_le_bytes());
    put(chunk, Column::DstPort, rows, |row| packet(row).dst_port.to_le_bytes());
    put(chunk, Column::Vlan, rows, |row| packet(row).vlan.to_le_bytes());
    put(chunk, Column::IpProtocolVersion, rows, |row| [packet(row).ip_version]);
    put(chunk, Column::Protocol, rows, |row| [packet(row).protocol]);
    put(chunk, Column::TcpFlags, rows, |row| packet(row).tcp_flags.to_le_bytes());
    put(chunk, Column::Tos, rows, |row| [packet(row).tos]);
    put(chunk, Column::SrcMac, rows, |row| packet(row).src_mac.to_le_bytes());
    put(chunk, Column::DstMac, rows, |row| packet(row).dst_mac.to_le_bytes());
    put(chunk, Column::IcmpType, rows, |row| [packet(row).icmp_type]);
    put(chunk, Column::IcmpCode, rows, |row| [packet(row).icmp_code]);
    put(chunk, Column::IpTtl, rows, |row| [packet(row).ttl]);
    put(chunk, Column::Ipv6FlowLabel, rows, |row| packet(row).flow_label.to_le_bytes());
    if rows.iter().any(|row| packet(row).mpls_label_count > 0) {
        chunk.put_lists(Column::MplsLabels, rows.iter().map(|row| packet(row).labels()));
    }
}

/// Writes one column of the next rows. A column that is at its default in all of them is left alone, so
/// that it costs nothing when no row of the chunk has it.
#[inline]
pub(in crate::decode) fn put<T, const N: usize>(
    chunk: &mut Chunk,
    column: Column,
    rows: &[T],
    value: impl Fn(&T) -> [u8; N],
) {
    debug_assert_eq!(column.width_bytes(), N);
    if rows.iter().all(|row| value(row) == [0; N]) {
        return;
    }
    let (out, _) = chunk.extend(column, rows.len()).as_chunks_mut::<N>();
    for (out, row) in out.iter_mut().zip(rows) {
        *out = value(row);
    }
}
