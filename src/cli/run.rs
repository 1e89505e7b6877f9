//! `tidegate run`: the collector.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use crate::app::App;
use crate::config::Config;
use crate::sink::Fatal;
use crate::telemetry::init_log;

use super::ConfigFile;

/// How often the collector is asked whether it can go on.
const FATAL_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Receive flows and write them to ClickHouse, until SIGTERM or SIGINT
///
/// Exit code: 0 when no row was left at the stop, 1 when some were or an address could not be used, 78
/// when the configuration is wrong.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigFile,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        let config = match self.config.load() {
            Ok(config) => config,
            Err(exit_code) => return Ok(exit_code),
        };
        init_log(config.log.level);
        for warning in config.warnings() {
            warn!("{warning}");
        }
        let signals = Signals::catch()?;
        let mut app = App::start(&config)?;
        info!(version = env!("CARGO_PKG_VERSION"), management = %app.management_address(), "Started.");
        let fatal = signals.wait_for_end(&mut app, &self.config);
        let stopped = app.stop();
        Ok(match fatal {
            Some(reason) => {
                error!("{reason}");
                super::EXIT_CONFIG.into()
            }
            None if stopped.is_drained => ExitCode::SUCCESS,
            None => ExitCode::FAILURE,
        })
    }
}

/// The signals that end the collector or make it read its configuration anew, caught from before the first
/// socket is bound.
struct Signals {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn catch() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let context = runtime.enter();
        let terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        let interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
        let hangup = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
        drop(context);
        Ok(Self { runtime, terminate, interrupt, hangup })
    }

    /// Waits for a signal to end, or for the reason why the collector cannot go on, and follows the configuration
    /// meanwhile.
    fn wait_for_end(self, app: &mut App, file: &ConfigFile) -> Option<Fatal> {
        let Self { runtime, mut terminate, mut interrupt, mut hangup } = self;
        let mut watch = FileWatch::new(file);
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = terminate.recv() => return None,
                    _ = interrupt.recv() => return None,
                    _ = hangup.recv() => {
                        watch.note(file);
                        // What is wrong is in the log, and the collector goes on.
                        drop(app.reload(Config::load(&file.path)));
                    }
                    () = tokio::time::sleep(FATAL_POLL_INTERVAL) => {
                        if let Some(reason) = app.fatal() {
                            return Some(reason);
                        }
                        let now = Instant::now();
                        app.look_at_files(now);
                        if app.reload_interval().is_some_and(|it| watch.has_changed(file, it, now)) {
                            drop(app.reload(Config::load(&file.path)));
                        }
                    }
                }
            }
        })
    }
}

/// The content of the configuration file when it was last read.
struct FileWatch {
    content: Option<Vec<u8>>,
    looked_at: Instant,
}

impl FileWatch {
    fn new(file: &ConfigFile) -> Self {
        Self { content: std::fs::read(&file.path).ok(), looked_at: Instant::now() }
    }

    fn note(&mut self, file: &ConfigFile) {
        *self = Self::new(file);
    }

    /// Whether it is time to look, and the file says something else than before.
    fn has_changed(&mut self, file: &ConfigFile, interval: Duration, now: Instant) -> bool {
        if now.saturating_duration_since(self.looked_at) < interval {
            return false;
        }
        let before = std::mem::replace(self, Self::new(file));
        self.content.is_some() && self.content != before.content
    }
}
