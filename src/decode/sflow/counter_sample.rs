//! Counter samples: what the agent counts of itself, not of packets. The generic counters of an
//! interface are kept for the management API; the other records are counted.

use std::net::IpAddr;

use crate::decode::interfaces::{InterfaceCounters, InterfaceKey};
use crate::decode::message::MessageReader;
use crate::decode::tally::DropReason;
use crate::decode::wire::Wire;

use super::{Form, xdr};

/// `counter_data` format of `if_counters`, section 5.
const GENERIC_INTERFACE: u32 = 1;

/// Reads a sample of the agent and sub-agent `source`.
pub(super) fn read(
    bytes: &[u8],
    form: Form,
    source: (IpAddr, u32),
    reader: &mut MessageReader<'_>,
) -> Result<(), DropReason> {
    let mut wire = Wire(bytes);
    let record_count = read_head(&mut wire, form).ok_or(DropReason::BadSample)?;
    for _ in 0..record_count {
        let (format, record) = xdr::opaque(&mut wire).ok_or(DropReason::BadSample)?;
        if format == GENERIC_INTERFACE {
            keep(record, source, reader);
        } else {
            reader.output.tally.skipped_records += 1;
        }
    }
    if !wire.is_all_zero() {
        reader.output.tally.drop(DropReason::TrailingBytes, wire.len());
    }
    reader.output.tally.counter_samples += 1;
    Ok(())
}

fn keep(record: &[u8], (agent, sub_agent): (IpAddr, u32), reader: &mut MessageReader<'_>) {
    let Some((if_index, counters)) = read_interface(&mut Wire(record)) else {
        return reader.output.tally.drop(DropReason::BadRecord, record.len());
    };
    let key = InterfaceKey { agent, sub_agent, if_index };
    let is_kept = reader
        .peer
        .interfaces()
        .is_some_and(|interfaces| interfaces.update(key, counters, reader.received_ms));
    if !is_kept {
        reader.output.tally.drop(DropReason::InterfaceLimit, record.len());
    }
}

/// `counters_sample` and `counters_sample_expanded`, section 5: returns the number of records.
fn read_head(wire: &mut Wire<'_>, form: Form) -> Option<u32> {
    let _sequence = wire.u32()?;
    let _source_class_and_index = match form {
        Form::Compact => wire.take(4)?,
        Form::Expanded => wire.take(8)?,
    };
    wire.u32()
}

/// `if_counters`, section 5: 88 bytes.
fn read_interface(wire: &mut Wire<'_>) -> Option<(u32, InterfaceCounters)> {
    let if_index = wire.u32()?;
    // Fields of a struct expression are evaluated in the order they are written: that of the wire.
    let counters = InterfaceCounters {
        if_type: wire.u32()?,
        speed_bits: wire.u64()?,
        direction: wire.u32()?,
        status: wire.u32()?,
        in_octets: wire.u64()?,
        in_unicast_packets: wire.u32()?,
        in_multicast_packets: wire.u32()?,
        in_broadcast_packets: wire.u32()?,
        in_discards: wire.u32()?,
        in_errors: wire.u32()?,
        in_unknown_protocols: wire.u32()?,
        out_octets: wire.u64()?,
        out_unicast_packets: wire.u32()?,
        out_multicast_packets: wire.u32()?,
        out_broadcast_packets: wire.u32()?,
        out_discards: wire.u32()?,
        out_errors: wire.u32()?,
        promiscuous_mode: wire.u32()?,
    };
    Some((if_index, counters))
}
