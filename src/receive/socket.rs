//! The sockets of a receiver.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tracing::warn;

use crate::config::{ReceiverConfig, TcpConfig, Transport, UdpConfig, show_bytes};

/// A reader that hears nothing wakes so often: to close chunks, and to see that it shall stop.
const READ_TIMEOUT: Duration = Duration::from_millis(20);

/// Connections that wait to be accepted; exporters all come at once when the collector starts.
const BACKLOG: i32 = 1_024;

/// A receiver's address cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("receivers.{receiver}: cannot listen on {transport} {listen}: {error}{advice}")]
pub struct BindError {
    receiver: String,
    transport: &'static str,
    listen: SocketAddr,
    advice: &'static str,
    error: io::Error,
}

/// What one receiver listens on.
#[derive(Debug)]
pub enum Bound {
    /// Sockets on one address, a reader for each.
    Udp(Vec<UdpSocket>),
    /// A listener, and the limits of its connections.
    Tcp(TcpListener, TcpConfig),
}

impl Bound {
    /// Where it listens; port 0 of the configuration is resolved.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let address = match self {
            Self::Udp(sockets) => sockets.first().and_then(|socket| socket.local_addr().ok()),
            Self::Tcp(listener, _) => listener.local_addr().ok(),
        };
        address.unwrap_or_else(|| ([0, 0, 0, 0], 0).into())
    }
}

/// Who else may have the address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sharing {
    /// Nobody: a port that somebody else shares is refused.
    Nobody,
    /// A receiver of this process that is about to close.
    OwnProcess,
}

/// Binds the address of one receiver.
///
/// # Errors
///
/// The address is in use or not of this machine, or the port needs a privilege.
pub fn bind(config: &ReceiverConfig, sharing: Sharing) -> Result<Bound, BindError> {
    let bound = match &config.transport {
        Transport::Udp(udp) => bind_all(config, udp, sharing).map(Bound::Udp),
        Transport::Tcp(tcp) => listen(config.listen).map(|it| Bound::Tcp(it, tcp.clone())),
    };
    bound.map_err(|error| BindError {
        receiver: config.name.clone(),
        transport: config.transport.label(),
        listen: config.listen,
        advice: match (error.kind(), &config.transport) {
            (io::ErrorKind::AddrInUse, Transport::Udp(_)) => {
                "; another process has the port (ss -ulpn shows it): stop it or change `listen`"
            }
            (io::ErrorKind::AddrInUse, Transport::Tcp(_)) => {
                "; another process has the port (ss -tlpn shows it): stop it or change `listen`"
            }
            (io::ErrorKind::AddrNotAvailable, _) => "; this machine does not have the address",
            (io::ErrorKind::PermissionDenied, _) => {
                "; ports below 1024 need CAP_NET_BIND_SERVICE: use a higher one"
            }
            _ => "",
        },
        error,
    })
}

/// The first socket binds alone, so that a port that somebody else shares is refused; only then the
/// address is opened for our others.
fn bind_all(
    config: &ReceiverConfig,
    udp: &UdpConfig,
    sharing: Sharing,
) -> io::Result<Vec<UdpSocket>> {
    let first = bind_socket(config.listen, |address| {
        let socket = new_udp_socket(address, udp)?;
        socket.set_reuse_port(sharing == Sharing::OwnProcess)?;
        Ok(socket)
    })?;
    first.set_reuse_port(true)?;
    let address = first.local_addr()?.as_socket().unwrap_or(config.listen);
    let mut sockets = vec![UdpSocket::from(first)];
    for _ in 1..udp.workers {
        let socket = new_udp_socket(address, udp)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        sockets.push(socket.into());
    }
    check_buffer(&config.name, udp, &sockets[0]);
    Ok(sockets)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = bind_socket(address, |address| {
        let socket = new_socket(address, Type::STREAM, Protocol::TCP)?;
        // Connections of a process before linger in the kernel; they must not keep the next one out.
        socket.set_reuse_address(true)?;
        Ok(socket)
    })?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn bind_socket(
    address: SocketAddr,
    new: impl Fn(SocketAddr) -> io::Result<Socket>,
) -> io::Result<Socket> {
    let open = |address: SocketAddr| -> io::Result<Socket> {
        let socket = new(address)?;
        socket.bind(&address.into())?;
        Ok(socket)
    };
    match open(address) {
        // Without IPv6 in the kernel, any address means any IPv4 address.
        Err(error)
            if error.raw_os_error() == Some(libc::EAFNOSUPPORT)
                && address.ip().is_unspecified() =>
        {
            open((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        opened => opened,
    }
}

fn new_udp_socket(address: SocketAddr, udp: &UdpConfig) -> io::Result<Socket> {
    let socket = new_socket(address, Type::DGRAM, Protocol::UDP)?;
    socket.set_read_timeout(Some(READ_TIMEOUT))?;
    // The kernel cuts this to net.core.rmem_max without an error; what it grants is read back.
    socket.set_recv_buffer_size(usize::try_from(udp.receive_buffer_bytes).unwrap_or(usize::MAX))?;
    Ok(socket)
}

fn new_socket(address: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    Ok(socket)
}

/// Bytes of receive buffer that the kernel granted; it doubles what is asked for, for its own use.
pub(super) fn granted_bytes(socket: &UdpSocket) -> u64 {
    socket2::SockRef::from(socket).recv_buffer_size().map_or(0, |bytes| bytes as u64 / 2)
}

fn check_buffer(receiver: &str, udp: &UdpConfig, socket: &UdpSocket) {
    let granted = granted_bytes(socket);
    if granted < udp.receive_buffer_bytes {
        warn!(
            receiver,
            granted = show_bytes(granted),
            wanted = show_bytes(udp.receive_buffer_bytes),
            "Receive buffer is smaller than configured; raise it with sysctl net.core.rmem_max={}.",
            udp.receive_buffer_bytes,
        );
    }
}
