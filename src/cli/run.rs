//! `tidegate run`: the collector.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use crate::app::App;
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
        init_log();
        for warning in config.warnings() {
            warn!("{warning}");
        }
        let signals = Signals::catch()?;
        let app = App::start(&config)?;
        info!(version = env!("CARGO_PKG_VERSION"), management = %app.management_address(), "Started.");
        for (name, address) in app.receivers() {
            info!(receiver = name, %address, "Listening for flows.");
        }
        let fatal = signals.wait_for_end(&app);
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

/// The signals that end the collector, caught from before the first socket is bound.
struct Signals {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn catch() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let context = runtime.enter();
        let terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        let interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
        drop(context);
        Ok(Self { runtime, terminate, interrupt })
    }

    /// Waits for a signal, or for the reason why the collector cannot go on.
    fn wait_for_end(self, app: &App) -> Option<Fatal> {
        let Self { runtime, mut terminate, mut interrupt } = self;
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = terminate.recv() => return None,
                    _ = interrupt.recv() => return None,
                    () = tokio::time::sleep(FATAL_POLL_INTERVAL) => {
                        if let Some(reason) = app.fatal() {
                            return Some(reason);
                        }
                    }
                }
            }
        })
    }
}
