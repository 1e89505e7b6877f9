//! Delivery: the thread that brings each batch to its end: stored, kept as dead letters, or dropped. With a
//! spool a batch that cannot be delivered now waits there.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use tracing::debug;

use crate::config::ClickHouseConfig;
use crate::spool::Why;
use crate::telemetry::Metrics;

use super::backlog::{Backlog, Due, IDLE};
use super::destination::{Batch, Destination, Fatal, Target};
use super::ledger::Ledger;
use super::refusals::Refusals;
use super::tries::{Outcome, Progress, Refusal, Tried, Tries};

/// Delivers batches, one at a time.
#[derive(Debug)]
pub struct Delivery<D> {
    batches: Receiver<Batch>,
    pub(super) tries: Tries<D>,
    /// What waits on disk, with a spool.
    pub(super) backlog: Option<Arc<Backlog>>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) refusals: Refusals,
}

impl<D: Destination> Delivery<D> {
    /// Delivery of `batches` by `tries`, until there are no more or nobody waits for it any more.
    #[must_use]
    pub fn new(
        batches: Receiver<Batch>,
        tries: Tries<D>,
        config: &ClickHouseConfig,
        backlog: Option<Arc<Backlog>>,
        ledger: Arc<Ledger>,
        metrics: &Metrics,
    ) -> Self {
        let tries = if backlog.is_some() { tries.of_kept() } else { tries };
        Self { batches, tries, backlog, ledger, refusals: Refusals::new(config, metrics) }
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
        let is_ready = match &self.backlog {
            None => self.tries.prepare()?,
            // What waits for it has another place.
            Some(_) => self.tries.try_prepare().map(|_| true)?,
        };
        if !is_ready {
            return Ok(());
        }
        loop {
            let wait = self.backlog.as_ref().map_or(IDLE, |backlog| backlog.wait(Instant::now()));
            match self.batches.recv_timeout(wait) {
                Ok(batch) => self.deliver(&batch)?,
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
    pub(super) fn send(&mut self, batch: &Batch) -> Result<Outcome, Fatal> {
        let Some(backlog) = self.backlog.clone() else { return self.tries.send(batch) };
        let mut why = Why::Outage;
        if !self.tries.is_abandoned() && !backlog.is_down(batch.target, Instant::now()) {
            let refusal = match self.tries.try_once(batch, &mut Progress::default())? {
                Tried::Stored => {
                    backlog.note_up(batch.target);
                    return Ok(Outcome::Stored);
                }
                Tried::Refused(refusal) => return Ok(Outcome::Refused(refusal)),
                Tried::NotNow(refusal) => refusal,
            };
            why = why_of(&refusal);
            backlog.note_down(batch.target, &refusal, Instant::now());
        }
        if self.tries.is_abandoned() {
            why = Why::Shutdown;
        }
        backlog.keep(batch, why);
        Ok(Outcome::Spooled)
    }

    /// Tries the oldest spooled batch, if it is time.
    fn drain(&mut self) -> Result<(), Fatal> {
        let Some(backlog) = self.backlog.clone().filter(|_| !self.tries.is_abandoned()) else {
            return Ok(());
        };
        let Some(mut due) = backlog.next(Instant::now()) else { return Ok(()) };
        let tried = self.tries.try_once(&due.batch, &mut due.progress)?;
        if let Tried::NotNow(refusal) | Tried::Refused(refusal) = &tried
            && due.batch.target == Target::DeadLetters
            && refusal.is_first()
        {
            self.ledger.note_failed_letters(due.batch.rows);
        }
        match tried {
            Tried::Stored => {
                let Due { id, batch: Batch { target, rows, .. }, .. } = due;
                backlog.note_up(target);
                backlog.done(id);
                self.ledger.unspool(rows);
                match target {
                    Target::Flows => self.ledger.store(rows),
                    Target::DeadLetters => self.ledger.keep(rows),
                }
                Ok(())
            }
            Tried::NotNow(refusal) => {
                backlog.postpone(&due, &refusal, Instant::now());
                Ok(())
            }
            Tried::Refused(refusal) => {
                self.refuse_spooled(&backlog, &due, &refusal);
                Ok(())
            }
        }
    }
}

fn why_of(refusal: &Refusal) -> Why {
    match refusal.failure.code() {
        (0, _) => Why::Outage,
        (code, _) => Why::Refused { code },
    }
}
