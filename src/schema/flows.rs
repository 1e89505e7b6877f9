//! The table `flows`.

use crate::flow::COLUMNS;

use super::DEDUPLICATION_WINDOW;

/// Smaller parts keep all columns in one file. A batch would else be more than a hundred files, and making
/// and deleting them costs the server more than the rows do (docs/performance.md).
const WIDE_PART_BYTES_MIN: usize = 128 << 20;

/// The statement that creates it. Rows are kept for so many days.
#[must_use]
pub fn create_table_sql(database: &str, ttl_days: usize) -> String {
    let columns: Vec<_> =
        definitions().map(|(_, definition)| format!("    {definition}")).collect();
    format!(
        "CREATE TABLE IF NOT EXISTS `{database}`.flows (\n{}\n)\n\
         ENGINE = MergeTree\n\
         PARTITION BY toYYYYMMDD(timestamp)\n\
         ORDER BY (tenant, organisation, toStartOfHour(timestamp), exporterAddr, srcAddr, dstAddr)\n\
         TTL toDateTime(timestamp) + INTERVAL {ttl_days} DAY\n\
         SETTINGS non_replicated_deduplication_window = {DEDUPLICATION_WINDOW}, \
         min_bytes_for_wide_part = {WIDE_PART_BYTES_MIN}",
        columns.join(",\n")
    )
}

/// Name and definition of each column.
pub(super) fn definitions() -> impl Iterator<Item = (&'static str, String)> {
    COLUMNS.iter().map(|spec| (spec.name, format!("`{}` {}", spec.name, spec.kind.sql())))
}
