//! Flow samples: one sampled packet, where it came in and went out, and what the agent knows of it.

use crate::decode::packet::Packet;
use crate::decode::tally::{DropReason, Tally};
use crate::decode::wire::Wire;

use super::records::{self, Record};
use super::{Form, xdr};

/// `interface`, section 5: two bits of format, thirty of value.
const INTERFACE_FORMAT_SHIFT: u32 = 30;
const INTERFACE_VALUE_MASK: u32 = 0x3fff_ffff;

/// Formats of an interface: 0 is one interface, 1 a packet that was discarded (the value says why), 2
/// the number of interfaces that the packet left by.
const SINGLE: u32 = 0;
const DISCARDED: u32 = 1;

/// The value for a packet that the device itself sent or received.
const INTERNAL: u32 = 0x3fff_ffff;

/// forwardingStatus "dropped, unknown reason", RFC 7270 section 4.12.
const FORWARDING_DROPPED: u8 = 128;

/// One flow sample, on its way to the columns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) packet: Packet,
    /// Length of the packet as it was sent.
    pub(super) bytes: u32,
    /// One packet in this many is sampled; 0 when the agent does not know.
    pub(super) rate: u32,
    /// ifIndex; 0 for none, several, and the device itself.
    pub(super) input: u32,
    pub(super) output: u32,
    pub(super) forwarding_status: u8,
    pub(super) vlan: u16,
    pub(super) post_vlan: u16,
    pub(super) next_hop: [u8; 16],
    pub(super) bgp_next_hop: [u8; 16],
    pub(super) src_mask: u8,
    pub(super) dst_mask: u8,
    pub(super) src_as: u32,
    pub(super) dst_as: u32,
    pub(super) post_nat_src_addr: [u8; 16],
    pub(super) post_nat_dst_addr: [u8; 16],
    pub(super) post_nat_src_port: u16,
    pub(super) post_nat_dst_port: u16,
}

/// The fields before the records.
struct Head {
    rate: u32,
    input: (u32, u32),
    output: (u32, u32),
    record_count: u32,
}

/// Reads a sample into `samples`.
pub(super) fn read(
    bytes: &[u8],
    form: Form,
    samples: &mut Vec<Sample>,
    tally: &mut Tally,
) -> Result<(), DropReason> {
    let mut wire = Wire(bytes);
    let head = read_head(&mut wire, form).ok_or(DropReason::BadSample)?;
    let mut sample = Sample {
        rate: head.rate,
        input: interface_index(head.input),
        output: interface_index(head.output),
        forwarding_status: if head.output.0 == DISCARDED { FORWARDING_DROPPED } else { 0 },
        ..Sample::default()
    };
    let mut found = records::Found::default();
    for _ in 0..head.record_count {
        let (format, record) = xdr::opaque(&mut wire).ok_or(DropReason::BadSample)?;
        match records::read(format, record, &mut sample, &mut found) {
            Record::Read => {}
            Record::Skipped => tally.skipped_records += 1,
            Record::Bad => tally.drop(DropReason::BadRecord, record.len()),
        }
    }
    found.complete(&mut sample).ok_or(DropReason::NoPacket)?;
    if !wire.is_all_zero() {
        tally.drop(DropReason::TrailingBytes, wire.len());
    }
    samples.push(sample);
    Ok(())
}

/// `flow_sample` and `flow_sample_expanded`, section 5.
fn read_head(wire: &mut Wire<'_>, form: Form) -> Option<Head> {
    let _sequence = wire.u32()?;
    let _source_class_and_index = match form {
        Form::Compact => wire.take(4)?,
        Form::Expanded => wire.take(8)?,
    };
    let rate = wire.u32()?;
    let _sample_pool = wire.u32()?;
    let _drops = wire.u32()?;
    let (input, output) = (read_interface(wire, form)?, read_interface(wire, form)?);
    Some(Head { rate, input, output, record_count: wire.u32()? })
}

/// Format and value of an interface.
fn read_interface(wire: &mut Wire<'_>, form: Form) -> Option<(u32, u32)> {
    let word = wire.u32()?;
    Some(match form {
        Form::Compact => (word >> INTERFACE_FORMAT_SHIFT, word & INTERFACE_VALUE_MASK),
        Form::Expanded => (word, wire.u32()?),
    })
}

fn interface_index((format, value): (u32, u32)) -> u32 {
    if format == SINGLE && value != INTERNAL { value } else { 0 }
}
