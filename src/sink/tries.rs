//! Sends one batch until its outcome is known.
//!
//! A refusal that may pass is tried again, a limited number of times; no answer at all is an outage, during
//! which the batch is held. Every try sends the same bytes with the same token.

use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::{Counter, Histogram};
use tracing::{error, info, warn};

use crate::clickhouse::{Class, ClickHouseError, Views};
use crate::config::{ClickHouseConfig, ErrorsConfig, RetryConfig};
use crate::patience::Patience;
use crate::telemetry::{MetricName, Metrics, RateLimit};

use super::alarms::{Alarms, Trouble};
use super::destination::{Batch, DeliveryError, Destination, Fatal, Target};
use super::retry;

/// A failure that repeats is logged once in this time.
pub(super) const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// What became of a batch.
#[derive(Debug)]
pub(super) enum Outcome {
    /// ClickHouse acknowledged it.
    Stored,
    /// ClickHouse will not take it.
    Refused(Refusal),
    /// Nobody waits for it any more.
    Abandoned,
    /// It cannot be delivered now, and was seen to.
    Spooled,
}

/// The end of one try.
#[derive(Debug)]
pub(super) enum Tried {
    Stored,
    /// The same bytes may be taken later.
    NotNow(Refusal),
    Refused(Refusal),
}

/// What the tries of a batch have shown so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Answers that refused it.
    pub(super) attempts: u32,
    pub(super) views: Views,
    /// A try had no answer, or ended in the middle: the table may have the rows.
    pub(super) may_be_stored: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Self { attempts: 0, views: Views::Required, may_be_stored: false }
    }
}

/// Why ClickHouse will not take a batch.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) failure: ClickHouseError,
    pub(super) class: Class,
    /// Answers that refused it.
    pub(super) attempts: u32,
    /// The table may have the rows all the same.
    pub(super) may_be_stored: bool,
}

impl Refusal {
    /// Whether ClickHouse has answered with an error for the first time.
    pub(super) fn is_first(&self) -> bool {
        self.class != Class::Outage && self.attempts == 1
    }
}

/// Sends batches to one destination.
#[derive(Debug)]
pub struct Tries<D> {
    destination: D,
    retry: RetryConfig,
    errors: ErrorsConfig,
    patience: Patience,
    alarms: Arc<Alarms>,
    metrics: TryMetrics,
    down_log: RateLimit,
    view_log: RateLimit,
    fatal_log: RateLimit,
    is_down: bool,
    /// What ClickHouse does not take is kept elsewhere: nothing that may pass, or be mended, is given up.
    is_kept: bool,
}

#[derive(Debug)]
struct TryMetrics {
    flush_seconds: Histogram,
    retries_refused: Counter,
    retries_no_answer: Counter,
    retries_broken_view: Counter,
    unclassified: Counter,
}

/// What to do after a failed try.
#[derive(Clone, Copy)]
enum Next {
    TryAgain(Class),
    /// At once and without failing views: the same insert would fail for the same reason.
    TryWithoutViews,
    GiveUp(Class),
}

impl<D: Destination> Tries<D> {
    /// Tries of batches to `destination`, as long as there is `patience`.
    #[must_use]
    pub fn new(
        destination: D,
        config: &ClickHouseConfig,
        patience: Patience,
        alarms: Arc<Alarms>,
        metrics: &Metrics,
    ) -> Self {
        Self {
            destination,
            retry: config.retry.clone(),
            errors: config.errors.clone(),
            patience,
            alarms,
            metrics: TryMetrics::new(metrics),
            down_log: RateLimit::new(LOG_INTERVAL),
            view_log: RateLimit::new(LOG_INTERVAL),
            fatal_log: RateLimit::new(LOG_INTERVAL),
            is_down: false,
            is_kept: false,
        }
    }

    /// The same for batches that are kept until they are taken.
    pub(super) fn of_kept(self) -> Self {
        Self { is_kept: true, ..self }
    }

    /// Makes the destination ready; `false` when nobody waits for that any more.
    pub(super) fn prepare(&mut self) -> Result<bool, Fatal> {
        while !self.try_prepare()? {
            if !self.pause() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Tries once to make the destination ready; whether it is.
    pub(super) fn try_prepare(&mut self) -> Result<bool, Fatal> {
        let failure = match self.destination.prepare() {
            Ok(()) => {
                self.log_up();
                return Ok(true);
            }
            Err(failure) => failure,
        };
        let (failure, class) = self.bear(failure)?;
        self.raise(Target::Flows, &failure, class);
        if class == Class::Outage {
            self.log_down(&failure);
        }
        Ok(false)
    }

    /// A failure with its class. What ends the collector does not when batches are kept: it is as well mended
    /// while it runs.
    fn bear(&mut self, failure: DeliveryError) -> Result<(ClickHouseError, Class), Fatal> {
        match failure {
            DeliveryError::Try(failure) => {
                let class = failure.class(&self.errors);
                Ok((failure, class))
            }
            DeliveryError::Fatal(reason) if self.is_kept => {
                if let Some(held_back) = self.fatal_log.pass(Instant::now()) {
                    error!(error = %reason, held_back, "ClickHouse cannot be used, rows are spooled.");
                }
                Ok((ClickHouseError::Unusable(reason.0), Class::Configuration))
            }
            DeliveryError::Fatal(reason) => Err(reason),
        }
    }

    /// Tries until the outcome is known.
    pub(super) fn send(&mut self, batch: &Batch) -> Result<Outcome, Fatal> {
        let mut progress = Progress::default();
        loop {
            match self.try_once(batch, &mut progress)? {
                Tried::Stored => return Ok(Outcome::Stored),
                Tried::Refused(refusal) => return Ok(Outcome::Refused(refusal)),
                Tried::NotNow(_) if !self.pause() => return Ok(Outcome::Abandoned),
                Tried::NotNow(_) => {}
            }
        }
    }

    /// Tries once, and once more without views that fail.
    pub(super) fn try_once(
        &mut self,
        batch: &Batch,
        progress: &mut Progress,
    ) -> Result<Tried, Fatal> {
        loop {
            let start = Instant::now();
            let outcome = self.destination.deliver(batch, progress.views);
            self.metrics.flush_seconds.record(start.elapsed());
            let failure = match outcome {
                Ok(()) => {
                    self.alarms.pass(batch.target, progress.views);
                    self.log_up();
                    return Ok(Tried::Stored);
                }
                Err(failure) => failure,
            };
            let (failure, class) = self.bear(failure)?;
            let next = self.judge(batch, &failure, class, progress);
            let met = match next {
                Next::TryAgain(class) | Next::GiveUp(class) => class,
                Next::TryWithoutViews => class,
            };
            self.raise(batch.target, &failure, met);
            let Progress { attempts, may_be_stored, .. } = *progress;
            let refusal = |class| Refusal { failure, class, attempts, may_be_stored };
            match next {
                Next::TryWithoutViews => progress.views = Views::Optional,
                Next::TryAgain(class) => return Ok(Tried::NotNow(refusal(class))),
                Next::GiveUp(class) => return Ok(Tried::Refused(refusal(class))),
            }
        }
    }

    /// Whether nobody waits for an outcome any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.patience.is_over()
    }

    /// What an operator should see beside the log.
    fn raise(&self, target: Target, failure: &ClickHouseError, class: Class) {
        let trouble = match class {
            Class::Outage => Trouble::NoAnswer,
            Class::Retryable => Trouble::Refusal(target),
            Class::Configuration => Trouble::Configuration(target),
            Class::BrokenView => {
                Trouble::BrokenView(failure.broken_view().unwrap_or_default().to_owned())
            }
            Class::Data | Class::Unknown => return,
        };
        self.alarms.raise(trouble, &failure.to_string());
    }

    fn judge(
        &mut self,
        batch: &Batch,
        failure: &ClickHouseError,
        class: Class,
        progress: &mut Progress,
    ) -> Next {
        if class != Class::Outage {
            progress.attempts += 1;
        }
        progress.may_be_stored |= failure.may_be_stored();
        let is_early = progress.attempts < self.retry.max_attempts;
        match class {
            Class::Outage => {
                self.metrics.retries_no_answer.increment(1);
                self.log_down(failure);
                Next::TryAgain(class)
            }
            Class::Retryable if is_early || self.is_kept => {
                self.metrics.retries_refused.increment(1);
                self.log_down(failure);
                if !is_early {
                    // A view may be what takes too long.
                    progress.views = Views::Optional;
                }
                Next::TryAgain(class)
            }
            Class::Retryable if progress.views == Views::Required => Next::TryWithoutViews,
            Class::BrokenView if progress.views == Views::Required => {
                // What may pass would cost the view its rows. Once a view has cost a batch all its tries, the
                // next ones do not wait for it.
                let may_pass = failure.class_of_code(&self.errors) == Class::Retryable;
                let view = failure.broken_view().unwrap_or_default();
                if may_pass && is_early && !self.alarms.is_broken(view) {
                    self.metrics.retries_refused.increment(1);
                    self.log_down(failure);
                    return Next::TryAgain(Class::Retryable);
                }
                self.metrics.retries_broken_view.increment(1);
                if let Some(held_back) = self.view_log.pass(Instant::now()) {
                    error!(rows = batch.rows, error = %failure, held_back,
                        "A materialized view fails, the batch is stored without it: repair the view.");
                }
                Next::TryWithoutViews
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
                Next::GiveUp(class)
            }
            Class::Configuration if self.is_kept => {
                self.log_down(failure);
                Next::TryAgain(class)
            }
            Class::Retryable | Class::BrokenView | Class::Data | Class::Configuration => {
                Next::GiveUp(class)
            }
        }
    }

    /// Waits before the next try; `false` when nobody waits for the outcome any more.
    fn pause(&self) -> bool {
        self.patience.sleep(retry::pause(self.retry.delay, fastrand::f64()))
    }

    fn log_down(&mut self, failure: &ClickHouseError) {
        self.is_down = true;
        // What is left then, the stop says.
        if matches!(failure, ClickHouseError::Abandoned) {
            return;
        }
        if let Some(held_back) = self.down_log.pass(Instant::now()) {
            warn!(error = %failure, held_back,
                "ClickHouse does not take rows: check [clickhouse] endpoint, and that the server runs and \
                 keeps up.");
        }
    }

    fn log_up(&mut self) {
        if std::mem::take(&mut self.is_down) {
            info!("ClickHouse takes rows again.");
        }
    }
}

impl TryMetrics {
    fn new(metrics: &Metrics) -> Self {
        let retries = |reason| metrics.counter(MetricName::BatchRetries, &[reason]);
        Self {
            flush_seconds: metrics.histogram(MetricName::BatchFlushSeconds, &[]),
            retries_refused: retries("refused"),
            retries_no_answer: retries("no_answer"),
            retries_broken_view: retries("broken_view"),
            unclassified: metrics.counter(MetricName::BatchUnclassifiedErrors, &[]),
        }
    }
}
