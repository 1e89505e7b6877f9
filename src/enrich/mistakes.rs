//! Files with mistakes: all are said at once, each with its line.

use std::fmt;

/// Mistakes that are said of one file; nobody reads more.
const MISTAKES_MAX: usize = 50;

/// What is wrong with a file; nothing of it is used.
#[derive(Clone, Debug, Default, Eq, PartialEq, thiserror::Error)]
pub struct Mistakes {
    first: Vec<(usize, String)>,
    more: usize,
}

impl Mistakes {
    /// A single one.
    pub(crate) fn one(line: usize, text: String) -> Self {
        Self { first: vec![(line, text)], more: 0 }
    }

    /// Adds one in a line, counted from 1.
    pub(crate) fn add(&mut self, line: usize, text: impl Into<String>) {
        if self.first.len() < MISTAKES_MAX {
            self.first.push((line, text.into()));
        } else {
            self.more += 1;
        }
    }

    /// `value`, unless there are any.
    pub(crate) fn unless_any<T>(self, value: T) -> Result<T, Self> {
        if self.first.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.first.iter().map(|(line, text)| format!("line {line}: {text}"));
        f.write_str(&lines.collect::<Vec<_>>().join("; "))?;
        match self.more {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}
