//! Sends prepared datagrams again and again, with sequence numbers that go on, for benchmarks of collectors: what
//! `tidegate generate` makes, without the time that making it takes.
//!
//! `load --to 127.0.0.1:2055 --protocol v9 --pps 20000 --seconds 4` prints what it sent as one line of JSON.
#![expect(clippy::print_stdout, reason = "its result")]

use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use clap::Parser;
use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use tidegate::traffic::{Generator, Protocol, Spec, loopback_address};

/// What is prepared of all exporters together, datagrams.
const PREPARED_MAX: usize = 40_000;
/// And of one: the flows of a second of a large router, and more than the caches of a processor.
const PREPARED_OF_ONE_MAX: usize = 1_024;
/// How long to sleep when ahead of the pace.
const NAP: Duration = Duration::from_millis(1);

#[derive(Parser)]
struct Arguments {
    /// Address and port of the collector, of 127.0.0.0/8.
    #[arg(long)]
    to: SocketAddr,
    /// v5, v9, ipfix or sflow.
    #[arg(long)]
    protocol: String,
    /// Datagrams a second over all exporters; 0 is as fast as it goes.
    #[arg(long)]
    pps: u64,
    /// How long to send.
    #[arg(long)]
    seconds: f64,
    /// How many exporters.
    #[arg(long, default_value_t = NonZeroUsize::new(10).expect("not 0"))]
    exporters: NonZeroUsize,
    /// Datagrams of one exporter that are sent at once.
    #[arg(long, default_value_t = NonZeroUsize::new(8).expect("not 0"))]
    burst: NonZeroUsize,
}

struct Prepared {
    payload: Vec<u8>,
    flows: u64,
}

struct Exporter {
    socket: UdpSocket,
    datagrams: Vec<Prepared>,
    /// What is sent next.
    next: usize,
    /// Where the sequence number is, and by how much it grows in a round of all datagrams.
    sequence_at: usize,
    sequence_step: u32,
}

impl Exporter {
    /// Sends the next datagrams, all or those that fit the socket; how many, and the flows in them.
    fn send(&mut self, count: usize) -> anyhow::Result<(u64, u64)> {
        let rest = &mut self.datagrams[self.next..];
        let count = count.min(rest.len());
        let slices: Vec<[IoSlice<'_>; 1]> =
            rest[..count].iter().map(|it| [IoSlice::new(&it.payload)]).collect();
        let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> =
            (0..count).map(|_| SendAncillaryBuffer::default()).collect();
        let mut messages: Vec<MMsgHdr<'_>> =
            slices.iter().zip(&mut controls).map(|(slice, it)| MMsgHdr::new(slice, it)).collect();
        let sent = match sendmmsg(&self.socket, &mut messages, SendFlags::empty()) {
            Ok(sent) => sent,
            // Nobody listens any more: a benchmark that stopped its collector.
            Err(Errno::CONNREFUSED) => 0,
            Err(error) => return Err(error).context("sendmmsg"),
        };
        let mut flows = 0;
        for datagram in &mut rest[..sent] {
            flows += datagram.flows;
            let field = &mut datagram.payload[self.sequence_at..self.sequence_at + 4];
            let number = u32::from_be_bytes(field.try_into()?);
            field.copy_from_slice(&number.wrapping_add(self.sequence_step).to_be_bytes());
        }
        self.next = (self.next + sent) % self.datagrams.len();
        Ok((sent as u64, flows))
    }
}

/// The offset of the sequence number, and what it grows by for these datagrams: NetFlow v5 and IPFIX number
/// flows, NetFlow v9 and sFlow datagrams.
fn sequence(protocol: Protocol, datagrams: &[Prepared]) -> anyhow::Result<(usize, u32)> {
    let flows = datagrams.iter().map(|it| it.flows).sum::<u64>();
    let (at, step) = match protocol {
        Protocol::V5 => (16, flows),
        Protocol::V9 => (12, datagrams.len() as u64),
        Protocol::Ipfix => (8, flows),
        // The agent has an IPv4 address.
        Protocol::Sflow => (16, datagrams.len() as u64),
        Protocol::Mixed => anyhow::bail!("one protocol at a time"),
    };
    Ok((at, u32::try_from(step)?))
}

fn prepare(arguments: &Arguments, protocol: Protocol) -> anyhow::Result<Vec<Exporter>> {
    let count = arguments.exporters.get();
    let of_one = (PREPARED_MAX / count).clamp(3, PREPARED_OF_ONE_MAX);
    let spec = Spec { protocol, exporters: count, ..Spec::default() };
    let mut generator = Generator::new(&spec);
    let now = SystemTime::UNIX_EPOCH.elapsed()?.as_millis().try_into()?;
    let mut all: Vec<Vec<Prepared>> = (0..count).map(|_| Vec::new()).collect();
    while all.iter().any(|datagrams| datagrams.len() < of_one) {
        let emission = generator.next(now).context("the generator has no end")?;
        let (payload, flows) = (emission.payload.clone(), emission.flows);
        all[emission.exporter].push(Prepared { payload, flows });
    }
    let with_socket = |(index, datagrams): (usize, Vec<Prepared>)| {
        let socket = UdpSocket::bind((loopback_address(index), 0))?;
        socket.connect(arguments.to)?;
        let (sequence_at, sequence_step) = sequence(protocol, &datagrams)?;
        Ok(Exporter { socket, datagrams, next: 0, sequence_at, sequence_step })
    };
    all.into_iter().enumerate().map(with_socket).collect()
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let protocol = match arguments.protocol.as_str() {
        "v5" => Protocol::V5,
        "v9" => Protocol::V9,
        "ipfix" => Protocol::Ipfix,
        "sflow" => Protocol::Sflow,
        other => anyhow::bail!("{other} is no protocol"),
    };
    let mut exporters = prepare(&arguments, protocol)?;
    let (mut datagrams, mut flows, mut turn) = (0, 0, 0);
    let started = Instant::now();
    loop {
        let elapsed = started.elapsed();
        if elapsed.as_secs_f64() >= arguments.seconds {
            break;
        }
        let due = elapsed.as_micros() * u128::from(arguments.pps) / 1_000_000;
        if arguments.pps > 0 && u128::from(datagrams) >= due {
            std::thread::sleep(NAP);
            continue;
        }
        let (sent, of_them) = exporters[turn].send(arguments.burst.get())?;
        datagrams += sent;
        flows += of_them;
        turn = (turn + 1) % exporters.len();
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(r#"{{"datagrams": {datagrams}, "flows": {flows}, "seconds": {seconds:.3}}}"#);
    Ok(())
}
