//! From the bytes of a datagram to the queue: what readers of UDP and of TCP do alike.

use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::{Counter, Histogram};

use crate::decode::{Datagram, Decoder, DecoderOptions, Protocol, Tally};
use crate::enrich::Enricher;
use crate::flow::ChunkWriter;
use crate::queue::ChunkSender;
use crate::sink::{Direct, Ledger, RowDropReason};
use crate::telemetry::{MetricName, Metrics};

use super::decode_metrics::DecodeMetrics;
use super::settings::{ReceiverSettings, SharedSettings};

/// A chunk is handed over at this age although it is not full, so that rows are not late at low rates.
const CHUNK_AGE_MAX: Duration = Duration::from_millis(50);

/// Where a reader's rows go.
#[derive(Debug)]
pub enum Outlet {
    /// To the flusher.
    Queue(ChunkSender),
    /// To ClickHouse, one insert for each datagram.
    Direct(Box<Direct>),
}

/// Decodes for one reader, counts, enriches, and hands chunks over.
#[derive(Debug)]
pub struct Intake {
    receiver: String,
    shared: SharedSettings,
    settings: Arc<ReceiverSettings>,
    enricher: Enricher,
    writer: ChunkWriter,
    outlet: Outlet,
    ledger: Arc<Ledger>,
    decode_metrics: Arc<DecodeMetrics>,
    datagrams: Counter,
    bytes: Counter,
    enqueue_seconds: Histogram,
}

impl Intake {
    /// For a reader of the receiver called `receiver`.
    #[must_use]
    pub fn new(
        receiver: &str,
        shared: SharedSettings,
        outlet: Outlet,
        ledger: Arc<Ledger>,
        decode_metrics: Arc<DecodeMetrics>,
        metrics: &Metrics,
    ) -> Self {
        let settings = shared.load_full();
        Self {
            receiver: receiver.to_owned(),
            writer: ChunkWriter::new(settings.chunk_rows_max),
            enricher: Enricher::new(Arc::clone(&settings.tables), metrics),
            shared,
            settings,
            outlet,
            ledger,
            decode_metrics,
            datagrams: metrics.counter(MetricName::ReceiveDatagrams, &[receiver]),
            bytes: metrics.counter(MetricName::ReceiveBytes, &[receiver]),
            enqueue_seconds: metrics.histogram(MetricName::BatchEnqueueSeconds, &[]),
        }
    }

    /// The receiver's name.
    pub(super) fn receiver(&self) -> &str {
        &self.receiver
    }

    /// How its reader decodes now.
    pub(super) fn options(&self) -> &DecoderOptions {
        &self.settings.options
    }

    /// Whether there are other settings. Before they are taken, every chunk has to be closed and handed over.
    pub(super) fn is_outdated(&self) -> bool {
        !std::ptr::eq(Arc::as_ptr(&self.shared.load()), Arc::as_ptr(&self.settings))
    }

    /// Takes the settings of now.
    pub(super) fn renew(&mut self) {
        self.settings = self.shared.load_full();
        let ReceiverSettings { tables, on_row_error, chunk_rows_max, .. } = &*self.settings;
        self.enricher.adopt(Arc::clone(tables));
        self.writer = ChunkWriter::new(*chunk_rows_max);
        if let Outlet::Queue(queue) = &mut self.outlet {
            *queue = queue.with(*on_row_error);
        }
    }

    /// Makes ready to hand rows over.
    pub(super) fn prepare(&mut self) {
        if let Outlet::Direct(direct) = &mut self.outlet {
            direct.prepare();
        }
    }

    /// Decodes a datagram, or a message of a connection, and counts it.
    pub(super) fn decode(&mut self, decoder: &mut Decoder, datagram: &Datagram<'_>, now: Instant) {
        let (protocol, tally) = decoder.decode(datagram, now, &mut self.writer);
        self.decode_metrics.count(protocol, &tally);
        self.datagrams.increment(1);
        self.bytes.increment(datagram.payload.len() as u64);
        if matches!(self.outlet, Outlet::Direct(_)) {
            self.writer.close_all();
        }
    }

    /// Counts what became of earlier datagrams.
    pub(super) fn count_more(&self, protocol: Protocol, tally: &Tally) {
        self.decode_metrics.count_more(protocol, tally);
    }

    /// Closes chunks that are old enough, unless so many wait that it is better to fill them.
    pub(super) fn close_old(&mut self, now: Instant) {
        if let Outlet::Queue(queue) = &self.outlet
            && queue.takes_small_chunks()
        {
            self.writer.close_older_than(CHUNK_AGE_MAX, now);
        }
    }

    /// Closes every chunk.
    pub(super) fn close_all(&mut self) {
        self.writer.close_all();
    }

    /// Hands closed chunks over. `when_full` is told of rows that the queue does not take, and says why
    /// they are given up, or that they are tried again.
    pub(super) fn push_closed(
        &mut self,
        mut when_full: impl FnMut(usize) -> Option<RowDropReason>,
    ) {
        for mut chunk in self.writer.take_closed() {
            let rows = chunk.rows();
            self.ledger.receive(rows);
            self.enricher.enrich(&mut chunk);
            let queue = match &mut self.outlet {
                Outlet::Queue(queue) => queue,
                Outlet::Direct(direct) => {
                    direct.insert(&chunk);
                    continue;
                }
            };
            let mut start = Instant::now();
            while let Err(refused) = queue.try_push(chunk) {
                if let Some(reason) = when_full(rows) {
                    self.ledger.drop_rows(rows, reason);
                    break;
                }
                (chunk, start) = (refused, Instant::now());
            }
            self.enqueue_seconds.record(start.elapsed());
        }
    }
}
