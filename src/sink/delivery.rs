//! Delivery: the thread that brings each batch to its end: stored, kept as dead letters, or dropped.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use crossbeam_channel::{Receiver, Sender};
use metrics::{Counter, Gauge, Histogram};
use tracing::{debug, error, warn};

use crate::clickhouse::{Block, Class, Method, encode_batch};
use crate::config::{ClickHouseConfig, OnRowError};
use crate::telemetry::{MetricName, Metrics, RateLimit};

use super::dead_letters::{LETTERS_PER_INSERT, letters};
use super::destination::{Batch, Destination, Fatal};
use super::ledger::{Ledger, RowDropReason};
use super::quarantine::Search;
use super::tries::{Abandoned, LOG_INTERVAL, Outcome, Refusal, Tries};

/// Delivers batches, one at a time.
#[derive(Debug)]
pub struct Delivery<D> {
    batches: Receiver<Batch>,
    tries: Tries<D>,
    method: Method,
    quarantine_inserts_max: usize,
    ledger: Arc<Ledger>,
    metrics: DeliveryMetrics,
    refused_log: RateLimit,
    lost_log: RateLimit,
}

#[derive(Debug)]
struct DeliveryMetrics {
    failed_rows: Counter,
    stored_batches: Counter,
    batch_rows: Histogram,
    encoded_bytes: Counter,
    quarantine_inserts: Counter,
    quarantine_exhausted: Counter,
    last_success: Gauge,
}

impl<D: Destination> Delivery<D> {
    /// Delivery of `batches` to `destination`, until there are no more or `abandoned` says so.
    #[must_use]
    pub fn new(
        batches: Receiver<Batch>,
        destination: D,
        config: &ClickHouseConfig,
        abandoned: Abandoned,
        ledger: Arc<Ledger>,
        metrics: &Metrics,
    ) -> Self {
        Self {
            batches,
            tries: Tries::new(destination, &config.retry, &config.errors, abandoned, metrics),
            method: Method::of(config.compress_requests),
            quarantine_inserts_max: config.quarantine_inserts_max,
            ledger,
            metrics: DeliveryMetrics::new(metrics),
            refused_log: RateLimit::new(LOG_INTERVAL),
            lost_log: RateLimit::new(LOG_INTERVAL),
        }
    }

    /// Works until every batch has its outcome. A destination that cannot be used as configured ends it
    /// early and is told to `fatal`.
    pub fn run(mut self, fatal: &Sender<Fatal>) {
        if let Err(reason) = self.work() {
            // The other side is gone only when the collector is ending anyway.
            drop(fatal.send(reason));
        }
    }

    fn work(&mut self) -> Result<(), Fatal> {
        if !self.tries.prepare()? {
            return Ok(());
        }
        while let Ok(batch) = self.batches.recv() {
            self.metrics.batch_rows.record(as_f64(batch.rows));
            self.metrics.encoded_bytes.increment(batch.bytes.len() as u64);
            self.deliver(&batch)?;
        }
        Ok(())
    }

    fn deliver(&mut self, batch: &Batch) -> Result<(), Fatal> {
        let start = Instant::now();
        match self.tries.send(batch)? {
            Outcome::Stored => {
                self.note_stored(batch.rows);
                debug!(rows = batch.rows, bytes = batch.bytes.len(), elapsed = ?start.elapsed(),
                    "Batch stored.");
                Ok(())
            }
            Outcome::Abandoned => Ok(()), // the ledger counts the rows
            Outcome::Refused(refusal) => self.refuse(batch, &refusal),
        }
    }

    /// Sees to the rows of a batch that ClickHouse will not take.
    fn refuse(&mut self, batch: &Batch, refusal: &Refusal) -> Result<(), Fatal> {
        self.metrics.failed_rows.increment(batch.rows as u64);
        if refusal.class == Class::BrokenView {
            // The table has the batch already: as dead letters its rows would count twice when replayed.
            self.lose(batch, batch.rows, refusal, RowDropReason::ViewFailed);
            return Ok(());
        }
        let Ok(block) = Block::decode(&batch.bytes) else {
            self.lose(batch, batch.rows, refusal, RowDropReason::DeadLetterFailed);
            return Ok(());
        };
        let is_searched = refusal.class == Class::Data
            && batch.on_row_error == OnRowError::Quarantine
            && batch.rows > 1;
        if let Some(held_back) = self.refused_log.pass(Instant::now()) {
            let then = if is_searched {
                "its refused rows are looked for"
            } else {
                "its rows become dead letters"
            };
            warn!(rows = batch.rows, token = batch.token, error = %refusal.failure, held_back,
                "Batch refused, {then}.");
        }
        if is_searched {
            self.quarantine(batch, &block, refusal)
        } else {
            self.keep(batch, &block, 0..batch.rows, refusal)
        }
    }

    /// Stores the rows that ClickHouse takes, and keeps the others as dead letters.
    fn quarantine(&mut self, batch: &Batch, block: &Block, refusal: &Refusal) -> Result<(), Fatal> {
        let mut search = Search::new(batch.rows, self.quarantine_inserts_max);
        while let Some(part) = search.next() {
            let piece = Batch {
                token: format!("{}/{}", batch.token, part.path),
                rows: part.rows.len(),
                bytes: encode_batch(&block.chunks(part.rows.clone()), self.method),
                ..batch.clone()
            };
            self.metrics.quarantine_inserts.increment(1);
            match self.tries.send(&piece)? {
                Outcome::Stored => {
                    self.note_stored(piece.rows);
                    search.accept(&part);
                }
                Outcome::Refused(own) if own.class == Class::Data && part.rows.len() > 1 => {
                    search.refuse(&part);
                }
                Outcome::Refused(own) => self.keep(batch, block, part.rows, &own)?,
                Outcome::Abandoned => return Ok(()),
            }
        }
        let left = search.left();
        if !left.is_empty() {
            self.metrics.quarantine_exhausted.increment(1);
        }
        left.into_iter().try_for_each(|rows| self.keep(batch, block, rows, refusal))
    }

    /// Keeps rows as dead letters.
    fn keep(
        &mut self,
        batch: &Batch,
        block: &Block,
        rows: Range<usize>,
        refusal: &Refusal,
    ) -> Result<(), Fatal> {
        for start in rows.clone().step_by(LETTERS_PER_INSERT) {
            let end = rows.end.min(start + LETTERS_PER_INSERT);
            let letters =
                letters(batch, block, start..end, refusal, SystemTime::now(), self.method);
            match self.tries.send(&letters)? {
                Outcome::Stored => self.ledger.keep(letters.rows),
                Outcome::Refused(own) => {
                    self.lose(batch, letters.rows, &own, RowDropReason::DeadLetterFailed);
                }
                Outcome::Abandoned => return Ok(()),
            }
        }
        Ok(())
    }

    fn lose(&mut self, batch: &Batch, rows: usize, refusal: &Refusal, reason: RowDropReason) {
        self.ledger.drop_rows(rows, reason);
        if let Some(held_back) = self.lost_log.pass(Instant::now()) {
            error!(rows, token = batch.token, error = %refusal.failure, reason = reason.label(),
                held_back, "Rows are lost.");
        }
    }

    fn note_stored(&self, rows: usize) {
        self.ledger.store(rows);
        self.metrics.stored_batches.increment(1);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.metrics.last_success.set(now.as_secs_f64());
    }
}

impl DeliveryMetrics {
    fn new(metrics: &Metrics) -> Self {
        Self {
            failed_rows: metrics.counter(MetricName::BatchFailedRows, &[]),
            stored_batches: metrics.counter(MetricName::BatchStored, &[]),
            batch_rows: metrics.histogram(MetricName::BatchRows, &[]),
            encoded_bytes: metrics.counter(MetricName::BatchEncodedBytes, &[]),
            quarantine_inserts: metrics.counter(MetricName::QuarantineInserts, &[]),
            quarantine_exhausted: metrics.counter(MetricName::QuarantineExhausted, &[]),
            last_success: metrics.gauge(MetricName::BatchLastSuccess, &[]),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a batch has far less than 2^53 rows")]
fn as_f64(rows: usize) -> f64 {
    rows as f64
}
