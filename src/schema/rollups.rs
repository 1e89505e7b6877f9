//! Rollups: sums of flows by minute and a few dimensions, kept longer than the flows.
//!
//! Each is a table `flows_by_NAME_1m` and a materialized view that fills it from every insert. Both
//! remember the insert's token, so that a batch that is sent again counts once here too.

use crate::config::RollupConfig;
use crate::flow::COLUMNS;

use super::site::Site;

/// Dimensions that every rollup begins with, beside the minute.
const COMMON: [&str; 3] = ["tenant", "organisation", "zone"];

/// Sums that every rollup has, and what is added up. Scaled ones estimate the traffic behind sampled flows; an
/// estimate beyond 2^64 is cut there.
const SUMS: [(&str, &str); 13] = [
    ("bytes", "f.bytes"),
    ("packets", "f.packets"),
    ("flowCount", "1"),
    ("bytesIn", "if(f.direction = 'INGRESS', f.bytes, 0)"),
    ("bytesOut", "if(f.direction = 'EGRESS', f.bytes, 0)"),
    ("packetsIn", "if(f.direction = 'INGRESS', f.packets, 0)"),
    ("packetsOut", "if(f.direction = 'EGRESS', f.packets, 0)"),
    ("scaledBytes", "scaled(f.bytes)"),
    ("scaledPackets", "scaled(f.packets)"),
    ("scaledBytesIn", "if(f.direction = 'INGRESS', scaled(f.bytes), 0)"),
    ("scaledBytesOut", "if(f.direction = 'EGRESS', scaled(f.bytes), 0)"),
    ("scaledPacketsIn", "if(f.direction = 'INGRESS', scaled(f.packets), 0)"),
    ("scaledPacketsOut", "if(f.direction = 'EGRESS', scaled(f.packets), 0)"),
];

/// A rollup as SQL.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rollup {
    /// Its table.
    pub table: String,
    pub(super) dimensions: Vec<String>,
}

impl Rollup {
    /// As the configuration has it.
    #[must_use]
    pub fn of(config: &RollupConfig) -> Self {
        Self {
            table: format!("flows_by_{}_1m", config.name.replace('-', "_")),
            dimensions: config.dimensions.clone(),
        }
    }

    /// The materialized view that fills it.
    #[must_use]
    pub fn view(&self) -> String {
        format!("{}_mv", self.table)
    }

    /// Name and type of each column.
    #[must_use]
    pub fn columns(&self) -> Vec<(String, &'static str)> {
        let minute = ("timestamp".to_owned(), "DateTime('UTC')");
        let dimensions = self.keys().map(|name| (name.to_owned(), type_of(name)));
        let sums = SUMS.iter().map(|(name, _)| ((*name).to_owned(), "UInt64"));
        std::iter::once(minute).chain(dimensions).chain(sums).collect()
    }

    /// What rows are added up by, in the order of the sorting key.
    #[must_use]
    pub fn sorting_key(&self) -> String {
        let rest = std::iter::once("zone").chain(self.dimensions.iter().map(String::as_str));
        let all = ["tenant", "organisation", "timestamp"].into_iter().chain(rest);
        all.collect::<Vec<_>>().join(", ")
    }

    /// The statement that creates its table, which keeps rows for so many days.
    pub(super) fn create_table_sql(&self, site: Site<'_>, ttl_days: usize) -> String {
        let columns: Vec<_> =
            self.columns().iter().map(|(name, kind)| format!("    `{name}` {kind}")).collect();
        format!(
            "CREATE TABLE IF NOT EXISTS {} (\n{}\n)\n\
             ENGINE = {}\n\
             PARTITION BY toYYYYMM(timestamp)\n\
             ORDER BY ({})\n\
             TTL timestamp + INTERVAL {ttl_days} DAY\n\
             SETTINGS {}",
            site.everywhere(&self.table),
            columns.join(",\n"),
            site.engine("SummingMergeTree"),
            self.sorting_key(),
            site.deduplication()
        )
    }

    /// The statement that creates its view. It works with the rights of who creates it, so who may insert flows
    /// needs none on the rollup. `SQL SECURITY NONE` would need none at all, but a grant of its own to create it.
    pub(super) fn create_view_sql(&self, site: Site<'_>) -> String {
        format!(
            "CREATE MATERIALIZED VIEW IF NOT EXISTS {} TO {}\nDEFINER = CURRENT_USER SQL SECURITY DEFINER\nAS {}",
            site.everywhere(&self.view()),
            site.quoted(&self.table),
            self.select_sql(site, "flows")
        )
    }

    /// Its rows, from a table of flows.
    pub(super) fn select_sql(&self, site: Site<'_>, flows: &str) -> String {
        let dimensions: Vec<_> = self.keys().collect();
        let selected = dimensions.iter().map(|name| format!("f.{name} AS {name}"));
        let sums = SUMS.iter().map(|(name, value)| format!("sum({}) AS {name}", scaled(value)));
        let columns: Vec<_> = selected.chain(sums).collect();
        format!(
            "SELECT\n    toStartOfMinute(f.timestamp) AS timestamp,\n    {}\n\
             FROM {} AS f\nGROUP BY timestamp, {}",
            columns.join(",\n    "),
            site.quoted(flows),
            dimensions.join(", ")
        )
    }

    fn keys(&self) -> impl Iterator<Item = &str> {
        COMMON.into_iter().chain(self.dimensions.iter().map(String::as_str))
    }
}

/// The type of a column of flows.
fn type_of(name: &str) -> &'static str {
    COLUMNS.iter().find(|spec| spec.name == name).map_or("String", |spec| spec.kind.sql())
}

/// Writes `scaled(x)` out. Without sampling the sum stays exact, as no Float64 is.
fn scaled(value: &str) -> String {
    let Some((before, rest)) = value.split_once("scaled(") else { return value.to_owned() };
    let Some((counter, after)) = rest.split_once(')') else { return value.to_owned() };
    format!(
        "{before}if(f.samplingInterval > 1, \
         toUInt64(least({counter} * f.samplingInterval, 18446744073709549568.)), {counter}){after}"
    )
}
