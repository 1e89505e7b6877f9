//! The program `tidegate`: parses arguments, runs a subcommand, maps the outcome to an exit code.

use std::process::ExitCode;

use clap::Parser;
use tidegate::cli::Cli;

fn main() -> ExitCode {
    Cli::parse().run()
}
