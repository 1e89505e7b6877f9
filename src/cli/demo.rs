//! `tidegate demo`: ClickHouse, the collector and synthetic exporters in one command.

mod screen;

use std::io::{IsTerminal, Write, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::app::App;
use crate::config::Config;
use crate::devserver::{DevServer, DevServerOptions};
use crate::traffic::{self, Pace, Protocol, Spec, Totals, TrafficError};

use screen::{Screen, Talker};

/// How often the view is drawn.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// How often the end is looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Show real flows arriving in a real ClickHouse
///
/// Starts a ClickHouse with a temporary directory, a collector and synthetic exporters of every
/// protocol on loopback. Ctrl-C stops everything in order and leaves nothing behind.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Stop after this time
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Flows a second over all exporters
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    rate: u64,
    /// Synthetic exporters
    #[arg(long, value_name = "N", default_value_t = 30,
          value_parser = clap::value_parser!(u16).range(1..=500))]
    exporters: u16,
}

/// Everything that runs.
struct Demo {
    clickhouse: DevServer,
    app: App,
    totals: Arc<Totals>,
    exporters: Exporters,
}

/// The synthetic exporters' thread and its stop flag.
struct Exporters {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), TrafficError>>,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        let stop = super::stop_at_signal()?;
        let demo = Demo::start(&self)?;
        let end = self.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let is_over =
            || stop.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end);
        demo.show_until(is_over)?;
        demo.finish()
    }
}

impl Demo {
    fn start(args: &Args) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find the own program")?;
        let clickhouse = DevServer::start(&program, &DevServerOptions::default())?;
        let app = App::start(&config_for(&clickhouse.http_url())?)?;
        let (_, target) = *app.receivers().first().context("the demo has a receiver")?;
        let spec =
            Spec { protocol: Protocol::Mixed, exporters: args.exporters.into(), ..Spec::default() };
        let pace = Pace { flows_per_second: args.rate, duration: None };
        let stop = Arc::new(AtomicBool::new(false));
        let totals = Arc::new(Totals::default());
        let (flag, counts) = (Arc::clone(&stop), Arc::clone(&totals));
        let thread = std::thread::Builder::new()
            .name("exporters".to_owned())
            .spawn(move || traffic::run(&spec, target, pace, &flag, &counts))?;
        Ok(Self { clickhouse, app, totals, exporters: Exporters { stop, thread } })
    }

    /// Draws the view every second: a screen on a terminal, else a line.
    fn show_until(&self, is_over: impl Fn() -> bool) -> Result<()> {
        let is_terminal = stdout().is_terminal();
        let start = Instant::now();
        let mut last = self.snapshot(start, None);
        if !is_terminal {
            writeln!(stdout().lock(), "{}", last.addresses())?;
        }
        let mut next = start + REFRESH_INTERVAL;
        while !is_over() && self.app.fatal().is_none() {
            std::thread::sleep(POLL_INTERVAL);
            if Instant::now() < next {
                continue;
            }
            next += REFRESH_INTERVAL;
            let screen = self.snapshot(start, Some(&last));
            let mut out = stdout().lock();
            if is_terminal {
                write!(out, "\x1b[2J\x1b[H{screen}")?;
            } else {
                writeln!(out, "{}", screen.line())?;
            }
            out.flush()?;
            last = screen;
        }
        Ok(())
    }

    fn snapshot(&self, start: Instant, last: Option<&Screen>) -> Screen {
        Screen {
            elapsed: start.elapsed(),
            before: last.map(|last| (last.elapsed, last.books)),
            books: self.app.view().ledger.books(),
            sent: self.totals.read().flows,
            talkers: last.map(|_| self.top_talkers()).unwrap_or_default(),
            clickhouse: self.clickhouse.http_url(),
            management: format!("http://{}", self.app.management_address()),
        }
    }

    /// The view does not depend on the query: while the table is not there yet, it shows none.
    fn top_talkers(&self) -> Vec<Talker> {
        let rows = self.clickhouse.query(screen::TOP_TALKERS_SQL).unwrap_or_default();
        rows.lines().filter_map(Talker::parse).collect()
    }

    /// Stops the exporters, then the collector, then ClickHouse, and balances the books.
    fn finish(self) -> Result<ExitCode> {
        self.exporters.stop.store(true, Ordering::Relaxed);
        let sending = self.exporters.thread.join();
        self.app.stop();
        let sent = self.totals.read().flows;
        let stored = self.clickhouse.query("SELECT count() FROM tidegate.flows");
        self.clickhouse.stop()?;
        let stored: u64 = stored?.trim().parse().context("ClickHouse counts the rows")?;
        let dropped = sent.saturating_sub(stored);
        writeln!(stdout().lock(), "demo: sent {sent}, stored {stored}, dropped {dropped}")?;
        sending.map_err(|_| anyhow::anyhow!("the synthetic exporters failed"))??;
        Ok(if sent == stored { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// A collector on free ports of loopback.
fn config_for(endpoint: &str) -> Result<Config> {
    let text = format!(
        "[receivers.demo]\nlisten = \"127.0.0.1:0\"\n\
         [clickhouse]\nendpoint = \"{endpoint}\"\n\
         [management]\nlisten = \"127.0.0.1:0\"\n"
    );
    Ok(Config::parse(&text, Path::new("demo"), Vec::new())?)
}
