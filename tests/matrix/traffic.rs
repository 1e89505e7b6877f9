//! Flows of a case. They come over TCP: no socket of a busy machine may lose one.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::UNIX_EPOCH;

use tidegate::traffic::{
    self, Field, IpfixHeader, MessageBuilder, Pace, Protocol, Spec, Totals, Transport,
};

/// Flows before the fault, while it lasts, and after it.
pub const BEFORE: u64 = 3_000;
pub const DURING: u64 = 5_000;
pub const AFTER: u64 = 2_000;

/// Bytes of the one flow that a CHECK refuses; no generated flow has as many.
pub const BAD_BYTES: u64 = 1 << 40;

/// Flows of the message that has it.
pub const WITH_BAD: u64 = 100;

/// Flows, bytes and packets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sums(pub [u64; 3]);

impl std::ops::AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }
}

/// Sends generated flows, others for each `seed`.
pub fn send(address: SocketAddr, flows: u64, seed: u64) -> Sums {
    let spec = Spec {
        protocol: Protocol::Ipfix,
        exporters: 2,
        seed,
        flows: Some(flows),
        transport: Transport::Tcp,
    };
    let pace = Pace { flows_per_second: 20_000, duration: None };
    let totals = Totals::default();
    traffic::run(&spec, address, pace, &AtomicBool::new(false), &totals).unwrap();
    let sent = totals.read();
    Sums([sent.flows, sent.bytes, sent.packets])
}

/// Sends one message of good flows and the bad one: they are in one batch.
pub fn send_with_bad(address: SocketAddr) -> Sums {
    let export_time_s = u32::try_from(UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
    let header = IpfixHeader { export_time_s, sequence: 0, domain_id: 7 };
    let message = MessageBuilder::ipfix(header).template(300, &[Field::new(1, 8)]);
    let bytes: Vec<u64> = (1..WITH_BAD).chain([BAD_BYTES]).collect();
    let records: Vec<_> = bytes.iter().map(|bytes| bytes.to_be_bytes()).collect();
    let message = message.data_set(300, &records).finish();
    TcpStream::connect(address).unwrap().write_all(&message).unwrap();
    Sums([WITH_BAD, bytes.iter().sum(), 0])
}
