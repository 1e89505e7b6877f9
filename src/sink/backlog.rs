//! Batches that wait in the spool, and when to try them.
//!
//! When one batch cannot be delivered now, the ones behind it go to the disk without being tried, until the
//! oldest one is taken. Then live batches are delivered at once, and spooled ones beside them, at a bounded rate.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tracing::error;

use crate::clickhouse::Class;
use crate::config::{RetryConfig, SpoolConfig};
use crate::spool::{AppendError, BatchId, Entry, Header, Pace, Spool, SpooledBatch, Why};
use crate::telemetry::{RateLimit, unix_ms};

use super::destination::{Batch, Target};
use super::retry;
use super::tries::{LOG_INTERVAL, Progress, Refusal};

/// An error that an operator must mend is tried again after this: a mend should show within a minute, and
/// nothing is gained by asking more often.
const MENDING_PAUSE: Duration = Duration::from_secs(60);

/// Longest sleep without batches.
pub(super) const IDLE: Duration = Duration::from_secs(60);

/// What waits, and until when.
#[derive(Debug)]
pub struct Backlog {
    spool: Spool,
    pace: Pace,
    retry: RetryConfig,
    /// Nothing is tried before this.
    down_until: Option<Instant>,
    /// Of spooled batches that were tried.
    progress: BTreeMap<BatchId, Progress>,
    full_log: RateLimit,
}

impl Backlog {
    /// The backlog in a spool.
    #[must_use]
    pub fn new(spool: Spool, config: &SpoolConfig, retry: &RetryConfig) -> Self {
        Self {
            spool,
            pace: Pace::new(config.drain_rate_rows),
            retry: retry.clone(),
            down_until: None,
            progress: BTreeMap::new(),
            full_log: RateLimit::new(LOG_INTERVAL),
        }
    }

    /// Rows that wait.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.spool.rows()
    }

    /// Whether a batch is not worth a try now.
    pub(super) fn is_down(&self, now: Instant) -> bool {
        self.down_until.is_some_and(|until| now < until)
    }

    /// A batch was stored.
    pub(super) fn note_up(&mut self) {
        self.down_until = None;
    }

    /// A batch could not be delivered.
    pub(super) fn note_down(&mut self, refusal: &Refusal, now: Instant) {
        let pause = match refusal.class {
            Class::Configuration => MENDING_PAUSE,
            _ => retry::pause(self.retry.delay, fastrand::f64()),
        };
        self.down_until = Some(now + pause);
    }

    /// Keeps a batch; `false` when there is no room, which is logged.
    pub(super) fn keep(&mut self, batch: &Batch, why: Why) -> bool {
        let header = Header {
            token: batch.token.clone(),
            target: batch.target.label().to_owned(),
            rows: batch.rows,
            on_row_error: batch.on_row_error,
            why,
            created_ms: unix_ms(),
        };
        match self.spool.append(&Entry { header, body: batch.bytes.clone() }) {
            Ok(_) => true,
            Err(failure) => {
                self.log_full(batch, &failure);
                false
            }
        }
    }

    fn log_full(&mut self, batch: &Batch, failure: &AppendError) {
        if let Some(held_back) = self.full_log.pass(Instant::now()) {
            error!(rows = batch.rows, error = %failure, held_back, "Rows are lost: they cannot be spooled.");
        }
    }

    /// How long until a spooled batch may be tried.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        let due = self.spool.next_at(now).map(|at| at.max(self.pace.next_at(now)));
        let at = due.map(|at| self.down_until.map_or(at, |until| at.max(until)));
        at.map_or(IDLE, |at| at.saturating_duration_since(now).min(IDLE))
    }

    /// The oldest batch, if it may be tried now, and what earlier tries have shown.
    pub(super) fn next(&mut self, now: Instant) -> Option<(SpooledBatch, Progress)> {
        if self.is_down(now) || self.pace.next_at(now) > now {
            return None;
        }
        let spooled = self.spool.next(now)?;
        self.pace.note(spooled.entry.header.rows, now);
        let progress = self.progress.get(&spooled.id).copied().unwrap_or_default();
        Some((spooled, progress))
    }

    /// A spooled batch could not be delivered.
    pub(super) fn postpone(
        &mut self,
        id: BatchId,
        progress: Progress,
        refusal: &Refusal,
        now: Instant,
    ) {
        self.progress.insert(id, progress);
        self.note_down(refusal, now);
    }

    /// A spooled batch has its outcome.
    pub(super) fn done(&mut self, id: BatchId) {
        self.progress.remove(&id);
        self.spool.remove(id);
    }
}

impl Target {
    const fn label(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::DeadLetters => "flows_dead_letter",
        }
    }
}

impl Batch {
    /// A batch as it was spooled.
    pub(super) fn of(entry: Entry) -> Self {
        let Entry { header, body } = entry;
        let is_letters = header.target == Target::DeadLetters.label();
        Self {
            token: header.token,
            target: if is_letters { Target::DeadLetters } else { Target::Flows },
            on_row_error: header.on_row_error,
            rows: header.rows,
            bytes: body,
        }
    }
}
