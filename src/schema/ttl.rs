//! How long tables keep rows: a TTL for all of them, and beside it those of tenants, which have a condition.

use crate::clickhouse::{ClickHouseError, Connection};

use super::PATIENCE;

/// Table and TTL of `flows` and every rollup that can be seen, as ClickHouse writes them.
///
/// # Errors
///
/// ClickHouse refused or does not answer.
pub fn ttls(
    connection: &Connection,
    database: &str,
) -> Result<Vec<(String, String)>, ClickHouseError> {
    let sql = format!(
        "SELECT name, extract(engine_full, ' TTL (.*?) SETTINGS ') FROM system.tables \
         WHERE database = '{database}' AND endsWith(engine, 'MergeTree') \
         AND (name = 'flows' OR startsWith(name, 'flows_by_')) ORDER BY name"
    );
    let answer = connection.query_as(&sql, "TSVRaw", PATIENCE)?;
    let of_table = |line: &str| {
        let (table, ttl) = line.split_once('\t')?;
        Some((table.to_owned(), ttl.to_owned()))
    };
    Ok(answer.lines().filter_map(of_table).collect())
}

/// The statement that gives a table these TTLs. Parts follow when they are merged.
pub(super) fn modify_sql<'a>(table: &str, ttls: impl IntoIterator<Item = &'a str>) -> String {
    let ttls = ttls.into_iter().collect::<Vec<_>>().join(", ");
    format!("ALTER TABLE {table} MODIFY TTL {ttls} SETTINGS materialize_ttl_after_modify = 0")
}

/// The single ones of the TTLs of a table.
pub(super) fn parts(ttls: &str) -> impl Iterator<Item = &str> {
    ttls.split(", ")
}
