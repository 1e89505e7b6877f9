//! The log: one line an event to standard error, which systemd hands to the journal.

use std::io::{IsTerminal, stderr};
use std::sync::OnceLock;

use tracing::warn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

type FilterHandle = reload::Handle<EnvFilter, Registry>;

/// Changes what is logged; there when the log was started.
static FILTER: OnceLock<FilterHandle> = OnceLock::new();

/// Starts the log. The variable `TIDEGATE_LOG` chooses what is logged (`debug`, `warn`,
/// `tidegate::sink=debug`); without it, `level` of tidegate, and `warn` of its libraries,
/// but for those of DNS and SNMP, which log for each request.
pub fn init(level: &str) {
    let is_terminal = stderr().is_terminal();
    let lines = fmt::layer().with_writer(stderr).with_ansi(is_terminal).with_target(false);
    // The journal stamps lines itself.
    let lines = if is_terminal { lines.boxed() } else { lines.without_time().boxed() };
    let (filter, handle) = reload::Layer::new(filter(level));
    let started = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
    // Only a second start fails, and then the first log stays.
    if started.is_ok() {
        drop(FILTER.set(handle));
    }
}

/// Logs from now on `level` of tidegate.
pub fn set_level(level: &str) {
    if let Some(handle) = FILTER.get()
        && let Err(error) = handle.reload(filter(level))
    {
        warn!(%error, "The log level stays as it was.");
    }
}

fn filter(level: &str) -> EnvFilter {
    let chosen = std::env::var("TIDEGATE_LOG");
    EnvFilter::new(
        chosen.unwrap_or_else(|_| format!("warn,tidegate={level},hickory=off,async_snmp=off")),
    )
}
