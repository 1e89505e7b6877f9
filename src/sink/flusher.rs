//! The flusher: gathers chunks from the queue into batches, encodes them and hands them to delivery.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, SendTimeoutError, Sender};
use metrics::{Counter, Histogram};

use crate::clickhouse::{Method, encode_batch};
use crate::config::ClickHouseConfig;
use crate::queue::ChunkReceiver;
use crate::spool::Why;
use crate::telemetry::{MetricName, Metrics};

use super::backlog::Backlog;
use super::batcher::{BatchLimits, Batcher, OpenBatch};
use super::destination::{Batch, Target};
use super::run_name;

/// How long delivery may be busy before the queue is looked at.
const HAND_OVER_PAUSE: Duration = Duration::from_millis(100);

/// Gathers, encodes and hands over. There is exactly one.
#[derive(Debug)]
pub struct Flusher {
    queue: ChunkReceiver,
    batcher: Batcher,
    method: Method,
    delivery: Sender<Batch>,
    /// Where batches go that delivery has no time for.
    backlog: Option<Arc<Backlog>>,
    limits: Arc<BatchLimits>,
    /// Names this run of the collector in tokens.
    run: String,
    batches: u64,
    batch_rows: Histogram,
    encoded_bytes: Counter,
}

impl Flusher {
    /// A flusher between `queue` and `delivery`. A hand-over waits until the batch before is done; with a backlog
    /// only until half the queue is full.
    #[must_use]
    pub fn new(
        config: &ClickHouseConfig,
        limits: Arc<BatchLimits>,
        queue: ChunkReceiver,
        delivery: Sender<Batch>,
        backlog: Option<Arc<Backlog>>,
        metrics: &Metrics,
    ) -> Self {
        Self {
            queue,
            batcher: Batcher::new(&limits),
            method: Method::of(config.compress_requests),
            delivery,
            backlog,
            limits,
            run: run_name(),
            batches: 0,
            batch_rows: metrics.histogram(MetricName::BatchRows, &[]),
            encoded_bytes: metrics.counter(MetricName::BatchEncodedBytes, &[]),
        }
    }

    /// Works until every reader is gone and everything was handed over, or delivery is gone.
    pub fn run(mut self) {
        let mut is_open = true;
        while is_open {
            self.batcher.obey(&self.limits);
            let complete = match self.queue.pop(self.batcher.time_left(Instant::now())) {
                Ok(handover) => self.batcher.add(handover, Instant::now()),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    is_open = false;
                    None
                }
            };
            let more_rows_wait = !self.queue.is_empty();
            let due = std::iter::from_fn(|| self.batcher.take_due(Instant::now(), more_rows_wait));
            let complete: Vec<_> = complete.into_iter().chain(due).collect();
            if complete.into_iter().any(|batch| !self.hand_over(batch)) {
                return;
            }
        }
        while let Some(batch) = self.batcher.take_any() {
            if !self.hand_over(batch) {
                return;
            }
        }
    }

    /// Encodes a batch and waits until delivery takes it; `false` when there is no delivery any more.
    fn hand_over(&mut self, open: OpenBatch) -> bool {
        self.batches += 1;
        let batch = Batch {
            token: format!("{}-{}", self.run, self.batches),
            target: Target::Flows,
            on_row_error: open.on_row_error,
            rows: open.rows(),
            first_row: 0,
            bytes: encode_batch(&open.chunks, self.method),
        };
        drop(open);
        self.batch_rows.record(as_f64(batch.rows));
        self.encoded_bytes.increment(batch.bytes.len() as u64);
        self.send(batch)
    }

    /// Waits until delivery takes a batch, unless there is another place and no time.
    fn send(&self, mut batch: Batch) -> bool {
        loop {
            let depth = self.queue.depth();
            let is_pressing = self.backlog.is_some() && depth.rows() > depth.capacity_rows() / 2;
            let pause = if is_pressing { Duration::ZERO } else { HAND_OVER_PAUSE };
            batch = match self.delivery.send_timeout(batch, pause) {
                Ok(()) => return true,
                Err(SendTimeoutError::Disconnected(_)) => return false,
                Err(SendTimeoutError::Timeout(batch)) => batch,
            };
            if let Some(backlog) = self.backlog.as_ref().filter(|_| is_pressing) {
                backlog.keep(&batch, Why::Outage);
                return true;
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a batch has far less than 2^53 rows")]
fn as_f64(rows: usize) -> f64 {
    rows as f64
}
