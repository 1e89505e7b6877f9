//! The thread `snmp`: looks which exporters there are, walks those that are due, and puts what they answer
//! where readers find it.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tracing::{debug, warn};

use crate::config::SnmpConfig;
use crate::decode::Exporters;
use crate::telemetry::{Metrics, RateLimit, unix_ms};

use super::cache::Cache;
use super::client::Patience;
use super::failure::{Failure, Outcome};
use super::interfaces::{Interfaces, Tables};
use super::known::{Confirmed, Known, MEMORY_BYTES_MAX};
use super::metrics::SnmpMetrics;
use super::schedule::{Now, Schedule, WatchedExporter};
use super::walk::{Walked, walk};

/// How often it looks for exporters that are new, and for walks that are due.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// How long the owner waits for the end of the thread, which may be writing its file.
const STOP_PATIENCE: Duration = Duration::from_secs(1);
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// One line about failed walks in so long, whatever the number of exporters.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Walks exporters until it is dropped.
#[derive(Debug)]
pub struct Walker {
    /// None when it was told to stop.
    config: Option<watch::Sender<SnmpConfig>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The exporters that are watched, for people, who may ask as long as they like.
#[derive(Clone, Debug)]
pub struct Watched(Arc<Shared>);

impl Watched {
    /// Each exporter, by address. It takes a lock, which is held for moments.
    #[must_use]
    pub fn list(&self) -> Vec<WatchedExporter> {
        self.0.list()
    }
}

/// What the thread shows.
#[derive(Debug)]
struct Shared {
    interfaces: Arc<Interfaces>,
    /// Held for moments.
    schedule: Mutex<Schedule>,
}

impl Walker {
    /// Starts the thread. What an earlier run kept in `directory` is there when this returns. Without agents
    /// in `config` nothing is read, walked or written, until [`Self::reconfigure`] brings some.
    ///
    /// # Errors
    ///
    /// The system gives no thread or no epoll instance.
    pub fn start(
        config: &SnmpConfig,
        directory: Option<&Path>,
        exporters: Arc<Exporters>,
        metrics: &Metrics,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (send_config, config) = watch::channel(config.clone());
        let schedule = Mutex::new(Schedule::new(&config.borrow()));
        let shared = Arc::new(Shared { interfaces: Arc::default(), schedule });
        let mut work = Work {
            config,
            shared: Arc::clone(&shared),
            exporters,
            known: Known::new(MEMORY_BYTES_MAX),
            replaced: Arc::default(),
            cache: directory.map(Cache::new),
            is_restored: false,
            metrics: SnmpMetrics::new(metrics),
            complaints: RateLimit::new(LOG_INTERVAL),
        };
        work.restore();
        let thread = std::thread::Builder::new()
            .name("snmp".to_owned())
            .spawn(move || runtime.block_on(work.run()))?;
        Ok(Self { config: Some(send_config), shared, thread: Some(thread) })
    }

    /// What is known of interfaces: stays the same table for the life of the walker, with other contents.
    #[must_use]
    pub fn interfaces(&self) -> Arc<Interfaces> {
        Arc::clone(&self.shared.interfaces)
    }

    /// Goes on with another configuration. Walks under way end with that of before; exporters that are asked
    /// in another way now are asked soon, and those in no range any more are forgotten, with their names.
    pub fn reconfigure(&self, config: SnmpConfig) {
        if let Some(sender) = &self.config {
            sender.send_replace(config);
        }
    }

    /// The exporters that are watched.
    #[must_use]
    pub fn watched(&self) -> Watched {
        Watched(Arc::clone(&self.shared))
    }

    /// Has the thread end without waiting for it: walks under way are given up, the file is written.
    pub fn stop(&mut self) {
        drop(self.config.take());
    }
}

impl Drop for Walker {
    fn drop(&mut self) {
        self.stop();
        let deadline = Instant::now() + STOP_PATIENCE;
        let Some(thread) = self.thread.take() else { return };
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(STOP_POLL_INTERVAL);
        }
    }
}

impl Shared {
    fn list(&self) -> Vec<WatchedExporter> {
        let tables = self.interfaces.load();
        let interfaces = |exporter| tables.get(&exporter).map_or(0, |table| table.len());
        self.schedule().list(interfaces, now())
    }

    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread owns.
struct Work {
    config: watch::Receiver<SnmpConfig>,
    shared: Arc<Shared>,
    exporters: Arc<Exporters>,
    known: Known,
    /// The table of before, until there is another one.
    replaced: Arc<Tables>,
    cache: Option<Cache>,
    is_restored: bool,
    metrics: SnmpMetrics,
    complaints: RateLimit,
}

/// How a walk ended.
struct Ended {
    exporter: IpAddr,
    result: Result<Walked, Failure>,
    took: Duration,
}

impl Work {
    async fn run(mut self) {
        let mut walks = JoinSet::new();
        let mut looks = tokio::time::interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let has_agents = !self.config.borrow().agents.is_empty();
            tokio::select! {
                changed = self.config.changed() => match changed {
                    Ok(()) => self.reconfigure(),
                    Err(_) => break,
                },
                Some(ended) = walks.join_next() => match ended {
                    Ok(ended) => self.note(ended),
                    Err(error) => warn!(%error, "A walk of interfaces ended by a bug of ours."),
                },
                _ = looks.tick(), if has_agents => self.look(),
            }
            self.start_walks(&mut walks);
            self.metrics.show(&self.shared.schedule(), &self.known);
            self.write(false);
        }
        self.write(true);
    }

    /// Reads the file, once there is somebody to ask.
    fn restore(&mut self) {
        if self.is_restored || self.config.borrow().agents.is_empty() {
            return;
        }
        self.is_restored = true;
        if let Some(cache) = &self.cache {
            cache.restore(&mut self.known);
        }
        self.expire();
        self.replaced = self.shared.interfaces.replace(self.known.tables());
    }

    fn reconfigure(&mut self) {
        let config = self.config.borrow_and_update().clone();
        self.shared.schedule().reconfigure(&config, now());
        self.restore();
        if self.expire() {
            self.publish();
        }
    }

    fn look(&mut self) {
        let config = self.config.borrow().clone();
        let exporters = self.exporters.list();
        let seen = exporters.iter().map(|exporter| (exporter.address(), exporter.last_seen_ms()));
        let confirmed = |exporter| self.known.confirmed_ms(exporter);
        self.shared.schedule().look(seen, &config, confirmed, now());
        if self.expire() {
            self.publish();
        }
    }

    fn start_walks(&self, walks: &mut JoinSet<Ended>) {
        let config = self.config.borrow();
        let patience = Patience::of(&config);
        let room = config.concurrency.saturating_sub(walks.len());
        for (exporter, agent) in self.shared.schedule().start_due(room, Instant::now()) {
            walks.spawn(async move {
                let start = Instant::now();
                let result = walk((exporter, agent.port).into(), &agent, patience).await;
                Ended { exporter, result, took: start.elapsed() }
            });
        }
    }

    fn note(&mut self, Ended { exporter, result, took }: Ended) {
        let (is_known, failure) = match result {
            Ok(walked) => self.take(exporter, walked),
            Err(failure) => (false, Some(failure)),
        };
        let outcome = failure.as_ref().map_or(Outcome::Ok, Failure::outcome);
        self.metrics.note_walk(outcome, took);
        let was_well = self.shared.schedule().note(exporter, is_known, failure.as_ref(), now());
        debug!(%exporter, ?took, ?failure, "Interfaces walked.");
        if let Some(failure) = failure.filter(|_| was_well)
            && let Some(held_back) = self.complaints.pass(Instant::now())
        {
            warn!(
                %exporter,
                error = %failure,
                other_exporters = held_back,
                "Interfaces of an exporter are not all known by SNMP; trying on."
            );
        }
    }

    /// Whether what an exporter answered is known now, and what is wrong with it.
    fn take(&mut self, exporter: IpAddr, walked: Walked) -> (bool, Option<Failure>) {
        if !self.shared.schedule().wants_result(exporter) {
            return (true, None);
        }
        let confirmed = Confirmed { table: Arc::new(walked.table), confirmed_ms: unix_ms() };
        if self.known.confirm(exporter, confirmed).is_err() {
            return (false, Some(Failure::NoRoom));
        }
        self.publish();
        (true, walked.is_cut.then_some(Failure::TooMany))
    }

    /// Forgets names that are too old, and those of exporters that would not be asked any more.
    fn expire(&mut self) -> bool {
        let config = self.config.borrow();
        let is_asked = |exporter| config.agent_of(exporter).is_some();
        self.known.expire(unix_ms(), config.interval, is_asked)
    }

    fn publish(&mut self) {
        self.replaced = self.shared.interfaces.replace(self.known.tables());
        if let Some(cache) = &mut self.cache {
            cache.note_change();
        }
    }

    fn write(&mut self, is_last: bool) {
        let Some(cache) = &mut self.cache else { return };
        if (is_last || cache.is_due(Instant::now())) && !cache.write(&self.known) {
            self.metrics.note_write_failure();
        }
    }
}

fn now() -> Now {
    Now { instant: Instant::now(), unix_ms: unix_ms() }
}
