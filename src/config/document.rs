//! The parsed file, the environment that overrides it, and the mistakes found so far.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::DeTable;

use super::section::Section;

/// Variables that begin so override keys of the file.
pub(super) const ENV_PREFIX: &str = "TIDEGATE_";

/// Variables with the prefix that are not keys.
const ENV_OTHER: [&str; 3] = ["TIDEGATE_CACHE_DIR", "TIDEGATE_LOG", "TIDEGATE_CAPTURES"];

/// Every mistake of a configuration, in the order of the file. Shown one a line.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub struct ConfigErrors(pub(super) Vec<String>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl ConfigErrors {
    pub(super) fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self(vec![format!("{}: cannot be read: {error}", path.display())])
    }
}

/// Where a value was written.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Place {
    /// Byte offset in the file.
    File(usize),
    /// The environment.
    Environment,
}

/// A file, the environment, and the mistakes found in them.
#[derive(Debug)]
pub(super) struct Document<'a> {
    path: PathBuf,
    text: &'a str,
    table: Spanned<DeTable<'a>>,
    /// Variables that override keys.
    environment: RefCell<BTreeMap<String, Variable>>,
    /// All variables, for secrets.
    process: Vec<(String, String)>,
    mistakes: RefCell<Vec<(Place, String)>>,
    /// Without mistakes of the syntax, behind which what looks like a key may be part of a value, of a password even.
    pub(super) is_well_formed: bool,
    /// What is no mistake and hardly wanted.
    oddities: RefCell<Vec<String>>,
}

#[derive(Debug)]
struct Variable {
    value: String,
    is_used: bool,
}

impl<'a> Document<'a> {
    pub(super) fn new(text: &'a str, path: &Path, environment: Vec<(String, String)>) -> Self {
        let (table, errors) = DeTable::parse_recoverable(text);
        let is_key = |name: &str| name.starts_with(ENV_PREFIX) && !ENV_OTHER.contains(&name);
        let process = environment.clone();
        let environment = environment
            .into_iter()
            .filter(|(name, _)| is_key(name))
            .map(|(name, value)| (name, Variable { value, is_used: false }));
        let document = Self {
            path: path.to_owned(),
            text,
            table,
            environment: RefCell::new(environment.collect()),
            process,
            mistakes: RefCell::default(),
            is_well_formed: errors.is_empty(),
            oddities: RefCell::default(),
        };
        for error in errors {
            let span = error.span().unwrap_or_default();
            document.mistake(Place::File(span.start), error.message().to_owned());
        }
        document
    }

    pub(super) fn root(&self) -> Section<'_> {
        Section::root(self, self.table.get_ref())
    }

    /// The result, unless there were mistakes.
    pub(super) fn finish<T>(self, value: T) -> Result<T, ConfigErrors> {
        for (name, variable) in self.environment.take() {
            if !variable.is_used {
                self.mistake(Place::Environment, format!("{name}: no key has this name"));
            }
        }
        let mut mistakes = self.mistakes.take();
        if mistakes.is_empty() {
            return Ok(value);
        }
        mistakes.sort();
        mistakes.dedup();
        let show = |(place, text): &(Place, String)| match place {
            Place::File(offset) => {
                format!("{}:{}: {text}", self.path.display(), line_of(self.text, *offset))
            }
            Place::Environment => format!("environment: {text}"),
        };
        Err(ConfigErrors(mistakes.iter().map(show).collect()))
    }

    pub(super) fn mistake(&self, place: Place, text: String) {
        self.mistakes.borrow_mut().push((place, text));
    }

    /// Where the document is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn oddity(&self, text: String) {
        self.oddities.borrow_mut().push(text);
    }

    /// All that were found.
    pub(super) fn oddities(&self) -> Vec<String> {
        self.oddities.borrow().clone()
    }

    /// The value of any variable of the process.
    pub(super) fn process_variable(&self, name: &str) -> Option<String> {
        self.process.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    /// The value of a variable; from now on it counts as known.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let mut environment = self.environment.borrow_mut();
        let variable = environment.get_mut(name)?;
        variable.is_used = true;
        Some(variable.value.clone())
    }

    /// Names between `prefix` and one of `suffixes` in the environment, in lower case.
    pub(super) fn variable_names(&self, prefix: &str, suffixes: &[&str]) -> Vec<String> {
        let environment = self.environment.borrow();
        let names = environment.keys().filter_map(|name| {
            let rest = name.strip_prefix(prefix)?;
            suffixes.iter().find_map(|suffix| rest.strip_suffix(suffix))
        });
        names.map(str::to_lowercase).collect()
    }
}

pub(super) fn start(span: Range<usize>) -> Place {
    Place::File(span.start)
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    before.iter().filter(|&&byte| byte == b'\n').count() + 1
}
