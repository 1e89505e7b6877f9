//! Columns that follow from others: times that records leave out or contradict, the ICMP type that is in a
//! port, the IP version, names of ids.

use crate::flow::{Chunk, Column};

use super::names::NamedColumn;
use super::options::unsigned;
use super::plan::MessageContext;
use super::records::{Place, Records};
use super::steps;
use super::template::Field;

/// Protocol numbers of ICMP and ICMP for IPv6.
const ICMP: [u8; 2] = [1, 58];

/// What the records of a template leave to be derived.
#[derive(Debug)]
pub(super) struct Derived {
    has_first: bool,
    has_last: bool,
    duration: Option<Duration>,
    ip_version: IpVersion,
    /// Protocol and destination port are there and the ICMP type is not, so it may be in the latter.
    may_have_icmp_in_port: bool,
    named: Vec<NamedColumn>,
}

/// How long the flow lasted: flowDurationMilliseconds (161), flowDurationMicroseconds (162).
#[derive(Clone, Copy, Debug)]
struct Duration {
    place: Place,
    units_per_ms: u64,
}

/// Where the column `ipProtocolVersion` comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum IpVersion {
    /// The records have the element, or no address.
    AsSent,
    /// All addresses are of this version.
    Always(u8),
    /// Each record has its own.
    OfAddresses,
}

impl Derived {
    /// For records of `fields`, of which `has` says which columns they fill.
    pub(super) fn of(fields: &[Field], places: &[Place], has: impl Fn(Column) -> bool) -> Self {
        let may_have_icmp_in_port =
            has(Column::Protocol) && has(Column::DstPort) && !has(Column::IcmpType);
        Self {
            has_first: has(Column::FirstSwitched),
            has_last: has(Column::LastSwitched),
            duration: Duration::of(fields, places),
            ip_version: IpVersion::of(fields),
            may_have_icmp_in_port,
            named: NamedColumn::of(has),
        }
    }

    /// Completes the next rows. Returns how many flows began after they ended.
    pub(super) fn write(
        &self,
        records: &impl Records,
        context: &MessageContext<'_>,
        chunk: &mut Chunk,
    ) -> u64 {
        let count = records.count();
        self.write_missing_times(records, context, chunk);
        let reversed = if self.has_first && self.has_last { put_in_order(count, chunk) } else { 0 };
        chunk.copy(Column::FirstSwitched, Column::DeltaSwitched, count);
        match self.ip_version {
            IpVersion::AsSent => {}
            IpVersion::Always(version) => chunk.fill(Column::IpProtocolVersion, count, [version]),
            IpVersion::OfAddresses => steps::ip_version_of_addresses(chunk, count),
        }
        if self.may_have_icmp_in_port {
            icmp_from_port(count, chunk);
        }
        for named in &self.named {
            named.fill(&context.names, count, chunk);
        }
        reversed
    }

    /// The time that is missing is the other one, a duration away if the record tells it; without any the
    /// flow is taken to have been exported when it ended.
    fn write_missing_times(
        &self,
        records: &impl Records,
        context: &MessageContext<'_>,
        chunk: &mut Chunk,
    ) {
        let count = records.count();
        let (from, to, sign) = match (self.has_first, self.has_last) {
            (true, true) => return,
            (true, false) => (Column::FirstSwitched, Column::LastSwitched, 1),
            (false, _) => (Column::LastSwitched, Column::FirstSwitched, -1),
        };
        if !self.has_first && !self.has_last {
            let timestamp = context.timing.timestamp_ms.to_le_bytes();
            chunk.fill(Column::LastSwitched, count, timestamp);
        }
        chunk.copy(from, to, count);
        let Some(duration) = self.duration else { return };
        let (times, _) = chunk.extend(to, count).as_chunks_mut::<8>();
        for (time, value) in times.iter_mut().zip(records.values(duration.place)) {
            // All ones is what exporters send that do not know it.
            if value.iter().all(|&byte| byte == 0xff) {
                continue;
            }
            let duration_ms = i64::try_from(unsigned(value) / duration.units_per_ms).unwrap_or(0);
            let moved = i64::from_le_bytes(*time).saturating_add(sign * duration_ms);
            if context.timing.is_possible(moved) {
                *time = moved.to_le_bytes();
            }
        }
    }
}

impl Duration {
    fn of(fields: &[Field], places: &[Place]) -> Option<Self> {
        [(161, 1), (162, 1_000)].into_iter().find_map(|(id, units_per_ms)| {
            let is_meant = |field: &Field| field.is_iana(&[id]) && field.is_integer();
            let index = fields.iter().position(is_meant)?;
            Some(Self { place: places[index], units_per_ms })
        })
    }
}

impl IpVersion {
    fn of(fields: &[Field]) -> Self {
        let has = |ids: &[u16]| fields.iter().any(|field| field.is_iana(ids));
        match (has(&[60]), has(&[8, 12]), has(&[27, 28])) {
            (true, _, _) | (false, false, false) => Self::AsSent,
            (false, true, false) => Self::Always(4),
            (false, false, true) => Self::Always(6),
            (false, true, true) => Self::OfAddresses,
        }
    }
}

/// Takes the end for the start of flows that begin after it: exporters get the start wrong when their
/// uptime wraps, or when a line card's clock is ahead of the one in the header.
fn put_in_order(count: usize, chunk: &mut Chunk) -> u64 {
    let rows = chunk.rows();
    let is_reversed =
        |first: &[u8; 8], last: &[u8; 8]| i64::from_le_bytes(*first) > i64::from_le_bytes(*last);
    let column = |column| &chunk.column(column).as_chunks::<8>().0[rows..];
    let times = column(Column::FirstSwitched).iter().zip(column(Column::LastSwitched));
    let reversed: Vec<(usize, [u8; 8])> = times
        .enumerate()
        .filter(|(_, (first, last))| is_reversed(first, last))
        .map(|(row, (_, last))| (row, *last))
        .collect();
    let (firsts, _) = chunk.extend(Column::FirstSwitched, count).as_chunks_mut::<8>();
    reversed.iter().for_each(|(row, last)| firsts[*row] = *last);
    reversed.len() as u64
}

/// NetFlow v5 has no field for the type and code of ICMP, and many exporters of later versions send none:
/// they are in the destination port, 256 * type + code.
fn icmp_from_port(count: usize, chunk: &mut Chunk) {
    let first = chunk.rows();
    let is_icmp = |protocol: &u8| ICMP.contains(protocol);
    if !chunk.column(Column::Protocol)[first..].iter().any(is_icmp) {
        return;
    }
    for row in 0..count {
        let [protocol] = chunk.value(Column::Protocol, first + row);
        let [kind] = chunk.value(Column::IcmpType, first + row);
        let [code] = chunk.value(Column::IcmpCode, first + row);
        let [low, high] = chunk.value(Column::DstPort, first + row);
        if is_icmp(&protocol) && (kind, code) == (0, 0) && (low, high) != (0, 0) {
            chunk.extend(Column::IcmpType, count)[row] = high;
            chunk.extend(Column::IcmpCode, count)[row] = low;
        }
    }
}
