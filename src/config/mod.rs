//! The configuration: a TOML file and the environment, parsed into types that cannot be wrong.
//!
//! Each section reads its own keys through a `Section`, which collects every mistake instead of
//! stopping at the first: a user sees all of them at once, each with file, line and key.

mod document;
mod receivers;
mod schema;
mod secret;
mod section;
mod sections;
mod snmp;
mod values;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use document::ConfigErrors;
pub use receivers::{ReceiverConfig, TcpConfig, Transport, UdpConfig};
pub use schema::{RollupConfig, SchemaConfig};
pub use secret::Secret;
pub use sections::{
    BatchConfig, ClickHouseConfig, ErrorsConfig, ManagementConfig, OnRowError, RetryConfig,
    SpoolConfig, StateConfig,
};
pub use snmp::{
    SnmpAccess, SnmpAgentConfig, SnmpAuthentication, SnmpCipher, SnmpConfig, SnmpHash, SnmpPrivacy,
    SnmpUser,
};
pub use values::{parse_bytes, parse_duration, parse_prefix, show_bytes, show_duration};

use document::Document;

use crate::flow::Identity;

/// Where the packages put the configuration.
pub const DEFAULT_PATH: &str = "/etc/tidegate/tidegate.toml";

/// The whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[identity]`.
    pub identity: Identity,
    /// `[receivers.NAME]`, by name.
    pub receivers: Vec<ReceiverConfig>,
    /// `[clickhouse]`.
    pub clickhouse: ClickHouseConfig,
    /// `[clock] skew-threshold`.
    pub skew_max: std::time::Duration,
    /// `[state]`.
    pub state: StateConfig,
    /// `[spool]`.
    pub spool: SpoolConfig,
    /// `[snmp]`.
    pub snmp: SnmpConfig,
    /// `[management]`.
    pub management: ManagementConfig,
}

impl Config {
    /// What becomes of refused batches of a receiver, and where that is said: the most specific wins.
    #[must_use]
    pub fn on_row_error(&self, receiver: &ReceiverConfig) -> (OnRowError, &'static str) {
        match (receiver.on_row_error, self.clickhouse.on_row_error) {
            (Some(own), _) => (own, "of the receiver"),
            (None, Some(of_all)) => (of_all, "of [clickhouse]"),
            (None, None) => (OnRowError::default(), "by default"),
        }
    }

    /// Reads `path` and the environment.
    ///
    /// # Errors
    ///
    /// Every mistake in the file and in the environment, at once.
    pub fn load(path: &Path) -> Result<Self, ConfigErrors> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigErrors::unreadable(path, &error))?;
        Self::parse(&text, path, environment())
    }

    /// Parses `text`; `path` names it in mistakes. `environment` holds all variables; those that begin
    /// with `TIDEGATE_` override keys.
    ///
    /// # Errors
    ///
    /// Every mistake, at once.
    pub fn parse(
        text: &str,
        path: &Path,
        environment: Vec<(String, String)>,
    ) -> Result<Self, ConfigErrors> {
        let document = Document::new(text, path, environment);
        let config = sections::read(document.root());
        document.finish(config)
    }

    /// The configuration of an empty file.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test parses the empty file")]
    pub fn defaults() -> Self {
        Self::parse("", &PathBuf::from("defaults"), Vec::new()).expect("the defaults are valid")
    }
}

/// The variables of the process that are text; others cannot be keys.
fn environment() -> Vec<(String, String)> {
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}
