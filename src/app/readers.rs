//! The reader threads of all receivers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

use crate::config::{Config, ReceiverConfig};
use crate::decode::{Decoder, DecoderOptions, Exporters};
use crate::receive::{Bound, DecodeMetrics, Intake, Reader, TcpReader};
use crate::sink::Ledger;
use crate::telemetry::Metrics;

use super::sink::Outlets;
use super::spawn;

/// What every reader shares.
pub(super) struct Readers<'a> {
    pub(super) config: &'a Config,
    pub(super) exporters: Arc<Exporters>,
    pub(super) outlets: Outlets,
    pub(super) ledger: Arc<Ledger>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) stop: &'a Arc<AtomicBool>,
}

impl Readers<'_> {
    /// Starts the threads of all receivers.
    pub(super) fn start(self, bound: Vec<(String, Bound)>) -> io::Result<Vec<JoinHandle<()>>> {
        let decode_metrics = Arc::new(DecodeMetrics::new(&self.metrics));
        let mut threads = Vec::new();
        for ((name, bound), receiver) in bound.into_iter().zip(&self.config.receivers) {
            let options = DecoderOptions {
                identity: self.config.identity.clone(),
                protocols: receiver.protocols.clone(),
                skew_max: self.config.skew_max,
                keep_unknown_elements: receiver.keep_unknown_elements,
                fallback_rate: receiver.sampling_interval,
                has_little_endian_rates: receiver.little_endian_sampling,
            };
            let intake = || self.intake(receiver, &decode_metrics);
            let exporters = || Arc::clone(&self.exporters);
            match bound {
                Bound::Udp(sockets) => {
                    for (index, socket) in sockets.into_iter().enumerate() {
                        let decoder = Decoder::new(options.clone(), exporters());
                        let reader = Reader::new(socket, decoder, intake()?, &self.metrics);
                        let stop = Arc::clone(self.stop);
                        threads.push(spawn(&format!("{name}-{index}"), move || reader.run(&stop))?);
                    }
                }
                Bound::Tcp(listener, tcp) => {
                    // The sink needs the other half for what it gets meanwhile.
                    let stop_wait = self.config.clickhouse.batch.shutdown_grace_period / 2;
                    let reader = TcpReader::new(
                        listener,
                        tcp,
                        options,
                        exporters(),
                        intake()?,
                        stop_wait,
                        &self.metrics,
                    );
                    let stop = Arc::clone(self.stop);
                    threads.push(spawn(&format!("{name}-0"), move || reader.run(&stop))?);
                }
            }
        }
        Ok(threads)
    }

    fn intake(
        &self,
        receiver: &ReceiverConfig,
        decode_metrics: &Arc<DecodeMetrics>,
    ) -> io::Result<Intake> {
        let (on_row_error, _) = self.config.on_row_error(receiver);
        Ok(Intake::new(
            &receiver.name,
            self.config.clickhouse.batch.max_rows,
            self.outlets.outlet(on_row_error)?,
            Arc::clone(&self.ledger),
            Arc::clone(decode_metrics),
            &self.metrics,
        ))
    }
}
