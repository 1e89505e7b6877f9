//! `tidegate dead-letters replay`.

use std::io::{Write, stdout};
use std::process::ExitCode;

use anyhow::Result;
use sha2::{Digest, Sha256};

use crate::clickhouse::{Insert, InsertSettings, Method, Unit, Views, encode_body, units};

use super::{ClickHouse, PATIENCE};

/// Inserts unit after unit. The token of one follows from its rows, so that the same unit inserted again,
/// since its letters were not marked for some reason, changes nothing.
pub(super) fn run(clickhouse: &ClickHouse, dry_run: bool) -> Result<ExitCode> {
    let ClickHouse { connection, letters, .. } = clickhouse;
    let answer = connection.query_as(&letters.units_sql(), "TSVRaw", PATIENCE)?;
    let (mut rows, mut refused) = (0, 0);
    let mut out = stdout().lock();
    let settings = InsertSettings::probe(connection)?;
    for unit in units(&answer) {
        rows += unit.letters;
        if dry_run {
            writeln!(out, "{} rows of batch {}, day {}", unit.letters, unit.batch_id, unit.day)?;
            continue;
        }
        match insert(clickhouse, &settings, &unit) {
            Ok(()) => connection.execute_within(&letters.mark_sql(&unit), PATIENCE)?,
            Err(error) => {
                refused += unit.letters;
                writeln!(out, "batch {}: {error}", unit.batch_id)?;
            }
        }
    }
    let done = rows - refused;
    match dry_run {
        true => writeln!(out, "{rows} rows would be replayed")?,
        false => writeln!(out, "{done} of {rows} rows replayed")?,
    }
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn insert(clickhouse: &ClickHouse, settings: &InsertSettings, unit: &Unit) -> Result<()> {
    let ClickHouse { connection, letters, config } = clickhouse;
    let rows = connection.query_as(&letters.payloads_sql(unit), "TSVRaw", PATIENCE)?;
    let digest = Sha256::digest(rows.as_bytes());
    let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let insert = Insert {
        sql: &format!("INSERT INTO `{}`.flows FORMAT JSONEachRow", config.clickhouse.database),
        settings,
        token: &format!("{}/replay/{digest}", unit.batch_id),
        body: &encode_body(rows.as_bytes(), Method::Lz4),
        views: Views::Required,
    };
    Ok(connection.insert(&insert, PATIENCE)?)
}
