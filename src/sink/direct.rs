//! Without batching: one insert for each datagram, from the reader that has decoded it.
//!
//! The reader waits for the answer, each insert is tried once, and rows that are refused are lost and counted:
//! there is no queue, no spool and no dead letter. For trials, and for a few exporters whose rows must be
//! refused or stored at once.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::Sender;
use tracing::error;

use crate::clickhouse::{Method, encode_batch};
use crate::config::{ClickHouseConfig, OnRowError};
use crate::flow::Chunk;
use crate::telemetry::RateLimit;

use super::destination::{Batch, ClickHouse, Fatal, Target};
use super::ledger::{Ledger, RowDropReason};
use super::run_name;
use super::tries::{LOG_INTERVAL, Progress, Tried, Tries};

/// Inserts the rows of one reader.
#[derive(Debug)]
pub struct Direct {
    tries: Tries<ClickHouse>,
    method: Method,
    /// Names this reader in tokens.
    run: String,
    inserts: u64,
    ledger: Arc<Ledger>,
    fatal: Sender<Fatal>,
    lost_log: RateLimit,
}

impl Direct {
    /// Inserts by `tries`. A ClickHouse that cannot be used as configured is told to `fatal`.
    #[must_use]
    pub fn new(
        tries: Tries<ClickHouse>,
        config: &ClickHouseConfig,
        ledger: Arc<Ledger>,
        fatal: Sender<Fatal>,
    ) -> Self {
        Self {
            tries,
            method: Method::of(config.compress_requests),
            run: run_name(),
            inserts: 0,
            ledger,
            fatal,
            lost_log: RateLimit::new(LOG_INTERVAL),
        }
    }

    /// Makes ready, if ClickHouse answers now.
    pub fn prepare(&mut self) {
        if let Err(reason) = self.tries.try_prepare() {
            self.report(reason);
        }
    }

    /// Inserts rows of one datagram, and returns when they are stored or lost.
    pub fn insert(&mut self, chunk: &Chunk) {
        self.inserts += 1;
        let batch = Batch {
            token: format!("{}-{}", self.run, self.inserts),
            target: Target::Flows,
            on_row_error: OnRowError::Fail,
            rows: chunk.rows(),
            first_row: 0,
            bytes: encode_batch(std::slice::from_ref(chunk), self.method),
        };
        match self.tries.try_once(&batch, &mut Progress::default()) {
            Ok(Tried::Stored) => return self.ledger.store(batch.rows),
            Ok(Tried::NotNow(refusal) | Tried::Refused(refusal)) => {
                if let Some(held_back) = self.lost_log.pass(Instant::now()) {
                    error!(rows = batch.rows, error = %refusal.failure, held_back,
                        "Insert failed, its rows are lost: there is no batching.");
                }
            }
            Err(reason) => self.report(reason),
        }
        self.ledger.drop_rows(batch.rows, RowDropReason::DispatchError);
    }

    /// The first reason is enough; it ends the collector.
    fn report(&self, reason: Fatal) {
        drop(self.fatal.try_send(reason));
    }
}
