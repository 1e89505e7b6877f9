//! A reader: one thread, one socket, everything from the kernel to the queue.

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use metrics::{Counter, Histogram};
use tracing::{error, warn};

use crate::decode::{Datagram, Decoder, Tally};
use crate::flow::ChunkWriter;
use crate::queue::ChunkSender;
use crate::sink::{Ledger, RowDropReason};
use crate::telemetry::{MetricName, Metrics, RateLimit};

use super::decode_metrics::DecodeMetrics;
use super::socket::granted_bytes;
use super::sys::{DatagramBatch, kernel_drops};

/// A chunk is handed over at this age although it is not full, so that rows are not late at low rates.
const CHUNK_AGE_MAX: Duration = Duration::from_millis(50);

/// How often the kernel's count of drops is read.
const KERNEL_DROPS_INTERVAL: Duration = Duration::from_secs(1);

/// A stopping reader takes what is in its socket, but no longer than this: exporters go on sending.
const DRAIN_TIME_MAX: Duration = Duration::from_millis(250);

/// After an error of the socket.
const ERROR_PAUSE: Duration = Duration::from_millis(20);

/// Drops and socket errors are logged once in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Everything that one reader thread owns.
#[derive(Debug)]
pub struct Reader {
    receiver: String,
    socket: UdpSocket,
    batch: DatagramBatch,
    decoder: Decoder,
    writer: ChunkWriter,
    queue: ChunkSender,
    ledger: Arc<Ledger>,
    decode_metrics: Arc<DecodeMetrics>,
    metrics: ReceiveMetrics,
    drops_read: Instant,
    drops_seen: u32,
    queue_log: RateLimit,
    kernel_log: RateLimit,
    error_log: RateLimit,
}

#[derive(Debug)]
struct ReceiveMetrics {
    datagrams: Counter,
    bytes: Counter,
    errors: Counter,
    kernel_dropped: Counter,
    enqueue_seconds: Histogram,
}

impl Reader {
    /// A reader of `socket` for the receiver called `receiver`; its chunks have at most `rows_max` rows.
    #[must_use]
    #[expect(clippy::too_many_arguments, reason = "a reader is joined to every stage around it")]
    pub fn new(
        receiver: &str,
        socket: UdpSocket,
        rows_max: usize,
        decoder: Decoder,
        queue: ChunkSender,
        ledger: Arc<Ledger>,
        decode_metrics: Arc<DecodeMetrics>,
        metrics: &Metrics,
    ) -> Self {
        let buffer = metrics.gauge(MetricName::ReceiveBuffer, &[receiver]);
        #[expect(clippy::cast_precision_loss, reason = "buffers are far below 2^53 bytes")]
        buffer.set(granted_bytes(&socket) as f64);
        Self {
            receiver: receiver.to_owned(),
            socket,
            batch: DatagramBatch::new(),
            decoder,
            writer: ChunkWriter::new(rows_max),
            queue,
            ledger,
            decode_metrics,
            metrics: ReceiveMetrics::new(metrics, receiver),
            drops_read: Instant::now(),
            drops_seen: 0,
            queue_log: RateLimit::new(LOG_INTERVAL),
            kernel_log: RateLimit::new(LOG_INTERVAL),
            error_log: RateLimit::new(LOG_INTERVAL),
        }
    }

    /// Reads until `stop`, then takes what the socket holds and hands over what is decoded.
    pub fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.receive(true);
            let now = Instant::now();
            if self.queue.takes_small_chunks() {
                self.writer.close_older_than(CHUNK_AGE_MAX, now);
            }
            self.push_closed();
            if now - self.drops_read >= KERNEL_DROPS_INTERVAL {
                self.drops_read = now;
                self.count_kernel_drops();
                let count =
                    |protocol, tally: &Tally| self.decode_metrics.count_more(protocol, tally);
                self.decoder.expire(unix_ms(), count);
            }
        }
        let deadline = Instant::now() + DRAIN_TIME_MAX;
        while self.receive(false) > 0 && Instant::now() < deadline {}
        self.writer.close_all();
        self.push_closed();
        self.count_kernel_drops();
        self.decoder.end_waiting(|protocol, tally| self.decode_metrics.count_more(protocol, tally));
    }

    /// Receives and decodes one batch; returns its datagrams.
    fn receive(&mut self, wait: bool) -> usize {
        let received = match self.batch.receive(&self.socket, wait) {
            Ok(received) => received,
            Err(error) => {
                self.note_error(&error);
                return 0;
            }
        };
        let now = Instant::now();
        let received_ms = unix_ms();
        let mut bytes = 0;
        let mut lost = 0;
        for (exporter, payload) in self.batch.iter() {
            let datagram = Datagram { exporter, received_ms, payload };
            let (protocol, tally) = self.decoder.decode(&datagram, now, &mut self.writer);
            self.decode_metrics.count(protocol, &tally);
            bytes += payload.len() as u64;
            // At once: a batch of large datagrams can be millions of rows.
            lost += push_closed(&mut self.writer, &self.queue, &self.ledger, &self.metrics);
        }
        self.metrics.datagrams.increment(received as u64);
        self.metrics.bytes.increment(bytes);
        self.log_lost(lost);
        received
    }

    fn push_closed(&mut self) {
        let lost = push_closed(&mut self.writer, &self.queue, &self.ledger, &self.metrics);
        self.log_lost(lost);
    }

    fn log_lost(&mut self, lost: usize) {
        if lost > 0
            && let Some(held_back) = self.queue_log.pass(Instant::now())
        {
            error!(
                receiver = self.receiver,
                rows = lost,
                held_back,
                "Queue is full, rows are lost: ClickHouse does not keep up."
            );
        }
    }

    fn note_error(&mut self, error: &io::Error) {
        if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) {
            return;
        }
        self.metrics.errors.increment(1);
        if let Some(held_back) = self.error_log.pass(Instant::now()) {
            warn!(receiver = self.receiver, %error, held_back, "Reading the socket failed.");
        }
        // It may be there at the next call too.
        std::thread::sleep(ERROR_PAUSE);
    }

    fn count_kernel_drops(&mut self) {
        let Ok(drops) = kernel_drops(&self.socket) else {
            return;
        };
        let new = drops.wrapping_sub(self.drops_seen);
        self.drops_seen = drops;
        self.metrics.kernel_dropped.increment(new.into());
        if new > 0
            && let Some(held_back) = self.kernel_log.pass(Instant::now())
        {
            error!(
                receiver = self.receiver,
                datagrams = new,
                held_back,
                "The kernel dropped datagrams: the receive buffer is too small or the CPU too busy."
            );
        }
    }
}

/// Hands closed chunks to the queue and returns the rows that it did not take.
fn push_closed(
    writer: &mut ChunkWriter,
    queue: &ChunkSender,
    ledger: &Ledger,
    metrics: &ReceiveMetrics,
) -> usize {
    let mut lost = 0;
    for chunk in writer.take_closed() {
        let start = Instant::now();
        ledger.receive(chunk.rows());
        if let Err(refused) = queue.try_push(chunk) {
            ledger.drop_rows(refused.rows(), RowDropReason::QueueFull);
            lost += refused.rows();
        }
        metrics.enqueue_seconds.record(start.elapsed());
    }
    lost
}

impl ReceiveMetrics {
    fn new(metrics: &Metrics, receiver: &str) -> Self {
        let counter = |name| metrics.counter(name, &[receiver]);
        Self {
            datagrams: counter(MetricName::ReceiveDatagrams),
            bytes: counter(MetricName::ReceiveBytes),
            errors: counter(MetricName::ReceiveErrors),
            kernel_dropped: counter(MetricName::ReceiveKernelDropped),
            enqueue_seconds: metrics.histogram(MetricName::BatchEnqueueSeconds, &[]),
        }
    }
}

fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
