//! What became of the attempts to follow the configuration.

use std::sync::{Mutex, MutexGuard, PoisonError};

use metrics::{Counter, Gauge};

use crate::enrich::FileState;
use crate::telemetry::{MetricName, Metrics, unix_ms};

/// What became of the last attempts to follow the configuration, for the status.
#[derive(Debug)]
pub struct Reloads {
    state: Mutex<ReloadState>,
    applied: Counter,
    refused: Counter,
    last_success: Gauge,
    needs_restart: Gauge,
}

/// The same, as it is shown.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ReloadState {
    /// When the configuration in use was read, milliseconds since 1970.
    pub applied_ms: i64,
    /// When the last one was refused, if that was after it.
    pub refused_ms: Option<i64>,
    /// Why.
    pub mistakes: Vec<String>,
    /// Keys whose values wait for a restart.
    pub needs_restart: Vec<&'static str>,
    /// The files of `[enrichment]`.
    pub files: Vec<FileState>,
}

impl Reloads {
    /// A configuration that was read just now.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        let counter = |outcome| metrics.counter(MetricName::Reloads, &[outcome]);
        let reloads = Self {
            state: Mutex::default(),
            applied: counter("applied"),
            refused: counter("refused"),
            last_success: metrics.gauge(MetricName::ReloadLastSuccess, &[]),
            needs_restart: metrics.gauge(MetricName::ReloadNeedsRestart, &[]),
        };
        reloads.note_in_use(Vec::new());
        reloads
    }

    /// What is shown now.
    #[must_use]
    pub fn state(&self) -> ReloadState {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, ReloadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another configuration is in use, but for some keys.
    pub fn note_applied(&self, needs_restart: Vec<&'static str>) {
        self.applied.increment(1);
        self.note_in_use(needs_restart);
    }

    fn note_in_use(&self, needs_restart: Vec<&'static str>) {
        let now_ms = unix_ms();
        #[expect(clippy::cast_precision_loss, reason = "seconds are far below 2^53")]
        self.last_success.set((now_ms / 1_000) as f64);
        #[expect(clippy::cast_precision_loss, reason = "there are some twenty keys")]
        self.needs_restart.set(needs_restart.len() as f64);
        let mut state = self.lock();
        let files = std::mem::take(&mut state.files);
        *state = ReloadState { applied_ms: now_ms, needs_restart, files, ..ReloadState::default() };
    }

    /// A configuration was not followed.
    pub fn note_refused(&self, mistakes: &str) {
        self.refused.increment(1);
        let mut state = self.lock();
        state.refused_ms = Some(unix_ms());
        state.mistakes = mistakes.lines().map(ToOwned::to_owned).collect();
    }

    /// What the files of the tables are now.
    pub fn show_files(&self, files: Vec<FileState>) {
        self.lock().files = files;
    }
}
