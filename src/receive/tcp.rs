//! A reader of connections: one thread for a TCP receiver, its listener and all its connections.
//!
//! One thread, since the connections then share the chunks that they fill: 256 exporters cost the memory of
//! one, and each chunk has rows of many. While the queue is full the thread waits and reads nothing
//! (`backpressure.rs`), so nothing is lost here but what garbage or the end of a connection cuts.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use metrics::{Counter, Gauge};
use tracing::{debug, warn};

use crate::config::TcpConfig;
use crate::decode::{Decoder, DecoderOptions, Exporters};
use crate::telemetry::{MetricName, Metrics, RateLimit};

use super::backpressure::Backpressure;
use super::connection::{CloseReason, Connection, Received};
use super::intake::Intake;
use super::sys::Poll;

/// A reader that hears nothing wakes so often: to close chunks, and to see that it shall stop.
const POLL_TIMEOUT: Duration = Duration::from_millis(20);

/// How often sets that wait for a template are looked at.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(1);

/// A stopping reader takes what is in its sockets, but no longer than this: exporters go on sending.
const DRAIN_TIME_MAX: Duration = Duration::from_millis(250);

/// After a failed accept, above all for lack of file descriptors; the open connections are read meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What repeats is logged once in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Everything that the thread of a TCP receiver owns.
#[derive(Debug)]
pub struct TcpReader {
    listener: TcpListener,
    config: TcpConfig,
    connections: Vec<Connection>,
    /// For the decoder of each connection.
    options: DecoderOptions,
    exporters: Arc<Exporters>,
    intake: Intake,
    backpressure: Backpressure,
    poll: Poll,
    accept_from: Instant,
    expired: Instant,
    metrics: ConnectionMetrics,
    refused_log: RateLimit,
    closed_log: RateLimit,
    accept_log: RateLimit,
}

#[derive(Debug)]
struct ConnectionMetrics {
    open: Gauge,
    accepted: Counter,
    refused: Counter,
    /// By [`CloseReason`].
    closed: [Counter; CloseReason::ALL.len()],
    errors: Counter,
}

impl TcpReader {
    /// A reader of the connections to `listener`. At a stop, rows wait for room in the queue no longer
    /// than `stop_wait`.
    #[must_use]
    pub fn new(
        listener: TcpListener,
        config: TcpConfig,
        exporters: Arc<Exporters>,
        intake: Intake,
        stop_wait: Duration,
        metrics: &Metrics,
    ) -> Self {
        let receiver = intake.receiver();
        let paused_ms = metrics.counter(MetricName::ReceivePaused, &[receiver]);
        let backpressure = Backpressure::new(receiver, stop_wait, paused_ms);
        let now = Instant::now();
        Self {
            metrics: ConnectionMetrics::new(metrics, receiver),
            listener,
            config,
            connections: Vec::new(),
            options: intake.options().clone(),
            exporters,
            intake,
            backpressure,
            poll: Poll::default(),
            accept_from: now,
            expired: now,
            refused_log: RateLimit::new(LOG_INTERVAL),
            closed_log: RateLimit::new(LOG_INTERVAL),
            accept_log: RateLimit::new(LOG_INTERVAL),
        }
    }

    /// Reads until `stop`, then takes what the connections hold, ends them and hands over what is decoded.
    pub fn run(mut self, stop: &AtomicBool) {
        self.intake.prepare();
        while !stop.load(Ordering::Relaxed) {
            self.receive(POLL_TIMEOUT, stop);
            let now = Instant::now();
            self.intake.close_old(now);
            self.push_closed(stop);
            if now - self.expired >= EXPIRE_INTERVAL {
                self.expired = now;
                self.connections.iter().for_each(|it| it.expire(&self.intake));
            }
        }
        let deadline = Instant::now() + DRAIN_TIME_MAX;
        while self.receive(Duration::ZERO, stop) > 0 && Instant::now() < deadline {}
        for index in (0..self.connections.len()).rev() {
            self.close(index, CloseReason::Stop);
        }
        self.intake.close_all();
        self.push_closed(stop);
    }

    /// Takes other settings, if there are: what is received behind a change is decoded by them.
    fn renew(&mut self, stop: &AtomicBool) {
        if self.intake.is_outdated() {
            self.intake.close_all();
            self.push_closed(stop);
            self.intake.renew();
            self.options = self.intake.options().clone();
            self.connections.iter_mut().for_each(|it| it.use_options(&self.options));
        }
    }

    /// Waits for connections and their bytes, and takes what is there; returns how many had bytes.
    fn receive(&mut self, timeout: Duration, stop: &AtomicBool) -> usize {
        self.poll.clear();
        self.poll.add(&self.listener, Instant::now() >= self.accept_from);
        self.connections.iter().for_each(|connection| self.poll.add(connection, true));
        if let Err(error) = self.poll.wait(timeout) {
            if error.kind() != io::ErrorKind::Interrupted {
                // For lack of memory; it may be there at the next call too.
                std::thread::sleep(POLL_TIMEOUT);
            }
            return 0;
        }
        self.renew(stop);
        // Who was idle is decided by the time before reading, which may wait for the queue.
        let now = Instant::now();
        let mut received = 0;
        // From the last, since a closed one leaves.
        for index in (0..self.connections.len()).rev() {
            let end = if self.poll.is_ready(index + 1) {
                match self.receive_from(index, now, stop) {
                    Received::Nothing => None,
                    Received::Bytes => {
                        received += 1;
                        None
                    }
                    Received::End(reason) => Some(reason),
                }
            } else {
                let is_idle = self.connections[index].idle_time(now) >= self.config.idle_timeout;
                is_idle.then_some(CloseReason::Idle)
            };
            if let Some(reason) = end {
                self.close(index, reason);
            }
        }
        if self.poll.is_ready(0) {
            self.accept(now);
        }
        received
    }

    fn receive_from(&mut self, index: usize, now: Instant, stop: &AtomicBool) -> Received {
        let Self { connections, intake, backpressure, .. } = self;
        connections[index].receive(now, intake, |intake| push_or_wait(intake, backpressure, stop))
    }

    fn push_closed(&mut self, stop: &AtomicBool) {
        push_or_wait(&mut self.intake, &mut self.backpressure, stop);
    }

    /// Takes every connection that waits.
    fn accept(&mut self, now: Instant) {
        loop {
            match self.listener.accept() {
                Ok((stream, peer)) if self.connections.len() < self.config.connections_max => {
                    self.open(stream, peer, now);
                }
                Ok((stream, peer)) => {
                    drop(stream);
                    self.note_refused(peer, now);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return self.note_accept_error(&error, now),
            }
        }
    }

    fn open(&mut self, stream: TcpStream, peer: SocketAddr, now: Instant) {
        let decoder = Decoder::of_connection(self.options.clone(), Arc::clone(&self.exporters));
        match Connection::new(stream, peer, decoder, now) {
            Ok(connection) => {
                debug!(receiver = self.intake.receiver(), %peer, "Connection accepted.");
                self.metrics.accepted.increment(1);
                self.connections.push(connection);
                self.show_open();
            }
            Err(error) => self.note_accept_error(&error, now),
        }
    }

    fn close(&mut self, index: usize, reason: CloseReason) {
        let connection = self.connections.swap_remove(index);
        let (receiver, exporter) = (self.intake.receiver(), connection.exporter());
        match reason {
            CloseReason::Garbage => {
                if let Some(held_back) = self.closed_log.pass(Instant::now()) {
                    warn!(
                        receiver,
                        %exporter,
                        held_back,
                        "Connection closed: what it sent is no IPFIX message."
                    );
                }
            }
            _ => debug!(receiver, %exporter, reason = reason.label(), "Connection closed."),
        }
        connection.end(&mut self.intake);
        self.metrics.closed[reason as usize].increment(1);
        self.show_open();
    }

    fn note_refused(&mut self, peer: SocketAddr, now: Instant) {
        self.metrics.refused.increment(1);
        if let Some(held_back) = self.refused_log.pass(now) {
            warn!(
                receiver = self.intake.receiver(),
                %peer,
                held_back,
                "Connection refused: there are max-connections, {}.",
                self.config.connections_max,
            );
        }
    }

    fn note_accept_error(&mut self, error: &io::Error, now: Instant) {
        self.metrics.errors.increment(1);
        self.accept_from = now + ACCEPT_PAUSE;
        if let Some(held_back) = self.accept_log.pass(now) {
            warn!(
                receiver = self.intake.receiver(),
                %error,
                held_back,
                "Accepting a connection failed."
            );
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "connections are far below 2^53")]
    fn show_open(&self) {
        self.metrics.open.set(self.connections.len() as f64);
    }
}

/// Hands closed chunks to the queue, however long that takes.
fn push_or_wait(intake: &mut Intake, backpressure: &mut Backpressure, stop: &AtomicBool) {
    intake.push_closed(|_| backpressure.wait(stop));
}

impl ConnectionMetrics {
    fn new(metrics: &Metrics, receiver: &str) -> Self {
        let counter = |name| metrics.counter(name, &[receiver]);
        let open = metrics.gauge(MetricName::ReceiveConnections, &[receiver]);
        open.set(0.0);
        Self {
            open,
            accepted: counter(MetricName::ReceiveConnectionsAccepted),
            refused: counter(MetricName::ReceiveConnectionsRefused),
            closed: CloseReason::ALL.map(|reason| {
                let labels = [receiver, reason.label()];
                metrics.counter(MetricName::ReceiveConnectionsClosed, &labels)
            }),
            errors: counter(MetricName::ReceiveErrors),
        }
    }
}
