//! The table `flows_dead_letter`.

use super::site::Site;

/// Days that dead letters are kept.
const TTL_DAYS: usize = 30;

/// Name and definition of each column.
pub(super) const COLUMNS: [(&str, &str); 16] = [
    ("tenant", "LowCardinality(String)"),
    ("failedAt", "DateTime64(3, 'UTC')"),
    ("batchId", "String"),
    ("rowIndex", "UInt32"),
    ("errorCode", "UInt32"),
    ("errorName", "LowCardinality(String)"),
    ("error", "String CODEC(ZSTD(1))"),
    ("errorClass", "LowCardinality(String)"),
    ("failedColumns", "Array(LowCardinality(String))"),
    ("attempts", "UInt32"),
    ("mayBeStored", "UInt8"),
    ("exporterAddr", "LowCardinality(String)"),
    ("system", "LowCardinality(String)"),
    ("payload", "String CODEC(ZSTD(1))"),
    ("replayToken", "String"),
    ("replayedAt", "DateTime64(3, 'UTC')"),
];

/// The statement that creates it. No CHECK and no type that a value could fail: what is refused once must
/// not be refused here again.
#[must_use]
pub(super) fn create_sql(site: Site<'_>) -> String {
    let columns = COLUMNS.map(|(name, definition)| format!("    `{name}` {definition}"));
    format!(
        "CREATE TABLE IF NOT EXISTS {} (\n{}\n)\n\
         ENGINE = {}\n\
         PARTITION BY toYYYYMMDD(failedAt)\n\
         ORDER BY (tenant, failedAt, batchId, rowIndex)\n\
         TTL toDateTime(failedAt) + INTERVAL {TTL_DAYS} DAY\n\
         SETTINGS {}",
        site.everywhere("flows_dead_letter"),
        columns.join(",\n"),
        site.engine("MergeTree"),
        site.deduplication()
    )
}
