//! Delivery: the thread that brings each batch to its end: stored, kept as dead letters, or dropped. With a
//! spool a batch that cannot be delivered now waits there.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use metrics::{Counter, Histogram};
use tracing::{debug, error, warn};

use crate::clickhouse::{Block, Class, Damaged, Method, encode_batch};
use crate::config::{ClickHouseConfig, OnRowError};
use crate::spool::{SpooledBatch, Why};
use crate::telemetry::{MetricName, Metrics, RateLimit, unix_ms};

use super::backlog::{Backlog, IDLE};

use super::dead_letters::{LETTERS_PER_INSERT, letters};
use super::destination::{Batch, Destination, Fatal, Target};
use super::ledger::{Ledger, RowDropReason};
use super::quarantine::Search;
use super::tries::{LOG_INTERVAL, Outcome, Progress, Refusal, Tried, Tries};

/// Delivers batches, one at a time.
#[derive(Debug)]
pub struct Delivery<D> {
    batches: Receiver<Batch>,
    tries: Tries<D>,
    /// What waits on disk, with a spool.
    backlog: Option<Backlog>,
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
    batch_rows: Histogram,
    encoded_bytes: Counter,
    quarantine_inserts: Counter,
    quarantine_exhausted: Counter,
}

impl<D: Destination> Delivery<D> {
    /// Delivery of `batches` by `tries`, until there are no more or nobody waits for it any more.
    #[must_use]
    pub fn new(
        batches: Receiver<Batch>,
        tries: Tries<D>,
        config: &ClickHouseConfig,
        backlog: Option<Backlog>,
        ledger: Arc<Ledger>,
        metrics: &Metrics,
    ) -> Self {
        ledger.recover(backlog.as_ref().map_or(0, Backlog::rows));
        Self {
            batches,
            backlog,
            tries,
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
        if self.backlog.is_none() && !self.tries.prepare()? {
            return Ok(());
        }
        loop {
            let wait = self.backlog.as_ref().map_or(IDLE, |backlog| backlog.wait(Instant::now()));
            match self.batches.recv_timeout(wait) {
                Ok(batch) => {
                    self.metrics.batch_rows.record(as_f64(batch.rows));
                    self.metrics.encoded_bytes.increment(batch.bytes.len() as u64);
                    self.deliver(&batch)?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            self.drain()?;
        }
    }

    fn deliver(&mut self, batch: &Batch) -> Result<(), Fatal> {
        let start = Instant::now();
        match self.send(batch)? {
            Outcome::Stored => {
                self.ledger.store(batch.rows);
                debug!(rows = batch.rows, bytes = batch.bytes.len(), elapsed = ?start.elapsed(),
                    "Batch stored.");
                Ok(())
            }
            // The ledger counts the rows.
            Outcome::Abandoned | Outcome::Spooled => Ok(()),
            Outcome::Refused(refusal) => self.refuse(batch, &refusal),
        }
    }

    /// Sends a batch until its outcome is known; with a spool what cannot be delivered now goes there.
    fn send(&mut self, batch: &Batch) -> Result<Outcome, Fatal> {
        let Some(backlog) = &mut self.backlog else { return self.tries.send(batch) };
        let mut why = Why::Outage;
        if !self.tries.is_abandoned() && !backlog.is_down(Instant::now()) {
            let refusal = match self.tries.try_once(batch, &mut Progress::default())? {
                Tried::Stored => {
                    backlog.note_up();
                    return Ok(Outcome::Stored);
                }
                Tried::Refused(refusal) if refusal.class != Class::Configuration => {
                    return Ok(Outcome::Refused(refusal));
                }
                Tried::Refused(refusal) | Tried::NotNow(refusal) => refusal,
            };
            why = why_of(&refusal);
            backlog.note_down(&refusal, Instant::now());
        }
        if self.tries.is_abandoned() {
            why = Why::Shutdown;
        }
        if backlog.keep(batch, why) {
            self.ledger.spool(batch.rows);
        } else {
            self.ledger.drop_rows(batch.rows, RowDropReason::SpoolFull);
        }
        Ok(Outcome::Spooled)
    }

    /// Tries the oldest spooled batch, if it is time.
    fn drain(&mut self) -> Result<(), Fatal> {
        if self.tries.is_abandoned() {
            return Ok(());
        }
        let next = self.backlog.as_mut().and_then(|backlog| backlog.next(Instant::now()));
        self.note_damage();
        let Some((SpooledBatch { id, entry }, mut progress)) = next else { return Ok(()) };
        let batch = Batch::of(entry);
        let tried = self.tries.try_once(&batch, &mut progress)?;
        let Some(backlog) = &mut self.backlog else { return Ok(()) };
        match tried {
            Tried::Stored => {
                backlog.note_up();
                self.ledger.unspool(batch.rows);
                match batch.target {
                    Target::Flows => self.ledger.store(batch.rows),
                    Target::DeadLetters => self.ledger.keep(batch.rows),
                }
            }
            Tried::Refused(refusal) if refusal.class != Class::Configuration => {
                self.ledger.unspool(batch.rows);
                self.refuse(&batch, &refusal)?;
            }
            Tried::Refused(refusal) | Tried::NotNow(refusal) => {
                backlog.postpone(id, progress, &refusal, Instant::now());
                return Ok(());
            }
        }
        // Not before: a batch whose outcome is not on disk elsewhere must outlive the process here.
        if let Some(backlog) = &mut self.backlog {
            backlog.done(id);
        }
        Ok(())
    }

    /// Rows that the spool has set aside, since their file is damaged, are lost.
    fn note_damage(&self) {
        let Some(backlog) = &self.backlog else { return };
        let spooled = usize::try_from(self.ledger.books().spooled).unwrap_or(usize::MAX);
        let damaged = spooled.saturating_sub(backlog.rows());
        self.ledger.unspool(damaged);
        self.ledger.drop_rows(damaged, RowDropReason::SpoolFull);
    }

    /// Sees to the rows of a batch that ClickHouse will not take.
    fn refuse(&mut self, batch: &Batch, refusal: &Refusal) -> Result<(), Fatal> {
        self.metrics.failed_rows.increment(batch.rows as u64);
        if refusal.class == Class::BrokenView {
            // The table has the batch already: as dead letters its rows would count twice when replayed.
            self.lose(batch, batch.rows, refusal, RowDropReason::ViewFailed);
            return Ok(());
        }
        let block = match batch.target {
            Target::Flows => Block::decode(&batch.bytes),
            // There are no letters about letters.
            Target::DeadLetters => Err(Damaged),
        };
        let Ok(block) = block else {
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
            match self.send(&piece)? {
                Outcome::Stored => {
                    self.ledger.store(piece.rows);
                    search.accept(&part);
                }
                Outcome::Refused(own) if own.class == Class::Data && part.rows.len() > 1 => {
                    search.refuse(&part);
                }
                Outcome::Refused(own) => self.keep(batch, block, part.rows, &own)?,
                Outcome::Spooled => {}
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
            let letters = letters(batch, block, start..end, refusal, unix_ms(), self.method);
            match self.send(&letters)? {
                Outcome::Stored => self.ledger.keep(letters.rows),
                Outcome::Refused(own) => {
                    self.lose(batch, letters.rows, &own, RowDropReason::DeadLetterFailed);
                }
                Outcome::Spooled => {}
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
}

fn why_of(refusal: &Refusal) -> Why {
    match refusal.failure.code() {
        (0, _) => Why::Outage,
        (code, _) => Why::Refused { code },
    }
}

impl DeliveryMetrics {
    fn new(metrics: &Metrics) -> Self {
        Self {
            failed_rows: metrics.counter(MetricName::BatchFailedRows, &[]),
            batch_rows: metrics.histogram(MetricName::BatchRows, &[]),
            encoded_bytes: metrics.counter(MetricName::BatchEncodedBytes, &[]),
            quarantine_inserts: metrics.counter(MetricName::QuarantineInserts, &[]),
            quarantine_exhausted: metrics.counter(MetricName::QuarantineExhausted, &[]),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a batch has far less than 2^53 rows")]
fn as_f64(rows: usize) -> f64 {
    rows as f64
}
