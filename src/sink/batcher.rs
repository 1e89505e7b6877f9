//! When a batch is complete. Decides by rows and times that it is given; sends nothing.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::config::{BatchConfig, OnRowError};
use crate::flow::{Chunk, Column, DAY_MS};
use crate::queue::Handover;

/// Plain bytes of one batch. An insert of this size takes about 1 GiB of the server's memory; rows are
/// about 200 bytes, so `max-rows` ends a batch first unless it was raised above a million.
const BATCH_BYTES_MAX: usize = 256 << 20;

/// How many times `max-latency` a batch may wait while others fill.
const LATENESS_MAX: u32 = 10;

/// When batches are complete; may change while they are gathered.
#[derive(Debug)]
pub struct BatchLimits {
    max_rows: AtomicUsize,
    max_latency_ms: AtomicU64,
}

impl BatchLimits {
    /// Those of a configuration.
    #[must_use]
    pub fn new(config: &BatchConfig) -> Self {
        let limits = Self { max_rows: AtomicUsize::new(0), max_latency_ms: AtomicU64::new(0) };
        limits.set(config);
        limits
    }

    /// From now on those of another one.
    pub fn set(&self, config: &BatchConfig) {
        let latency_ms = u64::try_from(config.max_latency.as_millis()).unwrap_or(u64::MAX);
        self.max_rows.store(config.max_rows, Ordering::Relaxed);
        self.max_latency_ms.store(latency_ms, Ordering::Relaxed);
    }
}

/// Chunks of one day that will be sent together.
#[derive(Debug)]
pub(super) struct OpenBatch {
    day: i64,
    /// What becomes of its rows when ClickHouse refuses some.
    pub(super) on_row_error: OnRowError,
    since: Instant,
    rows: usize,
    bytes: usize,
    /// The rows.
    pub(super) chunks: Vec<Chunk>,
}

/// Gathers chunks into batches of one partition each.
#[derive(Debug)]
pub(super) struct Batcher {
    max_rows: usize,
    max_latency: Duration,
    open: Vec<OpenBatch>,
}

impl Batcher {
    /// A batcher with these limits.
    #[must_use]
    pub(super) fn new(limits: &BatchLimits) -> Self {
        let mut batcher = Self { max_rows: 0, max_latency: Duration::ZERO, open: Vec::new() };
        batcher.obey(limits);
        batcher
    }

    /// Takes over limits that may have changed.
    pub(super) fn obey(&mut self, limits: &BatchLimits) {
        self.max_rows = limits.max_rows.load(Ordering::Relaxed);
        self.max_latency = Duration::from_millis(limits.max_latency_ms.load(Ordering::Relaxed));
    }

    /// Adds a chunk. Returns the batch of the same day and policy that has no room for it, if there is one.
    pub(super) fn add(&mut self, handover: Handover, now: Instant) -> Option<OpenBatch> {
        let Handover { chunk, on_row_error } = handover;
        let day = i64::from_le_bytes(chunk.value(Column::Timestamp, 0)).div_euclid(DAY_MS);
        let (rows, bytes) = (chunk.rows(), chunk.bytes());
        let index = self
            .open
            .iter()
            .position(|batch| (batch.day, batch.on_row_error) == (day, on_row_error));
        let is_full = |batch: &OpenBatch| {
            batch.rows + rows > self.max_rows || batch.bytes + bytes > BATCH_BYTES_MAX
        };
        let full = match index {
            Some(index) if is_full(&self.open[index]) => Some(self.open.swap_remove(index)),
            Some(index) => {
                let batch = &mut self.open[index];
                batch.rows += rows;
                batch.bytes += bytes;
                batch.chunks.push(chunk);
                return None;
            }
            None => None,
        };
        let chunks = vec![chunk];
        self.open.push(OpenBatch { day, on_row_error, since: now, rows, bytes, chunks });
        full
    }

    /// Takes a batch that is full or whose first row has waited for `max-latency`. While rows wait to be
    /// added, waiting alone is no reason (small batches would cost the server most when it is slowest),
    /// but for the batch of a day that gets few of them.
    pub(super) fn take_due(&mut self, now: Instant, more_rows_wait: bool) -> Option<OpenBatch> {
        let factor = if more_rows_wait { LATENESS_MAX } else { 1 };
        let latency = self.max_latency.saturating_mul(factor);
        let is_due = |batch: &OpenBatch| {
            batch.rows >= self.max_rows || now.saturating_duration_since(batch.since) >= latency
        };
        self.open.iter().position(is_due).map(|index| self.open.swap_remove(index))
    }

    /// Takes any batch.
    pub(super) fn take_any(&mut self) -> Option<OpenBatch> {
        self.open.pop()
    }

    /// How long until a batch is due, at most `max-latency`.
    #[must_use]
    pub(super) fn time_left(&self, now: Instant) -> Duration {
        let waited = |batch: &OpenBatch| now.saturating_duration_since(batch.since);
        let longest = self.open.iter().map(waited).max().unwrap_or_default();
        self.max_latency.saturating_sub(longest)
    }
}

impl OpenBatch {
    /// Its rows.
    #[must_use]
    pub(super) fn rows(&self) -> usize {
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: Duration = Duration::from_secs(1);

    fn batcher(max_rows: usize) -> Batcher {
        Batcher { max_rows, max_latency: LATENCY, open: Vec::new() }
    }

    fn chunk(day: i64, rows: usize) -> Handover {
        let mut chunk = Chunk::default();
        chunk.fill(Column::Timestamp, rows, (day * DAY_MS + 5).to_le_bytes());
        chunk.finish(rows);
        Handover { chunk, on_row_error: OnRowError::Fail }
    }

    #[test]
    fn a_batch_never_has_more_than_max_rows() {
        let mut batcher = batcher(10);
        let now = Instant::now();
        assert!(batcher.add(chunk(0, 6), now).is_none());
        assert_eq!(batcher.add(chunk(0, 5), now).map(|batch| batch.rows()), Some(6));
        assert!(batcher.take_due(now, false).is_none());
        assert!(batcher.add(chunk(0, 5), now).is_none());
        assert_eq!(batcher.take_due(now, false).map(|batch| batch.rows()), Some(10));
    }

    #[test]
    fn days_are_kept_apart() {
        let mut batcher = batcher(10);
        let now = Instant::now();
        assert!(batcher.add(chunk(0, 6), now).is_none());
        assert!(batcher.add(chunk(-1, 6), now).is_none());
        assert_eq!(batcher.take_any().map(|batch| batch.day), Some(-1));
        assert_eq!(batcher.take_any().map(|batch| batch.day), Some(0));
    }

    #[test]
    fn rows_that_are_treated_in_another_way_are_kept_apart() {
        let mut batcher = batcher(10);
        let now = Instant::now();
        assert!(batcher.add(chunk(0, 6), now).is_none());
        let other = Handover { on_row_error: OnRowError::Quarantine, ..chunk(0, 3) };
        assert!(batcher.add(other, now).is_none());
        assert_eq!(batcher.take_any().map(|batch| batch.rows()), Some(3));
        assert_eq!(batcher.take_any().map(|batch| batch.rows()), Some(6));
    }

    #[test]
    fn a_batch_is_due_when_its_first_row_has_waited() {
        let mut batcher = batcher(10);
        let start = Instant::now();
        assert_eq!(batcher.time_left(start), LATENCY);
        assert!(batcher.add(chunk(0, 1), start).is_none());
        assert!(batcher.add(chunk(0, 1), start + LATENCY / 2).is_none());
        assert_eq!(batcher.time_left(start + LATENCY / 4), LATENCY * 3 / 4);
        assert!(batcher.take_due(start + LATENCY - Duration::from_millis(1), false).is_none());
        assert!(batcher.take_due(start + LATENCY, true).is_none(), "more rows wait");
        assert_eq!(batcher.take_due(start + LATENCY, false).map(|batch| batch.rows()), Some(2));
    }
}
