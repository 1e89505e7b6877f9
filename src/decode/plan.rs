//! A template compiled to column steps.
//!
//! A plan is made once per template and then copies whole columns: each [`Step`] runs over all records
//! of a set before the next one starts. NetFlow v5 is a template that is known in advance.

use std::time::Instant;

use crate::flow::{COLUMNS, Chunk, ChunkWriter, Column, Identity, Kind, Read};

use super::clock::Timing;
use super::names::{NameLookup, NamedColumn};
use super::options::{Announced, RateLookup, boot_place};
use super::records::{
    FixedRecords, Place, Records, Segment, Shape, VariableRecords, bytes_min, scan,
};
use super::sampling::Sampling;
use super::section::Section;
use super::steps::{self, Step};
use super::tally::{DropReason, Protocol, Tally};
use super::template::{Field, VARIABLE_LENGTH};

/// What a message says about all of its records.
#[derive(Debug)]
pub(super) struct MessageContext<'a> {
    pub(super) protocol: Protocol,
    pub(super) identity: &'a Identity,
    pub(super) exporter_addr: &'a str,
    pub(super) domain_id: u32,
    /// NetFlow v5 engine type and id.
    pub(super) engine: (u8, u8),
    pub(super) timing: Timing,
    /// The rate of records that name no other.
    pub(super) sampling: Sampling,
    /// The rates of samplers that records name.
    pub(super) rates: RateLookup,
    /// Names of the ids that records have.
    pub(super) names: NameLookup,
    /// When decoding of the datagram began.
    pub(super) now: Instant,
}

/// Where decoding writes to.
#[derive(Debug)]
pub(super) struct Output<'a> {
    pub(super) writer: &'a mut ChunkWriter,
    pub(super) tally: &'a mut Tally,
    /// Scratch space: where the variable-length fields of a set are.
    pub(super) segments: &'a mut Vec<Segment>,
}

/// How to turn the records of one template into columns.
#[derive(Debug)]
pub(super) struct Plan {
    shape: Shape,
    /// Comes before the steps: what the record says itself is written over it.
    section: Option<Section>,
    steps: Vec<Step>,
    named: Vec<NamedColumn>,
    ip_version: IpVersion,
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

impl Plan {
    /// Compiles a template. Fields that no column takes, or whose length their element cannot have, are
    /// skipped over.
    pub(super) fn compile(fields: &[Field]) -> Self {
        let (shape, places) = Shape::of(fields);
        let boot = boot_place(fields, &places);
        let steps_of = |&column| steps_for(column, fields, &places, boot);
        let steps: Vec<_> = Column::ALL.iter().flat_map(steps_of).collect();
        let section = Section::of(fields, &places);
        let named = NamedColumn::of(|id| steps.iter().any(|step: &Step| step.column == id));
        Self { shape, section, steps, named, ip_version: IpVersion::of(fields) }
    }

    /// Whether a set of the template can hold a record.
    pub(super) fn record_bytes_min(&self) -> usize {
        match &self.shape {
            Shape::Fixed { record_bytes } => *record_bytes,
            Shape::Variable { segment_bytes } => bytes_min(segment_bytes),
        }
    }

    /// Gives the records of a set that describes the exporter to `learn`, and returns what it says.
    pub(super) fn read_options<T>(
        &self,
        set: &[u8],
        output: &mut Output<'_>,
        learn: impl FnOnce(&dyn Records) -> T,
    ) -> T {
        let records: &dyn Records = match &self.shape {
            &Shape::Fixed { record_bytes } => {
                let (bytes, behind) = set.split_at(set.len() - set.len() % record_bytes);
                output.tally.note_rest(behind);
                &FixedRecords { bytes, record_bytes }
            }
            Shape::Variable { segment_bytes } => {
                self.scan(set, segment_bytes, output);
                let segments_per_record = segment_bytes.len();
                &VariableRecords { set, segments: output.segments, segments_per_record }
            }
        };
        output.tally.options_records += records.count() as u64;
        learn(records)
    }

    /// Writes the records of a set as flows.
    pub(super) fn write_flows(
        &self,
        set: &[u8],
        context: &MessageContext<'_>,
        output: &mut Output<'_>,
    ) {
        match &self.shape {
            &Shape::Fixed { record_bytes } => {
                let (mut rest, behind) = set.split_at(set.len() - set.len() % record_bytes);
                output.tally.note_rest(behind);
                while !rest.is_empty() {
                    let (chunk, room) =
                        output.writer.chunk_for(context.timing.timestamp_ms, context.now);
                    let (bytes, later) = rest.split_at(rest.len().min(room * record_bytes));
                    let records = FixedRecords { bytes, record_bytes };
                    output.tally.flows += self.write_records(&records, context, chunk);
                    rest = later;
                }
            }
            Shape::Variable { segment_bytes } => {
                self.scan(set, segment_bytes, output);
                let segments_per_record = segment_bytes.len();
                let mut rest = &output.segments[..];
                while !rest.is_empty() {
                    let (chunk, room) =
                        output.writer.chunk_for(context.timing.timestamp_ms, context.now);
                    let (segments, later) =
                        rest.split_at(rest.len().min(room * segments_per_record));
                    let records = VariableRecords { set, segments, segments_per_record };
                    output.tally.flows += self.write_records(&records, context, chunk);
                    rest = later;
                }
            }
        }
    }

    fn scan(&self, set: &[u8], segment_bytes: &[usize], output: &mut Output<'_>) {
        let scanned = scan(set, segment_bytes, output.segments);
        let rest = &set[scanned..];
        if rest.len() >= self.record_bytes_min() && rest.iter().any(|&byte| byte != 0) {
            output.tally.drop(DropReason::BadRecord, rest.len());
        } else {
            output.tally.note_rest(rest);
        }
    }

    fn write_records(
        &self,
        records: &impl Records,
        context: &MessageContext<'_>,
        chunk: &mut Chunk,
    ) -> u64 {
        let count = records.count();
        context.write(count, chunk);
        if let Some(section) = self.section {
            section.write(records, chunk);
        }
        for step in &self.steps {
            step.run(records, context, chunk);
        }
        self.write_derived(count, context, chunk);
        chunk.finish(count);
        count as u64
    }

    /// Columns that follow from others.
    fn write_derived(&self, count: usize, context: &MessageContext<'_>, chunk: &mut Chunk) {
        match (self.has(Column::FirstSwitched), self.has(Column::LastSwitched)) {
            (true, true) => {}
            (true, false) => chunk.copy(Column::FirstSwitched, Column::LastSwitched, count),
            (false, true) => chunk.copy(Column::LastSwitched, Column::FirstSwitched, count),
            (false, false) => {
                let timestamp = context.timing.timestamp_ms.to_le_bytes();
                chunk.fill(Column::FirstSwitched, count, timestamp);
                chunk.fill(Column::LastSwitched, count, timestamp);
            }
        }
        chunk.copy(Column::FirstSwitched, Column::DeltaSwitched, count);
        match self.ip_version {
            IpVersion::AsSent => {}
            IpVersion::Always(version) => chunk.fill(Column::IpProtocolVersion, count, [version]),
            IpVersion::OfAddresses => steps::ip_version_of_addresses(chunk, count),
        }
        for named in &self.named {
            named.fill(&context.names, count, chunk);
        }
    }

    fn has(&self, column: Column) -> bool {
        self.steps.iter().any(|step| step.column == column)
    }
}

impl MessageContext<'_> {
    /// Takes over what the exporter announced.
    pub(super) fn use_announced(&mut self, announced: &Announced, now_ms: i64) {
        self.rates = announced.rates.lookup(self.domain_id, now_ms);
        self.sampling = Sampling::from_options(self.rates.of_domain());
        self.names = announced.names.lookup(self.domain_id, now_ms);
        self.timing.boot_ms = announced.boots.of_domain(self.domain_id);
    }

    /// The columns that all records of the message share.
    pub(super) fn write(&self, count: usize, chunk: &mut Chunk) {
        let Identity { tenant, organisation, zone, system } = self.identity;
        chunk.fill(Column::Timestamp, count, self.timing.timestamp_ms.to_le_bytes());
        chunk.fill(Column::ReceivedAt, count, self.timing.received_ms.to_le_bytes());
        chunk.fill_text(Column::FlowProtocol, count, self.protocol.column_value());
        chunk.fill_text(Column::Tenant, count, tenant);
        chunk.fill_text(Column::Organisation, count, organisation);
        chunk.fill_text(Column::Zone, count, zone);
        chunk.fill_text(Column::System, count, system);
        chunk.fill_text(Column::ExporterAddr, count, self.exporter_addr);
        chunk.fill(Column::SamplingInterval, count, self.sampling.interval.to_le_bytes());
        chunk.fill_text(Column::SamplingProvenance, count, self.sampling.provenance);
        chunk.fill_text(Column::SamplingAlgorithm, count, self.sampling.algorithm);
        if self.domain_id != 0 {
            chunk.fill(Column::ObservationDomainId, count, self.domain_id.to_le_bytes());
        }
        let (engine_type, engine_id) = self.engine;
        if self.engine != (0, 0) {
            chunk.fill(Column::EngineType, count, u16::from(engine_type).to_le_bytes());
            chunk.fill(Column::EngineId, count, u32::from(engine_id).to_le_bytes());
        }
        if self.timing.correction_ms != 0 {
            chunk.fill(Column::ClockCorrection, count, self.timing.correction_ms.to_le_bytes());
        }
    }
}

impl IpVersion {
    fn of(fields: &[Field]) -> Self {
        let has = |ids: &[u16]| fields.iter().any(|f| f.enterprise == 0 && ids.contains(&f.id));
        match (has(&[60]), has(&[8, 12]), has(&[27, 28])) {
            (true, _, _) | (false, false, false) => Self::AsSent,
            (false, true, false) => Self::Always(4),
            (false, false, true) => Self::Always(6),
            (false, true, true) => Self::OfAddresses,
        }
    }
}

/// The steps that fill `column`. The preferred element wins, and of several of its fields the first one:
/// where a record describes a tunnelled packet, the outer header comes first.
fn steps_for(column: Column, fields: &[Field], places: &[Place], boot: Option<Place>) -> Vec<Step> {
    let spec = &COLUMNS[column as usize];
    let found = spec.sources.iter().filter_map(|source| {
        let is_source = |field: &Field| {
            (field.enterprise, field.id) == (source.enterprise, source.id)
                && is_readable(source.read, field.length)
        };
        let index = fields.iter().position(is_source)?;
        Some((index, Step { column, read: source.read, place: places[index], boot }))
    });
    let mut found: Vec<(usize, Step)> = found.collect();
    match spec.kind {
        // Each writes where the ones before it had none. Both families: the outer header comes first.
        Kind::Address => found.sort_by_key(|(index, _)| *index),
        // Each writes where it knows a rate, over what less preferred ones wrote.
        Kind::Float64 => found.reverse(),
        _ => found.truncate(1),
    }
    found.into_iter().map(|(_, step)| step).collect()
}

/// Whether a field of this length can be read so. RFC 7011 section 6.2 lets integers shrink.
fn is_readable(read: Read, length: u16) -> bool {
    match read {
        Read::Address => matches!(length, 4 | 16),
        Read::Ntp => length == 8,
        Read::Uptime | Read::MicrosBefore => (1..=4).contains(&length),
        Read::Unsigned
        | Read::Seconds
        | Read::Millis
        | Read::Direction
        | Read::Rate
        | Read::Sampler => (1..=8).contains(&length) || length == VARIABLE_LENGTH,
        Read::LowByte | Read::HighByte | Read::Text => length > 0,
    }
}
