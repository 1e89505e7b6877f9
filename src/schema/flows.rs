//! The table `flows`.

use crate::flow::{COLUMNS, Kind};

use super::site::Site;

/// Smaller parts keep all columns in one file. A batch would else be more than a hundred files, and making
/// and deleting them costs the server more than the rows do (docs/performance.md).
const WIDE_PART_BYTES_MIN: usize = 128 << 20;

/// Queries ask for a time, then for an exporter or an interface of it; flows of an interface and hour stay in the order of
/// their insert, which is that of time. Nothing depends on it: a table with another key goes on working
/// (docs/decisions/0004-sort-key-codecs.md).
const SORT_KEY: &str =
    "tenant, organisation, toStartOfHour(timestamp), exporterAddr, inputSnmp, outputSnmp";

/// The statement that creates it in a database of one server. Rows are kept for so many days.
#[must_use]
pub fn create_table_sql(database: &str, ttl_days: usize) -> String {
    create_sql(Site { database, cluster: None }, ttl_days)
}

/// The same wherever it is to be.
pub(super) fn create_sql(site: Site<'_>, ttl_days: usize) -> String {
    let columns: Vec<_> =
        definitions().map(|(_, definition)| format!("    {definition}")).collect();
    format!(
        "CREATE TABLE IF NOT EXISTS {} (\n{}\n)\n\
         ENGINE = {}\n\
         PARTITION BY toYYYYMMDD(timestamp)\n\
         ORDER BY ({SORT_KEY})\n\
         TTL toDateTime(timestamp) + INTERVAL {ttl_days} DAY\n\
         SETTINGS {}, \
         min_bytes_for_wide_part = {WIDE_PART_BYTES_MIN}",
        site.everywhere("flows"),
        columns.join(",\n"),
        site.engine("MergeTree"),
        site.deduplication()
    )
}

/// Name and definition of each column.
pub(super) fn definitions() -> impl Iterator<Item = (&'static str, String)> {
    COLUMNS.iter().map(|spec| {
        let codec = codec(spec.kind).map(|codec| format!(" CODEC({codec})")).unwrap_or_default();
        (spec.name, format!("`{}` {}{codec}", spec.name, spec.kind.sql()))
    })
}

/// How a column is compressed; None as the server does by default, with LZ4. ZSTD makes a row a third smaller. Of addresses
/// it saves little, and a search for a host reads two of them in every row.
const fn codec(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Time => Some("Delta, ZSTD(1)"),
        Kind::UInt64 => Some("T64, ZSTD(1)"),
        Kind::Address | Kind::UInt32List | Kind::TextMap => None,
        _ => Some("ZSTD(1)"),
    }
}
