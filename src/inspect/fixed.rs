//! Records of NetFlow v5 and v7, under the names of the elements that mean the same.

use std::io::{self, Write};
use std::net::Ipv4Addr;

use netflow_parser::{NetflowPacket, NetflowParser};

use crate::elements::registry;

use super::library::said_by_library;
use super::value;

/// Writes the records of a datagram.
pub(super) fn write(payload: &[u8], out: &mut impl Write) -> io::Result<()> {
    let result = NetflowParser::default().parse_bytes(payload);
    let records = result.packets.into_iter().next().map(records).unwrap_or_default();
    for (number, record) in records.iter().enumerate() {
        writeln!(out, "  record {}", number + 1)?;
        for (id, text) in record {
            let name = registry().find(0, *id).map_or("unknown", |element| &element.name);
            writeln!(out, "    {name}({id}) = {text}")?;
        }
    }
    if let Some(error) = result.error.filter(|_| records.is_empty()) {
        writeln!(out, "  {}: {}", said_by_library(&error), value::hex(payload))?;
    }
    Ok(())
}

/// Element and value of the fields of each record.
fn records(packet: NetflowPacket) -> Vec<Vec<(u16, String)>> {
    macro_rules! fields {
        ($record:ident $(, $more:expr)?) => {{
            let addresses = [(8, $record.src_addr), (12, $record.dst_addr), (15, $record.next_hop)];
            let numbers: [(u16, u32); 15] = [
                (10, $record.input.into()),
                (14, $record.output.into()),
                (2, $record.d_pkts),
                (1, $record.d_octets),
                (22, $record.first),
                (21, $record.last),
                (7, $record.src_port.into()),
                (11, $record.dst_port.into()),
                (6, $record.tcp_flags.into()),
                (4, $record.protocol_number.into()),
                (5, $record.tos.into()),
                (16, $record.src_as.into()),
                (17, $record.dst_as.into()),
                (9, $record.src_mask.into()),
                (13, $record.dst_mask.into()),
            ];
            let address = |(id, address): (u16, Ipv4Addr)| (id, address.to_string());
            let number = |(id, number): (u16, u32)| (id, number.to_string());
            addresses.into_iter().map(address).chain(numbers.into_iter().map(number)).collect()
        }};
    }
    match packet {
        NetflowPacket::V5(v5) => v5.flowsets.into_iter().map(|record| fields!(record)).collect(),
        NetflowPacket::V7(v7) => v7.flowsets.into_iter().map(|record| fields!(record)).collect(),
        _ => Vec::new(),
    }
}
