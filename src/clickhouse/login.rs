//! Who inserts; may change while the collector runs.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::config::{ClickHouseConfig, Secret};

/// A user and the password.
#[derive(Debug, Eq, PartialEq)]
pub struct Login {
    /// `clickhouse.username`.
    pub username: String,
    /// `clickhouse.password`.
    pub password: Secret,
}

/// The login of now, for every connection.
pub type SharedLogin = Arc<ArcSwap<Login>>;

impl Login {
    /// That of a configuration.
    #[must_use]
    pub fn of(config: &ClickHouseConfig) -> Self {
        Self { username: config.username.clone(), password: config.password.clone() }
    }
}
