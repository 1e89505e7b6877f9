//! Batches that wait in the spool, and when to try them.
//!
//! When a batch cannot be delivered now, the ones behind it go to the disk without being tried, for a while. Then
//! live batches are delivered at once again, and spooled ones beside them, at a bounded rate, the oldest first.
//! One that fails is passed over for a while that grows, so that it stops no other.
//!
//! Delivery and the flusher share it: what has no room in memory goes to the disk while delivery waits for an answer.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::error;

use crate::clickhouse::Class;
use crate::config::{RetryConfig, SpoolConfig};
use crate::spool::{AppendError, BatchId, Entry, Header, Pace, Spool, SpooledBatch, Why};
use crate::telemetry::{RateLimit, unix_ms};

use super::destination::{Batch, Target};
use super::ledger::{Ledger, RowDropReason};
use super::retry;
use super::tries::{LOG_INTERVAL, Progress, Refusal};

/// What waits for an operator is tried again after this: a mend should show within a minute, and nothing is
/// gained by asking more often. Nothing else waits longer.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// How far the pause of a batch that fails again and again grows: so long others are not held up by it, and it is
/// not much later than they when the trouble has passed.
const GROWTH_MAX: u32 = 10;

/// Longest sleep without batches.
pub(super) const IDLE: Duration = Duration::from_secs(60);

/// Batches whose searches for refused rows are counted at a time.
const SEARCHES_MAX: usize = 10_000;

/// What waits, and until when.
#[derive(Debug)]
pub struct Backlog {
    state: Mutex<State>,
    ledger: Arc<Ledger>,
}

#[derive(Debug)]
struct State {
    spool: Spool,
    pace: Pace,
    retry: RetryConfig,
    /// Nothing for the table is tried before this.
    down_until: BTreeMap<Target, Instant>,
    /// Of spooled batches that were tried.
    tried: BTreeMap<BatchId, Tried>,
    /// Inserts that the searches for refused rows have taken, by the batch that was refused first.
    searches: HashMap<String, usize>,
    full_log: RateLimit,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    progress: Progress,
    times: u32,
}

/// A batch of the spool that is to be tried.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) id: BatchId,
    pub(super) batch: Batch,
    pub(super) progress: Progress,
}

impl Backlog {
    /// The backlog in a spool. What was found there is in the books from now on.
    #[must_use]
    pub fn new(
        mut spool: Spool,
        config: &SpoolConfig,
        retry: &RetryConfig,
        ledger: Arc<Ledger>,
    ) -> Self {
        let damaged = spool.take_damaged_rows();
        ledger.recover(spool.rows() + damaged);
        lose_damaged(&ledger, damaged);
        let state = State {
            spool,
            pace: Pace::new(config.drain_rate_rows),
            retry: retry.clone(),
            down_until: BTreeMap::new(),
            tried: BTreeMap::new(),
            searches: HashMap::new(),
            full_log: RateLimit::new(LOG_INTERVAL),
        };
        Self { state: Mutex::new(state), ledger }
    }

    /// Whether a batch for a table is not worth a try now.
    pub(super) fn is_down(&self, target: Target, now: Instant) -> bool {
        self.lock().opens_at(target, now) > now
    }

    /// A batch for a table was stored.
    pub(super) fn note_up(&self, target: Target) {
        self.lock().down_until.remove(&target);
    }

    /// A live batch could not be delivered.
    pub(super) fn note_down(&self, target: Target, refusal: &Refusal, now: Instant) {
        self.lock().note_down(target, refusal, now);
    }

    /// Keeps rows that are on their way; without room they are lost, which is logged.
    pub(super) fn keep(&self, batch: &Batch, why: Why) {
        let mut state = self.lock();
        match state.spool.append(&entry(batch, why)) {
            Ok(_) => self.ledger.spool(batch.rows),
            Err(failure) => {
                self.ledger.drop_rows(batch.rows, RowDropReason::SpoolFull);
                state.log_full(batch.rows, &failure);
            }
        }
    }

    /// Keeps batches in the stead of one that waits, or of one that is on its way; `false` when they have no room.
    pub(super) fn keep_instead(&self, id: Option<BatchId>, batches: &[Batch], code: u32) -> bool {
        let entries: Vec<_> =
            batches.iter().map(|batch| entry(batch, Why::Refused { code })).collect();
        let rows = batches.iter().map(|batch| batch.rows).sum();
        let mut state = self.lock();
        let kept = match id {
            Some(id) => state.spool.replace(id, entries),
            None => state.spool.append_all(entries),
        };
        match (kept, id) {
            (Ok(()), None) => self.ledger.spool(rows),
            (Ok(()), Some(id)) => {
                state.tried.remove(&id);
            }
            (Err(failure), _) => {
                state.log_full(rows, &failure);
                return false;
            }
        }
        true
    }

    /// Counts inserts of a search; how many the search has taken now.
    pub(super) fn count_search(&self, token: &str, inserts: usize) -> usize {
        let mut state = self.lock();
        if state.searches.len() >= SEARCHES_MAX && !state.searches.contains_key(token) {
            state.searches.clear();
        }
        let count = state.searches.entry(token.to_owned()).or_default();
        *count += inserts;
        *count
    }

    /// How long until a spooled batch may be tried.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        let state = self.lock();
        let due = state.spool.next_at(now, |target| state.opens_at(Target::named(target), now));
        let due = due.map(|at| at.max(state.pace.next_at(now)));
        due.map_or(IDLE, |at| at.saturating_duration_since(now).min(IDLE))
    }

    /// The oldest batch, if one may be tried now.
    pub(super) fn next(&self, now: Instant) -> Option<Due> {
        let mut state = self.lock();
        if state.pace.next_at(now) > now {
            return None;
        }
        let State { spool, down_until, .. } = &mut *state;
        let is_open =
            |target: &str| down_until.get(&Target::named(target)).is_none_or(|&at| at <= now);
        let next = spool.next(now, is_open);
        lose_damaged(&self.ledger, spool.take_damaged_rows());
        let SpooledBatch { id, entry } = next?;
        state.pace.note(entry.header.rows, now);
        let progress = state.tried.get(&id).copied().unwrap_or_default().progress;
        Some(Due { id, batch: Batch::of(entry), progress })
    }

    /// A spooled batch could not be delivered: others have their turn first.
    pub(super) fn postpone(&self, due: &Due, refusal: &Refusal, now: Instant) {
        let mut state = self.lock();
        let delay = state.retry.delay;
        let tried = state.tried.entry(due.id).or_default();
        tried.progress = due.progress;
        let pause = match refusal.class {
            Class::Outage | Class::Retryable => {
                delay.saturating_mul((1 << tried.times.min(16)).min(GROWTH_MAX)).min(PAUSE_MAX)
            }
            _ => PAUSE_MAX,
        };
        tried.times += 1;
        state.spool.defer(due.id, now + retry::pause(pause, fastrand::f64()));
        state.note_down(due.batch.target, refusal, now);
    }

    /// A spooled batch has its outcome.
    pub(super) fn done(&self, id: BatchId) {
        let mut state = self.lock();
        state.tried.remove(&id);
        state.spool.remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// No answer is about the server, a refusal about the table, and what is in a batch about nothing else.
    fn note_down(&mut self, target: Target, refusal: &Refusal, now: Instant) {
        let pause = retry::pause(self.retry.delay, fastrand::f64());
        let (targets, until) = match refusal.class {
            Class::Outage => (&Target::ALL[..], now + pause),
            Class::Retryable => (&[target][..], now + pause),
            Class::Configuration => (&[target][..], now + PAUSE_MAX),
            Class::BrokenView | Class::Data | Class::Unknown => return,
        };
        self.down_until.extend(targets.iter().map(|&target| (target, until)));
    }

    fn opens_at(&self, target: Target, now: Instant) -> Instant {
        self.down_until.get(&target).map_or(now, |&until| until.max(now))
    }

    fn log_full(&mut self, rows: usize, failure: &AppendError) {
        if let Some(held_back) = self.full_log.pass(Instant::now()) {
            error!(rows, error = %failure, held_back, "Rows cannot be spooled.");
        }
    }
}

/// Rows of files that the spool has set aside.
fn lose_damaged(ledger: &Ledger, rows: usize) {
    ledger.unspool(rows);
    ledger.drop_rows(rows, RowDropReason::SpoolDamaged);
}

fn entry(batch: &Batch, why: Why) -> Entry {
    let header = Header {
        token: batch.token.clone(),
        target: batch.target.label().to_owned(),
        rows: batch.rows,
        first_row: batch.first_row,
        on_row_error: batch.on_row_error,
        why,
        created_ms: unix_ms(),
        replaces: None,
    };
    Entry { header, body: batch.bytes.clone() }
}

impl Batch {
    /// A batch as it was spooled.
    fn of(entry: Entry) -> Self {
        let Entry { header, body } = entry;
        Self {
            token: header.token,
            target: Target::named(&header.target),
            on_row_error: header.on_row_error,
            rows: header.rows,
            first_row: header.first_row,
            bytes: body,
        }
    }
}
