//! IPFIX, RFC 7011: messages of a header of 16 bytes and sets. A datagram may hold several; from TCP each comes
//! alone.

use super::exporters::SequenceKey;
use super::message::MessageReader;
use super::tally::{DropReason, Protocol, Tally};
use super::template_set::Layout;
use super::wire::Wire;

const VERSION: u16 = 10;
const HEADER_BYTES: usize = 16;

/// Message header, RFC 7011 section 3.1.
struct Header {
    length: usize,
    export_seconds: u32,
    sequence: u32,
    domain_id: u32,
}

/// Decodes a datagram.
pub(super) fn decode(payload: &[u8], reader: &mut MessageReader<'_>) {
    let mut rest = payload;
    while let Some(behind) = decode_message(rest, rest.len() == payload.len(), reader) {
        rest = behind;
    }
}

/// Decodes one message and returns what lies behind it, if that can be told.
fn decode_message<'a>(
    bytes: &'a [u8],
    is_first: bool,
    reader: &mut MessageReader<'_>,
) -> Option<&'a [u8]> {
    let mut wire = Wire(bytes);
    if !is_first && wire.is_all_zero() {
        return None;
    }
    let header = match read_header(&mut wire) {
        Ok(header) => header,
        Err(_) if !is_first => {
            reader.output.tally.drop(DropReason::TrailingBytes, bytes.len());
            return None;
        }
        Err(reason) => {
            reader.output.tally.drop(reason, bytes.len());
            return None;
        }
    };
    let timing = reader.timing(i64::from(header.export_seconds) * 1_000, None);
    let mut context = reader.context(Protocol::Ipfix, header.domain_id, timing);
    let records_before = record_count(reader.output.tally);
    reader.records_are_known = true;
    let behind = reader.read_sets(wire.0, header.length - HEADER_BYTES, &mut context, layout_of);
    let records = record_count(reader.output.tally) - records_before;
    let units = u32::try_from(records).ok().filter(|_| reader.records_are_known);
    let key = SequenceKey { protocol: Protocol::Ipfix, domain_id: header.domain_id, agent: None };
    reader.note_sequence(key, header.sequence, units);
    (!behind.is_empty()).then_some(behind)
}

/// What IPFIX numbers: data records, those of options templates too.
fn record_count(tally: &Tally) -> u64 {
    tally.flows + tally.options_records
}

fn layout_of(set_id: u16) -> Option<Layout> {
    match set_id {
        2 => Some(Layout::IpfixData),
        3 => Some(Layout::IpfixOptions),
        _ => None,
    }
}

fn read_header(wire: &mut Wire<'_>) -> Result<Header, DropReason> {
    let available = wire.len();
    let mut read = || {
        let (version, length) = (wire.u16()?, usize::from(wire.u16()?));
        let export_seconds = wire.u32()?;
        let (sequence, domain_id) = (wire.u32()?, wire.u32()?);
        Some((version, Header { length, export_seconds, sequence, domain_id }))
    };
    match read() {
        None => Err(DropReason::Truncated),
        Some((VERSION, header)) if (HEADER_BYTES..=available).contains(&header.length) => {
            Ok(header)
        }
        Some(_) => Err(DropReason::BadLength),
    }
}
