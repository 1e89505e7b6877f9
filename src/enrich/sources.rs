//! Which exporter rows are of, and what the configuration says of it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use crate::flow::{Chunk, Column};

use super::applications::ExporterClass;
use super::exporters::KnownExporter;
use super::tables::Tables;

/// An exporter's observation domain among the rows of a chunk.
#[derive(Debug)]
pub(super) struct Source {
    /// `None` when the column holds no address, which only tests write.
    pub(super) address: Option<IpAddr>,
    pub(super) known: Option<Arc<KnownExporter>>,
    pub(super) class: ExporterClass,
}

/// The rows of a chunk by their source. Those of a datagram lie together.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) list: Vec<Source>,
    /// Neighbouring rows of one source, and its index.
    pub(super) runs: Vec<(Range<usize>, usize)>,
}

impl Sources {
    /// Of all finished rows.
    pub(super) fn of(chunk: &Chunk, tables: &Tables) -> Self {
        let addresses: Vec<&str> = chunk.texts(Column::ExporterAddr).collect();
        let (texts, _) = chunk.column(Column::ExporterAddr).as_chunks::<2>();
        let (domains, _) = chunk.column(Column::ObservationDomainId).as_chunks::<4>();
        let key = |row: usize| {
            let text = texts.get(row).copied().map_or(0, u16::from_le_bytes);
            (text, domains.get(row).copied().map_or(0, u32::from_le_bytes))
        };
        let mut sources = Self::default();
        let mut indices = HashMap::new();
        let mut row = 0;
        while row < chunk.rows() {
            let of_run = key(row);
            let end = (row + 1..chunk.rows()).find(|&next| key(next) != of_run);
            let rows = row..end.unwrap_or_else(|| chunk.rows());
            row = rows.end;
            let index = *indices.entry(of_run).or_insert_with(|| {
                let address = addresses.get(usize::from(of_run.0)).and_then(|it| it.parse().ok());
                sources.list.push(Source::of(address, of_run.1, tables));
                sources.list.len() - 1
            });
            sources.runs.push((rows, index));
        }
        sources
    }

    /// Writes what `[[exporters]]` says of each.
    pub(super) fn write(&self, chunk: &mut Chunk) {
        for (column, text) in TEXTS {
            self.write_text(column, text, chunk);
        }
        self.write_sampling(chunk);
    }

    fn write_text(&self, column: Column, text: fn(&KnownExporter) -> &Arc<str>, chunk: &mut Chunk) {
        let text = |source: &Source| {
            source.known.as_deref().map(text).filter(|it| !it.is_empty()).cloned()
        };
        let texts: Vec<Option<Arc<str>>> = self.list.iter().map(text).collect();
        for (rows, source) in &self.runs {
            if let Some(text) = &texts[*source] {
                let index = chunk.intern_shared(column, text).to_le_bytes();
                chunk.finished(column).as_chunks_mut::<2>().0[rows.clone()].fill(index);
            }
        }
    }

    /// What the exporter said itself, in whatever way, wins.
    fn write_sampling(&self, chunk: &mut Chunk) {
        let interval = |source: &Source| source.known.as_ref()?.sampling_interval;
        if !self.list.iter().any(|source| interval(source).is_some()) {
            return;
        }
        let provenances: Vec<bool> = chunk
            .texts(Column::SamplingProvenance)
            .map(|text| SAID_BY_NOBODY.contains(&text))
            .collect();
        let fallback = chunk.intern(Column::SamplingProvenance, FALLBACK).to_le_bytes();
        for (rows, source) in &self.runs {
            let Some(interval) = interval(&self.list[*source]) else { continue };
            let (of_rows, _) = chunk.finished(Column::SamplingProvenance).as_chunks_mut::<2>();
            let mut unsaid = Vec::new();
            for row in rows.clone() {
                let index = usize::from(u16::from_le_bytes(of_rows[row]));
                if provenances.get(index).is_some_and(|it| *it) {
                    of_rows[row] = fallback;
                    unsaid.push(row);
                }
            }
            let (intervals, _) = chunk.finished(Column::SamplingInterval).as_chunks_mut::<8>();
            unsaid.into_iter().for_each(|row| intervals[row] = interval.to_le_bytes());
        }
    }
}

/// Values of `samplingProvenance`.
const FALLBACK: &str = "fallback";
const SAID_BY_NOBODY: [&str; 2] = [FALLBACK, "assumed"];

type Text = (Column, fn(&KnownExporter) -> &Arc<str>);

const TEXTS: [Text; 4] = [
    (Column::ExporterName, |known| &known.name),
    (Column::Tenant, |known| &known.tenant),
    (Column::Organisation, |known| &known.organisation),
    (Column::Zone, |known| &known.zone),
];

impl Source {
    fn of(address: Option<IpAddr>, domain_id: u32, tables: &Tables) -> Self {
        let known = address.and_then(|it| tables.exporters.find(it, domain_id)).cloned();
        let class = tables.rules.as_ref().zip(address).map(|(rules, it)| rules.exporter_class(it));
        let class = class.unwrap_or_default();
        Self { address, known, class }
    }
}
