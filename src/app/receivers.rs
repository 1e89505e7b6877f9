//! The receivers: bound, added, removed and changed while the others go on.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use tracing::info;

use crate::config::{Config, ReceiverConfig};
use crate::decode::{Decoder, DecoderOptions, Exporters};
use crate::enrich::Tables;
use crate::receive::{
    self, BindError, Bound, DecodeMetrics, Intake, Reader, ReceiverSettings, SharedSettings,
    Sharing, TcpReader,
};
use crate::sink::Ledger;
use crate::telemetry::Metrics;

use super::sink::Outlets;
use super::spawn;

/// All receivers of a collector.
#[derive(Debug)]
pub(super) struct Receivers {
    shared: Shared,
    running: Vec<Running>,
    /// Threads of receivers that are no more, as long as they drain.
    ending: Vec<JoinHandle<()>>,
}

/// What every reader shares.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) exporters: Arc<Exporters>,
    pub(super) outlets: Outlets,
    pub(super) ledger: Arc<Ledger>,
    pub(super) decode_metrics: Arc<DecodeMetrics>,
    pub(super) metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct Running {
    config: ReceiverConfig,
    address: SocketAddr,
    settings: SharedSettings,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Sockets of receivers that are new or listen differently, by name.
pub(super) type NewSockets = HashMap<String, Bound>;

impl Receivers {
    pub(super) fn new(shared: Shared) -> Self {
        Self { shared, running: Vec::new(), ending: Vec::new() }
    }

    /// Name and address of each; port 0 of the configuration is resolved.
    pub(super) fn addresses(&self) -> Vec<(String, SocketAddr)> {
        self.running.iter().map(|it| (it.config.name.clone(), it.address)).collect()
    }

    /// Binds what a configuration has and is not there, beside what runs: nothing has changed when that fails.
    pub(super) fn bind(&self, configs: &[ReceiverConfig]) -> Result<NewSockets, BindError> {
        let running: Vec<_> = self.running.iter().map(|it| &it.config).collect();
        bind(configs, &running)
    }

    /// Does as `config` says: readers of `sockets` start, those of receivers that are gone or listen differently
    /// stop, and all others take new settings when they have handed over what they hold.
    pub(super) fn change(
        &mut self,
        config: &Config,
        mut sockets: NewSockets,
        tables: &Arc<Tables>,
    ) -> io::Result<()> {
        let mut before = std::mem::take(&mut self.running);
        for receiver in &config.receivers {
            let settings = Arc::new(settings(config, receiver, tables));
            let known = before.iter().position(|it| it.config.name == receiver.name);
            match sockets.remove(&receiver.name) {
                Some(bound) => self.start(config, receiver, bound, settings)?,
                None => {
                    let Some(mut running) = known.map(|index| before.swap_remove(index)) else {
                        continue;
                    };
                    running.settings.store(settings);
                    running.config = receiver.clone();
                    self.running.push(running);
                }
            }
        }
        for gone in before {
            gone.stop.store(true, Ordering::Relaxed);
            info!(receiver = gone.config.name, address = %gone.address, "Receiver closed.");
            self.ending.extend(gone.threads);
        }
        self.ending.retain(|thread| !thread.is_finished());
        Ok(())
    }

    /// Other tables for all, under the configuration of before.
    pub(super) fn use_tables(&self, config: &Config, tables: &Arc<Tables>) {
        for running in &self.running {
            running.settings.store(Arc::new(settings(config, &running.config, tables)));
        }
    }

    /// All at once; nothing is started any more.
    pub(super) fn stop(self) -> Stopping {
        self.running.iter().for_each(|it| it.stop.store(true, Ordering::Relaxed));
        let threads = self.running.into_iter().flat_map(|it| it.threads).chain(self.ending);
        Stopping(threads.collect())
    }

    fn start(
        &mut self,
        config: &Config,
        receiver: &ReceiverConfig,
        bound: Bound,
        settings: Arc<ReceiverSettings>,
    ) -> io::Result<()> {
        let address = bound.address();
        let settings = Arc::new(ArcSwap::new(settings));
        let stop = Arc::new(AtomicBool::new(false));
        let threads = self.shared.spawn_readers(config, receiver, bound, &settings, &stop)?;
        info!(receiver = receiver.name, %address, "Listening for flows.");
        let config = receiver.clone();
        self.running.push(Running { config, address, settings, stop, threads });
        Ok(())
    }
}

/// Binds those that do not run already.
pub(super) fn bind(
    configs: &[ReceiverConfig],
    running: &[&ReceiverConfig],
) -> Result<NewSockets, BindError> {
    let is_new = |config: &&ReceiverConfig| !running.iter().any(|it| it.has_same_sockets(config));
    // Sockets that will be closed have their port until then.
    let leaves = |it: &ReceiverConfig| !configs.iter().any(|config| config.has_same_sockets(it));
    let bind = |config: &ReceiverConfig| {
        let is_taken_over = running.iter().any(|it| leaves(it) && it.overlaps(config));
        let sharing = if is_taken_over { Sharing::OwnProcess } else { Sharing::Nobody };
        Ok((config.name.clone(), receive::bind(config, sharing)?))
    };
    configs.iter().filter(is_new).map(bind).collect()
}

/// Threads that end.
pub(super) struct Stopping(Vec<JoinHandle<()>>);

impl Stopping {
    /// How many still work.
    pub(super) fn left(&self) -> usize {
        self.0.iter().filter(|thread| !thread.is_finished()).count()
    }
}

impl Shared {
    fn spawn_readers(
        &self,
        config: &Config,
        receiver: &ReceiverConfig,
        bound: Bound,
        settings: &SharedSettings,
        stop: &Arc<AtomicBool>,
    ) -> io::Result<Vec<JoinHandle<()>>> {
        let name = &receiver.name;
        match bound {
            Bound::Udp(sockets) => (0..)
                .zip(sockets)
                .map(|(index, socket)| {
                    let options = settings.load().options.clone();
                    let decoder = Decoder::new(options, Arc::clone(&self.exporters));
                    let intake = self.intake(receiver, settings)?;
                    let reader = Reader::new(socket, decoder, intake, &self.metrics);
                    let stop = Arc::clone(stop);
                    spawn(&format!("{name}-{index}"), move || reader.run(&stop))
                })
                .collect(),
            Bound::Tcp(listener, tcp) => {
                // The sink needs the other half for what it gets meanwhile.
                let stop_wait = config.clickhouse.batch.shutdown_grace_period / 2;
                let intake = self.intake(receiver, settings)?;
                let exporters = Arc::clone(&self.exporters);
                let reader =
                    TcpReader::new(listener, tcp, exporters, intake, stop_wait, &self.metrics);
                let stop = Arc::clone(stop);
                Ok(vec![spawn(&format!("{name}-0"), move || reader.run(&stop))?])
            }
        }
    }

    fn intake(&self, receiver: &ReceiverConfig, settings: &SharedSettings) -> io::Result<Intake> {
        Ok(Intake::new(
            &receiver.name,
            Arc::clone(settings),
            self.outlets.outlet(settings.load().on_row_error)?,
            Arc::clone(&self.ledger),
            Arc::clone(&self.decode_metrics),
            &self.metrics,
        ))
    }
}

fn settings(config: &Config, receiver: &ReceiverConfig, tables: &Arc<Tables>) -> ReceiverSettings {
    let (on_row_error, _) = config.on_row_error(receiver);
    ReceiverSettings {
        options: DecoderOptions {
            identity: config.identity.clone(),
            protocols: receiver.protocols.clone(),
            skew_max: config.skew_max,
            keep_unknown_elements: receiver.keep_unknown_elements,
            fallback_rate: receiver.sampling_interval,
            has_little_endian_rates: receiver.little_endian_sampling,
        },
        tables: Arc::clone(tables),
        on_row_error,
        chunk_rows_max: config.clickhouse.batch.max_rows,
    }
}
