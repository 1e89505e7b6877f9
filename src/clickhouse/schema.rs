//! The table `flows`: created and extended when `manage-schema` is on, only checked when it is off.

use std::collections::HashMap;

use crate::config::ClickHouseConfig;
use crate::flow::COLUMNS;

use super::client::Connection;
use super::dead_letters;
use super::errors::ClickHouseError;

/// Tokens that the server remembers for the table, of all collectors that write to it: at one batch a
/// second each, ten collectors can send the last 16 minutes' batches again without doubling.
pub(super) const DEDUPLICATION_WINDOW: usize = 10_000;

/// Partitions that hold whole days. A batch is rows of one day, and an insert into several partitions is not
/// repeated safely.
const PARTITION_KEYS: [&str; 5] = [
    "toYYYYMMDD(timestamp)",
    "toDate(timestamp)",
    "toMonday(timestamp)",
    "toYYYYMM(timestamp)",
    "",
];

/// Smaller parts keep all columns in one file. A batch would else be more than a hundred files, and making
/// and deleting them costs the server more than the rows do (docs/performance.md).
const WIDE_PART_BYTES_MIN: usize = 128 << 20;

/// Days that flows are kept.
const TTL_DAYS: usize = 30;

/// Why the schema cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// ClickHouse refused or does not answer.
    #[error(transparent)]
    ClickHouse(#[from] ClickHouseError),
    /// The table does not fit this version.
    #[error("table {table} does not fit this version of tidegate: {differences}; {way_out}")]
    Differs {
        /// Database and table.
        table: String,
        /// Missing columns and other types.
        differences: String,
        /// What to do.
        way_out: &'static str,
    },
}

/// Creates what is missing, or checks that nothing is.
///
/// # Errors
///
/// ClickHouse refused or does not answer, or the table differs in what cannot be added.
pub fn ensure(connection: &Connection, config: &ClickHouseConfig) -> Result<(), SchemaError> {
    let database = &config.database;
    if config.manage_schema {
        connection.execute(&format!("CREATE DATABASE IF NOT EXISTS `{database}`"))?;
        connection.execute(&create_table_sql(database))?;
        connection.execute(&dead_letters::create_table_sql(database))?;
    }
    let missing = check(connection, config)?;
    if !missing.is_empty() {
        let add = missing.iter().map(|column| format!("ADD COLUMN IF NOT EXISTS {column}"));
        let add = add.collect::<Vec<_>>().join(", ");
        connection.execute(&format!("ALTER TABLE `{database}`.flows {add}"))?;
        check(connection, config)?;
    }
    Ok(())
}

/// What makes a repeated insert safe: how the table is partitioned, and that it remembers tokens.
/// Replicated tables remember them without being told.
fn check_table(
    connection: &Connection,
    config: &ClickHouseConfig,
) -> Result<Vec<String>, SchemaError> {
    let database = &config.database;
    let sql = format!(
        "SELECT engine, partition_key, engine_full FROM system.tables \
         WHERE database = '{database}' AND name = 'flows'"
    );
    let answer = connection.query(&sql)?;
    let mut fields = answer.trim_end().split('\t');
    let mut next = || fields.next().unwrap_or_default();
    let (engine, partition_key, definition) = (next(), next(), next());
    let mut differences = Vec::new();
    if engine.ends_with("MergeTree") && !PARTITION_KEYS.contains(&partition_key) {
        differences
            .push(format!("partition key is {partition_key}, must be {}", PARTITION_KEYS[0]));
    }
    if engine.ends_with("MergeTree")
        && !engine.starts_with("Replicated")
        && deduplication_window(definition) < DEDUPLICATION_WINDOW
    {
        let setting = format!("non_replicated_deduplication_window = {DEDUPLICATION_WINDOW}");
        if config.manage_schema {
            connection
                .execute(&format!("ALTER TABLE `{database}`.flows MODIFY SETTING {setting}"))?;
        } else {
            differences.push(format!("it must have the setting {setting}"));
        }
    }
    Ok(differences)
}

/// The window in the definition of a table; 0 when it is not there.
fn deduplication_window(definition: &str) -> usize {
    let behind = definition.split_once("non_replicated_deduplication_window = ");
    let digits = behind.and_then(|(_, rest)| rest.split([',', ' ']).next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// The statement that creates `flows`.
#[must_use]
pub fn create_table_sql(database: &str) -> String {
    let columns: Vec<_> =
        definitions().map(|(_, definition)| format!("    {definition}")).collect();
    format!(
        "CREATE TABLE IF NOT EXISTS `{database}`.flows (\n{}\n)\n\
         ENGINE = MergeTree\n\
         PARTITION BY toYYYYMMDD(timestamp)\n\
         ORDER BY (tenant, organisation, toStartOfHour(timestamp), exporterAddr, srcAddr, dstAddr)\n\
         TTL toDateTime(timestamp) + INTERVAL {TTL_DAYS} DAY\n\
         SETTINGS non_replicated_deduplication_window = {DEDUPLICATION_WINDOW}, \
         min_bytes_for_wide_part = {WIDE_PART_BYTES_MIN}",
        columns.join(",\n")
    )
}

/// Name and definition of each column.
fn definitions() -> impl Iterator<Item = (&'static str, String)> {
    COLUMNS.iter().map(|spec| (spec.name, format!("`{}` {}", spec.name, spec.kind.sql())))
}

/// Compares the table with the columns of this version. Returns the definitions of columns that are to
/// be added; further columns of the table are left alone.
fn check(connection: &Connection, config: &ClickHouseConfig) -> Result<Vec<String>, SchemaError> {
    let description = connection.query(&format!("DESCRIBE TABLE `{}`.flows", config.database))?;
    let types: HashMap<&str, String> = description
        .lines()
        .filter_map(|line| {
            let mut fields = line.split('\t');
            Some((fields.next()?, fields.next()?.replace("\\'", "'")))
        })
        .collect();
    let mut missing = Vec::new();
    let mut differences = check_table(connection, config)?;
    for (spec, (name, definition)) in COLUMNS.iter().zip(definitions()) {
        match types.get(name) {
            Some(actual) if actual == spec.kind.sql() => {}
            Some(actual) => {
                differences.push(format!("{name} is {actual}, must be {}", spec.kind.sql()));
            }
            None if config.manage_schema => missing.push(definition),
            None => differences.push(format!("{name} is missing")),
        }
    }
    if differences.is_empty() {
        return Ok(missing);
    }
    Err(SchemaError::Differs {
        table: format!("{}.flows", config.database),
        differences: differences.join(", "),
        way_out: if config.manage_schema {
            "rename the table, and tidegate creates a new one"
        } else {
            "let its owner change it, or set clickhouse.manage-schema = true"
        },
    })
}
