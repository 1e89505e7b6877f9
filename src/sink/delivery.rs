//! Delivery: sends one batch at a time until its outcome is known.
//!
//! A refusal that may pass is tried again, a limited number of times; no answer at all is an outage,
//! during which the batch is held. Every try sends the same bytes with the same token.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use metrics::{Counter, Gauge, Histogram};
use tracing::{debug, error, info, warn};

use crate::clickhouse::{Class, ClickHouseError, Views};
use crate::config::{ErrorsConfig, RetryConfig};
use crate::telemetry::{MetricName, Metrics, RateLimit};

use super::destination::{Batch, DeliveryError, Destination, Fatal};
use super::ledger::{Ledger, RowDropReason};
use super::retry;

/// A failure that repeats is logged once in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Nobody waits for delivery any more. Never sent: the sender is dropped to give the signal.
pub type Abandoned = Receiver<std::convert::Infallible>;

/// Sends batches, one at a time.
#[derive(Debug)]
pub struct Delivery<D> {
    batches: Receiver<Batch>,
    destination: D,
    retry: RetryConfig,
    errors: ErrorsConfig,
    abandoned: Abandoned,
    ledger: Arc<Ledger>,
    metrics: DeliveryMetrics,
    down_log: RateLimit,
    lost_log: RateLimit,
    view_log: RateLimit,
    is_down: bool,
}

#[derive(Debug)]
struct DeliveryMetrics {
    failed_rows: Counter,
    stored_batches: Counter,
    batch_rows: Histogram,
    encoded_bytes: Counter,
    flush_seconds: Histogram,
    retries_refused: Counter,
    retries_no_answer: Counter,
    retries_broken_view: Counter,
    unclassified: Counter,
    last_success: Gauge,
}

/// What to do after a failed try.
enum Next {
    TryAgain(Views),
    /// At once, since the same insert would fail for the same reason.
    TryNow(Views),
    GiveUp,
}

impl<D: Destination> Delivery<D> {
    /// Delivery of `batches` to `destination`, until there are no more or `abandoned` says so.
    #[must_use]
    pub fn new(
        batches: Receiver<Batch>,
        destination: D,
        retry: &RetryConfig,
        errors: &ErrorsConfig,
        abandoned: Abandoned,
        ledger: Arc<Ledger>,
        metrics: &Metrics,
    ) -> Self {
        Self {
            batches,
            destination,
            retry: retry.clone(),
            errors: errors.clone(),
            abandoned,
            ledger,
            metrics: DeliveryMetrics::new(metrics),
            down_log: RateLimit::new(LOG_INTERVAL),
            lost_log: RateLimit::new(LOG_INTERVAL),
            view_log: RateLimit::new(LOG_INTERVAL),
            is_down: false,
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
        while let Err(failure) = self.destination.prepare() {
            match failure {
                DeliveryError::Fatal(reason) => return Err(reason),
                DeliveryError::Try(failure) => self.log_down(&failure),
            }
            if !self.pause() {
                return Ok(());
            }
        }
        self.log_up();
        while let Ok(batch) = self.batches.recv() {
            self.metrics.batch_rows.record(as_f64(batch.rows));
            self.metrics.encoded_bytes.increment(batch.bytes.len() as u64);
            self.deliver(&batch)?;
        }
        Ok(())
    }

    fn deliver(&mut self, batch: &Batch) -> Result<(), Fatal> {
        let mut refusals = 0;
        let mut views = Views::Required;
        loop {
            let start = Instant::now();
            let outcome = self.destination.deliver(batch, views);
            self.metrics.flush_seconds.record(start.elapsed());
            let failure = match outcome {
                Ok(()) => {
                    self.note_stored(batch, start.elapsed());
                    return Ok(());
                }
                Err(DeliveryError::Fatal(reason)) => return Err(reason),
                Err(DeliveryError::Try(failure)) => failure,
            };
            match self.judge(batch, &failure, views, &mut refusals) {
                Next::TryNow(next) => views = next,
                Next::TryAgain(next) if self.pause() => views = next,
                Next::TryAgain(_) => return Ok(()), // abandoned: the ledger counts the rows
                Next::GiveUp => {
                    self.give_up(batch, &failure);
                    return Ok(());
                }
            }
        }
    }

    fn judge(
        &mut self,
        batch: &Batch,
        failure: &ClickHouseError,
        views: Views,
        refusals: &mut u32,
    ) -> Next {
        match failure.class(&self.errors) {
            Class::Outage => {
                self.metrics.retries_no_answer.increment(1);
                self.log_down(failure);
                Next::TryAgain(views)
            }
            Class::Retryable => {
                *refusals += 1;
                if *refusals >= self.retry.max_attempts {
                    return Next::GiveUp;
                }
                self.metrics.retries_refused.increment(1);
                self.log_down(failure);
                Next::TryAgain(views)
            }
            Class::BrokenView if views == Views::Required => {
                self.metrics.retries_broken_view.increment(1);
                if let Some(held_back) = self.view_log.pass(Instant::now()) {
                    error!(rows = batch.rows, error = %failure, held_back,
                        "A materialized view fails, the batch is stored without it: repair the view.");
                }
                Next::TryNow(Views::Optional)
            }
            Class::Unknown => {
                let (code, name) = failure.code();
                self.metrics.unclassified.increment(1);
                warn!(
                    code,
                    name,
                    needs_classification = true,
                    "ClickHouse refused a batch with a code that is not classified: add it to \
                     clickhouse.errors.retryable or clickhouse.errors.permanent."
                );
                Next::GiveUp
            }
            Class::BrokenView | Class::Data | Class::Configuration => Next::GiveUp,
        }
    }

    fn give_up(&mut self, batch: &Batch, failure: &ClickHouseError) {
        self.metrics.failed_rows.increment(batch.rows as u64);
        self.ledger.drop_rows(batch.rows, RowDropReason::InsertFailed);
        if let Some(held_back) = self.lost_log.pass(Instant::now()) {
            error!(rows = batch.rows, token = batch.token, error = %failure, held_back,
                "Batch refused, its rows are lost.");
        }
    }

    fn note_stored(&mut self, batch: &Batch, elapsed: Duration) {
        self.ledger.store(batch.rows);
        self.metrics.stored_batches.increment(1);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.metrics.last_success.set(now.as_secs_f64());
        debug!(rows = batch.rows, bytes = batch.bytes.len(), ?elapsed, "Batch stored.");
        self.log_up();
    }

    /// Waits before the next try; `false` when nobody waits for the outcome any more.
    fn pause(&self) -> bool {
        let pause = retry::pause(self.retry.delay, fastrand::f64());
        matches!(self.abandoned.recv_timeout(pause), Err(RecvTimeoutError::Timeout))
    }

    fn log_down(&mut self, failure: &ClickHouseError) {
        self.is_down = true;
        if let Some(held_back) = self.down_log.pass(Instant::now()) {
            warn!(error = %failure, held_back,
                "ClickHouse does not take rows; they wait in the queue and are dropped when it is full. \
                 Check [clickhouse] endpoint and that the server runs and keeps up.");
        }
    }

    fn log_up(&mut self) {
        if std::mem::take(&mut self.is_down) {
            info!("ClickHouse takes rows again.");
        }
    }
}

impl DeliveryMetrics {
    fn new(metrics: &Metrics) -> Self {
        let retries = |reason| metrics.counter(MetricName::BatchRetries, &[reason]);
        Self {
            failed_rows: metrics.counter(MetricName::BatchFailedRows, &[]),
            stored_batches: metrics.counter(MetricName::BatchStored, &[]),
            batch_rows: metrics.histogram(MetricName::BatchRows, &[]),
            encoded_bytes: metrics.counter(MetricName::BatchEncodedBytes, &[]),
            flush_seconds: metrics.histogram(MetricName::BatchFlushSeconds, &[]),
            retries_refused: retries("refused"),
            retries_no_answer: retries("no_answer"),
            retries_broken_view: retries("broken_view"),
            unclassified: metrics.counter(MetricName::BatchUnclassifiedErrors, &[]),
            last_success: metrics.gauge(MetricName::BatchLastSuccess, &[]),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a batch has far less than 2^53 rows")]
fn as_f64(rows: usize) -> f64 {
    rows as f64
}
