//! A template compiled to column steps.
//!
//! A plan is made once per template and then copies whole columns: each [`Step`] runs over all records
//! of a set before the next one starts. NetFlow v5 is a template that is known in advance.

use std::time::Instant;

use crate::flow::{COLUMNS, Chunk, ChunkWriter, Column, Identity, Kind, Read};

use super::clock::Timing;
use super::decoder::DecoderOptions;
use super::derived::Derived;
use super::extra::Extra;
use super::interface_names;
use super::labels::LabelStack;
use super::names::NameLookup;
use super::options::{Announced, boot_place};
use super::rates::RateLookup;
use super::records::{
    FixedRecords, Place, Records, Segment, Shape, VariableRecords, bytes_min, scan,
};
use super::sampling::{Sampling, SamplingFields};
use super::section::Section;
use super::steps::{self, Step};
use super::tally::{DropReason, Protocol, Tally};
use super::template::{Field, VARIABLE_LENGTH};

/// basicList, subTemplateList and subTemplateMultiList, RFC 6313 section 4.5.
const STRUCTURED_DATA: [u16; 3] = [291, 292, 293];

/// Columns in which 0 is a number like any other.
const COUNTERS: [Column; 4] =
    [Column::Bytes, Column::Packets, Column::ReverseBytes, Column::ReversePackets];

/// What a message says about all of its records.
#[derive(Debug)]
pub(super) struct MessageContext<'a> {
    pub(super) protocol: Protocol,
    pub(super) options: &'a DecoderOptions,
    pub(super) exporter_addr: &'a str,
    pub(super) domain_id: u32,
    /// NetFlow v5 engine type and id.
    pub(super) engine: (u8, u8),
    pub(super) timing: Timing,
    /// The rate of records that name no other.
    pub(super) sampling: Sampling,
    /// The rate of records that name a sampler nobody announced.
    pub(super) sampling_unnamed: Sampling,
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
    /// A rate in two numbers.
    ratio: Option<SamplingFields>,
    labels: Option<LabelStack>,
    derived: Derived,
    extra: Extra,
    unread: Unread,
}

/// Fields of each record that are stepped over though they mean something.
#[derive(Clone, Copy, Debug)]
struct Unread {
    /// A column takes them, but not with their length.
    of_odd_length: u64,
    /// Structured data, RFC 6313.
    lists: u64,
}

impl Plan {
    /// Compiles a template. Fields that no column takes, or whose length their element cannot have, are
    /// skipped over.
    pub(super) fn compile(fields: &[Field]) -> Self {
        let (shape, places) = Shape::of(fields);
        let boot = boot_place(fields, &places);
        let steps_of = |&column| steps_for(column, fields, &places, boot);
        let mut steps: Vec<_> = Column::ALL.iter().flat_map(steps_of).collect();
        steps.extend(interface_names::steps(fields, &places));
        steps.shrink_to_fit();
        let section = Section::of(fields, &places);
        let has = |column| steps.iter().any(|step: &Step| step.column == column);
        let derived = Derived::of(fields, &places, has);
        let ratio = Some(SamplingFields::of(fields, &places)).filter(SamplingFields::has_ratio);
        // A section has labels of its own.
        let labels = section.is_none().then(|| LabelStack::of(fields, &places)).flatten();
        let (extra, unread) = (Extra::of(fields, &places), Unread::of(fields));
        Self { shape, section, steps, ratio, labels, derived, extra, unread }
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
                    self.write_records(&records, context, chunk, output.tally);
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
                    self.write_records(&records, context, chunk, output.tally);
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
        tally: &mut Tally,
    ) {
        let count = records.count();
        context.write(count, chunk);
        if let Some(section) = self.section {
            section.write(records, chunk);
        }
        for step in &self.steps {
            step.run(records, context, chunk);
        }
        if let Some(ratio) = &self.ratio {
            steps::ratios(ratio, records, context, chunk);
        }
        if let Some(labels) = &self.labels {
            labels.write(records, chunk);
        }
        tally.reversed_flows += self.derived.write(records, context, chunk);
        if context.options.keep_unknown_elements {
            tally.left_out_values += self.extra.write(records, chunk);
        }
        chunk.finish(count);
        tally.flows += count as u64;
        tally.odd_length_values += self.unread.of_odd_length * count as u64;
        tally.list_values += self.unread.lists * count as u64;
    }
}

impl MessageContext<'_> {
    /// Takes over what the exporter announced.
    pub(super) fn use_announced(&mut self, announced: &Announced, now_ms: i64) {
        self.rates = announced.rates.lookup(self.domain_id, now_ms);
        if let Some(sampling) = self.rates.of_domain() {
            self.sampling = sampling;
        }
        if let Some(sampling) = self.rates.without_sampler() {
            self.sampling_unnamed = sampling;
        }
        self.names = announced.names.lookup(self.domain_id, now_ms);
        self.timing.boot_ms = announced.boots.of_domain(self.domain_id, now_ms);
    }

    /// The rate of a record that names a sampler. That of another sampler says nothing of it.
    pub(super) fn sampling_of_sampler(&self, sampler_id: u64) -> Sampling {
        self.rates.of_sampler(sampler_id).unwrap_or(self.sampling_unnamed)
    }

    /// The columns that all records of the message share.
    pub(super) fn write(&self, count: usize, chunk: &mut Chunk) {
        let Identity { tenant, organisation, zone, system } = &self.options.identity;
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
        chunk.fill_text(Column::SamplingAlgorithm, count, self.sampling.algorithm.name());
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

impl Unread {
    fn of(fields: &[Field]) -> Self {
        let is_odd = |field: &&Field| {
            let sources = COLUMNS.iter().flat_map(|column| column.sources);
            let mut meant = sources
                .filter(|it| (it.enterprise, it.id) == (field.enterprise, field.id))
                .peekable();
            field.length > 0
                && meant.peek().is_some()
                && !meant.any(|source| is_readable(source.read, field.length))
        };
        let is_list = |field: &&Field| field.is_iana(&STRUCTURED_DATA);
        Self {
            of_odd_length: fields.iter().filter(is_odd).count() as u64,
            lists: fields.iter().filter(is_list).count() as u64,
        }
    }
}

/// The steps that fill `column`. The preferred element that is not 0 wins, and of several of its fields the first one:
/// where a record describes a tunnelled packet, the outer header comes first.
fn steps_for(column: Column, fields: &[Field], places: &[Place], boot: Option<Place>) -> Vec<Step> {
    let spec = &COLUMNS[column as usize];
    if spec.kind == Kind::UInt32List {
        return Vec::new();
    }
    let found = spec.sources.iter().filter_map(|source| {
        let is_source = |field: &Field| {
            (field.enterprise, field.id) == (source.enterprise, source.id)
                && is_readable(source.read, field.length)
        };
        let index = fields.iter().position(is_source)?;
        let place = places[index];
        Some((index, Step { column, read: source.read, place, boot, does_yield: false }))
    });
    let mut found: Vec<(usize, Step)> = found.collect();
    match spec.kind {
        // Each writes where the ones before it had none. Both families: the outer header comes first.
        Kind::Address => found.sort_by_key(|(index, _)| *index),
        // Each writes where it knows a rate, over what less preferred ones wrote.
        Kind::Float64 => found.reverse(),
        // A delta of 0 counts nothing, and a total beside it counts something else.
        _ if COUNTERS.contains(&column) => found.truncate(1),
        // Each but the first writes where its value is not 0, over what less preferred ones wrote.
        _ => {
            found.reverse();
            found.iter_mut().skip(1).for_each(|(_, step)| step.does_yield = true);
        }
    }
    found.into_iter().map(|(_, step)| step).collect()
}

/// Whether a field of this length can be read so. RFC 7011 section 6.2 lets integers shrink.
fn is_readable(read: Read, length: u16) -> bool {
    match read {
        Read::Address => matches!(length, 4 | 16),
        Read::Ntp => length == 8,
        Read::MicrosBefore => (1..=4).contains(&length),
        Read::Unsigned
        | Read::Seconds
        | Read::Millis
        | Read::Direction
        | Read::Rate
        | Read::Sampler
        | Read::SelectorAlgorithm
        | Read::SamplerMode
        | Read::Uptime => (1..=8).contains(&length) || length == VARIABLE_LENGTH,
        Read::ApplicationId => length > 0,
        Read::Label => length >= 3,
        Read::LowByte | Read::HighByte | Read::Text => length > 0,
    }
}
