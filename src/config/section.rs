//! Reading the keys of one table.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::document::{Document, ENV_PREFIX, Place, start};
use super::secret::Secret;
use super::values::{parse_bytes, parse_duration, show_bytes, show_duration};

/// One table of the file. A key that is asked for is known; when the section ends, keys that nobody
/// asked for are mistakes.
#[derive(Debug)]
pub(super) struct Section<'a> {
    document: &'a Document<'a>,
    /// Dotted, empty for the root.
    name: String,
    table: Option<&'a DeTable<'a>>,
    place: Place,
    known: RefCell<Vec<String>>,
}

/// A value as text, with the place it was written at.
struct Written<'a> {
    place: Place,
    value: Value<'a>,
}

enum Value<'a> {
    File(&'a DeValue<'a>),
    Environment(String),
}

impl<'a> Section<'a> {
    pub(super) fn root(document: &'a Document<'a>, table: &'a DeTable<'a>) -> Self {
        let known = RefCell::default();
        Self { document, name: String::new(), table: Some(table), place: Place::File(0), known }
    }

    /// The table `key`, empty when it is not there.
    pub(super) fn section(&self, key: &str) -> Self {
        self.know(key);
        let name = self.dotted(key);
        let known = RefCell::default();
        let Some((key_span, value)) = self.entry(key) else {
            return Self { document: self.document, name, table: None, place: self.place, known };
        };
        let place = start(key_span);
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.document.mistake(place, format!("{name}: must be a table, [{name}]"));
        }
        Self { document: self.document, name, table, place, known }
    }

    /// The tables below this one, those with a variable named `..._NAME_SUFFIX` included.
    pub(super) fn sections(&self, env_suffixes: &[&str]) -> Vec<(String, Self)> {
        let keys = self.table.into_iter().flat_map(|table| table.keys());
        let mut names: Vec<String> = keys.map(|key| key.get_ref().to_string()).collect();
        for name in
            self.document.variable_names(&format!("{}_", self.variable_name()), env_suffixes)
        {
            if !names.iter().any(|known| known.replace('-', "_").eq_ignore_ascii_case(&name)) {
                names.push(name);
            }
        }
        names.into_iter().map(|name| (name.clone(), self.section(&name))).collect()
    }

    /// The tables of `[[key]]`, in the order of the file; mistakes count them from 1. The environment has no
    /// variables for them.
    pub(super) fn tables(&self, key: &str) -> Vec<Self> {
        self.know(key);
        let name = self.dotted(key);
        let Some((span, value)) = self.entry(key) else { return Vec::new() };
        let must_be = format!("{name}: must be tables, [[{name}]]");
        let Some(items) = value.get_ref().as_array() else {
            self.document.mistake(start(span), must_be);
            return Vec::new();
        };
        let tables = (1..).zip(items.iter()).map(|(number, item)| {
            let (place, table) = (start(item.span()), item.get_ref().as_table());
            if table.is_none() {
                self.document.mistake(place, must_be.clone());
            }
            let (document, name) = (self.document, format!("{name}[{number}]"));
            Self { document, name, table, place, known: RefCell::default() }
        });
        tables.collect()
    }

    /// Whether the key is written, in the file or in the environment.
    pub(super) fn has(&self, key: &str) -> bool {
        self.written(key).is_some()
    }

    pub(super) fn bool(&self, key: &str, default: bool) -> bool {
        self.read(key, default, "true or false", |value| match value {
            Value::File(value) => value.as_bool(),
            Value::Environment(text) => text.parse().ok(),
        })
    }

    /// A password or a reference to one.
    pub(super) fn secret(&self, key: &str) -> Secret {
        let text = self.text(key, "");
        let variable = |name: &str| self.document.process_variable(name);
        let secret = Secret::resolve(&text, variable).unwrap_or_else(|why| {
            self.mistake(key, why);
            Secret::default()
        });
        match Secret::file(&text) {
            Some(path) => self.warn_if_open(key, path),
            None if Secret::is_inline(&text) && self.is_in_file(key) => {
                self.warn_if_open(key, self.document.path());
            }
            None => {}
        }
        secret
    }

    /// A secret in a file that everybody on the machine may read is hardly one.
    pub(super) fn warn_if_open(&self, key: &str, path: &Path) {
        if is_open(path) {
            let (name, path) = (self.dotted(key), path.display());
            self.document.oddity(format!("{name}: everybody may read {path}: chmod o-r {path}"));
        }
    }

    /// The text of a key that was asked for, empty without one.
    pub(super) fn peek(&self, key: &str) -> String {
        match self.written(key).map(|written| written.value) {
            Some(Value::File(value)) => value.as_str().unwrap_or_default().to_owned(),
            Some(Value::Environment(text)) => text,
            None => String::new(),
        }
    }

    pub(super) fn text(&self, key: &str, default: &str) -> String {
        self.parsed(key, default.to_owned(), "text", |text| Some(text.to_owned()))
    }

    /// Text that `parse` understands.
    pub(super) fn parsed<T>(
        &self,
        key: &str,
        default: T,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> T {
        self.read(key, default, expected, |value| match value {
            Value::File(value) => value.as_str().and_then(&parse),
            Value::Environment(text) => parse(text),
        })
    }

    /// A list of texts or whole numbers, or comma-separated in the environment.
    pub(super) fn list<T>(
        &self,
        key: &str,
        default: Vec<T>,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Vec<T> {
        let expected = format!("a list of {expected}");
        self.read(key, default, &expected, |value| match value {
            Value::File(value) => {
                let items = value.as_array()?.iter();
                items.map(|item| parse(list_item(item.get_ref())?)).collect()
            }
            Value::Environment(text) => text.split(',').map(|item| parse(item.trim())).collect(),
        })
    }

    /// One text or a list of texts, comma-separated in the environment. Each that `parse` does not
    /// understand is a mistake of its own.
    pub(super) fn one_or_more<T>(
        &self,
        key: &str,
        default: Vec<T>,
        expected: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Vec<T> {
        self.know(key);
        let Some(written) = self.written(key) else {
            return default;
        };
        let items: Vec<(Place, Option<T>)> = match &written.value {
            Value::File(DeValue::Array(items)) => {
                let parse = |item: &Spanned<DeValue<'_>>| item.get_ref().as_str().and_then(&parse);
                items.iter().map(|item| (start(item.span()), parse(item))).collect()
            }
            Value::File(value) => vec![(written.place, value.as_str().and_then(parse))],
            Value::Environment(text) => {
                let items = text.split(',').map(|item| parse(item.trim()));
                items.map(|item| (Place::Environment, item)).collect()
            }
        };
        let name = self.name_of(key, &written.value);
        if items.is_empty() {
            self.document
                .mistake(written.place, format!("{name}: is an empty list, must be {expected}"));
        }
        let is_list = items.len() > 1;
        let parsed = (1..).zip(items).filter_map(|(number, (place, item))| {
            if item.is_none() {
                let which = if is_list { format!(", item {number}") } else { String::new() };
                self.document.mistake(place, format!("{name}{which}: must be {expected}"));
            }
            item
        });
        parsed.collect()
    }

    pub(super) fn count(&self, key: &str, default: usize, range: RangeInclusive<usize>) -> usize {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        self.read(key, default, &expected, |value| {
            let number: usize = match value {
                Value::File(value) => {
                    let integer = value.as_integer()?;
                    usize::from_str_radix(integer.as_str(), integer.radix()).ok()?
                }
                Value::Environment(text) => text.parse().ok()?,
            };
            range.contains(&number).then_some(number)
        })
    }

    /// A number of 32 bits, if it is written.
    pub(super) fn number(&self, key: &str) -> Option<u32> {
        self.know(key);
        self.has(key).then(|| u32::try_from(self.count(key, 0, 0..=u32::MAX as usize)).unwrap_or(0))
    }

    pub(super) fn duration(
        &self,
        key: &str,
        default: Duration,
        range: RangeInclusive<Duration>,
    ) -> Duration {
        let expected = format!(
            "a duration from \"{}\" to \"{}\"",
            show_duration(*range.start()),
            show_duration(*range.end())
        );
        self.parsed(key, default, &expected, |text| {
            parse_duration(text).filter(|duration| range.contains(duration))
        })
    }

    pub(super) fn bytes(&self, key: &str, default: u64, range: RangeInclusive<u64>) -> u64 {
        let expected = format!(
            "a size from \"{}\" to \"{}\"",
            show_bytes(*range.start()),
            show_bytes(*range.end())
        );
        self.parsed(key, default, &expected, |text| {
            parse_bytes(text).filter(|bytes| range.contains(bytes))
        })
    }

    /// A mistake that shows only when several keys are seen together.
    pub(super) fn mistake(&self, key: &str, text: impl Display) {
        let (place, name) = match self.written(key) {
            None => (self.place, self.dotted(key)),
            Some(written) => (written.place, self.name_of(key, &written.value)),
        };
        self.document.mistake(place, format!("{name}: {text}"));
    }

    /// A key that has no meaning beside the others is a mistake where it is written.
    pub(super) fn refuse(&self, key: &str, why: &str) {
        self.know(key);
        if self.has(key) {
            self.mistake(key, why);
        }
    }

    /// Ends the section: keys that nobody asked for are mistakes.
    pub(super) fn finish(self) {
        if !self.document.is_well_formed {
            return;
        }
        let known = self.known.borrow();
        for key in self.table.into_iter().flat_map(|table| table.keys()) {
            let name: &str = key.get_ref();
            if known.iter().any(|known| known == name) {
                continue;
            }
            let nearest = known.iter().max_by(|a, b| {
                strsim::jaro_winkler(name, a).total_cmp(&strsim::jaro_winkler(name, b))
            });
            let hint = match nearest.filter(|known| strsim::jaro_winkler(name, known) > 0.75) {
                Some(known) => format!("did you mean {known}?"),
                None => format!("known here: {}", known.join(", ")),
            };
            let text = format!("{}: unknown key; {hint}", self.dotted(name));
            self.document.mistake(start(key.span()), text);
        }
    }

    fn read<T>(
        &self,
        key: &str,
        default: T,
        expected: &str,
        parse: impl Fn(&Value<'_>) -> Option<T>,
    ) -> T {
        self.know(key);
        let Some(written) = self.written(key) else {
            return default;
        };
        parse(&written.value).unwrap_or_else(|| {
            let name = self.name_of(key, &written.value);
            self.document.mistake(written.place, format!("{name}: must be {expected}"));
            default
        })
    }

    fn is_in_file(&self, key: &str) -> bool {
        self.written(key).is_some_and(|written| matches!(written.value, Value::File(_)))
    }

    fn written(&self, key: &str) -> Option<Written<'a>> {
        if let Some(text) = self.document.variable(&self.variable_of(key)) {
            return Some(Written { place: Place::Environment, value: Value::Environment(text) });
        }
        let (span, value) = self.entry(key)?;
        Some(Written { place: start(span), value: Value::File(value.get_ref()) })
    }

    fn entry(&self, key: &str) -> Option<(std::ops::Range<usize>, &'a Spanned<DeValue<'a>>)> {
        let (key, value) = self.table?.iter().find(|(name, _)| name.get_ref() == key)?;
        Some((key.span(), value))
    }

    fn know(&self, key: &str) {
        self.known.borrow_mut().push(key.to_owned());
    }

    fn dotted(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    /// The key as the user wrote it.
    fn name_of(&self, key: &str, value: &Value<'_>) -> String {
        match value {
            Value::File(_) => self.dotted(key),
            Value::Environment(_) => self.variable_of(key),
        }
    }

    fn variable_name(&self) -> String {
        format!("{ENV_PREFIX}{}", self.name.replace(['.', '-'], "_").to_uppercase())
    }

    fn variable_of(&self, key: &str) -> String {
        format!("{ENV_PREFIX}{}", self.dotted(key).replace(['.', '-'], "_").to_uppercase())
    }
}

fn is_open(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & READABLE_BY_OTHERS != 0)
}

/// Of the mode of a file.
const READABLE_BY_OTHERS: u32 = 0o004;

/// A text, or the digits of a whole number.
fn list_item<'a>(item: &'a DeValue<'_>) -> Option<&'a str> {
    item.as_str().or_else(|| item.as_integer().map(|integer| integer.as_str()))
}
