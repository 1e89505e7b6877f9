//! From a record of the crate to the columns that it fills: by the table of columns and `docs/decoding.md`, and
//! with none of the decoder's code.

use std::net::{IpAddr, Ipv4Addr};

use netflow_parser::NetflowPacket;
use netflow_parser::variable_versions::field_value::{DataNumber, DurationValue, FieldValue};
use serde_json::{Value, json};
use tidegate::flow::{COLUMNS, Column, ColumnSpec, Kind, Read, Source};

use crate::theirs::{Header, Key, Record};

/// Columns and their values as the row writes them; null for 0 and the empty text.
pub(crate) type Expected = Vec<(Column, Value)>;

/// Seconds from 1900 to 1970.
const NTP_TO_UNIX_SECONDS: i64 = 2_208_988_800;

/// The years 2000 and 2300; times outside of them cannot be.
const POSSIBLE_MS: std::ops::RangeInclusive<i64> = 946_684_800_000..=10_413_792_000_000;

/// What of a row follows from this record and the header of its message.
pub(crate) fn expected(record: &Record, header: Header) -> Expected {
    let mut expected = vec![
        (Column::Timestamp, json!(header.export_ms)),
        (Column::FlowProtocol, json!(header.protocol)),
        (Column::ObservationDomainId, number(header.domain_id.into())),
    ];
    let values = Column::ALL.iter().map(|&column| (column, value_of(column, record, header)));
    expected.extend(values.filter_map(|(column, value)| Some((column, value?))));
    in_order(expected)
}

/// Where a flow begins after its end, the end is taken for both.
fn in_order(mut expected: Expected) -> Expected {
    let time_of = |expected: &Expected, column| {
        expected.iter().find(|(found, _)| *found == column).and_then(|(_, value)| value.as_i64())
    };
    let last = time_of(&expected, Column::LastSwitched);
    if time_of(&expected, Column::FirstSwitched) > last && last.is_some() {
        expected.retain(|(column, _)| *column != Column::FirstSwitched);
        expected.push((Column::FirstSwitched, json!(last)));
    }
    expected
}

/// The value of a column, if an element of the record fills it.
fn value_of(column: Column, record: &Record, header: Header) -> Option<Value> {
    let spec = &COLUMNS[column as usize];
    // Of each element the first field that can be read counts.
    let found: Vec<(usize, Read, &FieldValue)> =
        spec.sources.iter().filter_map(|source| find(source, record, header.protocol)).collect();
    match spec.kind {
        Kind::Address => {
            let mut found = found;
            found.sort_by_key(|(position, ..)| *position);
            let addresses = found.iter().filter_map(|(_, _, value)| address(value));
            let mut addresses = addresses.collect::<Vec<_>>().into_iter();
            let first = addresses.clone().find(|address| !address.is_unspecified());
            first.or_else(|| addresses.next()).map(shown)
        }
        // Rates of samplers are announced elsewhere.
        Kind::Float64 => found.iter().find_map(|(_, read, value)| match read {
            Read::Rate => unsigned(value).filter(|rate| *rate > 0).map(|rate| json!(rate as f64)),
            _ => None,
        }),
        Kind::UInt32List => labels(&found),
        _ => {
            let (_, read, value) = found.first()?;
            single(spec, *read, value, record, header)
        }
    }
}

/// The first field of an element whose length it can have.
fn find<'a>(
    source: &Source,
    record: &'a Record,
    protocol: &str,
) -> Option<(usize, Read, &'a FieldValue)> {
    let key = Key::of(protocol, source.enterprise, source.id)?;
    let is_readable = |value: &FieldValue| match source.read {
        Read::Address => matches!(value.byte_len(), 4 | 16),
        Read::Ntp => value.byte_len() == 8,
        Read::Uptime | Read::MicrosBefore => (1..=4).contains(&value.byte_len()),
        Read::LowByte | Read::HighByte | Read::Text => value.byte_len() > 0,
        _ => (1..=8).contains(&value.byte_len()),
    };
    let mut fields = record.iter().enumerate();
    let (position, (_, value)) =
        fields.find(|(_, (field, value))| *field == key && is_readable(value))?;
    Some((position, source.read, value))
}

fn single(
    spec: &ColumnSpec,
    read: Read,
    value: &FieldValue,
    record: &Record,
    header: Header,
) -> Option<Value> {
    let absolute = |ms: i64| if POSSIBLE_MS.contains(&ms) { ms } else { header.export_ms };
    Some(match read {
        Read::Unsigned | Read::ApplicationId => {
            let max = u64::MAX >> (64 - 8 * spec.kind.width_bytes().min(8));
            number(unsigned(value)?.min(max))
        }
        Read::LowByte => number(unsigned(value)? & 0xff),
        Read::HighByte => number(unsigned(value)? >> 8 & 0xff),
        Read::Direction => match unsigned(value)? {
            0 => json!("INGRESS"),
            1 => json!("EGRESS"),
            _ => Value::Null,
        },
        Read::Text => match text(value)? {
            // The exporter may have announced a name for the id.
            text if text.is_empty() => return None,
            text => json!(text),
        },
        Read::Seconds => json!(absolute(i64::try_from(unsigned(value)?).ok()?.checked_mul(1_000)?)),
        Read::Millis => json!(absolute(i64::try_from(unsigned(value)?).ok()?)),
        Read::Ntp => json!(absolute(ntp_ms(value)?)),
        Read::MicrosBefore => {
            json!(absolute(header.export_ms - i64::try_from(unsigned(value)?).ok()? / 1_000))
        }
        Read::Uptime => match unsigned(value)? {
            // There are exporters that send a time since 1970.
            ms if ms >= POSSIBLE_MS.start().unsigned_abs() => {
                json!(absolute(i64::try_from(ms).ok()?))
            }
            ms => json!(absolute(at_uptime(ms, record, header)?)),
        },
        Read::Address
        | Read::Rate
        | Read::Sampler
        | Read::Label
        | Read::SelectorAlgorithm
        | Read::SamplerMode => return None,
    })
}

/// NetFlow says its uptime, and the nearer reading of the wrapped counter is meant. IPFIX may say in the record
/// when the exporter started.
fn at_uptime(event_ms: u64, record: &Record, header: Header) -> Option<i64> {
    const WRAP_MS: i64 = 1 << 32;
    let event_ms = i64::try_from(event_ms & 0xffff_ffff).ok()?;
    let first = match header.uptime_ms {
        Some(uptime_ms) => header.export_ms - i64::from(uptime_ms) + event_ms,
        None => {
            let key = Key::of(header.protocol, 0, 160)?;
            let (_, boot) = record.iter().find(|(field, _)| *field == key)?;
            i64::try_from(unsigned(boot)?).ok()? + event_ms
        }
    };
    let wraps = (header.export_ms - first + WRAP_MS / 2).div_euclid(WRAP_MS);
    Some(first + wraps * WRAP_MS)
}

/// The stack of MPLS labels, which ends at its bottom or before a label that is all zero.
fn labels(found: &[(usize, Read, &FieldValue)]) -> Option<Value> {
    let mut labels = Vec::new();
    for (_, _, value) in found {
        let entry = unsigned(value).filter(|_| value.byte_len() == 3)?;
        if entry == 0 {
            break;
        }
        labels.push(entry >> 4);
        if entry & 1 != 0 {
            break;
        }
    }
    match labels[..] {
        [] if found.is_empty() => None,
        [] => Some(Value::Null),
        _ => Some(json!(labels)),
    }
}

/// A number of whatever type the crate has for it; big-endian bytes where it has none.
fn unsigned(value: &FieldValue) -> Option<u64> {
    match value {
        FieldValue::Vec(bytes) | FieldValue::DataNumber(DataNumber::Vec(bytes)) => {
            big_endian(bytes)
        }
        FieldValue::DataNumber(number) => number.as_u64(),
        FieldValue::ProtocolType(protocol) => Some(u8::from(*protocol).into()),
        FieldValue::ForwardingStatus(status) => Some(u8::from(*status).into()),
        FieldValue::TcpControlBits(flags, _) => Some(u16::from(*flags).into()),
        FieldValue::FlowEndReason(reason) => Some(u8::from(*reason).into()),
        FieldValue::NatEvent(event) => Some(u8::from(*event).into()),
        FieldValue::FirewallEvent(event) => Some(u8::from(*event).into()),
        FieldValue::MacAddr(bytes) => big_endian(bytes),
        FieldValue::Duration(
            DurationValue::Seconds { value, .. } | DurationValue::Millis { value, .. },
        ) => Some(*value),
        FieldValue::ApplicationId(_) => {
            let mut bytes = Vec::new();
            value.write_be_bytes(&mut bytes).unwrap();
            big_endian(&bytes)
        }
        _ => None,
    }
}

fn big_endian(bytes: &[u8]) -> Option<u64> {
    (bytes.len() <= 8).then(|| bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn address(value: &FieldValue) -> Option<IpAddr> {
    match value {
        FieldValue::Ip4Addr(address) => Some(IpAddr::V4(*address)),
        FieldValue::Ip6Addr(address) => Some(IpAddr::V6(*address)),
        FieldValue::Vec(bytes) => match <[u8; 4]>::try_from(&bytes[..]) {
            Ok(bytes) => Some(IpAddr::V4(bytes.into())),
            Err(_) => <[u8; 16]>::try_from(&bytes[..]).ok().map(IpAddr::from),
        },
        _ => None,
    }
}

fn text(value: &FieldValue) -> Option<String> {
    let bytes = match value {
        FieldValue::String(text) => &text.raw,
        FieldValue::Vec(bytes) => bytes,
        _ => return None,
    };
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

fn ntp_ms(value: &FieldValue) -> Option<i64> {
    let (seconds, fraction) = match value {
        FieldValue::Duration(
            DurationValue::MicrosNtp { seconds, fraction }
            | DurationValue::NanosNtp { seconds, fraction },
        ) => (*seconds, *fraction),
        _ => return None,
    };
    let ms = (u64::from(fraction) * 1_000) >> 32;
    Some((i64::from(seconds) - NTP_TO_UNIX_SECONDS) * 1_000 + i64::try_from(ms).unwrap())
}

fn number(value: u64) -> Value {
    if value == 0 { Value::Null } else { json!(value) }
}

fn shown(address: IpAddr) -> Value {
    let is_unknown = address.is_unspecified();
    let mapped = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    if is_unknown { Value::Null } else { json!(mapped.to_canonical()) }
}

/// What of the rows follows from a datagram of NetFlow v5 or v7.
pub(crate) fn expected_of_fixed(packet: NetflowPacket) -> Vec<Expected> {
    macro_rules! columns {
        ($packet:ident, $record:ident, $protocol:literal) => {{
            let header = Header {
                export_ms: i64::from($packet.header.unix_secs) * 1_000
                    + i64::from($packet.header.unix_nsecs / 1_000_000),
                uptime_ms: Some($packet.header.sys_up_time),
                domain_id: 0,
                protocol: $protocol,
            };
            let at = |event: u32| json!(at_uptime(event.into(), &Vec::new(), header).unwrap());
            let v4 = |address: Ipv4Addr| shown(IpAddr::V4(address));
            vec![
                (Column::Timestamp, json!(header.export_ms)),
                (Column::FlowProtocol, json!(header.protocol)),
                (Column::SrcAddr, v4($record.src_addr)),
                (Column::DstAddr, v4($record.dst_addr)),
                (Column::NextHop, v4($record.next_hop)),
                (Column::InputSnmp, number($record.input.into())),
                (Column::OutputSnmp, number($record.output.into())),
                (Column::Packets, number($record.d_pkts.into())),
                (Column::Bytes, number($record.d_octets.into())),
                (Column::FirstSwitched, at($record.first)),
                (Column::LastSwitched, at($record.last)),
                (Column::SrcPort, number($record.src_port.into())),
                (Column::DstPort, number($record.dst_port.into())),
                (Column::TcpFlags, number($record.tcp_flags.into())),
                (Column::Protocol, number($record.protocol_number.into())),
                (Column::Tos, number($record.tos.into())),
                (Column::SrcAs, number($record.src_as.into())),
                (Column::DstAs, number($record.dst_as.into())),
                (Column::SrcMaskLen, number($record.src_mask.into())),
                (Column::DstMaskLen, number($record.dst_mask.into())),
                (Column::IpProtocolVersion, json!(4)),
            ]
        }};
    }
    match packet {
        NetflowPacket::V5(packet) => {
            let of_header = [
                (Column::EngineType, number(packet.header.engine_type.into())),
                (Column::EngineId, number(packet.header.engine_id.into())),
                (
                    Column::SamplingInterval,
                    json!(f64::from((packet.header.sampling_interval & 0x3fff).max(1))),
                ),
            ];
            let records = packet.flowsets.iter();
            records
                .map(|record| {
                    let mut columns = columns!(packet, record, "NetflowV5");
                    columns.extend(of_header.clone());
                    in_order(columns)
                })
                .collect()
        }
        NetflowPacket::V7(packet) => {
            let records = packet.flowsets.iter();
            records.map(|record| in_order(columns!(packet, record, "NetflowV7"))).collect()
        }
        _ => Vec::new(),
    }
}
