//! Files with mistakes: all are said at once, each with its line.

use std::fmt;

/// Mistakes that are said of one file; nobody reads more.
const MISTAKES_MAX: usize = 20;

/// What is wrong with a file; nothing of it is used.
#[derive(Clone, Debug, Default, Eq, PartialEq, thiserror::Error)]
pub struct Mistakes {
    first: Vec<(u64, String)>,
    more: usize,
}

impl Mistakes {
    /// Adds one in a line, counted from 1.
    pub(crate) fn add(&mut self, line: u64, text: impl Into<String>) {
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
