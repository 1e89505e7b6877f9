//! Templates kept over a restart: one file, read before the readers start and written by a thread of its
//! own, so that no reader waits for a disk. What is in it is the business of `decode/state.rs`.
//!
//! Nothing here ends the collector: without the file, data waits for its templates as at a first start.

mod file;

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use metrics::{Counter, Gauge};
use tracing::{info, warn};

use crate::decode::{Exporters, STATE_BYTES_MAX};
use crate::telemetry::{MetricName, Metrics, unix_ms};

pub use file::KeptFile;

/// The file in the directory.
const FILE_NAME: &str = "templates";

/// How often it is looked whether something is to be written.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A change is written after a second, so that little is lost with the process; changes that go on and on
/// are gathered for up to a minute, so that an exporter that redefines a template all the time does not
/// wear a disk out.
const CHANGES_PAUSE: (Duration, Duration) = (POLL_INTERVAL, Duration::from_secs(60));

/// Without changes it is written this often, since it also says when templates and rates were last seen:
/// a sixth of the hour that a sampling rate counts without refresh.
const SEEN_INTERVAL: Duration = Duration::from_secs(600);

/// Where the templates are kept.
#[derive(Clone, Debug)]
pub struct StateDirectory(KeptFile);

/// Writes the templates until it is told to stop.
#[derive(Debug)]
pub struct StateWriter {
    stop: Option<Sender<Infallible>>,
    thread: JoinHandle<()>,
}

impl StateDirectory {
    /// The directory at `path`; it need not exist.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self(KeptFile::new(path, FILE_NAME))
    }

    /// Gives `exporters` the templates that an earlier run wrote, and says how many. A file that cannot be
    /// used is set aside.
    pub fn restore(&self, exporters: &Exporters) {
        let restored = match self.0.read(STATE_BYTES_MAX) {
            Ok(bytes) => exporters.restore(&bytes, unix_ms()).map_err(|error| error.to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                info!(directory = %self.0.directory().display(), "No templates were kept, data waits for its own.");
                return;
            }
            Err(error) => Err(error.to_string()),
        };
        match restored {
            Ok(restored) => info!(
                templates = restored.templates,
                exporters = restored.exporters,
                too_old = restored.expired,
                over_limit = restored.refused,
                "Templates restored."
            ),
            Err(error) => self.set_aside(&error),
        }
    }

    fn set_aside(&self, error: &str) {
        let file = self.0.path();
        match self.0.set_aside() {
            Ok(damaged) => warn!(
                file = %file.display(),
                error,
                set_aside = %damaged.display(),
                "Kept templates cannot be used, data waits for new ones."
            ),
            Err(rename_error) => warn!(
                file = %file.display(),
                error,
                %rename_error,
                "Kept templates can neither be used nor set aside, data waits for new ones."
            ),
        }
    }
}

impl StateWriter {
    /// Starts the thread. It writes at once, so that a directory that cannot be used is said at the start.
    ///
    /// # Errors
    ///
    /// The system gives no thread.
    pub fn start(
        directory: StateDirectory,
        exporters: Arc<Exporters>,
        metrics: &Metrics,
    ) -> io::Result<Self> {
        let (stop, stopped) = crossbeam_channel::bounded(0);
        let work = Work { directory, exporters, metrics: StateMetrics::new(metrics), failures: 0 };
        let thread = std::thread::Builder::new()
            .name("state".to_owned())
            .spawn(move || work.run(&stopped))?;
        Ok(Self { stop: Some(stop), thread })
    }

    /// Has it write a last time and end.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

/// What the thread owns.
struct Work {
    directory: StateDirectory,
    exporters: Arc<Exporters>,
    metrics: StateMetrics,
    /// In a row.
    failures: u64,
}

impl Work {
    fn run(mut self, stop: &Receiver<Infallible>) {
        let mut schedule = Schedule::new();
        loop {
            let changes = self.exporters.changes();
            if schedule.is_due(Instant::now(), changes) {
                let is_written = self.write();
                schedule.note_write(Instant::now(), is_written.then_some(changes));
            }
            match stop.recv_timeout(POLL_INTERVAL) {
                Ok(never) => match never {},
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.write();
    }

    fn write(&mut self) -> bool {
        let snapshot = self.exporters.snapshot(unix_ms());
        let exporters_left_out = snapshot.exporters_left_out;
        if exporters_left_out > 0 {
            warn!(exporters_left_out, "There are more templates than can be kept over a restart.");
        }
        let directory = self.directory.0.directory().display();
        match self.directory.0.replace(&snapshot.bytes) {
            Ok(()) => {
                if self.failures > 0 {
                    info!(%directory, failures = self.failures, "Templates are written again.");
                }
                self.failures = 0;
                self.metrics.note_success(snapshot.templates);
                true
            }
            Err(error) => {
                self.metrics.failures.increment(1);
                if self.failures == 0 {
                    warn!(
                        %directory,
                        %error,
                        "Templates cannot be written and would be lost at a restart; trying on. See state.directory."
                    );
                }
                self.failures += 1;
                false
            }
        }
    }
}

/// When to write.
#[derive(Debug)]
struct Schedule {
    /// None was tried yet, or the last one failed.
    written_changes: Option<u64>,
    tried: Option<Instant>,
    /// Between a write and the next for changes.
    pause: Duration,
}

impl Schedule {
    fn new() -> Self {
        Self { written_changes: None, tried: None, pause: CHANGES_PAUSE.0 }
    }

    fn is_due(&mut self, now: Instant, changes: u64) -> bool {
        let Some(tried) = self.tried else {
            return true;
        };
        let since = now - tried;
        if self.written_changes != Some(changes) {
            return since >= self.pause;
        }
        if since > CHANGES_PAUSE.1 {
            self.pause = CHANGES_PAUSE.0;
        }
        since >= SEEN_INTERVAL
    }

    /// Notes a write, with the count of changes that it has, or a failed one.
    fn note_write(&mut self, now: Instant, written_changes: Option<u64>) {
        if self.tried.is_some() {
            self.pause = CHANGES_PAUSE.1.min(self.pause * 2);
        }
        self.tried = Some(now);
        self.written_changes = written_changes;
    }
}

struct StateMetrics {
    failures: Counter,
    last_success: Gauge,
    templates: Gauge,
}

impl StateMetrics {
    fn new(metrics: &Metrics) -> Self {
        Self {
            failures: metrics.counter(MetricName::StateWriteFailures, &[]),
            last_success: metrics.gauge(MetricName::StateLastSuccess, &[]),
            templates: metrics.gauge(MetricName::StateTemplates, &[]),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "templates and seconds are far below 2^53")]
    fn note_success(&self, templates: usize) {
        self.last_success.set((unix_ms() / 1_000) as f64);
        self.templates.set(templates as f64);
    }
}

/// Shows the metrics of a collector that keeps nothing.
pub fn register_metrics(metrics: &Metrics) {
    drop(StateMetrics::new(metrics));
}

#[cfg(test)]
mod tests;
