//! System calls that the standard library lacks: batched receive, the kernel's count of drops, and waiting
//! for several sockets.
//!
//! The only file of the data path with `unsafe`.
#![expect(
    unsafe_code,
    reason = "recvmmsg(2), getsockopt(SO_MEMINFO) and poll(2) have no safe wrapper"
)]

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Datagrams of one system call: enough to make its cost small for each, and few enough that their
/// buffers stay in the cache.
const DATAGRAMS_MAX: usize = 64;
const ADDRESS_BYTES: libc::socklen_t = c_length(size_of::<libc::sockaddr_storage>());

/// A UDP payload cannot be longer, so none is cut. Pages that no datagram reaches take no memory.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Position of the drop count in what `SO_MEMINFO` returns, `SK_MEMINFO_DROPS` of `linux/sock_diag.h`.
const MEMINFO_DROPS: usize = 8;
const MEMINFO_VALUES: usize = 9;
const MEMINFO_BYTES: libc::socklen_t = c_length(size_of::<[u32; MEMINFO_VALUES]>());

#[expect(clippy::cast_possible_truncation, reason = "only for the small constants of this file")]
const fn c_length(length: usize) -> u32 {
    length as u32
}

/// Buffers for one batched receive, used again and again.
pub(super) struct DatagramBatch {
    buffers: Vec<u8>,
    addresses: Vec<libc::sockaddr_storage>,
    lengths: Vec<usize>,
}

impl DatagramBatch {
    pub(super) fn new() -> Self {
        // SAFETY: an all-zero sockaddr_storage is a valid value of unspecified family.
        let address = unsafe { zeroed::<libc::sockaddr_storage>() };
        Self {
            buffers: vec![0; DATAGRAMS_MAX * DATAGRAM_BYTES_MAX],
            addresses: vec![address; DATAGRAMS_MAX],
            lengths: Vec::with_capacity(DATAGRAMS_MAX),
        }
    }

    /// Receives what is there, waiting for the first datagram at most the socket's read timeout, or not
    /// at all.
    ///
    /// # Errors
    ///
    /// That of recvmmsg(2); `WouldBlock` when no datagram came.
    pub(super) fn receive(&mut self, socket: &UdpSocket, wait: bool) -> io::Result<usize> {
        self.lengths.clear();
        // SAFETY: zero is a valid value of these C structures (null pointers, zero lengths).
        let mut vectors: [libc::iovec; DATAGRAMS_MAX] = unsafe { zeroed() };
        // SAFETY: as above.
        let mut headers: [libc::mmsghdr; DATAGRAMS_MAX] = unsafe { zeroed() };
        let buffers = self.buffers.chunks_exact_mut(DATAGRAM_BYTES_MAX);
        for (((buffer, address), vector), header) in
            buffers.zip(&mut self.addresses).zip(&mut vectors).zip(&mut headers)
        {
            vector.iov_base = buffer.as_mut_ptr().cast();
            vector.iov_len = buffer.len();
            header.msg_hdr.msg_name = std::ptr::from_mut(address).cast();
            header.msg_hdr.msg_namelen = ADDRESS_BYTES;
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        let flags = if wait { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        // SAFETY: every header points to one vector, one buffer and one address that outlive the call and
        // have the lengths given; no timeout is passed.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                c_length(DATAGRAMS_MAX),
                flags,
                std::ptr::null_mut(),
            )
        };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        self.lengths.extend(headers.iter().take(received).map(|header| header.msg_len as usize));
        Ok(received)
    }

    /// The datagrams of the last receive: source and payload.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        let buffers = self.buffers.chunks_exact(DATAGRAM_BYTES_MAX);
        let datagrams = buffers.zip(&self.addresses).zip(&self.lengths);
        datagrams.map(|((buffer, address), &length)| {
            (source_of(address), &buffer[..length.min(DATAGRAM_BYTES_MAX)])
        })
    }
}

/// Sockets to be waited for together, in the order in which they were added.
#[derive(Default)]
pub(super) struct Poll(Vec<libc::pollfd>);

impl Poll {
    /// Takes all sockets out.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a socket; one that is not `wanted` keeps its place and is never ready.
    pub(super) fn add(&mut self, socket: &impl AsFd, wanted: bool) {
        // poll(2) steps over negative descriptors.
        let fd = if wanted { socket.as_fd().as_raw_fd() } else { -1 };
        self.0.push(libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    }

    /// Waits until a socket can be read, has ended or has an error, at most `timeout`.
    ///
    /// # Errors
    ///
    /// That of poll(2); no socket is ready then.
    pub(super) fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: pointer and length are those of the vector, which nobody else has during the call; a
        // descriptor that is closed meanwhile is reported as such.
        let ready =
            unsafe { libc::poll(self.0.as_mut_ptr(), self.0.len() as libc::nfds_t, timeout) };
        if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Whether the socket that was added at this place is to be read.
    pub(super) fn is_ready(&self, index: usize) -> bool {
        self.0.get(index).is_some_and(|entry| entry.revents != 0)
    }
}

/// Datagrams that the kernel dropped at this socket since it was made.
///
/// # Errors
///
/// That of getsockopt(2): kernels before 4.6 do not count.
pub(super) fn kernel_drops(socket: &UdpSocket) -> io::Result<u32> {
    let mut values = [0_u32; MEMINFO_VALUES];
    let mut length = MEMINFO_BYTES;
    // SAFETY: the kernel writes at most `length` bytes to `values`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(values[MEMINFO_DROPS]) } else { Err(io::Error::last_os_error()) }
}

/// Address and port of a datagram's source; IPv4-mapped addresses are unmapped.
fn source_of(address: &libc::sockaddr_storage) -> SocketAddr {
    let address = std::ptr::from_ref(address);
    // SAFETY: sockaddr_storage is large enough and aligned for every address family.
    let family = i32::from(unsafe { (*address).ss_family });
    let (ip, port): (IpAddr, u16) = match family {
        libc::AF_INET => {
            // SAFETY: the family says that this is a sockaddr_in.
            let v4 = unsafe { &*address.cast::<libc::sockaddr_in>() };
            (Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into(), v4.sin_port)
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that this is a sockaddr_in6.
            let v6 = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            (IpAddr::from(Ipv6Addr::from(v6.sin6_addr.s6_addr)).to_canonical(), v6.sin6_port)
        }
        _ => (Ipv4Addr::UNSPECIFIED.into(), 0),
    };
    SocketAddr::new(ip, u16::from_be(port))
}

impl std::fmt::Debug for DatagramBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatagramBatch").field("lengths", &self.lengths).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Poll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poll").field("sockets", &self.0.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (UdpSocket, UdpSocket) {
        let receiver = UdpSocket::bind("[::1]:0").unwrap();
        let sender = UdpSocket::bind("[::1]:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        (receiver, sender)
    }

    #[test]
    fn datagrams_of_every_length_come_with_their_source() {
        let (receiver, sender) = pair();
        let lengths = [0, 1, 1_400, 65_507];
        for length in lengths {
            sender.send(&vec![7; length]).unwrap();
        }
        let mut batch = DatagramBatch::new();
        assert_eq!(batch.receive(&receiver, true).unwrap(), 4);
        let got: Vec<_> = batch.iter().map(|(source, bytes)| (source, bytes.len())).collect();
        let port = sender.local_addr().unwrap().port();
        let source = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port);
        assert_eq!(got, lengths.map(|length| (source, length)));
        let error = batch.receive(&receiver, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(batch.iter().count(), 0);
    }

    #[test]
    fn the_socket_that_can_be_read_is_told() {
        let (quiet, _quiet_sender) = pair();
        let (receiver, sender) = pair();
        let mut poll = Poll::default();
        let mut ready = |is_wanted| {
            poll.clear();
            poll.add(&quiet, true);
            poll.add(&receiver, is_wanted);
            poll.wait(Duration::from_millis(10)).unwrap();
            [0, 1, 2].map(|index| poll.is_ready(index))
        };
        assert_eq!(ready(true), [false; 3]);
        sender.send(&[7]).unwrap();
        assert_eq!(ready(true), [false, true, false]);
        assert_eq!(ready(false), [false; 3]);
    }

    #[test]
    fn what_a_full_receive_buffer_drops_is_counted_to_the_datagram() {
        let (receiver, sender) = pair();
        socket2::SockRef::from(&receiver).set_recv_buffer_size(16 << 10).unwrap();
        for _ in 0..200 {
            sender.send(&[7; 1_400]).unwrap();
        }
        let dropped = kernel_drops(&receiver).unwrap();
        let mut batch = DatagramBatch::new();
        let mut received = 0;
        while let Ok(count) = batch.receive(&receiver, false) {
            received += count;
        }
        assert!(dropped > 0 && received > 0);
        assert_eq!(received + dropped as usize, 200);
    }
}
