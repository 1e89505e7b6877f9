//! `tidegate clickhouse`: a real ClickHouse for tests, the demo and a laptop.

use std::fmt::Display;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;

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
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_time)]
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

fn failed(error: &dyn Display) -> ExitCode {
    // There is no other place to say it.
    drop(writeln!(io::stderr().lock(), "tidegate: {error}"));
    ExitCode::FAILURE
}

/// Whole seconds or milliseconds with their unit.
fn parse_time(text: &str) -> Result<Duration, String> {
    let millis =
        text.strip_suffix("ms").and_then(|number| number.parse().ok()).map(Duration::from_millis);
    let seconds =
        || text.strip_suffix('s').and_then(|number| number.parse().ok()).map(Duration::from_secs);
    millis.or_else(seconds).ok_or_else(|| "expected a number with s or ms, such as 20s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(parse_time("20s"), Ok(Duration::from_secs(20)));
        assert_eq!(parse_time("500ms"), Ok(Duration::from_millis(500)));
        for text in ["20", "s", "-1s", "1m", ""] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
