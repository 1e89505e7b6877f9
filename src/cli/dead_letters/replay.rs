//! `tidegate dead-letters replay`.

use std::io::{Write, stdout};
use std::process::ExitCode;

use anyhow::Result;

use crate::clickhouse::{Insert, InsertSettings, Method, Unit, Views, encode_body, units};

use super::{ClickHouse, PATIENCE};

/// Inserts unit after unit, each with a token that its letters keep: the same again changes nothing.
pub(super) fn run(clickhouse: &ClickHouse, dry_run: bool) -> Result<ExitCode> {
    let ClickHouse { connection, letters, .. } = clickhouse;
    let answer = connection.query_as(&letters.units_sql(), "TSVRaw", PATIENCE)?;
    let left_out = connection.query(&letters.left_out_sql())?;
    let (mut rows, mut refused) = (0, 0);
    let mut out = stdout().lock();
    let settings = InsertSettings::probe(connection)?;
    for unit in units(&answer) {
        rows += unit.letters;
        if dry_run {
            writeln!(out, "{} rows of batch {}, day {}", unit.letters, unit.batch_id, unit.day)?;
            continue;
        }
        if let Err(error) = replay(clickhouse, &settings, &unit) {
            refused += unit.letters;
            writeln!(out, "batch {}: {error}", unit.batch_id)?;
        }
    }
    let done = rows - refused;
    match dry_run {
        true => writeln!(out, "{rows} rows would be replayed")?,
        false => writeln!(out, "{done} of {rows} rows replayed")?,
    }
    if left_out.trim() != "0" {
        let left_out = left_out.trim();
        writeln!(
            out,
            "{left_out} more are left out: an insert of theirs had no answer, and the table may have \
             them (--even-if-stored)"
        )?;
    }
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn replay(clickhouse: &ClickHouse, settings: &InsertSettings, unit: &Unit) -> Result<()> {
    let ClickHouse { connection, letters, config } = clickhouse;
    let token = unit.token.clone().unwrap_or_else(|| {
        format!("{}/replay/{}-{:016x}", unit.batch_id, unit.part, fastrand::u64(..))
    });
    if unit.token.is_none() {
        connection.execute_within(&letters.bind_sql(unit, &token), PATIENCE)?;
    }
    let rows = connection.query_as(&letters.payloads_sql(&token), "TSVRaw", PATIENCE)?;
    let insert = |views| {
        let insert = Insert {
            sql: &format!("INSERT INTO `{}`.flows FORMAT JSONEachRow", config.clickhouse.database),
            settings,
            token: &token,
            body: &encode_body(rows.as_bytes(), Method::Lz4),
            views,
        };
        connection.insert(&insert, PATIENCE)
    };
    match insert(Views::Required) {
        // The table has the rows then, as in delivery.
        Err(error) if error.broken_view().is_some() => insert(Views::Optional)?,
        outcome => outcome?,
    }
    Ok(connection.execute_within(&letters.mark_sql(&token), PATIENCE)?)
}
