//! Enriches the chunks of one reader.

use std::sync::Arc;

use crate::flow::Chunk;
use crate::telemetry::Metrics;

use super::facts::FactBook;
use super::metrics::EnrichMetrics;
use super::sources::Sources;
use super::tables::Tables;
use super::{addresses, host_names, interfaces, labels};

/// What one reader remembers of addresses, and the tables that it uses now.
#[derive(Debug)]
pub struct Enricher {
    tables: Arc<Tables>,
    book: FactBook,
    scratch: addresses::Scratch,
    metrics: EnrichMetrics,
}

impl Enricher {
    /// An enricher from `tables`.
    #[must_use]
    pub fn new(tables: Arc<Tables>, metrics: &Metrics) -> Self {
        let (book, scratch) = (FactBook::default(), addresses::Scratch::default());
        Self { tables, book, scratch, metrics: EnrichMetrics::new(metrics) }
    }

    /// Uses other tables from now on.
    pub fn adopt(&mut self, tables: Arc<Tables>) {
        if !Arc::ptr_eq(&self.tables, &tables) {
            self.book.clear();
            self.tables = tables;
        }
    }

    /// Fills in what the tables say of the rows of `chunk`.
    pub fn enrich(&mut self, chunk: &mut Chunk) {
        let tables = &*self.tables;
        let sources = Sources::of(chunk, tables);
        sources.write(chunk);
        interfaces::write(&sources, &tables.snmp.load(), chunk);
        let facts = addresses::write(tables, &mut self.book, &mut self.scratch, chunk);
        labels::write(tables, &sources, &facts, &self.book, chunk);
        host_names::write(&tables.host_names, chunk);
        self.metrics.count(&mut self.book.counts);
    }
}
