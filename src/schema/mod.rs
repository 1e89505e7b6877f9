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
mod site;
mod tenants;
mod ttl;
mod version;

use std::time::Duration;

use crate::config::ClickHouseConfig;

pub use drift::{Difference, differences};
pub use ensure::{SchemaError, check, ensure};
pub use flows::create_table_sql;
pub use repair::{Repair, Repaired};
pub use rollups::Rollup;
use site::Site;
pub use tenants::{Access, Tenant, is_tenant_name};
pub use ttl::ttls;

/// How long a query about the schema may take.
const PATIENCE: Duration = Duration::from_secs(10);

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
    let site = Site::of(config);
    let tables = [
        format!("CREATE DATABASE IF NOT EXISTS `{}`{}", site.database, site.on_cluster()),
        flows::create_sql(site, config.schema.ttl_days),
        dead_letters::create_sql(site),
    ];
    tables
        .into_iter()
        .chain(["flows", "flows_dead_letter"].map(|it| site.distributed(it)).into_iter().flatten())
        .collect()
}

/// Those of what follows from `flows`.
fn rollup_statements(config: &ClickHouseConfig) -> Vec<String> {
    let (site, ttl_days) = (Site::of(config), config.schema.rollup_ttl_days);
    let of_rollup = |rollup: Rollup| {
        let own = [rollup.create_table_sql(site, ttl_days), rollup.create_view_sql(site)];
        own.into_iter().chain(site.distributed(&rollup.table))
    };
    let view = samples::create_view_sql(site);
    rollups(config).into_iter().flat_map(of_rollup).chain([view]).collect()
}
