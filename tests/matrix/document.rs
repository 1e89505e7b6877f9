//! The matrix as a table of `docs/delivery.md`. `UPDATE_DOCS=1 cargo test --test matrix` writes it.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use crate::faults::{FAULTS, Fault};
use crate::outcome::Outcome;

const BEGIN: &str = "<!-- matrix: written by UPDATE_DOCS=1 cargo test --test matrix -->\n";
const END: &str = "<!-- end of matrix -->\n";

const HEAD: &str = "\
| fault | `fail` | `fail`, spool | `quarantine` | `quarantine`, spool | worst `/metrics` |
|---|---|---|---|---|---|
";

pub fn is_to_be_written() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

/// Writes or compares the table; the figures of `/metrics` are of one run, and are not compared.
pub fn check(slowest: &[Option<Duration>]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/delivery.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (table, after) = rest.split_once(END).unwrap();
    if is_to_be_written() {
        let table: String =
            FAULTS.iter().zip(slowest).map(|(fault, worst)| row(fault, *worst)).collect();
        std::fs::write(&file, format!("{before}{BEGIN}{HEAD}{table}{END}{after}")).unwrap();
        return;
    }
    let written = table.strip_prefix(HEAD).unwrap_or_default().lines();
    let written: Vec<&str> = written.filter_map(|line| Some(line.rsplit_once(" | ")?.0)).collect();
    let expected: Vec<String> = FAULTS.iter().map(outcomes).collect();
    assert_eq!(
        written, expected,
        "docs/delivery.md is old: UPDATE_DOCS=1 cargo test --test matrix"
    );
}

fn row(fault: &Fault, worst: Option<Duration>) -> String {
    let worst = worst.map_or_else(|| "not run".to_owned(), |it| format!("{} ms", it.as_millis()));
    format!("{} | {worst} |\n", outcomes(fault))
}

/// The row without its figure.
fn outcomes(fault: &Fault) -> String {
    let mut row = format!("| {}", fault.name);
    for outcome in fault.expected {
        write!(row, " | {}", outcome.map_or_else(|| "–".to_owned(), Outcome::words)).unwrap();
    }
    row
}
