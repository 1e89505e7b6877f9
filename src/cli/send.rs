//! `tidegate send`: the UDP payloads of a capture, sent again, over UDP or TCP.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use crate::traffic::replay::{Replay, Report, Timing};

/// Send the UDP payloads of a pcap or pcapng file again
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Capture to send.
    file: PathBuf,
    /// Address and port of the collector.
    #[arg(long, value_name = "ADDR", value_parser = super::address)]
    to: SocketAddr,
    /// Datagrams a second; as fast as it goes without it.
    #[arg(long, value_name = "N", conflicts_with = "as_captured",
          value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Keep the pauses of the capture.
    #[arg(long)]
    as_captured: bool,
    /// How often to send the capture.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Only payloads that were sent to this port; may be repeated.
    #[arg(long, value_name = "P")]
    port: Vec<u16>,
    /// How to send; over tcp only IPFIX messages, on a connection for each sender.
    #[arg(long, value_enum, default_value_t)]
    transport: super::Over,
}

impl Args {
    /// Sends, then writes one line of what was sent, also when it ended in an error.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let timing = match (self.rate, self.as_captured) {
            (Some(rate), _) => Timing::Rate(rate),
            (None, true) => Timing::AsCaptured,
            (None, false) => Timing::Unpaced,
        };
        let transport = self.transport.into();
        let replay = Replay { timing, repeat: self.repeat, ports: self.port, transport };
        let mut report = Report::default();
        let stop = super::stop_at_signal()?;
        let started = Instant::now();
        let outcome = replay.run(&self.file, self.to, &stop, &mut report);
        let seconds = started.elapsed().as_secs_f64();
        let Report { datagrams, bytes, exporters, refused, unsent, skipped, not_ipfix, .. } =
            report;
        writeln!(
            std::io::stdout().lock(),
            "sent datagrams={datagrams} bytes={bytes} exporters={exporters} seconds={seconds:.3}"
        )?;
        let mut stderr = std::io::stderr().lock();
        if refused > 0 {
            writeln!(stderr, "refused {refused} times, {unsent} datagrams not sent")?;
        }
        if not_ipfix > 0 {
            writeln!(stderr, "left out {not_ipfix} datagrams that are no IPFIX messages")?;
        }
        if skipped.total() > 0 {
            writeln!(stderr, "{skipped}")?;
        }
        outcome?;
        Ok(ExitCode::SUCCESS)
    }
}
