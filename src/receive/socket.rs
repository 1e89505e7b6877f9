//! The sockets of a receiver.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tracing::warn;

use crate::config::{ReceiverConfig, show_bytes};

/// A reader that hears nothing wakes so often: to close chunks, and to see that it shall stop.
const READ_TIMEOUT: Duration = Duration::from_millis(20);

/// A receiver's address cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("receivers.{receiver}: cannot listen on udp {listen}: {error}{advice}")]
pub struct BindError {
    receiver: String,
    listen: SocketAddr,
    advice: &'static str,
    error: io::Error,
}

/// The sockets of one receiver, all on one address.
///
/// # Errors
///
/// The address is in use or not of this machine, or the port needs a privilege.
pub fn bind(config: &ReceiverConfig) -> Result<Vec<UdpSocket>, BindError> {
    bind_all(config).map_err(|error| BindError {
        receiver: config.name.clone(),
        listen: config.listen,
        advice: match error.kind() {
            io::ErrorKind::AddrInUse => {
                "; another process has the port (ss -ulpn shows it): stop it or change `listen`"
            }
            io::ErrorKind::AddrNotAvailable => "; this machine does not have the address",
            io::ErrorKind::PermissionDenied => {
                "; ports below 1024 need CAP_NET_BIND_SERVICE: use a higher one"
            }
            _ => "",
        },
        error,
    })
}

/// The first socket binds alone, so that a port that somebody else shares is refused; only then the
/// address is opened for our others.
fn bind_all(config: &ReceiverConfig) -> io::Result<Vec<UdpSocket>> {
    let first = match open(config.listen, config) {
        // Without IPv6 in the kernel, any address means any IPv4 address.
        Err(error)
            if error.raw_os_error() == Some(libc::EAFNOSUPPORT)
                && config.listen.ip().is_unspecified() =>
        {
            open((Ipv4Addr::UNSPECIFIED, config.listen.port()).into(), config)?
        }
        opened => opened?,
    };
    first.set_reuse_port(true)?;
    let address = first.local_addr()?.as_socket().unwrap_or(config.listen);
    let mut sockets = vec![UdpSocket::from(first)];
    for _ in 1..config.workers {
        let socket = new_socket(address, config)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        sockets.push(socket.into());
    }
    check_buffer(config, &sockets[0]);
    Ok(sockets)
}

fn open(address: SocketAddr, config: &ReceiverConfig) -> io::Result<Socket> {
    let socket = new_socket(address, config)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn new_socket(address: SocketAddr, config: &ReceiverConfig) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_read_timeout(Some(READ_TIMEOUT))?;
    // The kernel cuts this to net.core.rmem_max without an error; what it grants is read back.
    socket
        .set_recv_buffer_size(usize::try_from(config.receive_buffer_bytes).unwrap_or(usize::MAX))?;
    Ok(socket)
}

/// Bytes of receive buffer that the kernel granted; it doubles what is asked for, for its own use.
pub(super) fn granted_bytes(socket: &UdpSocket) -> u64 {
    socket2::SockRef::from(socket).recv_buffer_size().map_or(0, |bytes| bytes as u64 / 2)
}

fn check_buffer(config: &ReceiverConfig, socket: &UdpSocket) {
    let granted = granted_bytes(socket);
    if granted < config.receive_buffer_bytes {
        warn!(
            receiver = config.name,
            granted = show_bytes(granted),
            wanted = show_bytes(config.receive_buffer_bytes),
            "Receive buffer is smaller than configured; raise it with sysctl net.core.rmem_max={}.",
            config.receive_buffer_bytes,
        );
    }
}
