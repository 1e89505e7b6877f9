//! `tidegate dead-letters`: what ClickHouse refused, and what becomes of it.

mod replay;

use std::io::{Write, stdout};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Subcommand;

use crate::clickhouse::{Connection, DeadLetters};
use crate::config::{Config, parse_duration};

use super::ConfigFile;

/// A mutation rewrites the parts that it touches.
const PATIENCE: Duration = Duration::from_secs(600);

/// Formats of ClickHouse for people.
const TABLE: &str = "PrettyCompactNoEscapesMonoBlock";
const RECORDS: &str = "Vertical";

/// See, replay and delete rows that ClickHouse refused
///
/// They are in the table `flows_dead_letter` for 30 days. Nothing is replayed by itself.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show how many there are, by hour, error and exporter
    List {
        #[command(flatten)]
        of: Selection,
    },
    /// Show the letters of a batch with their rows
    Show {
        /// A batch, or one row of it: BATCH:ROW
        id: String,
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Insert the rows into `flows` and mark their letters; a second replay changes nothing
    ///
    /// Rows that are refused again stay as they are. Exit code 1 when there are some.
    Replay {
        #[command(flatten)]
        of: Selection,
        /// Only say what would be replayed
        #[arg(long)]
        dry_run: bool,
        /// Rows too that the table may have already, since an insert of theirs had no answer
        #[arg(long)]
        even_if_stored: bool,
    },
    /// Delete letters
    Purge {
        #[command(flatten)]
        of: Selection,
        /// Those that were replayed
        #[arg(long)]
        replayed: bool,
        /// Those that are older, such as 7d
        #[arg(long, value_name = "TIME", value_parser = parse_age)]
        older_than: Option<Duration>,
        /// All of them
        #[arg(long)]
        all: bool,
    },
}

/// Which letters, and where.
#[derive(Debug, clap::Args)]
struct Selection {
    /// An SQL condition on columns of flows_dead_letter, such as "errorCode = 469"
    #[arg(long = "where", value_name = "SQL")]
    condition: Option<String>,
    #[command(flatten)]
    config: ConfigFile,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        match self.action {
            Action::List { of } => {
                let Some(ClickHouse { connection, letters, .. }) = ClickHouse::of(&of)? else {
                    return Ok(super::EXIT_CONFIG.into());
                };
                print(&connection.query_as(&letters.list_sql(), TABLE, PATIENCE)?)
            }
            Action::Show { id, config } => {
                let of = Selection { condition: None, config };
                let Some(ClickHouse { connection, letters, .. }) = ClickHouse::of(&of)? else {
                    return Ok(super::EXIT_CONFIG.into());
                };
                let (batch, row) = match id.rsplit_once(':') {
                    Some((batch, row)) => (batch, Some(row.parse().context("ROW is a number")?)),
                    None => (id.as_str(), None),
                };
                let shown =
                    connection.query_as(&letters.show_sql(batch, row), RECORDS, PATIENCE)?;
                if shown.trim().is_empty() {
                    bail!("there is no dead letter {id}");
                }
                print(&shown)
            }
            Action::Replay { of, dry_run, even_if_stored } => {
                let Some(mut clickhouse) = ClickHouse::of(&of)? else {
                    return Ok(super::EXIT_CONFIG.into());
                };
                if even_if_stored {
                    clickhouse.letters = clickhouse.letters.even_if_stored();
                }
                replay::run(&clickhouse, dry_run)
            }
            Action::Purge { mut of, replayed, older_than, all } => {
                of.condition = purge_condition(of.condition, replayed, older_than, all)?;
                let Some(ClickHouse { connection, letters, .. }) = ClickHouse::of(&of)? else {
                    return Ok(super::EXIT_CONFIG.into());
                };
                let count = connection.query(&letters.count_sql())?;
                connection.execute_within(&letters.purge_sql(), PATIENCE)?;
                print(&format!("{} dead letters deleted\n", count.trim()))
            }
        }
    }
}

/// A connection by the configuration.
struct ClickHouse {
    connection: Connection,
    letters: DeadLetters,
    config: Config,
}

impl ClickHouse {
    /// `None` when the configuration is wrong, which was said.
    fn of(selection: &Selection) -> Result<Option<Self>> {
        let Ok(config) = selection.config.load() else { return Ok(None) };
        let letters = DeadLetters::new(&config.clickhouse.database, selection.condition.as_deref());
        Ok(Some(Self { connection: Connection::new(&config.clickhouse)?, letters, config }))
    }
}

/// All that were asked for, which must be said.
fn purge_condition(
    condition: Option<String>,
    replayed: bool,
    older_than: Option<Duration>,
    all: bool,
) -> Result<Option<String>> {
    let condition = condition.map(|text| format!("({text})"));
    let replayed = replayed.then(|| "toUnixTimestamp64Milli(replayedAt) > 0".to_owned());
    let older =
        older_than.map(|age| format!("failedAt < now() - INTERVAL {} SECOND", age.as_secs()));
    let conditions: Vec<String> = [condition, replayed, older].into_iter().flatten().collect();
    if conditions.is_empty() && !all {
        bail!("say which: --where, --replayed, --older-than or --all");
    }
    Ok((!conditions.is_empty()).then(|| conditions.join(" AND ")))
}

fn parse_age(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "a time such as 12h or 7d".to_owned())
}

fn print(text: &str) -> Result<ExitCode> {
    write!(stdout().lock(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}
