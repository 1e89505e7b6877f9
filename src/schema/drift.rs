//! Rollups as they are against rollups as they should be.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::clickhouse::{ClickHouseError, Connection};
use crate::config::ClickHouseConfig;

use super::site::{DEDUPLICATION_WINDOW, Site};
use super::{PATIENCE, Rollup, rollups};

/// Something that is not what it should be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Difference {
    /// The table or view.
    pub name: String,
    /// How it differs.
    pub what: String,
}

/// What `system.tables` says of a table or view.
#[derive(Debug, Default, Deserialize)]
struct Found {
    name: String,
    sorting_key: String,
    engine_full: String,
    /// Of a view, in the form that ClickHouse gives to queries.
    select: String,
}

/// What `system.columns` says of a column.
#[derive(Debug, Deserialize)]
struct FoundColumn {
    table: String,
    name: String,
    r#type: String,
}

/// How the rollups of the configuration differ from those in ClickHouse. What the user may not see is not
/// compared; further columns are left alone.
///
/// # Errors
///
/// ClickHouse refused or does not answer.
pub fn differences(
    connection: &Connection,
    config: &ClickHouseConfig,
) -> Result<Vec<Difference>, ClickHouseError> {
    let rollups = rollups(config);
    if rollups.is_empty() {
        return Ok(Vec::new());
    }
    let database = &config.database;
    let found: Vec<Found> = rows(
        connection,
        &format!(
            "SELECT name, sorting_key, engine_full, \
             if(as_select = '', '', formatQuerySingleLine(as_select)) AS select \
             FROM system.tables WHERE database = '{database}' AND startsWith(name, 'flows_by_')"
        ),
    )?;
    let columns: Vec<FoundColumn> = rows(
        connection,
        &format!(
            "SELECT table, name, type FROM system.columns \
             WHERE database = '{database}' AND startsWith(table, 'flows_by_')"
        ),
    )?;
    let found: BTreeMap<_, _> = found.into_iter().map(|it| (it.name.clone(), it)).collect();
    let selects = formatted_selects(connection, config, &rollups)?;
    let mut differences = Vec::new();
    for (rollup, select) in rollups.iter().zip(&selects) {
        differences.extend(of_table(rollup, found.get(&rollup.table), &columns));
        differences.extend(of_view(rollup, found.get(&rollup.view()), select));
    }
    Ok(differences)
}

/// What the views should select, in the form that ClickHouse gives to queries.
fn formatted_selects(
    connection: &Connection,
    config: &ClickHouseConfig,
    rollups: &[Rollup],
) -> Result<Vec<String>, ClickHouseError> {
    let formatted = |rollup: &Rollup| {
        let select = rollup.select_sql(Site::of(config), "flows").replace('\'', "\\'");
        format!("formatQuerySingleLine('{select}')")
    };
    let all: Vec<_> = rollups.iter().map(formatted).collect();
    let sql = format!("SELECT arrayJoin([{}])", all.join(", "));
    let answer = connection.query_as(&sql, "TSVRaw", PATIENCE)?;
    Ok(answer.lines().map(ToOwned::to_owned).collect())
}

/// How columns differ from those that are wanted, of which `actual` knows the type.
pub(super) fn column_differences<'a>(
    wanted: impl IntoIterator<Item = (&'a str, &'a str)>,
    actual: impl Fn(&str) -> Option<&'a str>,
) -> Vec<String> {
    let difference = |(name, wanted): (&str, &str)| match actual(name) {
        Some(actual) if actual == wanted => None,
        Some(actual) => Some(format!("{name} is {actual}, must be {wanted}")),
        None => Some(format!("{name} is missing")),
    };
    wanted.into_iter().filter_map(difference).collect()
}

fn of_table(rollup: &Rollup, found: Option<&Found>, columns: &[FoundColumn]) -> Option<Difference> {
    let name = rollup.table.clone();
    let Some(found) = found else {
        return Some(Difference { name, what: "is missing".to_owned() });
    };
    let types: BTreeMap<_, _> = columns
        .iter()
        .filter(|column| column.table == rollup.table)
        .map(|column| (column.name.as_str(), column.r#type.as_str()))
        .collect();
    let wanted = rollup.columns();
    let wanted = wanted.iter().map(|(column, kind)| (column.as_str(), *kind));
    let mut wrong = column_differences(wanted, |column| types.get(column).copied());
    let key = rollup.sorting_key();
    if found.sorting_key != key {
        wrong.push(format!("sorting key is {}, must be {key}", found.sorting_key));
    }
    let window = format!("non_replicated_deduplication_window = {DEDUPLICATION_WINDOW}");
    let is_replicated = found.engine_full.starts_with("Replicated");
    if !is_replicated && !found.engine_full.contains(&window) {
        wrong.push(format!("it must have the setting {window}"));
    }
    (!wrong.is_empty()).then(|| Difference { name, what: wrong.join(", ") })
}

fn of_view(rollup: &Rollup, found: Option<&Found>, select: &str) -> Option<Difference> {
    let difference = |what: &str| Difference { name: rollup.view(), what: what.to_owned() };
    match found {
        None => Some(difference("is missing")),
        Some(found) if found.select.is_empty() || found.select == select => None,
        Some(_) => Some(difference("selects something else")),
    }
}

fn rows<T: serde::de::DeserializeOwned>(
    connection: &Connection,
    sql: &str,
) -> Result<Vec<T>, ClickHouseError> {
    let answer = connection.query_as(sql, "JSONEachRow", PATIENCE)?;
    let row = |line| {
        serde_json::from_str(line)
            .map_err(|error| ClickHouseError::NoAnswer(format!("an unreadable answer: {error}")))
    };
    answer.lines().map(row).collect()
}
