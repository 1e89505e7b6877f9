//! Batches that ClickHouse will not take: all their rows become dead letters, or those that it refuses one by one.
//!
//! With a spool the parts and letters go there in the stead of the batch, all at once, before any of them is sent: so
//! a crash in the middle sends nothing twice. Without one a crash loses what was in memory anyway.

use std::ops::Range;
use std::time::Instant;

use metrics::Counter;
use tracing::{error, warn};

use crate::clickhouse::{Block, Class, Method};
use crate::config::{ClickHouseConfig, OnRowError};
use crate::telemetry::{MetricName, Metrics, RateLimit, unix_ms};

use super::backlog::{Backlog, Due};
use super::dead_letters::{LETTERS_PER_INSERT, letters};
use super::delivery::Delivery;
use super::destination::{Batch, Destination, Fatal, Target};
use super::ledger::RowDropReason;
use super::quarantine::Search;
use super::tries::{LOG_INTERVAL, Outcome, Refusal};

/// What is counted and logged of refusals, and how far a search goes.
#[derive(Debug)]
pub(super) struct Refusals {
    method: Method,
    inserts_max: usize,
    failed_rows: Counter,
    inserts: Counter,
    exhausted: Counter,
    refused_log: RateLimit,
    lost_log: RateLimit,
}

impl Refusals {
    pub(super) fn new(config: &ClickHouseConfig, metrics: &Metrics) -> Self {
        Self {
            method: Method::of(config.compress_requests),
            inserts_max: config.quarantine_inserts_max,
            failed_rows: metrics.counter(MetricName::BatchFailedRows, &[]),
            inserts: metrics.counter(MetricName::QuarantineInserts, &[]),
            exhausted: metrics.counter(MetricName::QuarantineExhausted, &[]),
            refused_log: RateLimit::new(LOG_INTERVAL),
            lost_log: RateLimit::new(LOG_INTERVAL),
        }
    }

    /// A batch was refused; parts of one are not counted again.
    fn note(&mut self, batch: &Batch, refusal: &Refusal) {
        if batch.root() != batch.token {
            return;
        }
        self.failed_rows.increment(batch.rows as u64);
        if let Some(held_back) = self.refused_log.pass(Instant::now()) {
            let then = if is_searched(batch, refusal) {
                "its refused rows are looked for"
            } else {
                "its rows become dead letters"
            };
            warn!(rows = batch.rows, token = batch.token, error = %refusal.failure, held_back,
                "Batch refused, {then}.");
        }
    }

    /// What comes in the stead of a refused batch: its halves, or letters.
    fn instead(
        &mut self,
        backlog: &Backlog,
        batch: &Batch,
        block: &Block,
        refusal: &Refusal,
    ) -> Vec<Batch> {
        if is_searched(batch, refusal) {
            let inserts = backlog.count_search(batch.root(), 2);
            if inserts <= self.inserts_max {
                self.inserts.increment(2);
                let half = batch.rows / 2;
                let halves = [("0", 0..half), ("1", half..batch.rows)];
                return halves
                    .map(|(way, rows)| batch.part(block, rows, way, self.method))
                    .to_vec();
            }
            if inserts <= self.inserts_max + 2 {
                self.exhausted.increment(1);
            }
        }
        self.letters(batch, block, 0..batch.rows, refusal)
    }

    /// Some rows of a batch as dead letters.
    fn letters(
        &self,
        batch: &Batch,
        block: &Block,
        rows: Range<usize>,
        refusal: &Refusal,
    ) -> Vec<Batch> {
        let starts = rows.clone().step_by(LETTERS_PER_INSERT);
        let insert = |start| {
            let end = rows.end.min(start + LETTERS_PER_INSERT);
            letters(batch, block, start..end, refusal, unix_ms(), self.method)
        };
        starts.map(insert).collect()
    }
}

/// Whether some of its rows may be taken.
fn is_searched(batch: &Batch, refusal: &Refusal) -> bool {
    refusal.class == Class::Data && batch.on_row_error == OnRowError::Quarantine && batch.rows > 1
}

impl<D: Destination> Delivery<D> {
    /// Sees to the rows of a batch that ClickHouse will not take.
    pub(super) fn refuse(&mut self, batch: &Batch, refusal: &Refusal) -> Result<(), Fatal> {
        self.refusals.note(batch, refusal);
        let block = match readable(batch, refusal) {
            Ok(block) => block,
            Err(reason) => {
                self.lose(batch, batch.rows, refusal, reason);
                return Ok(());
            }
        };
        if let Some(backlog) = self.backlog.clone() {
            let instead = self.refusals.instead(&backlog, batch, &block, refusal);
            if backlog.keep_instead(None, &instead, refusal.failure.code().0) {
                return Ok(());
            }
        }
        if is_searched(batch, refusal) {
            self.search(batch, &block, refusal)
        } else {
            self.keep_letters(batch, &block, 0..batch.rows, refusal)
        }
    }

    /// The same for a batch of the spool, where it stays as long as nothing can come in its stead.
    pub(super) fn refuse_spooled(&mut self, backlog: &Backlog, due: &Due, refusal: &Refusal) {
        let batch = &due.batch;
        if batch.target == Target::DeadLetters {
            backlog.postpone(due, refusal, Instant::now());
            return;
        }
        self.refusals.note(batch, refusal);
        match readable(batch, refusal) {
            Ok(block) => {
                let instead = self.refusals.instead(backlog, batch, &block, refusal);
                if !backlog.keep_instead(Some(due.id), &instead, refusal.failure.code().0) {
                    backlog.postpone(due, refusal, Instant::now());
                }
            }
            Err(reason) => {
                backlog.done(due.id);
                self.ledger.unspool(batch.rows);
                self.lose(batch, batch.rows, refusal, reason);
            }
        }
    }

    /// Stores the rows that ClickHouse takes, and keeps the others as dead letters.
    fn search(&mut self, batch: &Batch, block: &Block, refusal: &Refusal) -> Result<(), Fatal> {
        let mut search = Search::new(batch.rows, self.refusals.inserts_max);
        while let Some(part) = search.next() {
            let piece = batch.part(block, part.rows.clone(), &part.path, self.refusals.method);
            self.refusals.inserts.increment(1);
            match self.send(&piece)? {
                Outcome::Stored => {
                    self.ledger.store(piece.rows);
                    search.accept(&part);
                }
                Outcome::Refused(own) if own.class == Class::Data && part.rows.len() > 1 => {
                    search.refuse(&part);
                }
                Outcome::Refused(own) => self.keep_letters(batch, block, part.rows, &own)?,
                Outcome::Spooled => {}
                Outcome::Abandoned => return Ok(()),
            }
        }
        let left = search.left();
        if !left.is_empty() {
            self.refusals.exhausted.increment(1);
        }
        left.into_iter().try_for_each(|rows| self.keep_letters(batch, block, rows, refusal))
    }

    /// Keeps rows as dead letters.
    fn keep_letters(
        &mut self,
        batch: &Batch,
        block: &Block,
        rows: Range<usize>,
        refusal: &Refusal,
    ) -> Result<(), Fatal> {
        for letters in self.refusals.letters(batch, block, rows, refusal) {
            match self.send(&letters)? {
                Outcome::Stored => self.ledger.keep(letters.rows),
                Outcome::Refused(own) => {
                    self.ledger.note_failed_letters(letters.rows);
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
        if let Some(held_back) = self.refusals.lost_log.pass(Instant::now()) {
            error!(rows, token = batch.token, error = %refusal.failure, reason = reason.label(),
                held_back, "Rows are lost.");
        }
    }
}

/// The rows of a batch that may be kept; else why they are lost.
fn readable(batch: &Batch, refusal: &Refusal) -> Result<Block, RowDropReason> {
    if refusal.class == Class::BrokenView {
        // The table has the batch already: as dead letters its rows would count twice when replayed.
        return Err(RowDropReason::ViewFailed);
    }
    Block::decode(&batch.bytes).map_err(|_| RowDropReason::DeadLetterFailed)
}
