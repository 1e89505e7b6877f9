//! The name of an address that is known, of ten thousand in turn, and of one that is not to be asked for.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tidegate::config::Config;
use tidegate::hostnames::HostNames;
use tidegate::telemetry::Metrics;

const ADDRESSES: u32 = 10_000;

/// A PTR record of `host.example` with a TTL of a day, for the name in the question (RFC 1035 section 4.1.3).
const ANSWER: &[u8] = b"\xc0\x0c\x00\x0c\x00\x01\x00\x01\x51\x80\x00\x0e\x04host\x07example\x00";

/// Gives each question the same answer.
fn serve() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut message = [0; 512];
        loop {
            let (length, from) = socket.recv_from(&mut message).unwrap();
            // Behind the name come type and class; further records are left out.
            let name = message[12..length].iter().position(|&byte| byte == 0).unwrap();
            let question_end = 12 + name + 5;
            // An authoritative answer, with one question and one record.
            message[2..12].copy_from_slice(&[0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
            let answer = [&message[..question_end], ANSWER].concat();
            socket.send_to(&answer, from).unwrap();
        }
    });
    address
}

fn bench(criterion: &mut Criterion) {
    let text = format!("[hostnames]\nenabled = true\nservers = [\"{}\"]\n", serve());
    let config = Config::parse(&text, Path::new("bench.toml"), Vec::new()).unwrap();
    let metrics = Metrics::default();
    let names = HostNames::start(&config.hostnames, &metrics).unwrap();
    let address = |number: u32| {
        let [_, a, b, c] = number.to_be_bytes();
        Ipv4Addr::new(10, a, b, c).to_ipv6_mapped()
    };
    // In a mixed order, as flows have them.
    let mut addresses: Vec<Ipv6Addr> = (0..ADDRESSES).map(address).collect();
    fastrand::Rng::with_seed(7).shuffle(&mut addresses);
    let is_known = |address: &&Ipv6Addr| names.name(**address).is_some();
    while addresses.iter().filter(is_known).count() < addresses.len() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut group = criterion.benchmark_group("hostnames");
    group.throughput(Throughput::Elements(ADDRESSES.into()));
    group.bench_function("known", |bencher| {
        bencher.iter(|| addresses.iter().for_each(|address| drop(black_box(names.name(*address)))));
    });
    group.bench_function("multicast", |bencher| {
        let group = Ipv4Addr::new(224, 0, 0, 1).to_ipv6_mapped();
        bencher.iter(|| (0..ADDRESSES).for_each(|_| drop(black_box(names.name(black_box(group))))));
    });
    let off = HostNames::start(&Config::defaults().hostnames, &metrics).unwrap();
    group.bench_function("off", |bencher| {
        bencher.iter(|| addresses.iter().for_each(|address| drop(black_box(off.name(*address)))));
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = bench
}
criterion_main!(benches);
