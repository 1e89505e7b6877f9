//! Rows that ClickHouse will not take, as rows of `flows_dead_letter`.

use std::ops::Range;

use serde::Serialize;

use crate::clickhouse::{Block, CITED_VALUES, Class, Method, encode_body};
use crate::flow::{COLUMNS, Column, Row, TextRow, utc};

use super::destination::{Batch, Target};
use super::tries::Refusal;

/// Letters of one insert. A row is about a kilobyte as JSON, and a batch may have a million.
pub(super) const LETTERS_PER_INSERT: usize = 10_000;

/// Characters of an error that are kept. ClickHouse can repeat a whole statement.
const ERROR_CHARS_MAX: usize = 2_000;

/// Where ClickHouse cites the expression that a row violates.
const EXPRESSION: &str = "Expression: ";

/// A row of `flows_dead_letter`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Letter<'a> {
    tenant: &'a str,
    failed_at: &'a str,
    batch_id: &'a str,
    row_index: usize,
    error_code: u32,
    error_name: &'a str,
    error: &'a str,
    error_class: &'static str,
    failed_columns: &'a [&'static str],
    attempts: u32,
    /// What is refused for its rows now was so before, when there was no answer.
    may_be_stored: u8,
    exporter_addr: &'a str,
    system: &'a str,
    payload: String,
}

/// Some rows of a refused batch as one insert. Its token follows from the batch's and the rows, so that
/// they are kept once.
pub(super) fn letters(
    batch: &Batch,
    block: &Block,
    rows: Range<usize>,
    refusal: &Refusal,
    now_ms: i64,
    method: Method,
) -> Batch {
    let failed_at = utc(now_ms);
    let may_be_stored = refusal.may_be_stored && refusal.class != Class::Data;
    let text = refusal.failure.to_string();
    let error = shown(&text);
    let failed_columns = failed_columns(&error);
    let (error_code, error_name) = refusal.failure.code();
    let mut json = Vec::new();
    let chunks = block.chunks(rows.clone());
    let all =
        chunks.iter().flat_map(|chunk| (0..chunk.rows()).map(move |row| Row::new(chunk, row)));
    for (row_index, row) in rows.clone().zip(all) {
        let letter = Letter {
            tenant: row.text(Column::Tenant),
            failed_at: &failed_at,
            batch_id: batch.root(),
            row_index: batch.first_row + row_index,
            error_code,
            error_name,
            error: &error,
            error_class: refusal.class.label(),
            failed_columns: &failed_columns,
            attempts: refusal.attempts,
            may_be_stored: may_be_stored.into(),
            exporter_addr: row.text(Column::ExporterAddr),
            system: row.text(Column::System),
            // Texts, numbers and maps of them: there is nothing that JSON cannot say.
            payload: serde_json::to_string(&TextRow(row)).unwrap_or_default(),
        };
        if serde_json::to_writer(&mut json, &letter).is_ok() {
            json.push(b'\n');
        }
    }
    Batch {
        token: format!("{}/dead/{}", batch.root(), batch.first_row + rows.start),
        target: Target::DeadLetters,
        on_row_error: batch.on_row_error,
        rows: rows.len(),
        first_row: batch.first_row + rows.start,
        bytes: encode_body(&json, method),
    }
}

/// An error without the values of the row that it cites, cut. It can be another tenant's, and the letter has its
/// own.
fn shown(text: &str) -> String {
    let text = match text.split_once(CITED_VALUES) {
        // The name of the error comes behind the values.
        Some((before, values)) => match values.rsplit_once(". (") {
            Some((_, name)) => format!("{before}. ({name}"),
            None => before.to_owned(),
        },
        None => text.to_owned(),
    };
    text.chars().take(ERROR_CHARS_MAX).collect()
}

/// The columns that an error names: in the expression that is violated, else in quotes.
fn failed_columns(error: &str) -> Vec<&'static str> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let is_named = |name: &str| match error.split_once(EXPRESSION) {
        Some((_, expression)) => expression.split(|c| !is_letter(c)).any(|word| word == name),
        None => ['\'', '`'].iter().any(|quote| error.contains(&format!("{quote}{name}{quote}"))),
    };
    COLUMNS.iter().map(|spec| spec.name).filter(|name| is_named(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_cited_row_are_left_out_and_its_columns_named() {
        let text = "Code: 469. DB::Exception: Constraint `c` for table db.flows (1-2) is violated at row 3. \
                    Expression: (bytes < 1000) AND (vlan != 7). Column values: bytes = 5000, vlan = 3. \
                    (VIOLATED_CONSTRAINT) (version 26.7)";
        let shown = shown(text);
        assert!(!shown.contains("5000"), "{shown}");
        assert!(shown.contains("is violated at row 3. Expression: (bytes < 1000)"), "{shown}");
        assert_eq!(failed_columns(&shown), ["bytes", "vlan"]);
        let other = "Code: 117. DB::Exception: Cannot convert column `srcAs` because it is String";
        assert_eq!(failed_columns(other), ["srcAs"]);
        assert_eq!(failed_columns("Code: 60. DB::Exception: Table flows does not exist"), [""; 0]);
    }

    #[test]
    fn long_errors_are_cut() {
        assert_eq!(shown(&"\u{e9}".repeat(3_000)).chars().count(), ERROR_CHARS_MAX);
    }
}
