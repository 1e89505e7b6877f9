//! What there is in ClickHouse: tables, rollups and views, how they are created, extended and checked.
//!
//! Every statement can be repeated, so a start that ended in the middle is mended by the next one, and two
//! collectors that start at once do not harm each other.

mod dead_letters;
mod drift;
mod ensure;
mod flows;
mod repair;
mod rollups;
mod samples;
mod tenants;
mod version;

use crate::config::ClickHouseConfig;

pub use drift::{Difference, differences};
pub use ensure::{SchemaError, check, ensure};
pub use flows::create_table_sql;
pub use repair::{Repair, Repaired};
pub use rollups::Rollup;
pub use tenants::{Access, Tenant, is_tenant_name};

/// Tokens that the server remembers for a table, of all collectors that write to it: at one batch a
/// second each, ten collectors can send the last 16 minutes' batches again without doubling.
const DEDUPLICATION_WINDOW: usize = 10_000;

/// The rollups of the configuration.
#[must_use]
pub fn rollups(config: &ClickHouseConfig) -> Vec<Rollup> {
    config.schema.rollups.iter().map(Rollup::of).collect()
}

/// Every statement that a fresh database needs, in order.
#[must_use]
pub fn statements(config: &ClickHouseConfig) -> Vec<String> {
    [table_statements(config), rollup_statements(config)].concat()
}

/// Those of the tables that tidegate writes to.
fn table_statements(config: &ClickHouseConfig) -> Vec<String> {
    let database = &config.database;
    vec![
        format!("CREATE DATABASE IF NOT EXISTS `{database}`"),
        create_table_sql(database, config.schema.ttl_days),
        dead_letters::create_table_sql(database),
    ]
}

/// Those of what follows from `flows`.
fn rollup_statements(config: &ClickHouseConfig) -> Vec<String> {
    let (database, ttl_days) = (&config.database, config.schema.rollup_ttl_days);
    let of_rollup = |rollup: Rollup| {
        [rollup.create_table_sql(database, ttl_days), rollup.create_view_sql(database)]
    };
    let view = samples::create_view_sql(database);
    rollups(config).into_iter().flat_map(of_rollup).chain([view]).collect()
}

/// A table or view of a database, quoted.
fn quoted(database: &str, name: &str) -> String {
    format!("`{database}`.`{name}`")
}
