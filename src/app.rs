//! The collector: the only place that knows all stages. Builds them, starts them, waits, drains them.

mod receivers;
mod reload;
mod sink;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use crossbeam_channel::Receiver;
use tracing::{info, warn};

use crate::clickhouse::{EndpointInUse, Login};
use crate::config::Config;
use crate::decode::Exporters;
use crate::manage::{ManagementServer, Phase, StartError as ManagementError, View};
use crate::patience::Patience;
use crate::queue::QueueDepth;
use crate::receive::{BindError, DecodeMetrics};
use crate::sink::{Alarms, Books, Fatal, Ledger, RowDropReason};
use crate::snmp::Walker;
use crate::spool::OpenError as SpoolError;
use crate::state::{self, StateDirectory, StateWriter};
use crate::telemetry::{MetricName, Metrics};
use crate::tls;

pub use reload::ReloadError;

use receivers::{Receivers, Shared as SharedByReaders};
use reload::Enrichment;
use sink::{Shared, Sink};

/// How often a stopping collector looks whether its threads are done.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A running collector.
#[derive(Debug)]
pub struct App {
    /// As far as it is followed.
    config: Config,
    view: Arc<View>,
    management: ManagementServer,
    receivers: Receivers,
    enrichment: Enrichment,
    /// Keeps the templates, when they are to be kept.
    state: Option<StateWriter>,
    /// Asks exporters for their interfaces, when it is to.
    snmp: Walker,
    sink: Sink,
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
        let sockets = receivers::bind(&config.receivers, &[])?;
        let metrics = Arc::new(Metrics::default());
        let exporters = Arc::new(Exporters::default());
        let ledger = Arc::new(Ledger::new(&metrics));
        let alarms = Arc::new(Alarms::new(Arc::clone(&metrics)));
        let endpoint = Arc::new(EndpointInUse::new(&config.clickhouse, &metrics));
        let directory = config.state.directory.as_deref();
        let snmp = Walker::start(&config.snmp, directory, Arc::clone(&exporters), &metrics)?;
        let view = Arc::new(View::new(
            Arc::clone(&metrics),
            Arc::clone(&exporters),
            Arc::clone(&ledger),
            Arc::clone(&endpoint),
            Arc::clone(&alarms),
            snmp.watched(),
        ));
        let management = ManagementServer::start(&config.management, Arc::clone(&view))?;
        let patience = Patience::default();
        let (report_fatal, fatal) = crossbeam_channel::bounded(1);
        let shared = Shared {
            endpoint,
            login: Arc::new(ArcSwap::from_pointee(Login::of(&config.clickhouse))),
            patience: patience.clone(),
            ledger: Arc::clone(&ledger),
            alarms,
            fatal: report_fatal,
            metrics: Arc::clone(&metrics),
        };
        let (sink, outlets) = Sink::start(config, shared)?;
        show_state(config, sink.queue_depth.clone(), &exporters, &metrics);

        let state = keep_templates(config, &exporters, &metrics)?;
        let enrichment = Enrichment::start(config, snmp.interfaces(), &view.reloads, &metrics)?;
        let decode_metrics = Arc::new(DecodeMetrics::new(&metrics));
        let shared = SharedByReaders { exporters, outlets, ledger, decode_metrics, metrics };
        let mut receivers = Receivers::new(shared);
        receivers.change(config, sockets, &enrichment.tables)?;
        view.show_receivers(&receivers.addresses());
        view.enter(Phase::Ready);
        Ok(Self {
            config: config.clone(),
            view,
            management,
            receivers,
            enrichment,
            state,
            snmp,
            sink,
            patience,
            fatal,
        })
    }

    /// Name and address of each receiver; port 0 of the configuration is resolved.
    #[must_use]
    pub fn receivers(&self) -> Vec<(String, SocketAddr)> {
        self.receivers.addresses()
    }

    /// Where the management server listens.
    #[must_use]
    pub fn management_address(&self) -> SocketAddr {
        self.management.address()
    }

    /// Reads the certificate of the management server again; `true` when there is another one.
    ///
    /// # Errors
    ///
    /// It cannot be used, and the one of before stays.
    pub fn reload_certificate(&self) -> Result<bool, tls::ReloadError> {
        self.management.reload_certificate()
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
        let grace_period = self.config.clickhouse.batch.shutdown_grace_period;
        let deadline = start + grace_period;
        self.view.enter(Phase::Stopping);
        let readers = self.receivers.stop();
        self.snmp.stop();
        // The rest is for the disk, or for threads to end.
        let rest = grace_period / if self.sink.can_keep { 2 } else { 20 };
        let patience_ends = deadline - rest;
        let are_readers_done = || readers.left() == 0;
        let is_sink_done = || self.sink.threads.iter().all(JoinHandle::is_finished);
        // Without rows on their way the sink has nothing to do, even if it waits for ClickHouse.
        let is_drained = || self.view.ledger.books().pending() == 0 || is_sink_done();
        wait_until(patience_ends, are_readers_done);
        // What the last datagrams announced is written beside the draining.
        if let Some(state) = &mut self.state {
            state.stop();
        }
        wait_until(patience_ends, is_drained);
        // Nothing is lost by it any more: what is under way then is of the spool, and stays there.
        self.patience.end();
        wait_until(deadline, || are_readers_done() && is_sink_done());
        wait_until(deadline, || self.state.as_ref().is_none_or(StateWriter::is_finished));
        if self.state.is_some_and(|state| !state.is_finished()) {
            warn!("Templates were not written in time, the file of before stays.");
        }
        let readers_left = readers.left();
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
    let has_queue = config.clickhouse.batch.enabled;
    let capacity = metrics.gauge(MetricName::BatchQueueCapacity, &[]);
    let queue_rows = metrics.gauge(MetricName::BatchQueueRows, &[]);
    let exporter_count = metrics.gauge(MetricName::DecodeExporters, &[]);
    let template_count = metrics.gauge(MetricName::DecodeTemplates, &[]);
    let waiting_sets = metrics.gauge(MetricName::DecodeWaitingSets, &[]);
    let waiting_bytes = metrics.gauge(MetricName::DecodeWaitingBytes, &[]);
    let refused = metrics.counter(MetricName::DecodeExportersRefused, &[]);
    let exporters = Arc::clone(exporters);
    metrics.on_render(move || {
        queue_rows.set(as_f64(queue_depth.rows()));
        capacity.set(if has_queue { as_f64(queue_depth.capacity_rows()) } else { 0.0 });
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
