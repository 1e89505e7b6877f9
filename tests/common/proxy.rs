//! A proxy between the collector and ClickHouse that hurts inserts, or whole connections, for as long as a
//! fault lasts.

mod passage;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use passage::Passage;

/// What happens on the way to ClickHouse.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// Nobody listens, and connections that are open are reset.
    Refused,
    /// The connection is reset when this many bytes of an insert have passed.
    ResetInBody(usize),
    /// All of the insert passes, and the connection is reset instead of the answer.
    ResetAfterBody,
    /// Inserts are taken, go nowhere, and are never answered.
    Hang,
    /// ClickHouse's answer comes late, but it comes.
    Slow(Duration),
    /// Inserts get this answer: status line and headers, and body. ClickHouse gets nothing.
    Answer(&'static str, &'static str),
    /// The same for inserts into `flows` only.
    AnswerOfFlows(&'static str, &'static str),
    /// Inserts have other credentials: the first text is replaced by the second, of the same length.
    Reword(&'static str, &'static str),
    /// The same for inserts into `flows` only.
    RewordOfFlows(&'static str, &'static str),
}

impl Fault {
    fn is_of_flows(self) -> bool {
        matches!(self, Self::AnswerOfFlows(..) | Self::RewordOfFlows(..))
    }
}

/// How often the proxy looks whether it is to listen.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Between the collector and ClickHouse.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Bound and not listening: keeps the port while nobody listens.
    _place: Socket,
}

struct Shared {
    upstream: SocketAddr,
    fault: Mutex<Option<Fault>>,
    /// Inserts that were hurt, of all faults; while refused, connections.
    hurt: AtomicUsize,
    stop: AtomicBool,
}

impl Proxy {
    /// Passes everything on to `upstream`.
    pub fn start(upstream: SocketAddr) -> Self {
        let place = bound(([127, 0, 0, 1], 0).into());
        let address = place.local_addr().unwrap().as_socket().unwrap();
        let shared = Arc::new(Shared {
            upstream,
            fault: Mutex::default(),
            hurt: AtomicUsize::default(),
            stop: AtomicBool::default(),
        });
        let listener = listen(address);
        let listening = Arc::clone(&shared);
        std::thread::spawn(move || serve(listener, address, &listening));
        Self { address, shared, _place: place }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on inserts are hurt.
    pub fn begin(&self, fault: Fault) {
        *self.shared.fault.lock().unwrap() = Some(fault);
    }

    /// From now on everything passes again.
    pub fn end(&self) {
        *self.shared.fault.lock().unwrap() = None;
    }

    /// Inserts that were hurt; of [`Fault::Refused`], connections that were reset.
    pub fn hurt(&self) -> usize {
        self.shared.hurt.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn fault(&self) -> Option<Fault> {
        *self.fault.lock().unwrap()
    }

    fn is_refused(&self) -> bool {
        self.fault() == Some(Fault::Refused)
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn note_hurt(&self) {
        self.hurt.fetch_add(1, Ordering::Relaxed);
    }
}

/// Several sockets may have the port, and only those that listen get connections.
fn bound(address: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_port(true).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&address.into()).unwrap();
    socket
}

fn listen(address: SocketAddr) -> TcpListener {
    let socket = bound(address);
    socket.listen(128).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.into()
}

fn serve(listener: TcpListener, address: SocketAddr, shared: &Arc<Shared>) {
    let mut listener = Some(listener);
    while !shared.is_over() {
        if shared.is_refused() {
            listener = None;
        } else if let Ok((client, _)) = listener.get_or_insert_with(|| listen(address)).accept() {
            client.set_nonblocking(false).unwrap();
            let shared = Arc::clone(shared);
            std::thread::spawn(move || Passage::open(client, &shared));
            continue;
        }
        sleep(POLL_INTERVAL);
    }
}
