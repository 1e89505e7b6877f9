//! `tidegate spool`: the batches that wait on disk. Works beside a running collector, and takes no lock.

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, Result};
use clap::Subcommand;

use crate::spool::{Depth, Surveyed, survey};

use super::{ConfigFile, EXIT_CONFIG};

/// Show the batches that wait on disk for ClickHouse
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print a line for each batch, the oldest first
    ///
    /// BYTES are those of the file. WHY is outage, refused with the error code of ClickHouse, or shutdown;
    /// or what is wrong with the file. Reads the beginning of each file only.
    List(Which),
    /// Check every checksum; exit code 1 when a file is damaged
    Verify(Which),
}

/// Which spool.
#[derive(Debug, clap::Args)]
struct Which {
    #[command(flatten)]
    config: ConfigFile,
    /// The directory itself, without a configuration file
    #[arg(long, value_name = "DIR", conflicts_with = "path")]
    directory: Option<PathBuf>,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        let (which, depth) = match self.action {
            Action::List(which) => (which, Depth::Header),
            Action::Verify(which) => (which, Depth::Body),
        };
        let directory = match which.directory() {
            Ok(directory) => directory,
            Err(exit_code) => return Ok(exit_code),
        };
        let files = survey(&directory, depth)
            .with_context(|| format!("cannot read the spool {}", directory.display()))?;
        match depth {
            Depth::Header => list(files),
            Depth::Body => verify(files),
        }
    }
}

impl Which {
    fn directory(self) -> Result<PathBuf, ExitCode> {
        if let Some(directory) = self.directory {
            return Ok(directory);
        }
        self.config.load()?.spool.directory.ok_or_else(|| {
            eprintln!("{}: there is no spool, spool.directory is empty", self.config);
            EXIT_CONFIG.into()
        })
    }
}

const HEAD: &str =
    "ID                       AGE       ROWS        BYTES TARGET                   WHY";

fn list(files: impl Iterator<Item = Surveyed>) -> Result<ExitCode> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let now_ms = i64::try_from(since.as_millis())?;
    let mut out = stdout().lock();
    let mut totals = Totals::default();
    writeln!(out, "{HEAD}")?;
    for file in files {
        writeln!(out, "{}", line(&file, now_ms))?;
        totals.add(&file);
    }
    writeln!(out, "{}", totals.line())?;
    Ok(ExitCode::SUCCESS)
}

fn verify(files: impl Iterator<Item = Surveyed>) -> Result<ExitCode> {
    let mut out = stdout().lock();
    let mut totals = Totals::default();
    for file in files {
        totals.add(&file);
        if let Some(verdict) = verdict(&file) {
            writeln!(out, "{}: {verdict}", file.file_name)?;
        }
    }
    writeln!(out, "{}", totals.line())?;
    Ok(if totals.damaged == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is wrong with a file, and what is lost with it.
fn verdict(file: &Surveyed) -> Option<String> {
    let rows = file.header.as_ref().map_or_else(
        || "its rows are not known".to_owned(),
        |header| format!("{} rows", header.rows),
    );
    match &file.error {
        Some(error) => Some(format!("{error}, {rows}")),
        None if file.is_set_aside => Some(format!(
            "set aside, but whole now, {rows}; named .batch it is sent after a restart"
        )),
        None => None,
    }
}

fn line(file: &Surveyed, now_ms: i64) -> String {
    let why = match (&file.error, &file.header) {
        (Some(error), _) => error.to_string(),
        (None, Some(header)) if !file.is_set_aside => header.why.to_string(),
        _ => "set aside".to_owned(),
    };
    let (age, rows, target) = match &file.header {
        None => ("-".to_owned(), "-".to_owned(), "-"),
        Some(it) => (age(now_ms - it.created_ms), it.rows.to_string(), it.target.as_str()),
    };
    format!("{} {age:>11} {rows:>10} {:>12} {target:<24} {why}", file.id, file.bytes)
}

/// In the largest unit and the one below it.
fn age(age_ms: i64) -> String {
    let seconds = (age_ms / 1_000).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        _ => format!("{days}d {}h", hours % 24),
    }
}

/// The last line.
#[derive(Debug, Default)]
struct Totals {
    batches: usize,
    rows: usize,
    bytes: u64,
    damaged: usize,
}

impl Totals {
    fn add(&mut self, file: &Surveyed) {
        if file.error.is_some() || file.is_set_aside {
            self.damaged += 1;
            return;
        }
        self.batches += 1;
        self.bytes += file.bytes;
        self.rows += file.header.as_ref().map_or(0, |header| header.rows);
    }

    fn line(&self) -> String {
        let Self { batches, rows, bytes, damaged } = self;
        format!("batches: {batches}, rows: {rows}, bytes: {bytes}; damaged files: {damaged}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_two_units() {
        let ages = [-5_000, 999, 59_000, 61_000, 3_600_000, 90_000_000].map(age);
        assert_eq!(ages, ["0s", "0s", "59s", "1m 1s", "1h 0m", "1d 1h"]);
    }
}
