//! `tidegate generate`: flow exports of synthetic exporters.

use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::traffic::{self, Pace, Protocol, Spec, Totals, Transport};
use clap::ValueEnum;

/// Each exporter has a socket.
const EXPORTERS_MAX: u64 = 50_000;

/// Send flow exports of synthetic exporters, until --flows or --seconds if given
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Address and port of the collector.
    #[arg(long, value_name = "ADDR", value_parser = super::address)]
    to: SocketAddr,
    /// What the exporters speak.
    #[arg(long, value_enum, default_value_t = Dialect::Mixed)]
    protocol: Dialect,
    /// How they send; over tcp only ipfix, and at the pace at which the collector reads.
    #[arg(long, value_enum, default_value_t)]
    transport: super::Over,
    /// Flows a second over all exporters; 0 is as fast as it goes.
    #[arg(long, value_name = "FLOWS_PER_SECOND", default_value_t = 1_000)]
    rate: u64,
    /// How many flows to send.
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    flows: Option<u64>,
    /// How long to send.
    #[arg(long, value_name = "S")]
    seconds: Option<u32>,
    /// How many exporters.
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=EXPORTERS_MAX))]
    exporters: u64,
    /// Equal seeds give equal flows.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Dialect {
    V5,
    V9,
    Ipfix,
    Sflow,
    Mixed,
}

impl From<Dialect> for Protocol {
    fn from(dialect: Dialect) -> Self {
        match dialect {
            Dialect::V5 => Self::V5,
            Dialect::V9 => Self::V9,
            Dialect::Ipfix => Self::Ipfix,
            Dialect::Sflow => Self::Sflow,
            Dialect::Mixed => Self::Mixed,
        }
    }
}

impl Args {
    /// Sends, then writes one line of what was sent, also when it ended in an error.
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let protocol = Protocol::from(self.protocol);
        let transport = Transport::from(self.transport);
        if transport == Transport::Tcp && protocol != Protocol::Ipfix {
            anyhow::bail!("only IPFIX travels over TCP: add --protocol ipfix");
        }
        let exporters = usize::try_from(self.exporters)?;
        let spec = Spec { protocol, exporters, seed: self.seed, flows: self.flows, transport };
        let duration = self.seconds.map(|seconds| Duration::from_secs(seconds.into()));
        let pace = Pace { flows_per_second: self.rate, duration };
        let totals = Totals::default();
        let stop = super::stop_at_signal()?;
        let started = Instant::now();
        let outcome = traffic::run(&spec, self.to, pace, &stop, &totals);
        let seconds = started.elapsed().as_secs_f64();
        let traffic::Sent { datagrams, flows, bytes, packets, refused } = totals.read();
        writeln!(
            std::io::stdout().lock(),
            "sent protocol={} datagrams={datagrams} flows={flows} bytes={bytes} \
             packets={packets} seconds={seconds:.3}",
            protocol.name()
        )?;
        if refused > 0 {
            writeln!(std::io::stderr().lock(), "refused {refused} times")?;
        }
        outcome?;
        Ok(ExitCode::SUCCESS)
    }
}
