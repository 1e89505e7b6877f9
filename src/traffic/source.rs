//! Sockets that datagrams or messages leave from, one to an exporter: collectors tell exporters apart by address,
//! and templates of two exporters must not meet.
//!
//! On Linux every address of 127.0.0.0/8 is local, so towards an IPv4 loopback target each exporter
//! gets an address of its own. Any other target sees one address and a port for each exporter.

use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::Transport;

/// Attempts to send one datagram. A refusal reported by ICMP belongs to an earlier datagram and
/// clears with the report, so the second attempt sends.
const ATTEMPTS_MAX: u32 = 8;
/// Last octets 1 to 250: neither network nor broadcast address of any netmask.
const HOSTS: usize = 250;

/// A collector that does not read makes a sender over TCP wait; it looks for a stop so often.
const WRITE_TIMEOUT: Duration = Duration::from_millis(50);

/// A connected socket.
#[derive(Debug)]
pub(super) enum Source {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

/// Whether the target accepts source addresses of our choice.
pub(super) fn is_v4_loopback(target: SocketAddr) -> bool {
    matches!(target.ip(), IpAddr::V4(address) if address.is_loopback())
}

/// The `index`-th address of 127.`network`/16 and the networks after it.
pub(super) fn loopback(network: u8, index: usize) -> Ipv4Addr {
    let octet = |value: usize| u8::try_from(value % HOSTS).unwrap_or(0) + 1;
    let carry = u8::try_from(index / (HOSTS * HOSTS)).unwrap_or(u8::MAX);
    Ipv4Addr::new(127, network.saturating_add(carry), octet(index / HOSTS), octet(index))
}

/// A socket connected to the target. Takes any port when the one asked for is not to be had.
pub(super) fn connect(
    target: SocketAddr,
    transport: Transport,
    address: Option<Ipv4Addr>,
    port: u16,
) -> io::Result<Source> {
    let address = match (address, target) {
        (Some(address), _) => IpAddr::V4(address),
        (None, SocketAddr::V4(_)) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        (None, SocketAddr::V6(_)) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let kind = if transport == Transport::Udp { Type::DGRAM } else { Type::STREAM };
    let bind = |port| {
        let socket = Socket::new(Domain::for_address(target), kind, None)?;
        socket.bind(&SocketAddr::new(address, port).into())?;
        Ok(socket)
    };
    let socket: Socket = match bind(port) {
        Err(error) if port != 0 && is_port_refused(&error) => bind(0)?,
        other => other?,
    };
    socket.connect(&target.into())?;
    Ok(match transport {
        Transport::Udp => Source::Udp(socket.into()),
        Transport::Tcp => {
            socket.set_write_timeout(Some(WRITE_TIMEOUT))?;
            Source::Tcp(socket.into())
        }
    })
}

fn is_port_refused(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied)
}

/// What became of a datagram or message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sending {
    /// Whether it left.
    pub(super) is_sent: bool,
    /// Refusals reported by the way: nobody listens, or did not a moment ago.
    pub(super) refused: u64,
}

impl Source {
    /// Sends a datagram, or a message as soon as the collector takes it. Refusals are counted, other errors
    /// returned; at a stop a message may be cut.
    pub(super) fn send(&mut self, payload: &[u8], stop: &AtomicBool) -> io::Result<Sending> {
        match self {
            Self::Udp(socket) => send_datagram(socket, payload),
            Self::Tcp(stream) => {
                write_all(stream, payload, stop).map(|is_sent| Sending { is_sent, refused: 0 })
            }
        }
    }
}

/// Writes all of it; `false` when stopped before.
fn write_all(stream: &mut impl Write, mut bytes: &[u8], stop: &AtomicBool) -> io::Result<bool> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            // Linux says WouldBlock for a time-out.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                if stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
            }
            // A closed pipe of the output is no error of the program; this one is.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                let text = "the collector closed the connection";
                return Err(io::Error::new(ErrorKind::ConnectionReset, text));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn send_datagram(socket: &UdpSocket, payload: &[u8]) -> io::Result<Sending> {
    let mut refused = 0;
    for _ in 0..ATTEMPTS_MAX {
        match socket.send(payload) {
            Ok(_) => {
                return Ok(Sending { is_sent: true, refused });
            }
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => refused += 1,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Sending { is_sent: false, refused })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_distinct() {
        assert_eq!(loopback(64, 0), Ipv4Addr::new(127, 64, 1, 1));
        assert_eq!(loopback(64, 249), Ipv4Addr::new(127, 64, 1, 250));
        assert_eq!(loopback(64, 62_500), Ipv4Addr::new(127, 65, 1, 1));
        let all: std::collections::HashSet<_> = (0..70_000).map(|i| loopback(64, i)).collect();
        assert_eq!(all.len(), 70_000);
    }

    #[test]
    fn a_refusal_is_counted_and_the_datagram_sent_again() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let target = silent.local_addr().unwrap();
        drop(silent);
        let mut source = connect(target, Transport::Udp, Some(loopback(77, 0)), 0).unwrap();
        let stop = AtomicBool::new(false);
        let sendings: Vec<_> = (0..3).map(|_| source.send(b"x", &stop).unwrap()).collect();
        assert!(sendings.iter().all(|sending| sending.is_sent));
        assert!(sendings.iter().map(|sending| sending.refused).sum::<u64>() > 0);
    }
    #[test]
    fn a_sender_over_tcp_waits_for_a_collector_that_does_not_read_until_it_is_stopped() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        let mut source = connect(target, Transport::Tcp, Some(loopback(77, 1)), 0).unwrap();
        let (_stream, peer) = listener.accept().unwrap();
        assert_eq!(peer.ip().to_string(), "127.77.1.2");
        let stop = AtomicBool::new(false);
        assert!(source.send(b"x", &stop).unwrap().is_sent);
        stop.store(true, Ordering::Relaxed);
        assert!(!source.send(&vec![0; 32 << 20], &stop).unwrap().is_sent);
    }
}
