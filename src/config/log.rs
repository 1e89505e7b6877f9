//! `[log]`.

use super::section::Section;

/// `[log]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogConfig {
    /// What is logged of tidegate: `error`, `warn`, `info`, `debug` or `trace`.
    pub level: &'static str,
}

/// From little to much.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// Reads `[log]`.
pub(super) fn read(section: Section<'_>) -> LogConfig {
    let level = section.parsed("level", "info", &LEVELS.join(", "), |text| {
        LEVELS.into_iter().find(|level| *level == text)
    });
    section.finish();
    LogConfig { level }
}
