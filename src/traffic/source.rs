//! Sockets that datagrams leave from, one to an exporter: collectors tell exporters apart by address,
//! and templates of two exporters must not meet.
//!
//! On Linux every address of 127.0.0.0/8 is local, so towards an IPv4 loopback target each exporter
//! gets an address of its own. Any other target sees one address and a port for each exporter.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Attempts to send one datagram. A refusal reported by ICMP belongs to an earlier datagram and
/// clears with the report, so the second attempt sends.
const ATTEMPTS_MAX: u32 = 8;
/// Last octets 1 to 250: neither network nor broadcast address of any netmask.
const HOSTS: usize = 250;

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
    address: Option<Ipv4Addr>,
    port: u16,
) -> io::Result<UdpSocket> {
    let address = match (address, target) {
        (Some(address), _) => IpAddr::V4(address),
        (None, SocketAddr::V4(_)) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        (None, SocketAddr::V6(_)) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = match UdpSocket::bind((address, port)) {
        Err(error) if port != 0 && is_port_refused(&error) => UdpSocket::bind((address, 0))?,
        other => other?,
    };
    socket.connect(target)?;
    Ok(socket)
}

fn is_port_refused(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied)
}

/// What became of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sending {
    /// Whether it left.
    pub(super) is_sent: bool,
    /// Refusals reported by the way: nobody listens, or did not a moment ago.
    pub(super) refused: u64,
}

/// Sends one datagram. Refusals are counted, other errors returned.
pub(super) fn send(socket: &UdpSocket, payload: &[u8]) -> io::Result<Sending> {
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
        let socket = connect(target, Some(loopback(77, 0)), 0).unwrap();
        let sendings: Vec<_> = (0..3).map(|_| send(&socket, b"x").unwrap()).collect();
        assert!(sendings.iter().all(|sending| sending.is_sent));
        assert!(sendings.iter().map(|sending| sending.refused).sum::<u64>() > 0);
    }
}
