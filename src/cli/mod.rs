//! The command line: one file a subcommand.

mod check;
mod clickhouse;
mod dead_letters;
mod decode;
mod demo;
mod elements;
mod exporters;
mod generate;
mod inspect;
mod management;
mod run;
mod schema;
mod send;
mod spool;
mod tenant;

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Parser, Subcommand, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{Config, DEFAULT_PATH};
use crate::traffic::Transport;

/// A flow collector that writes NetFlow, IPFIX and sFlow to ClickHouse and keeps its books balanced.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Check(check::Args),
    Demo(demo::Args),
    Clickhouse(clickhouse::Args),
    Send(send::Args),
    Generate(generate::Args),
    Decode(decode::Args),
    Inspect(inspect::Args),
    Elements(elements::Args),
    Exporters(exporters::Args),
    DeadLetters(dead_letters::Args),
    Spool(spool::Args),
    Schema(schema::Args),
    Tenant(tenant::Args),
}

/// The program was used or configured wrongly; EX_CONFIG of sysexits.h. systemd does not start it again.
const EXIT_CONFIG: u8 = 78;

/// Ended by a second signal before the first one was dealt with.
const EXIT_SECOND_SIGNAL: i32 = 130;

impl Cli {
    /// Runs the subcommand.
    #[must_use]
    pub fn run(self) -> ExitCode {
        let result = match self.command {
            Command::Run(args) => args.run(),
            Command::Check(args) => args.run(),
            Command::Demo(args) => args.run(),
            Command::Clickhouse(args) => Ok(args.run()),
            Command::Send(args) => args.run(),
            Command::Generate(args) => args.run(),
            Command::Decode(args) => args.run(),
            Command::Inspect(args) => args.run(),
            Command::Elements(args) => args.run(),
            Command::Exporters(args) => args.run(),
            Command::DeadLetters(args) => args.run(),
            Command::Schema(args) => args.run(),
            Command::Tenant(args) => args.run(),
            Command::Spool(args) => args.run(),
        };
        result.unwrap_or_else(|error| {
            if is_closed_pipe(&error) {
                return ExitCode::SUCCESS;
            }
            eprintln!("tidegate: {error:#}");
            ExitCode::FAILURE
        })
    }
}

/// Whoever read the output has enough, as `head` does.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let json = cause.downcast_ref::<serde_json::Error>().and_then(|json| json.io_error_kind());
        io.or(json) == Some(io::ErrorKind::BrokenPipe)
    })
}

/// Which configuration file to read.
#[derive(Debug, clap::Args)]
struct ConfigFile {
    /// The configuration file
    #[arg(short = 'c', long = "config", default_value = DEFAULT_PATH)]
    path: PathBuf,
}

impl ConfigFile {
    /// Reads it, or says every mistake on standard error and how to exit.
    fn load(&self) -> Result<Config, ExitCode> {
        Config::load(&self.path).map_err(|mistakes| {
            eprintln!("{mistakes}");
            EXIT_CONFIG.into()
        })
    }
}

impl fmt::Display for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

/// How exports are sent.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Over {
    #[default]
    Udp,
    Tcp,
}

impl From<Over> for Transport {
    fn from(over: Over) -> Self {
        match over {
            Over::Udp => Self::Udp,
            Over::Tcp => Self::Tcp,
        }
    }
}

/// An address and a port; a name is looked up.
fn address(text: &str) -> Result<SocketAddr, String> {
    let mut found =
        text.to_socket_addrs().map_err(|error| format!("{error}: expected HOST:PORT"))?;
    found.next().ok_or_else(|| "the name has no address".to_owned())
}

/// A flag that is set at the first SIGINT or SIGTERM; a second one ends the process at once.
fn stop_at_signal() -> io::Result<Arc<AtomicBool>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let (mut interrupt, mut terminate) = {
        let _context = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if flag.swap(true, Ordering::Relaxed) {
                    std::process::exit(EXIT_SECOND_SIGNAL);
                }
            }
        });
    })?;
    Ok(stop)
}
