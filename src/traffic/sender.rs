//! Sends what a [`Generator`] makes, at a given pace, from one socket an exporter.
//!
//! One thread, stopped by a flag, with totals that others may read while it runs.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::source::{self, Source};
use super::{Emission, Generator, Spec, Transport};

/// First of the 127.x networks that exporters get their addresses from.
const NETWORK: u8 = 64;
/// How long to sleep when ahead of the pace: the length of a burst, and of the wait for a stop.
const NAP: Duration = Duration::from_millis(1);
/// How far sending may fall behind its pace and still catch up. After a longer pause, as of a
/// suspended machine, the missed flows would arrive as one flood.
const BEHIND_MAX: Duration = Duration::from_secs(1);

/// How fast to send, and for how long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pace {
    /// Flows a second over all exporters; 0 is as fast as it goes.
    pub flows_per_second: u64,
    /// When to stop, if [`Spec::flows`] has not ended it before.
    pub duration: Option<Duration>,
}

/// What has been sent, readable while it grows.
#[derive(Debug, Default)]
pub struct Totals {
    /// Datagrams, or messages over TCP, those with templates among them.
    pub datagrams: AtomicU64,
    /// Flow records.
    pub flows: AtomicU64,
    /// Sum of the octets in the flow records, not of the datagrams.
    pub bytes: AtomicU64,
    /// Sum of the packets in the flow records.
    pub packets: AtomicU64,
    /// Refusals by the target's host: nobody listened. The datagrams were sent again.
    pub refused: AtomicU64,
}

/// A reading of [`Totals`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of Totals")]
pub struct Sent {
    pub datagrams: u64,
    pub flows: u64,
    pub bytes: u64,
    pub packets: u64,
    pub refused: u64,
}

impl Totals {
    /// The counts at this moment.
    #[must_use]
    pub fn read(&self) -> Sent {
        Sent {
            datagrams: self.datagrams.load(Ordering::Relaxed),
            flows: self.flows.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            packets: self.packets.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    fn add(&self, emission: &Emission) {
        self.datagrams.fetch_add(1, Ordering::Relaxed);
        self.flows.fetch_add(emission.flows, Ordering::Relaxed);
        self.bytes.fetch_add(emission.bytes, Ordering::Relaxed);
        self.packets.fetch_add(emission.packets, Ordering::Relaxed);
    }
}

/// Why sending ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrafficError {
    /// No socket for an exporter; with many exporters usually the limit on open files.
    #[error("cannot open a socket towards {target} for exporter {exporter}")]
    Socket {
        /// Where it should send.
        target: SocketAddr,
        /// Index of the exporter.
        exporter: usize,
        /// What the system said.
        source: io::Error,
    },
    /// A datagram could not be sent, for another reason than a refusal, or a connection ended.
    #[error("cannot send to {target}")]
    Send {
        /// Where to.
        target: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The target's host refused a datagram again and again.
    #[error("{target} refuses every datagram")]
    Refused {
        /// Where to.
        target: SocketAddr,
    },
}

/// Sends until all flows are sent, the time is over, or `stop` is set.
///
/// # Errors
///
/// When a socket cannot be opened, or sending fails for another reason than that nobody listens.
pub fn run(
    spec: &Spec,
    target: SocketAddr,
    pace: Pace,
    stop: &AtomicBool,
    totals: &Totals,
) -> Result<(), TrafficError> {
    let mut sources = open(spec, target)?;
    let mut generator = Generator::new(spec);
    let mut schedule = Schedule::new(pace.flows_per_second, Instant::now());
    let end = pace.duration.map(|duration| Instant::now() + duration);
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        if end.is_some_and(|end| now >= end) {
            break;
        }
        if !schedule.is_due(now) {
            std::thread::sleep(NAP);
            continue;
        }
        let Some(emission) = generator.next(unix_ms()) else {
            break;
        };
        let sending = sources[emission.exporter]
            .send(&emission.payload, stop)
            .map_err(|source| TrafficError::Send { target, source })?;
        totals.refused.fetch_add(sending.refused, Ordering::Relaxed);
        if !sending.is_sent {
            // Stopped while it waited for a collector that does not read.
            let is_stopped = spec.transport == Transport::Tcp;
            return if is_stopped { Ok(()) } else { Err(TrafficError::Refused { target }) };
        }
        totals.add(emission);
        schedule.sent += emission.flows;
    }
    Ok(())
}

/// The address that an exporter sends from, towards a target of 127.0.0.0/8.
#[must_use]
pub fn loopback_address(exporter: usize) -> Ipv4Addr {
    source::loopback(NETWORK, exporter)
}

fn open(spec: &Spec, target: SocketAddr) -> Result<Vec<Source>, TrafficError> {
    let is_loopback = source::is_v4_loopback(target);
    (0..spec.exporters.max(1))
        .map(|exporter| {
            let address = is_loopback.then(|| loopback_address(exporter));
            source::connect(target, spec.transport, address, 0)
                .map_err(|source| TrafficError::Socket { target, exporter, source })
        })
        .collect()
}

/// How many flows may have been sent by now.
struct Schedule {
    flows_per_second: u64,
    started: Instant,
    sent: u64,
}

impl Schedule {
    fn new(flows_per_second: u64, now: Instant) -> Self {
        Self { flows_per_second, started: now, sent: 0 }
    }

    /// Whether the next datagram is due. Begins anew when it is hopelessly late.
    fn is_due(&mut self, now: Instant) -> bool {
        if self.flows_per_second == 0 {
            return true;
        }
        let due = self.flows_in(now - self.started);
        let behind = due.saturating_sub(u128::from(self.sent));
        if behind > self.flows_in(BEHIND_MAX) {
            (self.started, self.sent) = (now, 0);
            return true;
        }
        due >= u128::from(self.sent)
    }

    fn flows_in(&self, time: Duration) -> u128 {
        time.as_micros() * u128::from(self.flows_per_second) / 1_000_000
    }
}

fn unix_ms() -> u64 {
    // A clock before 1970 gives records of 1970, which any collector will notice.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_schedule_keeps_its_rate_and_forgives_a_long_pause() {
        let start = Instant::now();
        let mut schedule = Schedule::new(1_000_000, start);
        assert!(schedule.is_due(start));
        schedule.sent = 30_000;
        assert!(!schedule.is_due(start + Duration::from_millis(29)));
        assert!(schedule.is_due(start + Duration::from_millis(30)));
        let late = start + Duration::from_secs(3_600);
        assert!(schedule.is_due(late));
        assert_eq!((schedule.started, schedule.sent), (late, 0));
    }

    #[test]
    fn what_arrives_is_what_the_totals_say() {
        let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
        collector.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let spec = Spec { exporters: 4, seed: 1, flows: Some(1_000), ..Spec::default() };
        let totals = Totals::default();
        let target = collector.local_addr().unwrap();
        run(&spec, target, Pace::default(), &AtomicBool::new(false), &totals).unwrap();
        let mut sources = std::collections::BTreeSet::new();
        let mut datagrams = 0;
        while let Ok((_, source)) = collector.recv_from(&mut [0; 2048]) {
            sources.insert(source.ip().to_string());
            datagrams += 1;
        }
        let sent = totals.read();
        assert_eq!((sent.flows, sent.datagrams), (1_000, datagrams));
        let expected = ["127.64.1.1", "127.64.1.2", "127.64.1.3", "127.64.1.4"];
        assert!(sources.iter().eq(expected), "{sources:?}");
    }

    #[test]
    fn a_stop_flag_and_a_duration_end_it() {
        let target = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = target.local_addr().unwrap();
        let totals = Totals::default();
        let spec = Spec { exporters: 1, ..Spec::default() };
        run(&spec, address, Pace::default(), &AtomicBool::new(true), &totals).unwrap();
        assert_eq!(totals.read(), Sent::default());
        let duration = Some(Duration::from_millis(50));
        let pace = Pace { flows_per_second: 10_000, duration };
        run(&spec, address, pace, &AtomicBool::new(false), &totals).unwrap();
        assert!((100..=560).contains(&totals.read().flows), "{:?}", totals.read());
    }
}
