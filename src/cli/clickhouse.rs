//! `tidegate clickhouse`: a real ClickHouse for tests, the demo and a laptop.

use std::fmt::Display;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;

use crate::config::parse_duration;
use crate::devserver::{self, InstallError, Outcome, RunOptions};

/// Exit code of a server that was ended before it had stopped in order.
const EXIT_ABORTED: i32 = 3;

/// A real ClickHouse for tests and development, not for production
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Fetch the ClickHouse library (178 MB, once; 566 MB on disk) with npm
    Install,
    /// Run a ClickHouse server until SIGTERM or SIGINT
    Run(RunArguments),
}

#[derive(Debug, clap::Args)]
struct RunArguments {
    /// Data directory, created if missing [default: a temporary one, removed at the end]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// HTTP port; 0 for any free one
    #[arg(long, value_name = "N", default_value_t = 8123)]
    http_port: u16,
    /// Port of the native protocol; 0 for any free one
    #[arg(long, value_name = "N", default_value_t = 9000)]
    tcp_port: u16,
    /// ClickHouse configuration; it needs a user `default` without password for 127.0.0.1
    #[arg(long, value_name = "FILE")]
    config_file: Option<PathBuf>,
    /// Address to listen on; without --config-file whoever reaches it may do anything
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    listen_host: IpAddr,
    /// Longest time for an orderly stop, such as 20s or 500ms; then the process ends with exit code 3
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = time)]
    stop_timeout: Duration,
    /// Stop when standard input ends, so that the server does not outlive what started it
    #[arg(long)]
    stop_on_stdin_eof: bool,
}

impl Args {
    pub(super) fn run(self) -> ExitCode {
        match self.action {
            Action::Install => install(),
            Action::Run(arguments) => run(arguments),
        }
    }
}

fn install() -> ExitCode {
    match devserver::cache_directory().and_then(|cache| devserver::install(&cache)) {
        Ok(library) => {
            // A closed standard output is no reason to fail: the library is there.
            drop(writeln!(io::stdout().lock(), "{}", library.display()));
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

fn run(arguments: RunArguments) -> ExitCode {
    let library = match find_library() {
        Ok(Some(library)) => library,
        Ok(None) => {
            return failed(
                &"the ClickHouse library is not installed: run `tidegate clickhouse install` once",
            );
        }
        Err(error) => return failed(&error),
    };
    let options = RunOptions {
        library,
        path: arguments.path,
        http_port: arguments.http_port,
        tcp_port: arguments.tcp_port,
        config_file: arguments.config_file,
        listen_host: arguments.listen_host,
        stop_timeout: arguments.stop_timeout,
        stop_on_stdin_eof: arguments.stop_on_stdin_eof,
    };
    let code = match devserver::run(&options) {
        Ok(Outcome::Stopped) => 0,
        Ok(Outcome::Aborted) => EXIT_ABORTED,
        Err(error) => {
            failed(&error);
            1
        }
    };
    devserver::leave(code)
}

fn find_library() -> Result<Option<PathBuf>, InstallError> {
    Ok(devserver::installed(&devserver::cache_directory()?))
}

fn time(text: &str) -> Result<Duration, &'static str> {
    parse_duration(text).ok_or("expected a number with ms, s or m, such as 20s")
}

fn failed(error: &dyn Display) -> ExitCode {
    // There is no other place to say it.
    drop(writeln!(io::stderr().lock(), "tidegate: {error}"));
    ExitCode::FAILURE
}
