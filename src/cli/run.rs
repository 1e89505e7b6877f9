//! `tidegate run`: the collector.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info};

use crate::app::App;
use crate::config::{Config, DEFAULT_PATH};
use crate::sink::Fatal;
use crate::telemetry::init_log;

use super::config_error;

/// How often the collector is asked whether it can go on.
const FATAL_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Receive flows and write them to ClickHouse, until SIGTERM or SIGINT
///
/// Exit code: 0 when every accepted row was stored, 1 when rows were left or an address could not be
/// used, 78 when the configuration is wrong.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration file
    #[arg(short, long, default_value = DEFAULT_PATH)]
    config: PathBuf,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        let config = match Config::load(&self.config) {
            Ok(config) => config,
            Err(mistakes) => return Ok(config_error(&mistakes)),
        };
        init_log();
        let app = App::start(&config)?;
        info!(version = env!("CARGO_PKG_VERSION"), management = %app.management_address(), "Started.");
        for (name, address) in app.receivers() {
            info!(receiver = name, %address, "Listening for flows.");
        }
        let fatal = wait_for_end(&app)?;
        let books = app.stop();
        Ok(match fatal {
            Some(reason) => {
                error!("{reason}");
                super::EXIT_CONFIG.into()
            }
            None if books.stored == books.received => ExitCode::SUCCESS,
            None => ExitCode::FAILURE,
        })
    }
}

/// Waits for a signal, or for the reason why the collector cannot go on.
fn wait_for_end(app: &App) -> Result<Option<Fatal>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
        loop {
            tokio::select! {
                _ = terminate.recv() => return Ok(None),
                _ = interrupt.recv() => return Ok(None),
                () = tokio::time::sleep(FATAL_POLL_INTERVAL) => {
                    if let Some(reason) = app.fatal() {
                        return Ok(Some(reason));
                    }
                }
            }
        }
    })
}
