//! Creates and extends the schema when `manage-schema` is on, only checks it when it is off.

use std::collections::HashMap;

use tracing::{info, warn};

use crate::clickhouse::{ClickHouseError, Connection};
use crate::config::ClickHouseConfig;
use crate::flow::COLUMNS;

use super::site::{DEDUPLICATION_WINDOW, Site};
use super::version::{self, VERSION};
use super::{
    Difference, Rollup, dead_letters, differences, drift::column_differences, flows,
    rollup_statements, rollups, table_statements, ttl, ttls,
};

/// Partitions that hold whole days. A batch is rows of one day, and an insert into several partitions is not
/// repeated safely.
const PARTITION_KEYS: [&str; 5] = [
    "toYYYYMMDD(timestamp)",
    "toDate(timestamp)",
    "toMonday(timestamp)",
    "toYYYYMM(timestamp)",
    "",
];

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

/// Creates what is missing, or checks that nothing is. Rollups that differ are logged and left as they are: no
/// flow is lost by them.
///
/// # Errors
///
/// ClickHouse refused or does not answer, or the table `flows` differs in what cannot be added.
pub fn ensure(connection: &Connection, config: &ClickHouseConfig) -> Result<(), SchemaError> {
    let found = version::read(connection, &config.database)?;
    if config.manage_schema && found > VERSION {
        info!(found, known = VERSION, "The schema is of a newer tidegate and left as it is.");
    }
    let is_managed = config.manage_schema && found <= VERSION;
    if is_managed {
        apply_tables(connection, config)?;
    }
    require_flows(connection, config)?;
    if is_managed {
        for statement in rollup_statements(config) {
            connection.execute(&statement)?;
        }
        keep_for(connection, config)?;
        // Last: what ended before is done again.
        if found < VERSION {
            version::write(connection, Site::of(config))?;
        }
    }
    for Difference { name, what } in differences(connection, config)? {
        warn!(
            name,
            what, "A rollup is not what it should be: see tidegate schema check and repair."
        );
    }
    Ok(())
}

/// Creates the tables that tidegate writes to, and adds the columns that they lack.
fn apply_tables(connection: &Connection, config: &ClickHouseConfig) -> Result<(), ClickHouseError> {
    let site = Site::of(config);
    for statement in table_statements(config) {
        connection.execute(&statement)?;
    }
    let flows = flows::definitions().map(|(name, definition)| (name.to_owned(), definition));
    add_columns(connection, site, "flows", flows)?;
    let letters = dead_letters::COLUMNS.iter();
    let letters = letters.map(|(name, kind)| ((*name).to_owned(), format!("`{name}` {kind}")));
    add_columns(connection, site, "flows_dead_letter", letters)?;
    let window = deduplication_window(connection, site.database)?;
    if site.cluster.is_none() && window.is_some_and(|it| it < DEDUPLICATION_WINDOW) {
        let setting = site.deduplication();
        let table = site.quoted("flows");
        connection.execute(&format!("ALTER TABLE {table} MODIFY SETTING {setting}"))?;
    }
    Ok(())
}

/// Gives tables that are there the days of the configuration.
fn keep_for(connection: &Connection, config: &ClickHouseConfig) -> Result<(), ClickHouseError> {
    let site = Site::of(config);
    let of_flows = ("flows".to_owned(), "toDateTime(timestamp)", config.schema.ttl_days);
    let of_rollup = |rollup: Rollup| (rollup.table, "timestamp", config.schema.rollup_ttl_days);
    let there = ttls(connection, site.database)?;
    for (table, time, days) in
        std::iter::once(of_flows).chain(rollups(config).into_iter().map(of_rollup))
    {
        let Some((_, ttl)) = there.iter().find(|(name, _)| *name == table) else { continue };
        // Those of tenants have a condition.
        let (of_tenants, of_all): (Vec<_>, Vec<_>) =
            ttl::parts(ttl).partition(|part| part.contains(" WHERE "));
        if of_all.iter().any(|part| part.contains(&format!("toIntervalDay({days})"))) {
            continue;
        }
        info!(table, days, "Rows are kept for another time from now on.");
        let of_all = format!("{time} + INTERVAL {days} DAY");
        let all = [of_all.as_str()].into_iter().chain(of_tenants);
        connection.execute(&ttl::modify_sql(&site.everywhere(&table), all))?;
    }
    Ok(())
}

/// Adds the columns that a table lacks. Another collector may do the same at the same time.
fn add_columns(
    connection: &Connection,
    site: Site<'_>,
    table: &str,
    wanted: impl Iterator<Item = (String, String)>,
) -> Result<(), ClickHouseError> {
    let there = types(connection, site, table)?;
    let missing = wanted.filter(|(name, _)| !there.contains_key(name));
    let add: Vec<_> =
        missing.map(|(_, definition)| format!("ADD COLUMN IF NOT EXISTS {definition}")).collect();
    if add.is_empty() {
        return Ok(());
    }
    connection.execute(&format!("ALTER TABLE {} {}", site.everywhere(table), add.join(", ")))
}

/// Name and type of each column of a table.
fn types(
    connection: &Connection,
    site: Site<'_>,
    table: &str,
) -> Result<HashMap<String, String>, ClickHouseError> {
    let description = connection.query(&format!("DESCRIBE TABLE {}", site.quoted(table)))?;
    let column = |line: &str| {
        let mut fields = line.split('\t');
        Some((fields.next()?.to_owned(), fields.next()?.replace("\\'", "'")))
    };
    Ok(description.lines().filter_map(column).collect())
}

/// Everything that is not what it should be.
///
/// # Errors
///
/// ClickHouse refused or does not answer.
pub fn check(
    connection: &Connection,
    config: &ClickHouseConfig,
) -> Result<Vec<Difference>, ClickHouseError> {
    let name = |what| Difference { name: "flows".to_owned(), what };
    let mut all: Vec<_> = check_flows(connection, config)?.into_iter().map(name).collect();
    all.extend(differences(connection, config)?);
    Ok(all)
}

/// What would refuse or falsify rows.
fn require_flows(connection: &Connection, config: &ClickHouseConfig) -> Result<(), SchemaError> {
    let differences = check_flows(connection, config)?;
    if differences.is_empty() {
        return Ok(());
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

/// Compares `flows` with the columns of this version; further columns of the table are left alone.
fn check_flows(
    connection: &Connection,
    config: &ClickHouseConfig,
) -> Result<Vec<String>, ClickHouseError> {
    let types = types(connection, Site::of(config), "flows")?;
    let wanted = COLUMNS.iter().map(|spec| (spec.name, spec.kind.sql()));
    let mut differences = column_differences(wanted, |name| types.get(name).map(String::as_str));
    differences.extend(check_table(connection, &config.database)?);
    Ok(differences)
}

/// What makes a repeated insert safe: how the table is partitioned, and that it remembers tokens.
fn check_table(connection: &Connection, database: &str) -> Result<Vec<String>, ClickHouseError> {
    let partition_key = property(connection, database, "partition_key")?;
    let mut differences = Vec::new();
    if let Some(key) = partition_key.filter(|key| !PARTITION_KEYS.contains(&key.as_str())) {
        differences.push(format!("partition key is {key}, must be {}", PARTITION_KEYS[0]));
    }
    if deduplication_window(connection, database)?.is_some_and(|it| it < DEDUPLICATION_WINDOW) {
        differences.push(format!(
            "it must have the setting non_replicated_deduplication_window = {DEDUPLICATION_WINDOW}"
        ));
    }
    Ok(differences)
}

/// How many tokens `flows` remembers; `None` when the table has another way: replicated ones remember them
/// without being told, and others are not the table itself.
fn deduplication_window(
    connection: &Connection,
    database: &str,
) -> Result<Option<usize>, ClickHouseError> {
    let definition = property(connection, database, "engine_full")?;
    Ok(definition.filter(|definition| !definition.starts_with("Replicated")).map(|definition| {
        let behind = definition.split_once("non_replicated_deduplication_window = ");
        let digits = behind.and_then(|(_, rest)| rest.split([',', ' ']).next());
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }))
}

/// A column of `system.tables` for `flows`, if it is a table of the MergeTree family that can be seen.
fn property(
    connection: &Connection,
    database: &str,
    column: &str,
) -> Result<Option<String>, ClickHouseError> {
    let answer = connection.query(&format!(
        "SELECT {column} FROM system.tables WHERE database = '{database}' AND name = 'flows' \
         AND endsWith(engine, 'MergeTree')"
    ))?;
    Ok(answer.lines().next().map(ToOwned::to_owned))
}
