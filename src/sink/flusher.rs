//! The flusher: gathers chunks from the queue into batches, encodes them and hands them to delivery.

use std::time::Instant;

use crossbeam_channel::{RecvTimeoutError, Sender};

use crate::clickhouse::{Method, encode_batch};
use crate::config::ClickHouseConfig;
use crate::queue::ChunkReceiver;

use super::batcher::{Batcher, OpenBatch};
use super::destination::{Batch, Target};
use super::run_name;

/// Gathers, encodes and hands over. There is exactly one.
#[derive(Debug)]
pub struct Flusher {
    queue: ChunkReceiver,
    batcher: Batcher,
    method: Method,
    delivery: Sender<Batch>,
    /// Names this run of the collector in tokens.
    run: String,
    batches: u64,
}

impl Flusher {
    /// A flusher between `queue` and `delivery`. A hand-over waits until the batch before is done.
    #[must_use]
    pub fn new(config: &ClickHouseConfig, queue: ChunkReceiver, delivery: Sender<Batch>) -> Self {
        Self {
            queue,
            batcher: Batcher::new(&config.batch),
            method: Method::of(config.compress_requests),
            delivery,
            run: run_name(),
            batches: 0,
        }
    }

    /// Works until every reader is gone and everything was handed over, or delivery is gone.
    pub fn run(mut self) {
        let mut is_open = true;
        while is_open {
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
            bytes: encode_batch(&open.chunks, self.method),
        };
        drop(open);
        self.delivery.send(batch).is_ok()
    }
}
