//! `tidegate tenant`: users, rights and row policies of tenants that share a database.

use std::fs::File;
use std::io::{Read, Write, stderr, stdout};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Subcommand, ValueEnum};
use sha2::{Digest, Sha256};

use crate::clickhouse::Connection;
use crate::config::{ClickHouseConfig, Config, Secret, parse_bytes};
use crate::schema::{Access, Tenant, is_tenant_name, ttls};

use super::ConfigFile;

/// A statement about users of a large cluster can take a while.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of a password that is made here, before they become hexadecimal digits.
const PASSWORD_BYTES: usize = 16;

/// Make and remove tenants that share a database
///
/// A tenant has a user for its collectors, which can write rows of no other tenant, and one for its dashboards, which
/// sees rows of no other. See docs/tenants.md.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a tenant; again for one that is there adds what is missing
    Onboard {
        #[command(flatten)]
        of: Which,
        /// Bytes that it may insert in an hour, such as 50GiB
        #[arg(long, value_name = "SIZE", value_parser = parse_size)]
        quota: Option<u64>,
        /// Days that its flows and rollups are kept, if fewer than those of all
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        ttl_days: Option<u16>,
        /// Password of the writer, or env:NAME, file:PATH; by default one is made and shown
        #[arg(long, value_name = "SECRET", value_parser = parse_secret)]
        writer_password: Option<Secret>,
        /// The same of the reader
        #[arg(long, value_name = "SECRET", value_parser = parse_secret)]
        reader_password: Option<Secret>,
        /// How to print it: statements, or a file for users.d of ClickHouse
        #[arg(long, value_enum, default_value_t = Format::Sql)]
        format: Format,
    },
    /// Remove the users, rights and policies of a tenant; its rows stay until their TTL
    Offboard {
        #[command(flatten)]
        of: Which,
        /// Delete its rows, too
        #[arg(long)]
        delete_data: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Which {
    /// Name of the tenant, `identity.tenant` of its collectors
    #[arg(long, value_parser = parse_name)]
    tenant: String,
    /// Its organisation, `identity.organisation`
    #[arg(long, value_parser = parse_name, default_value = "default")]
    organisation: String,
    /// Run the statements, with the user of the configuration; otherwise they are only printed
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    config: ConfigFile,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Format {
    Sql,
    UsersXml,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        let (Action::Onboard { of, .. } | Action::Offboard { of, .. }) = &self.action;
        let Ok(Config { clickhouse, .. }) = of.config.load() else {
            return Ok(super::EXIT_CONFIG.into());
        };
        let (tenant, apply) = (Tenant::new(&of.tenant, &of.organisation, &clickhouse), of.apply);
        match self.action {
            Action::Onboard {
                quota, ttl_days, writer_password, reader_password, format, ..
            } => {
                ensure!(
                    !(apply && format == Format::UsersXml),
                    "users.xml is a file of the server: it can be printed, not applied"
                );
                let passwords = [writer_password, reader_password];
                if let Some(days) = ttl_days {
                    execute(&clickhouse, &ttl_statements(&clickhouse, &tenant, days)?, apply)?;
                }
                onboard(&clickhouse, &tenant, passwords, quota, format, apply)
            }
            Action::Offboard { delete_data, .. } => {
                execute(&clickhouse, &tenant.offboard_statements(delete_data), apply)
            }
        }
    }
}

fn onboard(
    config: &ClickHouseConfig,
    tenant: &Tenant,
    passwords: [Option<Secret>; 2],
    quota_bytes: Option<u64>,
    format: Format,
    apply: bool,
) -> Result<ExitCode> {
    let mut made = String::new();
    let mut hashes = Vec::new();
    for (user, given) in [tenant.writer(), tenant.reader()].into_iter().zip(passwords) {
        let password = match given {
            Some(given) => given.expose().to_owned(),
            None if apply && is_there(config, &user)? => String::new(),
            None => {
                let password = make_password()?;
                made.push_str(&format!("password of {user}: {password}\n"));
                password
            }
        };
        hashes.push(hexadecimal(&Sha256::digest(password.as_bytes())));
    }
    let [writer_hash, reader_hash] = <[String; 2]>::try_from(hashes).unwrap_or_default();
    let access = Access { writer_hash, reader_hash, quota_bytes };
    // Not among the statements, which end up in files. Before they run: a user may be made and a later statement fail.
    write!(stderr().lock(), "{made}")?;
    match format {
        Format::Sql => execute(config, &tenant.onboard_statements(&access), apply),
        Format::UsersXml => {
            write!(stdout().lock(), "{}", tenant.users_xml(&access))?;
            let pin = tenant.pin_statement();
            writeln!(stderr().lock(), "And once in the database, for all tenants:\n{pin};")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// What gives a tenant days of its own, by the TTLs that the tables have now.
fn ttl_statements(config: &ClickHouseConfig, tenant: &Tenant, days: u16) -> Result<Vec<String>> {
    let ttls = ttls(&Connection::new(config)?, &config.database)?;
    let statement = |(table, ttl): &(String, String)| tenant.ttl_statement(table, ttl, days.into());
    Ok(ttls.iter().filter_map(statement).collect())
}

/// Runs statements, or prints them.
fn execute(config: &ClickHouseConfig, statements: &[String], apply: bool) -> Result<ExitCode> {
    let mut out = stdout().lock();
    let connection = Connection::new(config)?;
    for statement in statements {
        if apply {
            connection
                .execute_within(statement, PATIENCE)
                .with_context(|| format!("the statement that failed: {statement}"))?;
        } else {
            writeln!(out, "{statement};")?;
        }
    }
    if apply {
        writeln!(out, "{} statements done", statements.len())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn is_there(config: &ClickHouseConfig, user: &str) -> Result<bool> {
    let sql = format!("SELECT count() FROM system.users WHERE name = '{user}'");
    Ok(Connection::new(config)?.query(&sql)?.trim() != "0")
}

/// From the random numbers of the system.
fn make_password() -> Result<String> {
    let mut bytes = [0; PASSWORD_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hexadecimal(&bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_name(text: &str) -> Result<String> {
    if !is_tenant_name(text) {
        bail!("a name has 1 to 48 letters, digits and -");
    }
    Ok(text.to_owned())
}

fn parse_size(text: &str) -> Result<u64, String> {
    parse_bytes(text).ok_or_else(|| "a size such as 50GiB".to_owned())
}

fn parse_secret(text: &str) -> Result<Secret, String> {
    Secret::resolve(text, |name| std::env::var(name).ok())
}
