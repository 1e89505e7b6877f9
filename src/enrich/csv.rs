//! CSV whose first line names its columns, in any order. Lines that begin with `#` are left out.

use csv::{Position, ReaderBuilder, StringRecord, Trim};

use super::mistakes::Mistakes;

/// A text in CSV and where its columns are.
pub(super) struct Table<'a, const N: usize> {
    text: &'a str,
    reader: csv::Reader<&'a [u8]>,
    /// By the order in which the columns were asked for.
    places: [Option<usize>; N],
}

/// The fields of one line, in the order in which the columns were asked for; empty when the column is missing.
pub(super) struct Line<'a, const N: usize> {
    pub(super) number: usize,
    pub(super) fields: [&'a str; N],
}

impl<'a, const N: usize> Table<'a, N> {
    /// Reads the line of names. Those that are not of `columns` are mistakes, and so is the lack of `required`.
    pub(super) fn new(
        text: &'a str,
        columns: &[&str; N],
        required: &str,
    ) -> Result<Self, Mistakes> {
        let text = text.trim_start_matches('\u{feff}');
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .trim(Trim::All)
            .comment(Some(b'#'))
            .from_reader(text.as_bytes());
        let (mut mistakes, mut head) = (Mistakes::default(), StringRecord::new());
        if let Err(error) = reader.read_record(&mut head) {
            mistakes.add(1, error.to_string());
        }
        let number = line_of(text, head.position());
        for (index, name) in head.iter().enumerate() {
            if !columns.contains(&name) {
                let known = columns.join(", ");
                mistakes.add(number, format!("\"{name}\" is no column, known are {known}"));
            } else if head.iter().take(index).any(|before| before == name) {
                mistakes.add(number, format!("the column {name} is there twice"));
            }
        }
        if !head.iter().any(|name| name == required) {
            mistakes.add(number, format!("the first line must name the column {required}"));
        }
        let places = columns.map(|column| head.iter().position(|name| name == column));
        mistakes.unless_any(Self { text, reader, places })
    }

    /// Gives each line to `take`.
    pub(super) fn read(
        mut self,
        mistakes: &mut Mistakes,
        mut take: impl FnMut(&Line<'_, N>, &mut Mistakes),
    ) {
        let mut record = StringRecord::new();
        loop {
            match self.reader.read_record(&mut record) {
                Ok(false) => return,
                Ok(true) => {
                    let number = line_of(self.text, record.position());
                    let field = |place: Option<usize>| record.get(place?);
                    let fields = self.places.map(|place| field(place).unwrap_or_default());
                    take(&Line { number, fields }, mistakes);
                }
                Err(error) => mistakes.add(line_of(self.text, error.position()), said(&error)),
            }
        }
    }
}

/// The line of a record. Its position is where the record before it ended, so empty lines and comments in between
/// are stepped over.
fn line_of(text: &str, position: Option<&Position>) -> usize {
    let Some(position) = position else { return 1 };
    let mut line = usize::try_from(position.line()).unwrap_or(usize::MAX);
    let offset = usize::try_from(position.byte()).unwrap_or(usize::MAX);
    let mut rest = text.get(offset..).unwrap_or_default();
    while let Some((skipped, behind)) = rest.split_once('\n')
        && (skipped.trim().is_empty() || skipped.starts_with('#'))
    {
        (rest, line) = (behind, line + 1);
    }
    line
}

fn said(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("has {len} fields, and there are {expected_len} columns")
        }
        _ => error.to_string(),
    }
}
