//! CSV whose first line names its columns, in any order.

use csv::{ReaderBuilder, StringRecord, Trim};

use super::mistakes::Mistakes;

/// A text in CSV and where its columns are.
pub(super) struct Table<'a, const N: usize> {
    reader: csv::Reader<&'a [u8]>,
    /// By the order in which the columns were asked for.
    places: Option<[Option<usize>; N]>,
}

/// The fields of one line, in the order in which the columns were asked for; empty when the column is missing.
pub(super) struct Line<'a, const N: usize> {
    pub(super) number: u64,
    pub(super) fields: [&'a str; N],
}

impl<'a, const N: usize> Table<'a, N> {
    /// Reads the first line. Columns that are not of `columns` are mistakes, and so is the lack of `required`.
    pub(super) fn new(
        text: &'a str,
        columns: &[&str; N],
        required: &str,
        mistakes: &mut Mistakes,
    ) -> Self {
        let text = text.trim_start_matches('\u{feff}');
        let mut reader =
            ReaderBuilder::new().trim(Trim::All).comment(Some(b'#')).from_reader(text.as_bytes());
        let places = match reader.headers() {
            Ok(header) => places(header, columns, required, mistakes),
            Err(error) => {
                mistakes.add(1, error.to_string());
                None
            }
        };
        Self { reader, places }
    }

    /// Gives each line to `take`, unless the first one had mistakes.
    pub(super) fn read(
        mut self,
        mistakes: &mut Mistakes,
        mut take: impl FnMut(&Line<'_, N>, &mut Mistakes),
    ) {
        let Some(places) = self.places else { return };
        let mut record = StringRecord::new();
        loop {
            match self.reader.read_record(&mut record) {
                Ok(false) => return,
                Ok(true) => {
                    let number = record.position().map_or(0, csv::Position::line);
                    let field =
                        |place: Option<usize>| place.and_then(|it| record.get(it)).unwrap_or("");
                    take(&Line { number, fields: places.map(field) }, mistakes);
                }
                Err(error) => {
                    let number = error.position().map_or(0, csv::Position::line);
                    mistakes.add(number, describe(&error));
                }
            }
        }
    }
}

fn places<const N: usize>(
    header: &StringRecord,
    columns: &[&str; N],
    required: &str,
    mistakes: &mut Mistakes,
) -> Option<[Option<usize>; N]> {
    let known = columns.join(", ");
    let mut is_right = true;
    for name in header.iter().filter(|name| !columns.contains(name)) {
        mistakes.add(1, format!("there is no column {name:?}; the columns are {known}"));
        is_right = false;
    }
    if !header.iter().any(|name| name == required) {
        mistakes.add(
            1,
            format!(
                "the column {required} is missing; the first line names the columns, of {known}"
            ),
        );
        is_right = false;
    }
    is_right.then(|| columns.map(|column| header.iter().position(|name| name == column)))
}

fn describe(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("has {len} fields, the first line has {expected_len}")
        }
        _ => error.to_string(),
    }
}
