//! The rule that applies to a flow, of 100, 1,000 and 10,000 rules, beside a scan from the first rule on in the same run.
//! Classes of addresses are known, as the collector keeps them.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fastrand::Rng;
use ipnet::Ipv4Net;
use tidegate::enrich::applications::{Rules, Side, services};

/// Flows that are looked up in turn; what they need does not stay in the first-level cache.
const FLOWS: usize = 4_096;

/// A rule of one protocol, range of ports, prefix, prefix of the other side and exporter, for the scan.
struct PlainRule {
    protocol: u8,
    ports: (u16, u16),
    service: Ipv4Net,
    peer: Ipv4Net,
    exporter: Ipv4Net,
}

struct Flow {
    exporter: Ipv4Addr,
    protocol: u8,
    src: (Ipv4Addr, u16),
    dst: (Ipv4Addr, u16),
}

const ANY: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0);

impl PlainRule {
    /// What operators write: servers with ports, whole networks, ports alone, some of one exporter or one customer.
    fn random(rng: &mut Rng) -> Self {
        let server = network(rng.u32(0..4_000), *rng.choice(&[24, 28, 32, 32, 32]).unwrap(), 10);
        let customer = network(rng.u32(0..2_000), 24, 100);
        let exporter = network(rng.u32(0..50), 32, 172);
        let known =
            *rng.choice(&[22, 25, 53, 80, 123, 389, 443, 443, 443, 3_306, 5_432, 8_080]).unwrap();
        let own = rng.u16(1_024..32_000);
        let (port, range) = ((own, own), (own, own + rng.u16(1..200)));
        let (ports, service, peer, exporter) = match rng.u8(0..100) {
            0..20 => (port, ANY, ANY, ANY),
            20..25 => (range, ANY, ANY, ANY),
            25..60 => ((known, known), server, ANY, ANY),
            60..70 => (range, server, ANY, ANY),
            70..80 => ((0, u16::MAX), server, ANY, ANY),
            80..90 => ((known, known), server, customer, ANY),
            90..95 => (port, ANY, ANY, exporter),
            _ => ((known, known), server, ANY, exporter),
        };
        Self { protocol: *rng.choice(&[6, 6, 17]).unwrap(), ports, service, peer, exporter }
    }

    fn applies(&self, flow: &Flow) -> bool {
        let takes = |service: (Ipv4Addr, u16), peer: (Ipv4Addr, u16)| {
            (self.ports.0..=self.ports.1).contains(&service.1)
                && self.service.contains(&service.0)
                && self.peer.contains(&peer.0)
        };
        self.protocol == flow.protocol
            && self.exporter.contains(&flow.exporter)
            && (takes(flow.dst, flow.src) || takes(flow.src, flow.dst))
    }

    fn write(&self, index: usize, text: &mut String) {
        let prefix = |net: &Ipv4Net| if *net == ANY { String::new() } else { net.to_string() };
        let ports = match self.ports {
            (0, u16::MAX) => String::new(),
            (first, last) => format!("{first}-{last}"),
        };
        let [service, peer, exporter] = [&self.service, &self.peer, &self.exporter].map(prefix);
        writeln!(text, "app-{index},{},{ports},{service},{peer},{exporter}", self.protocol)
            .unwrap();
    }
}

/// One of many networks below `first`.
fn network(number: u32, length: u8, first: u8) -> Ipv4Net {
    let address = u32::from_be_bytes([first, 0, 0, 0]) | number << 8 | 5;
    Ipv4Net::new(address.into(), length).unwrap().trunc()
}

/// Half of the flows are those of a rule's server, the others of nobody that rules know.
fn flow(rules: &[PlainRule], rng: &mut Rng) -> Flow {
    let rule = rng.choice(rules).unwrap();
    let client = Ipv4Addr::from(u32::from_be_bytes([100, 0, 0, 7]) | rng.u32(0..2_000) << 8);
    let stranger = Ipv4Addr::from(u32::from_be_bytes([203, 0, 0, 0]) | rng.u32(0..1 << 20));
    let (server, port) = match rng.bool() {
        true => (rule.service.network(), rng.u16(rule.ports.0..=rule.ports.1)),
        false => (stranger, *rng.choice(&[53, 80, 443, 443, 443, 27_015]).unwrap()),
    };
    let ends = [(client, rng.u16(32_768..61_000)), (server, port)];
    let [src, dst] = if rng.bool() { ends } else { [ends[1], ends[0]] };
    let exporter = network(rng.u32(0..50), 32, 172).network();
    Flow { exporter, protocol: rule.protocol, src, dst }
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("applications");
    group.throughput(Throughput::Elements(FLOWS as u64));
    for count in [100, 1_000, 10_000] {
        let mut rng = Rng::with_seed(7);
        let plain: Vec<_> = (0..count).map(|_| PlainRule::random(&mut rng)).collect();
        let mut text = "application,protocol,ports,prefixes,peer-prefixes,exporter\n".to_owned();
        plain.iter().enumerate().for_each(|(index, rule)| rule.write(index, &mut text));
        let flows: Vec<_> = (0..FLOWS).map(|_| flow(&plain, &mut rng)).collect();
        let rules = Rules::parse(&text).unwrap();
        let side = |(address, port): (Ipv4Addr, u16)| Side {
            class: rules.address_class(address.to_ipv6_mapped()),
            port,
        };
        let looked_up: Vec<_> = flows
            .iter()
            .map(|flow| {
                let exporter = rules.exporter_class(IpAddr::V4(flow.exporter));
                (exporter, flow.protocol, side(flow.src), side(flow.dst))
            })
            .collect();
        let scan = |flow: &Flow| plain.iter().position(|rule| rule.applies(flow));
        for (flow, &(exporter, protocol, src, dst)) in flows.iter().zip(&looked_up) {
            let found = rules.find(exporter, protocol, src, dst).map(usize::from);
            assert_eq!(found, scan(flow), "both find the same");
        }
        group.bench_function(BenchmarkId::new("rules", count), |bencher| {
            bencher.iter(|| {
                for &(exporter, protocol, src, dst) in &looked_up {
                    black_box(rules.find(exporter, protocol, src, dst));
                }
            });
        });
        group.bench_function(BenchmarkId::new("scan", count), |bencher| {
            bencher.iter(|| {
                for flow in &flows {
                    black_box(scan(flow));
                }
            });
        });
        group.bench_function(BenchmarkId::new("parse", count), |bencher| {
            bencher.iter(|| Rules::parse(black_box(&text)).unwrap());
        });
    }
    group.bench_function("services", |bencher| {
        let mut rng = Rng::with_seed(7);
        let ports: Vec<_> =
            (0..FLOWS).map(|_| (rng.u16(..), *rng.choice(&[53, 443, 27_015]).unwrap())).collect();
        bencher.iter(|| {
            for &(src, dst) in &ports {
                black_box(services().find(6, src, dst));
            }
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = bench
}
criterion_main!(benches);
