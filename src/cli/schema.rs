//! `tidegate schema`: the tables, rollups and views of ClickHouse.

use std::io::{Write, stdout};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Subcommand;

use crate::clickhouse::Connection;
use crate::config::{ClickHouseConfig, Config};
use crate::schema::{self, Difference, Repair, Repaired};

use super::ConfigFile;

/// Show, create, check and repair the tables and rollups in ClickHouse
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the statements that a fresh database needs
    Print {
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Create what is missing, as `tidegate run` does at its start with manage-schema = true
    Apply {
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Say what differs; exit code 1 when something does
    Check {
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Make a rollup anew from the flows, while collectors go on
    ///
    /// Readers see the old one until the new one is complete. Twice for a moment ClickHouse refuses inserts as
    /// "too many parts", and collectors send them again. What is older than the flows is kept as it is.
    Repair {
        /// The rollup: application, conversation, exporter-iface, geo-asn, or one of your own
        name: String,
        /// Only print the statements
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        config: ConfigFile,
    },
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        let (Action::Print { config }
        | Action::Apply { config }
        | Action::Check { config }
        | Action::Repair { config, .. }) = &self.action;
        let Ok(Config { clickhouse, .. }) = config.load() else {
            return Ok(super::EXIT_CONFIG.into());
        };
        match self.action {
            Action::Print { .. } => print(&clickhouse),
            Action::Apply { .. } => apply(clickhouse),
            Action::Check { .. } => check(&clickhouse),
            Action::Repair { name, dry_run, .. } => repair(&clickhouse, &name, dry_run),
        }
    }
}

fn print(config: &ClickHouseConfig) -> Result<ExitCode> {
    let mut out = stdout().lock();
    for statement in schema::statements(config) {
        writeln!(out, "{statement};\n")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn apply(config: ClickHouseConfig) -> Result<ExitCode> {
    let config = ClickHouseConfig { manage_schema: true, ..config };
    let connection = Connection::new(&config)?;
    schema::ensure(&connection, &config)?;
    check(&config)
}

fn check(config: &ClickHouseConfig) -> Result<ExitCode> {
    let connection = Connection::new(config)?;
    let mut out = stdout().lock();
    let found = schema::check(&connection, config)?;
    for Difference { name, what } in &found {
        writeln!(out, "{name}: {what}")?;
    }
    if found.is_empty() {
        writeln!(out, "everything is as it should be")?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}

fn repair(config: &ClickHouseConfig, name: &str, dry_run: bool) -> Result<ExitCode> {
    let Some(rollup) = config.schema.rollups.iter().find(|rollup| rollup.name == name) else {
        let names: Vec<_> = config.schema.rollups.iter().map(|it| it.name.as_str()).collect();
        bail!("there is no rollup {name}; the configuration has {}", names.join(", "));
    };
    let rollup = schema::Rollup::of(rollup);
    let connection = Connection::new(config)?;
    let mut out = stdout().lock();
    let Repaired { days, kept_rows, statements } =
        Repair::new(&connection, config, &rollup, dry_run).run()?;
    if dry_run {
        for statement in statements {
            writeln!(out, "{statement};\n")?;
        }
    } else {
        let table = rollup.table;
        writeln!(out, "{table} is made anew: {days} days from flows, {kept_rows} older rows kept")?;
    }
    Ok(ExitCode::SUCCESS)
}
