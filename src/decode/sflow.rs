//! sFlow version 5: a header, then samples, each with its format and length.
//!
//! The definition is "sFlow Version 5", sFlow.org, July 2004 (sflow_version_5.txt), section 5. It is
//! written in XDR (RFC 4506): big-endian words of four bytes, opaque data padded to four. There are no
//! templates; the samples of a datagram are gathered first and then written column by column.

mod columns;
mod counter_sample;
mod flow_sample;
mod records;
mod xdr;

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::clock::Timing;
use super::exporters::SequenceKey;
use super::message::MessageReader;
use super::sampling::Sampling;
use super::tally::{DropReason, Protocol, Tally};
use super::wire::Wire;

use self::flow_sample::Sample;

/// `sample_data` formats of enterprise 0, section 5, and of "sFlow Dropped Packet Notification
/// Structures" (sflow_drops.txt). The enterprise is in the upper 20 bits of a format, so those of
/// others are never equal to one of these.
mod format {
    pub(super) const FLOW_SAMPLE: u32 = 1;
    pub(super) const COUNTER_SAMPLE: u32 = 2;
    pub(super) const EXPANDED_FLOW_SAMPLE: u32 = 3;
    pub(super) const EXPANDED_COUNTER_SAMPLE: u32 = 4;
    pub(super) const DISCARDED_PACKET: u32 = 5;
}

/// Whether interfaces and data sources have a word for their format and one for their value, or share
/// one, section 5, `flow_sample_expanded` and `counters_sample_expanded`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Form {
    Compact,
    Expanded,
}

/// What a reader keeps from one datagram to the next, for its memory.
#[derive(Debug)]
pub(super) struct Scratch {
    samples: Vec<Sample>,
    agent: IpAddr,
    /// `agent` as the column `exporterAddr` has it.
    agent_text: String,
}

impl Default for Scratch {
    fn default() -> Self {
        let agent = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        Self { samples: Vec::new(), agent, agent_text: agent.to_string() }
    }
}

/// `sample_datagram_v5`, section 5.
struct Header {
    /// `None` when the agent does not know its address.
    agent: Option<IpAddr>,
    sub_agent: u32,
    sequence: u32,
    sample_count: u32,
}

/// Decodes a datagram. The header's count is only compared with what is there: nothing is allocated
/// for it.
pub(super) fn decode(payload: &[u8], reader: &mut MessageReader<'_>) {
    let mut wire = Wire(payload);
    let header = match read_header(&mut wire) {
        Ok(header) => header,
        Err(reason) => return reader.output.tally.drop(reason, payload.len()),
    };
    let agent = header.agent.unwrap_or(reader.source);
    let key =
        SequenceKey { protocol: Protocol::Sflow, domain_id: header.sub_agent, agent: Some(agent) };
    reader.note_sequence(key, header.sequence, Some(1));
    reader.sflow.samples.clear();
    for _ in 0..header.sample_count {
        if wire.len() == 0 {
            reader.output.tally.drop(DropReason::MissingSamples, 0);
            break;
        }
        let rest = wire.len();
        let Some((format, sample)) = xdr::opaque(&mut wire) else {
            reader.output.tally.drop(DropReason::BadSampleLength, rest);
            wire = Wire(&[]);
            break;
        };
        read_sample(format, sample, (agent, header.sub_agent), reader);
    }
    if !wire.is_all_zero() {
        reader.output.tally.drop(DropReason::TrailingBytes, wire.len());
    }
    write_flows(agent, header.sub_agent, reader);
}

/// A sample that cannot be decoded costs that sample. Bytes of its records that were dropped before are not
/// counted again.
fn read_sample(format: u32, sample: &[u8], source: (IpAddr, u32), reader: &mut MessageReader<'_>) {
    let tally = &mut *reader.output.tally;
    let before = dropped_record_bytes(tally);
    let read = match format {
        format::FLOW_SAMPLE => {
            flow_sample::read(sample, Form::Compact, &mut reader.sflow.samples, tally)
        }
        format::EXPANDED_FLOW_SAMPLE => {
            flow_sample::read(sample, Form::Expanded, &mut reader.sflow.samples, tally)
        }
        format::COUNTER_SAMPLE => counter_sample::read(sample, Form::Compact, source, reader),
        format::EXPANDED_COUNTER_SAMPLE => {
            counter_sample::read(sample, Form::Expanded, source, reader)
        }
        format::DISCARDED_PACKET => {
            tally.drop_events += 1;
            Ok(())
        }
        _ => Err(DropReason::UnknownSample),
    };
    if let Err(reason) = read {
        let tally = &mut *reader.output.tally;
        let counted = usize::try_from(dropped_record_bytes(tally) - before).unwrap_or(usize::MAX);
        tally.drop(reason, sample.len().saturating_sub(counted));
    }
}

/// Bytes of records that were dropped without their samples.
fn dropped_record_bytes(tally: &Tally) -> u64 {
    let bytes = |reason| tally.dropped(reason).bytes;
    bytes(DropReason::BadRecord) + bytes(DropReason::InterfaceLimit)
}

fn write_flows(agent: IpAddr, sub_agent: u32, reader: &mut MessageReader<'_>) {
    // The wire has no export time: uptime alone does not say when it was.
    let received_ms = reader.received_ms;
    let timing = Timing::new(received_ms, received_ms, None, reader.options.skew_max);
    let mut context = reader.context(Protocol::Sflow, sub_agent, timing);
    context.sampling = Sampling { provenance: Sampling::RECORD, ..Sampling::ASSUMED };
    let Scratch { samples, agent: known, agent_text } = &mut *reader.sflow;
    if *known != agent {
        *known = agent;
        agent_text.clear();
        // Writing to a String does not fail.
        write!(agent_text, "{agent}").unwrap_or_default();
    }
    context.exporter_addr = agent_text;
    columns::write(samples, &context, &mut reader.output);
}

fn read_header(wire: &mut Wire<'_>) -> Result<Header, DropReason> {
    let _version = wire.u32().ok_or(DropReason::Truncated)?;
    let agent = match xdr::address(wire) {
        Ok(address) => Ipv6Addr::from(address).to_canonical(),
        Err(xdr::Fault::Cut) => return Err(DropReason::Truncated),
        Err(xdr::Fault::UnknownType) => return Err(DropReason::BadAgent),
    };
    let mut read = || {
        let sub_agent = wire.u32()?;
        let sequence = wire.u32()?;
        let _uptime_ms = wire.u32()?;
        let sample_count = wire.u32()?;
        let agent = (!agent.is_unspecified()).then_some(agent);
        Some(Header { agent, sub_agent, sequence, sample_count })
    };
    read().ok_or(DropReason::Truncated)
}

#[cfg(test)]
mod tests;
