//! The log: one line an event to standard error, which systemd hands to the journal.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;

const DEFAULT_FILTER: &str = "warn,async_snmp=off,tidegate=info";

/// Starts the log. `TIDEGATE_LOG` chooses what is logged (`debug`, `warn`, `tidegate::sink=debug`);
/// without it, `info` of tidegate and `warn` of its libraries, but for that of SNMP: it has a line for every
/// request without an answer.
pub fn init() {
    let filter = std::env::var("TIDEGATE_LOG").unwrap_or_else(|_| DEFAULT_FILTER.to_owned());
    let is_terminal = stderr().is_terminal();
    let log = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(stderr)
        .with_ansi(is_terminal)
        .with_target(false);
    // The journal stamps lines itself.
    let started = if is_terminal { log.try_init() } else { log.without_time().try_init() };
    drop(started); // only a second start fails, and then the first log stays
}
