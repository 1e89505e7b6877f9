//! `tidegate elements`: the registry of information elements.

use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _, stdout};
use std::process::ExitCode;

use anyhow::Result;

use crate::elements::{Element, Scope, registry};
use crate::flow::{COLUMNS, Source};

#[cfg(test)]
mod tests;

/// How many names are suggested when nothing is found.
const SUGGESTIONS: usize = 3;

/// Print information elements: number, name, type, unit, and the columns of flows that they fill
///
/// Those of IANA, of vendors (PEN/ID), and the field types that only NetFlow v9 has (v9/ID).
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A part of a name, an id, or PEN/ID; all elements without it
    #[arg(value_name = "NAME|ID|PEN/ID")]
    query: Option<String>,
}

/// What to look for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Query<'a> {
    All,
    /// An id of IANA, or of NetFlow v9.
    Id(u16),
    Number(Scope, u16),
    PartOfName(&'a str),
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        let text = self.query.as_deref().unwrap_or_default();
        let query = Query::parse(text);
        let found: Vec<_> = registry().iter().filter(|element| query.matches(element)).collect();
        if found.is_empty() {
            eprintln!("{}", nothing_found(text, query));
            return Ok(ExitCode::FAILURE);
        }
        match stdout().lock().write_all(table(&found).as_bytes()) {
            // `tidegate elements | head` has seen enough.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(ExitCode::SUCCESS),
        }
    }
}

impl<'a> Query<'a> {
    fn parse(text: &'a str) -> Self {
        if text.is_empty() {
            return Self::All;
        }
        if let Ok(id) = text.parse() {
            return Self::Id(id);
        }
        let number = text.split_once('/').and_then(|(scope, id)| {
            let scope = match scope {
                "v9" => Scope::NetflowV9,
                number => Scope::Enterprise(number.parse().ok()?),
            };
            Some(Self::Number(scope, id.parse().ok()?))
        });
        number.unwrap_or(Self::PartOfName(text))
    }

    fn matches(self, element: &Element) -> bool {
        match self {
            Self::All => true,
            Self::Id(id) => {
                element.id == id && matches!(element.scope, Scope::IANA | Scope::NetflowV9)
            }
            Self::Number(scope, id) => (element.scope, element.id) == (scope, id),
            Self::PartOfName(part) => {
                element.name.to_ascii_lowercase().contains(&part.to_ascii_lowercase())
            }
        }
    }

    /// How far an element is from what was looked for; nothing when it cannot have been meant.
    fn distance(self, element: &Element) -> Option<f64> {
        let from = |id: u16| Some(f64::from(element.id.abs_diff(id)));
        match self {
            Self::All => None,
            Self::Id(id) if element.scope == Scope::IANA => from(id),
            Self::Number(scope, id) if element.scope == scope => from(id),
            Self::Id(_) | Self::Number(..) => None,
            Self::PartOfName(part) => {
                let name = element.name.to_ascii_lowercase();
                Some(1.0 - strsim::jaro_winkler(&name, &part.to_ascii_lowercase()))
            }
        }
    }
}

fn nothing_found(text: &str, query: Query<'_>) -> String {
    let distance = |element| Some((query.distance(element)?, element));
    let mut near: Vec<_> = registry().iter().filter_map(distance).collect();
    near.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    near.dedup_by(|(_, a), (_, b)| a.name == b.name);
    near.truncate(SUGGESTIONS);
    let near: Vec<_> = near
        .into_iter()
        .map(|(_, element)| format!("{} ({})", element.name, element.number()))
        .collect();
    match (query, near.is_empty()) {
        (Query::Number(scope, _), true) => format!("no element of enterprise {scope} is known"),
        _ => format!("no element \"{text}\" is known; nearest: {}", near.join(", ")),
    }
}

/// One line an element, in columns as wide as their longest text.
fn table(elements: &[&Element]) -> String {
    let header = ["ID", "NAME", "TYPE", "UNIT", "COLUMNS"].map(str::to_owned);
    let rows: Vec<_> =
        std::iter::once(header).chain(elements.iter().map(|element| row(element))).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
    let [id_width, name_width, type_width, unit_width] = [0, 1, 2, 3].map(width);
    let mut text = String::new();
    for [id, name, data_type, unit, columns] in &rows {
        let line = format!(
            "{id:<id_width$}  {name:<name_width$}  {data_type:<type_width$}  {unit:<unit_width$}  {columns}"
        );
        // Writing to a string cannot fail.
        _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

fn row(element: &Element) -> [String; 5] {
    [
        element.number(),
        element.name.clone().into_owned(),
        element.data_type.name().to_owned(),
        element.unit.to_owned(),
        columns(element),
    ]
}

/// The columns of `flows` that an element fills.
fn columns(element: &Element) -> String {
    let fills =
        |source: &Source| registry().find_source(source.enterprise, source.id) == Some(element);
    let columns = COLUMNS.iter().filter(|spec| spec.sources.iter().any(fills));
    columns.map(|spec| spec.name).collect::<Vec<_>>().join(" ")
}
