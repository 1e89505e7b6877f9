//! The collector: the only place that knows all stages. Builds them, starts them, waits, drains them.

mod readers;
mod sink;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use tracing::{info, warn};

use crate::clickhouse::EndpointInUse;
use crate::config::Config;
use crate::decode::Exporters;
use crate::manage::{ManagementServer, Phase, StartError as ManagementError, View};
use crate::patience::Patience;
use crate::queue::QueueDepth;
use crate::receive::{BindError, Bound, bind};
use crate::sink::{Alarms, Books, Fatal, Ledger, RowDropReason};
use crate::snmp::Walker;
use crate::spool::OpenError as SpoolError;
use crate::state::{self, StateDirectory, StateWriter};
use crate::telemetry::{MetricName, Metrics};

use readers::Readers;
use sink::{Shared, Sink};

/// How often a stopping collector looks whether its threads are done.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A running collector.
#[derive(Debug)]
pub struct App {
    view: Arc<View>,
    management: ManagementServer,
    receivers: Vec<(String, SocketAddr)>,
    grace_period: Duration,
    stop: Arc<AtomicBool>,
    readers: Vec<JoinHandle<()>>,
    /// Keeps the templates, when they are to be kept.
    state: Option<StateWriter>,
    /// Asks exporters for their interfaces, when it is to.
    snmp: Walker,
    /// The flusher, then delivery; none without batching.
    sink: Vec<JoinHandle<()>>,
    /// What ClickHouse does not take in time can be spooled.
    can_keep: bool,
    patience: Patience,
    fatal: Receiver<Fatal>,
}

/// How a collector ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stopped {
    /// The final books.
    pub books: Books,
    /// Everything that was accepted had its outcome before the stop.
    pub is_drained: bool,
}

/// The collector cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A receiver's address cannot be used.
    #[error(transparent)]
    Receiver(#[from] BindError),
    /// The management server's address cannot be used.
    #[error(transparent)]
    Management(#[from] ManagementError),
    /// The spool cannot be used.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The system gives no thread or no epoll instance.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

impl App {
    /// Binds every address and starts every thread. ClickHouse is not waited for: until it answers, rows
    /// wait in the queue.
    ///
    /// # Errors
    ///
    /// An address cannot be used.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        let bound = bind_receivers(config)?;
        let receivers: Vec<_> =
            bound.iter().map(|(name, bound)| (name.clone(), bound.address())).collect();
        let metrics = Arc::new(Metrics::default());
        let exporters = Arc::new(Exporters::default());
        let ledger = Arc::new(Ledger::new(&metrics));
        let alarms = Arc::new(Alarms::new(Arc::clone(&metrics)));
        let endpoint = Arc::new(EndpointInUse::new(&config.clickhouse, &metrics));
        let listens = receivers.iter().map(|(name, address)| (name.clone(), address.to_string()));
        let view = Arc::new(View::new(
            Arc::clone(&metrics),
            Arc::clone(&exporters),
            Arc::clone(&ledger),
            Arc::clone(&endpoint),
            Arc::clone(&alarms),
            listens.collect(),
        ));
        let management = ManagementServer::start(config.management.listen, Arc::clone(&view))?;
        let patience = Patience::default();
        let (report_fatal, fatal) = crossbeam_channel::bounded(1);
        let shared = Shared {
            endpoint,
            patience: patience.clone(),
            ledger: Arc::clone(&ledger),
            alarms,
            fatal: report_fatal,
            metrics: Arc::clone(&metrics),
        };
        let Sink { outlets, queue_depth, threads: sink, can_keep } = Sink::start(config, shared)?;
        show_state(config, queue_depth, &exporters, &metrics);

        let state = keep_templates(config, &exporters, &metrics)?;
        let directory = config.state.directory.as_deref();
        let snmp = Walker::start(&config.snmp, directory, Arc::clone(&exporters), &metrics)?;
        let stop = Arc::new(AtomicBool::new(false));
        let readers = Readers { config, exporters, outlets, ledger, metrics, stop: &stop };
        let readers = readers.start(bound)?;
        view.enter(Phase::Ready);
        let grace_period = config.clickhouse.batch.shutdown_grace_period;
        Ok(Self {
            view,
            management,
            receivers,
            grace_period,
            stop,
            readers,
            state,
            snmp,
            sink,
            can_keep,
            patience,
            fatal,
        })
    }

    /// Name and address of each receiver; port 0 of the configuration is resolved.
    #[must_use]
    pub fn receivers(&self) -> &[(String, SocketAddr)] {
        &self.receivers
    }

    /// Where the management server listens.
    #[must_use]
    pub fn management_address(&self) -> SocketAddr {
        self.management.address()
    }

    /// What the management server shows.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Why the collector cannot go on, if so.
    #[must_use]
    pub fn fatal(&self) -> Option<Fatal> {
        self.fatal.try_recv().ok()
    }

    /// Stops every receiver at once, drains what was accepted, and returns when all of it has its outcome
    /// or the grace period is over.
    pub fn stop(mut self) -> Stopped {
        let start = Instant::now();
        let deadline = start + self.grace_period;
        self.view.enter(Phase::Stopping);
        self.stop.store(true, Ordering::Relaxed);
        self.snmp.stop();
        // The rest is for the disk, or for threads to end.
        let rest = self.grace_period / if self.can_keep { 2 } else { 20 };
        let patience_ends = deadline - rest;
        let are_readers_done = || self.readers.iter().all(JoinHandle::is_finished);
        // Without rows on their way the sink has nothing to do, even if it waits for ClickHouse.
        let is_drained = || {
            self.view.ledger.books().pending() == 0 || self.sink.iter().all(JoinHandle::is_finished)
        };
        wait_until(patience_ends, are_readers_done);
        // What the last datagrams announced is written beside the draining.
        if let Some(state) = &mut self.state {
            state.stop();
        }
        wait_until(patience_ends, is_drained);
        // Nothing is lost by it any more: what is under way then is of the spool, and stays there.
        self.patience.end();
        let is_sink_done = || self.sink.iter().all(JoinHandle::is_finished);
        wait_until(deadline, || are_readers_done() && is_sink_done());
        wait_until(deadline, || self.state.as_ref().is_none_or(StateWriter::is_finished));
        if self.state.is_some_and(|state| !state.is_finished()) {
            warn!("Templates were not written in time, the file of before stays.");
        }
        let readers_left = self.readers.iter().filter(|reader| !reader.is_finished()).count();
        if readers_left > 0 {
            warn!(readers_left, "Readers did not end in time, what they hold is lost uncounted.");
        }
        let books = self.view.ledger.close();
        let rows_left = books.dropped[RowDropReason::Shutdown as usize];
        if rows_left > 0 {
            warn!(rows_left, "Not all rows could be stored in time.");
        }
        let seconds = start.elapsed().as_secs_f64();
        info!(
            received = books.received,
            stored = books.stored,
            dead_lettered = books.dead_lettered,
            spooled = books.spooled,
            dropped = books.dropped_total(),
            seconds = format!("{seconds:.3}"),
            "Stopped: received = stored + dead-lettered + spooled + dropped."
        );
        Stopped { books, is_drained: readers_left == 0 && rows_left == 0 }
    }
}

/// What each receiver listens on, by name.
fn bind_receivers(config: &Config) -> Result<Vec<(String, Bound)>, BindError> {
    config.receivers.iter().map(|receiver| Ok((receiver.name.clone(), bind(receiver)?))).collect()
}

/// Restores the templates of the run before, and starts to keep those of this one.
fn keep_templates(
    config: &Config,
    exporters: &Arc<Exporters>,
    metrics: &Metrics,
) -> io::Result<Option<StateWriter>> {
    let Some(directory) = &config.state.directory else {
        state::register_metrics(metrics);
        return Ok(None);
    };
    let directory = StateDirectory::new(directory);
    directory.restore(exporters);
    StateWriter::start(directory, Arc::clone(exporters), metrics).map(Some)
}

/// Gauges that are read when they are shown.
fn show_state(
    config: &Config,
    queue_depth: QueueDepth,
    exporters: &Arc<Exporters>,
    metrics: &Metrics,
) {
    let batch = &config.clickhouse.batch;
    let capacity = if batch.enabled { batch.queue_capacity_rows } else { 0 };
    metrics.gauge(MetricName::BatchQueueCapacity, &[]).set(as_f64(capacity));
    let queue_rows = metrics.gauge(MetricName::BatchQueueRows, &[]);
    let exporter_count = metrics.gauge(MetricName::DecodeExporters, &[]);
    let template_count = metrics.gauge(MetricName::DecodeTemplates, &[]);
    let waiting_sets = metrics.gauge(MetricName::DecodeWaitingSets, &[]);
    let waiting_bytes = metrics.gauge(MetricName::DecodeWaitingBytes, &[]);
    let refused = metrics.counter(MetricName::DecodeExportersRefused, &[]);
    let exporters = Arc::clone(exporters);
    metrics.on_render(move || {
        queue_rows.set(as_f64(queue_depth.rows()));
        exporter_count.set(as_f64(exporters.count()));
        template_count.set(as_f64(exporters.template_count()));
        let (sets, bytes) = exporters.waiting();
        waiting_sets.set(as_f64(sets));
        waiting_bytes.set(as_f64(bytes));
        refused.absolute(exporters.refused());
    });
}

fn wait_until(deadline: Instant, is_done: impl Fn() -> bool) {
    while !is_done() && Instant::now() < deadline {
        std::thread::sleep(STOP_POLL_INTERVAL);
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work)
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn as_f64(count: usize) -> f64 {
    count as f64
}
