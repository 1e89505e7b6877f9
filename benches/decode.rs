//! Datagram to columns: time a flow, by protocol. The crate `netflow_parser` reads the same datagrams in the same run,
//! which says how fast the machine was; it only parses and drops, so columns are still to be made of it.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::sync::Arc;
use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use netflow_parser::variable_versions::{ipfix, v9};
use netflow_parser::{NetflowPacket, NetflowParser};
use tidegate::decode::{Datagram, Decoder, DecoderOptions, Exporters};
use tidegate::flow::{CHUNK_ROWS_MAX, ChunkWriter};
use tidegate::traffic::{
    self, Field, Generator, IpfixHeader, MessageBuilder, Spec, variable_length,
};

const NOW_MS: u64 = 1_800_000_000_000;

/// Datagrams that are decoded in turn; more than fit the first-level cache.
const DATAGRAMS: usize = 256;

fn decoder() -> Decoder {
    let options = DecoderOptions::default();
    Decoder::new(options, Arc::new(Exporters::default()))
}

fn datagram(payload: &[u8]) -> Datagram<'_> {
    let received_ms = NOW_MS.cast_signed();
    Datagram { exporter: [192, 0, 2, 1].into(), source_port: 0, received_ms, payload }
}

/// Templates are learned before; then full datagrams of one exporter are decoded again and again.
fn bench(
    criterion: &mut Criterion,
    name: &str,
    (templates, payloads): &(Vec<Vec<u8>>, Vec<Vec<u8>>),
    has_other: bool,
) {
    let mut decoder = decoder();
    let mut writer = ChunkWriter::new(CHUNK_ROWS_MAX);
    for payload in templates {
        decoder.decode(&datagram(payload), Instant::now(), &mut writer);
    }
    let count =
        |payload: &Vec<u8>| decoder.decode(&datagram(payload), Instant::now(), &mut writer).1.flows;
    let flows: u64 = payloads.iter().map(count).sum();
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(flows));
    group.bench_function("tidegate", |bencher| {
        bencher.iter(|| {
            let now = Instant::now();
            for payload in payloads {
                decoder.decode(&datagram(payload), now, &mut writer);
                writer.take_closed().for_each(drop);
            }
        });
    });
    if has_other {
        let mut parser = NetflowParser::default();
        for payload in templates {
            drop(parser.parse_bytes(payload));
        }
        let records: usize = payloads
            .iter()
            .flat_map(|payload| parser.parse_bytes(payload).packets)
            .map(records)
            .sum();
        assert_eq!(records as u64, flows, "both read the same flows");
        group.bench_function("netflow_parser", |bencher| {
            bencher.iter(|| {
                for payload in payloads {
                    drop(parser.parse_bytes(payload));
                }
            });
        });
    }
    group.finish();
}

/// Flow records of a message.
fn records(packet: NetflowPacket) -> usize {
    match packet {
        NetflowPacket::V5(packet) => packet.flowsets.len(),
        NetflowPacket::V9(packet) => packet
            .flowsets
            .iter()
            .map(|set| match &set.body {
                v9::FlowSetBody::Data(data) => data.fields.len(),
                _ => 0,
            })
            .sum(),
        NetflowPacket::IPFix(packet) => packet
            .flowsets
            .iter()
            .map(|set| match &set.body {
                ipfix::FlowSetBody::Data(data) => data.fields.len(),
                _ => 0,
            })
            .sum(),
        _ => 0,
    }
}

/// Datagrams of one synthetic exporter: those with templates, those with flows.
fn generated(protocol: traffic::Protocol) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let spec = Spec { protocol, exporters: 1, ..Spec::default() };
    let mut generator = Generator::new(&spec);
    let (mut templates, mut data) = (Vec::new(), Vec::new());
    while data.len() < DATAGRAMS {
        let emission = generator.next(NOW_MS).unwrap();
        let target = if emission.flows == 0 { &mut templates } else { &mut data };
        target.push(emission.payload.clone());
    }
    (templates, data)
}

/// 20 fields, two of them short strings.
fn with_strings() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let numbers = [(8, 4), (12, 4), (15, 4), (10, 2), (14, 2), (2, 8), (1, 8), (152, 8), (153, 8)];
    let more = [(7, 2), (11, 2), (6, 2), (4, 1), (5, 1), (16, 4), (17, 4), (9, 1), (13, 1)];
    let strings = [(96, u16::MAX), (82, u16::MAX)];
    let fields = numbers.iter().chain(&more).chain(&strings);
    let fields: Vec<_> = fields.map(|&(id, octets)| Field::new(id, octets)).collect();
    let header = || IpfixHeader { export_time_s: 1_800_000_000, sequence: 0, domain_id: 1 };
    let template = MessageBuilder::ipfix(header()).template(300, &fields).finish();
    let record = |n: usize| {
        let fixed: usize =
            numbers.iter().chain(&more).map(|&(_, octets)| usize::from(octets)).sum();
        let name: &[u8] = [&b"https"[..], b"dns", b"ssh", b"ntp"][n % 4];
        [
            vec![u8::try_from(n % 251).unwrap(); fixed],
            variable_length(name),
            variable_length(b"eth0"),
        ]
        .concat()
    };
    let message = |first: usize| {
        let records: Vec<_> = (first..first + 16).map(record).collect();
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        MessageBuilder::ipfix(header()).data_set(300, &records).finish()
    };
    (vec![template], (0..DATAGRAMS).map(message).collect())
}

fn decode(criterion: &mut Criterion) {
    for (name, protocol) in [
        ("netflow-v5 x30", traffic::Protocol::V5),
        ("netflow-v9 20 fields x24", traffic::Protocol::V9),
        ("ipfix 20 fields x22", traffic::Protocol::Ipfix),
        ("sflow 128-byte headers x7", traffic::Protocol::Sflow),
    ] {
        bench(criterion, name, &generated(protocol), protocol != traffic::Protocol::Sflow);
    }
    bench(criterion, "ipfix 20 fields, 2 strings x16", &with_strings(), true);
}

criterion_group!(benches, decode);
criterion_main!(benches);
