//! Sends the UDP payloads of a capture again, from as many sockets as it has senders.
//!
//! Addresses of the capture cannot be used as they are; towards an IPv4 loopback target each sender
//! keeps an address and, where it is free, the port of its own. The file is read while it is sent,
//! so its size does not matter.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Transport;
use super::ipfix;
use super::source::{self, Source};
use crate::capture::{Capture, CaptureError, Datagram, Skipped};

/// Second octet of the addresses that senders of the capture get.
const NETWORK: u8 = 77;
/// Longest sleep before the stop flag is looked at again.
const NAP: Duration = Duration::from_millis(50);

/// When the datagrams leave.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Timing {
    /// As fast as it goes.
    #[default]
    Unpaced,
    /// This many datagrams a second.
    Rate(u32),
    /// With the pauses of the capture.
    AsCaptured,
}

/// What to send, and how.
#[derive(Debug, Clone, Default)]
pub struct Replay {
    /// When the datagrams leave.
    pub timing: Timing,
    /// How often the capture is sent; 0 is taken as 1.
    pub repeat: u32,
    /// Only payloads sent to these ports; all when empty.
    pub ports: Vec<u16>,
    /// How they travel. Over TCP only IPFIX does, on a connection for each sender.
    pub transport: Transport,
}

/// What has been sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// UDP datagrams.
    pub datagrams: u64,
    /// Octets of their payloads.
    pub bytes: u64,
    /// Pairs of address and port that they were sent from in the capture.
    pub exporters: usize,
    /// Refusals by the target's host: nobody listened.
    pub refused: u64,
    /// Datagrams refused again and again, which are not among those sent.
    pub unsent: u64,
    /// Datagrams of the capture to other ports than those asked for, over all repetitions.
    pub other_ports: u64,
    /// Datagrams that are no IPFIX messages and so cannot go over TCP, over all repetitions.
    pub not_ipfix: u64,
    /// Packets of the capture that hold no datagram, of one reading.
    pub skipped: Skipped,
}

/// Why a replay ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The capture cannot be opened or read to its end; what came before is sent.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// No socket for a sender; with many senders usually the limit on open files.
    #[error("cannot open a socket towards {target} for {sender}")]
    Socket {
        /// Where it should send.
        target: SocketAddr,
        /// The sender in the capture.
        sender: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A datagram could not be sent, for another reason than a refusal.
    #[error("cannot send {bytes} bytes to {target}")]
    Send {
        /// Where to.
        target: SocketAddr,
        /// Length of the payload.
        bytes: usize,
        /// What the system said.
        source: io::Error,
    },
}

impl Replay {
    /// Sends the capture to `target` until it ends or `stop` is set. `report` counts along, so that
    /// it is right after an error as well.
    ///
    /// # Errors
    ///
    /// When the capture is damaged, a socket cannot be opened, or sending fails for another reason
    /// than that nobody listens.
    pub fn run(
        &self,
        path: &Path,
        target: SocketAddr,
        stop: &AtomicBool,
        report: &mut Report,
    ) -> Result<(), ReplayError> {
        let mut senders = Senders::new(target, self.transport);
        let started = Instant::now();
        for _ in 0..self.repeat.max(1) {
            let mut capture = Capture::open(path)?;
            let pass_started = Instant::now();
            let mut first_unix_ns = None;
            let outcome = loop {
                let datagram = match capture.next() {
                    None => break Ok(()),
                    Some(Err(error)) => break Err(error),
                    Some(Ok(datagram)) => datagram,
                };
                if !self.ports.is_empty() && !self.ports.contains(&datagram.destination.port()) {
                    report.other_ports += 1;
                    continue;
                }
                if self.transport == Transport::Tcp && !ipfix::is_messages(&datagram.payload) {
                    report.not_ipfix += 1;
                    continue;
                }
                let first_unix_ns = *first_unix_ns.get_or_insert(datagram.time_unix_ns);
                let due = match self.timing {
                    Timing::Unpaced => pass_started,
                    Timing::Rate(rate) => started + offset(report.datagrams, rate),
                    Timing::AsCaptured => {
                        let since_ns = datagram.time_unix_ns.saturating_sub(first_unix_ns);
                        pass_started + Duration::from_nanos(u64::try_from(since_ns).unwrap_or(0))
                    }
                };
                if !wait_until(due, stop) {
                    break Ok(());
                }
                senders.send(&datagram, stop, report)?;
            };
            report.skipped = *capture.skipped();
            outcome?;
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(())
    }
}

/// The sockets, by sender of the capture.
struct Senders {
    target: SocketAddr,
    transport: Transport,
    /// Order of first appearance, which gives an address its number.
    addresses: HashMap<IpAddr, usize>,
    sources: HashMap<SocketAddr, Source>,
}

impl Senders {
    fn new(target: SocketAddr, transport: Transport) -> Self {
        Self { target, transport, addresses: HashMap::new(), sources: HashMap::new() }
    }

    fn send(
        &mut self,
        datagram: &Datagram,
        stop: &AtomicBool,
        report: &mut Report,
    ) -> Result<(), ReplayError> {
        let target = self.target;
        let bytes = datagram.payload.len();
        let source = self.source(datagram.source)?;
        let sending = source.send(&datagram.payload, stop).map_err(|source| ReplayError::Send {
            target,
            bytes,
            source,
        })?;
        report.refused += sending.refused;
        if sending.is_sent {
            report.datagrams += 1;
            report.bytes += bytes as u64;
        } else {
            report.unsent += 1;
        }
        report.exporters = self.sources.len();
        Ok(())
    }

    fn source(&mut self, sender: SocketAddr) -> Result<&mut Source, ReplayError> {
        use std::collections::hash_map::Entry;
        let vacant = match self.sources.entry(sender) {
            Entry::Occupied(source) => return Ok(source.into_mut()),
            Entry::Vacant(vacant) => vacant,
        };
        let number = self.addresses.len();
        let number = *self.addresses.entry(sender.ip()).or_insert(number);
        let is_loopback = source::is_v4_loopback(self.target);
        let address = is_loopback.then(|| source::loopback(NETWORK, number));
        let port = if is_loopback { sender.port() } else { 0 };
        let target = self.target;
        source::connect(target, self.transport, address, port)
            .map(|source| vacant.insert(source))
            .map_err(|source| ReplayError::Socket { target, sender, source })
    }
}

/// When the datagram after `count` others is due.
fn offset(count: u64, rate: u32) -> Duration {
    let ns = u128::from(count) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Sleeps until `due`; `false` when stopped.
fn wait_until(due: Instant, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Relaxed) {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(NAP));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A raw IP capture: one datagram from each sender to a port.
    fn capture(senders: &[([u8; 4], u16, u16)]) -> Vec<u8> {
        let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        file.extend([0xff, 0xff, 0, 0, 101, 0, 0, 0]);
        for (address, source, destination) in senders {
            let mut packet = Vec::new();
            etherparse::PacketBuilder::ipv4(*address, [192, 0, 2, 9], 64)
                .udp(*source, *destination)
                .write(&mut packet, b"1234")
                .unwrap();
            let length = u32::try_from(packet.len()).unwrap().to_le_bytes();
            file.extend([[0; 4], [0; 4], length, length].concat());
            file.extend(packet);
        }
        file
    }

    #[test]
    fn every_sender_keeps_a_socket_of_its_own() {
        let collector = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        collector.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let (one, two) = ([192, 0, 2, 1], [192, 0, 2, 2]);
        let file = tempfile::NamedTempFile::new().unwrap();
        let senders = [(one, 40_001, 2055), (one, 40_002, 2055), (two, 40_001, 2055), (two, 5, 53)];
        std::fs::write(file.path(), capture(&senders)).unwrap();
        let replay = Replay {
            repeat: 2,
            ports: vec![2055],
            timing: Timing::Rate(1_000),
            ..Replay::default()
        };
        let mut report = Report::default();
        let target = collector.local_addr().unwrap();
        replay.run(file.path(), target, &AtomicBool::new(false), &mut report).unwrap();
        let expected =
            Report { datagrams: 6, bytes: 24, exporters: 3, other_ports: 2, ..Report::default() };
        assert_eq!(report, expected);
        let mut seen = std::collections::BTreeMap::new();
        while let Ok((length, source)) = collector.recv_from(&mut [0; 64]) {
            assert_eq!(length, 4);
            *seen.entry(source).or_insert(0) += 1;
        }
        assert!(seen.len() == 3 && seen.values().all(|count| *count == 2), "{seen:?}");
        let addresses: Vec<_> = seen.keys().map(|source| source.ip().to_string()).collect();
        assert_eq!(addresses, ["127.77.1.1", "127.77.1.1", "127.77.1.2"]);
    }
}
