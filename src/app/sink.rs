//! How rows get from the readers to ClickHouse: gathered to batches, or each datagram by its reader.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::Sender;

use crate::clickhouse::{EndpointInUse, Login, SharedLogin};
use crate::config::{ClickHouseConfig, Config, OnRowError};
use crate::patience::Patience;
use crate::queue::{self, ChunkSender, QueueDepth};
use crate::receive::Outlet;
use crate::sink::{
    Alarms, Backlog, BatchLimits, ClickHouse, Delivery, Direct, Fatal, Flusher, Ledger, Tries,
};
use crate::spool::Spool;
use crate::telemetry::Metrics;

use super::{StartError, spawn};

/// What everything that delivers shares.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) endpoint: Arc<EndpointInUse>,
    pub(super) login: SharedLogin,
    pub(super) patience: Patience,
    pub(super) ledger: Arc<Ledger>,
    pub(super) alarms: Arc<Alarms>,
    pub(super) fatal: Sender<Fatal>,
    pub(super) metrics: Arc<Metrics>,
}

/// The sink, with its threads running.
#[derive(Debug)]
pub(super) struct Sink {
    pub(super) queue_depth: QueueDepth,
    limits: Arc<BatchLimits>,
    login: SharedLogin,
    /// The flusher, then delivery; none without batching.
    pub(super) threads: Vec<JoinHandle<()>>,
    /// Rows that ClickHouse does not take in time have another end than being lost.
    pub(super) can_keep: bool,
}

/// Gives each reader its outlet.
#[derive(Debug)]
pub(super) enum Outlets {
    Queue(ChunkSender),
    Direct(Box<ClickHouseConfig>, Shared),
}

impl Shared {
    /// Tries with connections of their own.
    fn tries(&self, config: &ClickHouseConfig) -> io::Result<Tries<ClickHouse>> {
        let (login, endpoint) = (Arc::clone(&self.login), Arc::clone(&self.endpoint));
        let destination = ClickHouse::new(config, login, endpoint, &self.patience)?;
        let (patience, alarms) = (self.patience.clone(), Arc::clone(&self.alarms));
        Ok(Tries::new(destination, config, patience, alarms, &self.metrics))
    }
}

impl Sink {
    /// The sink, and what gives readers their outlets.
    pub(super) fn start(config: &Config, shared: Shared) -> Result<(Self, Outlets), StartError> {
        let (queue, chunks) = queue::bounded(config.clickhouse.batch.queue_capacity_rows);
        let queue_depth = queue.depth();
        let limits = Arc::new(BatchLimits::new(&config.clickhouse.batch));
        let login = Arc::clone(&shared.login);
        let spool = Spool::open(&config.spool, &shared.metrics)?;
        let can_keep = spool.is_some();
        if !config.clickhouse.batch.enabled {
            let outlets = Outlets::Direct(Box::new(config.clickhouse.clone()), shared);
            return Ok((
                Self { queue_depth, limits, login, threads: Vec::new(), can_keep },
                outlets,
            ));
        }
        let backlog = spool.map(|spool| {
            let ledger = Arc::clone(&shared.ledger);
            Arc::new(Backlog::new(spool, &config.spool, &config.clickhouse.retry, ledger))
        });
        let (batches, delivered) = crossbeam_channel::bounded(0);
        let flusher = Flusher::new(
            &config.clickhouse,
            Arc::clone(&limits),
            chunks,
            batches,
            backlog.clone(),
            &shared.metrics,
        );
        let delivery = Delivery::new(
            delivered,
            shared.tries(&config.clickhouse)?,
            &config.clickhouse,
            backlog,
            Arc::clone(&shared.ledger),
            &shared.metrics,
        );
        let threads = vec![
            spawn("flusher", move || flusher.run())?,
            spawn("delivery", move || delivery.run(&shared.fatal))?,
        ];
        Ok((Self { queue_depth, limits, login, threads, can_keep }, Outlets::Queue(queue)))
    }

    /// Takes over what of another configuration needs no restart.
    pub(super) fn follow(&self, config: &Config) {
        let clickhouse = &config.clickhouse;
        self.limits.set(&clickhouse.batch);
        self.queue_depth.set_capacity_rows(clickhouse.batch.queue_capacity_rows);
        self.login.store(Arc::new(Login::of(clickhouse)));
    }
}

impl Outlets {
    /// For one reader, whose rows are treated like this when ClickHouse refuses some.
    pub(super) fn outlet(&self, on_row_error: OnRowError) -> io::Result<Outlet> {
        Ok(match self {
            Self::Queue(queue) => Outlet::Queue(queue.with(on_row_error)),
            Self::Direct(config, shared) => {
                let (ledger, fatal) = (Arc::clone(&shared.ledger), shared.fatal.clone());
                let direct = Direct::new(shared.tries(config)?, config, ledger, fatal);
                Outlet::Direct(Box::new(direct))
            }
        })
    }
}
