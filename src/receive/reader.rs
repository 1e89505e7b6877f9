//! A reader of datagrams: one thread, one socket, everything from the kernel to the queue.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use metrics::Counter;
use tracing::{error, warn};

use crate::decode::{Datagram, Decoder};
use crate::sink::RowDropReason;
use crate::telemetry::{MetricName, Metrics, RateLimit, unix_ms};

use super::intake::Intake;
use super::socket::granted_bytes;
use super::sys::{DatagramBatch, kernel_drops};

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
    socket: UdpSocket,
    batch: DatagramBatch,
    decoder: Decoder,
    intake: Intake,
    errors: Counter,
    kernel_dropped: Counter,
    drops_read: Instant,
    drops_seen: u32,
    queue_log: RateLimit,
    kernel_log: RateLimit,
    error_log: RateLimit,
}

impl Reader {
    /// A reader of `socket`.
    #[must_use]
    pub fn new(socket: UdpSocket, decoder: Decoder, intake: Intake, metrics: &Metrics) -> Self {
        let receiver = intake.receiver();
        let buffer = metrics.gauge(MetricName::ReceiveBuffer, &[receiver]);
        #[expect(clippy::cast_precision_loss, reason = "buffers are far below 2^53 bytes")]
        buffer.set(granted_bytes(&socket) as f64);
        Self {
            errors: metrics.counter(MetricName::ReceiveErrors, &[receiver]),
            kernel_dropped: metrics.counter(MetricName::ReceiveKernelDropped, &[receiver]),
            socket,
            batch: DatagramBatch::new(),
            decoder,
            intake,
            drops_read: Instant::now(),
            drops_seen: 0,
            queue_log: RateLimit::new(LOG_INTERVAL),
            kernel_log: RateLimit::new(LOG_INTERVAL),
            error_log: RateLimit::new(LOG_INTERVAL),
        }
    }

    /// Reads until `stop`, then takes what the socket holds and hands over what is decoded.
    pub fn run(mut self, stop: &AtomicBool) {
        self.intake.prepare();
        while !stop.load(Ordering::Relaxed) {
            self.receive(true);
            // An idle one too: what the old settings hold can be large.
            self.renew();
            let now = Instant::now();
            self.intake.close_old(now);
            self.push_closed();
            if now - self.drops_read >= KERNEL_DROPS_INTERVAL {
                self.drops_read = now;
                self.count_kernel_drops();
                let Self { decoder, intake, .. } = &self;
                decoder.expire(unix_ms(), |protocol, it| intake.count_more(protocol, it));
            }
        }
        let deadline = Instant::now() + DRAIN_TIME_MAX;
        while self.receive(false) > 0 && Instant::now() < deadline {}
        self.intake.close_all();
        self.push_closed();
        self.count_kernel_drops();
        let Self { decoder, intake, .. } = &self;
        decoder.end_waiting(|protocol, tally| intake.count_more(protocol, tally));
    }

    /// Takes other settings, if there are: what is received behind a change is decoded by them.
    fn renew(&mut self) {
        if self.intake.is_outdated() {
            self.intake.close_all();
            self.push_closed();
            self.intake.renew();
            self.decoder.use_options(self.intake.options().clone());
        }
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
        self.renew();
        let now = Instant::now();
        let received_ms = unix_ms();
        let mut lost = 0;
        for (source, payload) in self.batch.iter() {
            let (exporter, source_port) = (source.ip(), source.port());
            let datagram = Datagram { exporter, source_port, received_ms, payload };
            self.intake.decode(&mut self.decoder, &datagram, now);
            // At once: a batch of large datagrams can be millions of rows.
            lost += push_or_drop(&mut self.intake);
        }
        self.log_lost(lost);
        received
    }

    fn push_closed(&mut self) {
        let lost = push_or_drop(&mut self.intake);
        self.log_lost(lost);
    }

    fn log_lost(&mut self, lost: usize) {
        if lost > 0
            && let Some(held_back) = self.queue_log.pass(Instant::now())
        {
            error!(
                receiver = self.intake.receiver(),
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
        self.errors.increment(1);
        if let Some(held_back) = self.error_log.pass(Instant::now()) {
            warn!(receiver = self.intake.receiver(), %error, held_back, "Reading the socket failed.");
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
        self.kernel_dropped.increment(new.into());
        if new > 0
            && let Some(held_back) = self.kernel_log.pass(Instant::now())
        {
            error!(
                receiver = self.intake.receiver(),
                datagrams = new,
                held_back,
                "The kernel dropped datagrams: the receive buffer is too small or the CPU too busy."
            );
        }
    }
}

/// Hands closed chunks to the queue and returns the rows that it did not take: datagrams cannot wait.
fn push_or_drop(intake: &mut Intake) -> usize {
    let mut lost = 0;
    intake.push_closed(|rows| {
        lost += rows;
        Some(RowDropReason::QueueFull)
    });
    lost
}
