//! sFlow datagrams built by hand.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use crate::decode::{Datagram, Decoder, DecoderOptions, Exporters, Tally};
use crate::flow::{ChunkWriter, Row};
use crate::traffic::{self, Generator, Spec};

use super::*;

const NOW_MS: i64 = 1_800_000_000_123;
const SOURCE: [u8; 4] = [192, 0, 2, 99];

struct Bench {
    decoder: Decoder,
    exporters: Arc<Exporters>,
    writer: ChunkWriter,
    rows: Vec<Value>,
}

impl Bench {
    fn new() -> Self {
        let options = DecoderOptions::default();
        let exporters = Arc::new(Exporters::default());
        let decoder = Decoder::new(options, Arc::clone(&exporters));
        Self { decoder, exporters, writer: ChunkWriter::new(3), rows: Vec::new() }
    }

    fn decode(&mut self, payload: &[u8]) -> Tally {
        let datagram =
            Datagram { exporter: SOURCE.into(), source_port: 0, received_ms: NOW_MS, payload };
        let (_, tally) = self.decoder.decode(&datagram, Instant::now(), &mut self.writer);
        self.writer.close_all();
        for chunk in self.writer.take_closed() {
            let rows = (0..chunk.rows()).map(|row| Row::new(&chunk, row));
            self.rows.extend(rows.map(|row| serde_json::to_value(row).unwrap()));
        }
        tally
    }
}

/// The row of a datagram with one sample, which has these records.
fn row_of(records: &[Vec<u8>]) -> Value {
    let mut bench = Bench::new();
    let tally = bench.decode(&datagram(&[flow_sample(512, 3, 4, records)]));
    assert_eq!((tally.flows, dropped(&tally)), (1, vec![]));
    bench.rows.remove(0)
}

fn dropped(tally: &Tally) -> Vec<(&'static str, u64, u64)> {
    tally.drops().map(|(reason, d)| (reason.label(), d.count, d.bytes)).collect()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn opaque(format: u32, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap();
    let mut bytes = [&words(&[format, length])[..], content].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Of agent 10.1.2.3, sub-agent 7.
fn datagram(samples: &[Vec<u8>]) -> Vec<u8> {
    let count = u32::try_from(samples.len()).unwrap();
    [&words(&[5, 1, 0x0a01_0203, 7, 1, 60_000, count])[..], &samples.concat()].concat()
}

fn flow_sample(rate: u32, input: u32, output: u32, records: &[Vec<u8>]) -> Vec<u8> {
    let count = u32::try_from(records.len()).unwrap();
    let head = words(&[1, 3, rate, 1_000, 0, input, output, count]);
    opaque(1, &[&head[..], &records.concat()].concat())
}

/// A header of `protocol` from a frame of `frame_length`.
fn raw(protocol: u32, frame_length: u32, header: &[u8]) -> Vec<u8> {
    let length = u32::try_from(header.len()).unwrap();
    opaque(1, &[&words(&[protocol, frame_length, 4, length])[..], header].concat())
}

/// UDP from 192.0.2.1 to 198.51.100.2 in VLAN 9.
fn udp_frame() -> Vec<u8> {
    let macs = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    let ip = [0x45, 0, 0, 99, 0, 0, 0, 0, 63, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2];
    [&macs[..], &[0x81, 0, 0, 9, 8, 0], &ip, &[0x30, 0x39, 0, 53, 0, 10, 0, 0, 1, 2]].concat()
}

fn raw_udp() -> Vec<u8> {
    raw(1, 117, &udp_frame())
}

fn counter_sample(if_index: u32, in_octets: u32) -> Vec<u8> {
    let mut counters = words(&[if_index, 6, 0, 1_000_000_000, 1, 3, 0, in_octets]);
    counters.extend(words(&[10, 11, 12, 13, 14, u32::MAX, 0, 77, 20, 21, 22, 23, 24, 0]));
    assert_eq!(counters.len(), 88);
    let other = opaque(2, &[0; 52]);
    opaque(2, &[&words(&[1, 3, 2])[..], &opaque(1, &counters), &other].concat())
}

#[test]
fn a_flow_sample_is_a_row() {
    let row = row_of(&[raw_udp()]);
    let expected = serde_json::json!({
        "timestamp": NOW_MS, "receivedAt": NOW_MS, "firstSwitched": NOW_MS,
        "deltaSwitched": NOW_MS, "lastSwitched": NOW_MS,
        "flowProtocol": "SFLOW", "exporterAddr": "10.1.2.3", "observationDomainId": 7,
        "tenant": "default", "organisation": "default", "zone": "default", "system": "default",
        "bytes": 117, "packets": 1, "inputSnmp": 3, "outputSnmp": 4,
        "samplingInterval": 512.0, "samplingProvenance": "record",
        "srcAddr": "192.0.2.1", "dstAddr": "198.51.100.2", "srcPort": 12_345, "dstPort": 53,
        "protocol": 17, "ipProtocolVersion": 4, "ipTtl": 63, "vlan": 9,
        "srcMac": 0x0200_0000_0001_u64, "dstMac": 0x0200_0000_0002_u64,
    });
    assert_eq!(row, expected);
}

#[test]
fn an_expanded_sample_is_the_same_row() {
    let mut bench = Bench::new();
    let head = words(&[1, 0, 3, 512, 1_000, 0, 0, 3, 0, 4, 1]);
    bench.decode(&datagram(&[opaque(3, &[&head[..], &raw_udp()].concat())]));
    assert_eq!(bench.rows, [row_of(&[raw_udp()])]);
}

#[test]
fn only_a_single_interface_has_an_index_and_a_discarded_packet_is_dropped() {
    let interfaces = |input, output| {
        let mut bench = Bench::new();
        bench.decode(&datagram(&[flow_sample(1, input, output, &[raw_udp()])]));
        let row = &bench.rows[0];
        ["inputSnmp", "outputSnmp", "forwardingStatus"].map(|c| row[c].as_u64().unwrap_or(0))
    };
    assert_eq!(interfaces(0x3fff_ffff, 5), [0, 5, 0], "the device itself");
    assert_eq!(interfaces(5, 0x4000_0102), [5, 0, 128], "discarded, reason 258");
    assert_eq!(interfaces(5, 0x8000_0003), [5, 0, 0], "three interfaces");
    let mut bench = Bench::new();
    let head = words(&[1, 0, 3, 1, 1_000, 0, 0, 0x4000_0001, 1, 2, 1]);
    bench.decode(&datagram(&[opaque(3, &[&head[..], &raw_udp()].concat())]));
    assert_eq!(bench.rows[0]["inputSnmp"], 0x4000_0001, "expanded values have all 32 bits");
    assert_eq!(bench.rows[0]["forwardingStatus"], 128);
}

#[test]
fn a_rate_of_zero_is_none() {
    let mut bench = Bench::new();
    let samples = [0, 100].map(|rate| flow_sample(rate, 1, 2, &[raw_udp()]));
    bench.decode(&datagram(&samples));
    let column = |name: &str| bench.rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(column("samplingInterval"), [1.0, 100.0]);
    assert_eq!(column("samplingProvenance"), ["assumed", "record"]);
}

#[test]
fn an_agent_of_ipv6_is_the_exporter_and_one_without_address_is_the_sender() {
    let agent = |address: &[u8]| {
        let rest = words(&[0, 1, 60_000, 1]);
        let sample = flow_sample(1, 1, 2, &[raw_udp()]);
        let mut bench = Bench::new();
        let tally = bench.decode(&[&words(&[5])[..], address, &rest, &sample].concat());
        let exporter = bench.rows.first().map(|row| row["exporterAddr"].clone());
        (exporter, tally)
    };
    let ipv6 = [&words(&[2, 0x2001_0db8, 0, 0])[..], &words(&[1])].concat();
    assert_eq!(agent(&ipv6).0, Some("2001:db8::1".into()));
    assert_eq!(agent(&words(&[0])).0, Some("192.0.2.99".into()));
    assert_eq!(agent(&words(&[1, 0])).0, Some("192.0.2.99".into()));
    let (exporter, tally) = agent(&words(&[3, 0]));
    assert_eq!((exporter, tally.dropped(DropReason::BadAgent).count), (None, 1));
}

#[test]
fn records_of_addresses_and_ports_stand_in_for_a_header() {
    let ipv4 = words(&[1_344, 6, 0xc000_0201, 0xc633_6402, 70_000, 443, 0x12, 0xb8]);
    let row = row_of(&[opaque(3, &ipv4)]);
    assert_eq!((&row["bytes"], &row["srcAddr"]), (&1_344.into(), &"192.0.2.1".into()));
    assert_eq!((&row["srcPort"], &row["tcpFlags"]), (&65_535.into(), &0x12.into()), "saturated");
    assert_eq!((&row["tos"], &row["ipProtocolVersion"]), (&0xb8.into(), &4.into()));
    let address = |last| [0x2001_0db8, 0, 0, last];
    let ipv6 = [&[99, 17][..], &address(1), &address(2), &[1, 2, 0, 0]].concat();
    let row = row_of(&[opaque(4, &words(&ipv6))]);
    assert_eq!((&row["srcAddr"], &row["dstPort"]), (&"2001:db8::1".into(), &2.into()));
    let ethernet = words(&[64, 0x0200_0000, 0x0001_0000, 0x0200_0000, 0x0002_0000, 0x0806]);
    let row = row_of(&[opaque(2, &ethernet), opaque(3, &ipv4)]);
    assert_eq!((&row["bytes"], &row["srcMac"]), (&64.into(), &0x0200_0000_0001_u64.into()));
    assert_eq!((&row["dstMac"], &row["dstPort"]), (&0x0200_0000_0002_u64.into(), &443.into()));
    let row = row_of(&[opaque(3, &ipv4), opaque(2, &ethernet), raw_udp()]);
    assert_eq!((&row["bytes"], &row["dstPort"]), (&117.into(), &53.into()), "the header wins");
    let row = row_of(&[raw(4, 99, &udp_frame())]);
    assert_eq!((&row["bytes"], &row["srcAddr"]), (&99.into(), &().into()), "FDDI: only a length");
}

#[test]
fn headers_may_begin_with_ip() {
    let frame = udp_frame();
    assert_eq!(row_of(&[raw(11, 81, &frame[18..])])["dstPort"], 53);
}

#[test]
fn labels_of_a_stack_stay_with_their_row() {
    let labelled = |labels: &[u32]| {
        let last = labels.len() - 1;
        let entries = labels.iter().enumerate();
        let entries: Vec<u32> =
            entries.map(|(at, label)| label << 12 | u32::from(at == last) << 8 | 64).collect();
        flow_sample(1, 1, 2, &[raw(13, 99, &[&words(&entries)[..], &udp_frame()[18..]].concat())])
    };
    let plain = || flow_sample(1, 1, 2, &[raw_udp()]);
    let mut bench = Bench::new();
    bench.decode(&datagram(&[plain(), labelled(&[16, 17, 18]), plain(), labelled(&[1_048_575])]));
    let labels: Vec<&Value> = bench.rows.iter().map(|row| &row["mplsLabels"]).collect();
    let expected = [Value::Null, vec![16, 17, 18].into(), Value::Null, vec![1_048_575].into()];
    assert_eq!(labels, expected.iter().collect::<Vec<_>>());
    assert_eq!(bench.rows[3]["dstPort"], 53);
}

#[test]
fn what_the_device_knows_is_added() {
    let switch = opaque(1001, &words(&[100, 0, 200, u32::MAX]));
    let router = opaque(1002, &words(&[1, 0x0a00_0001, 24, 16]));
    let path = [2, 2, 2, 64_496, 64_497, 1, 2, 64_498, 64_499];
    let gateway = [&[1, 0x0a00_0002, 64_500, 64_501, 64_502][..], &path, &[1, 7, 100]].concat();
    let gateway = opaque(1003, &words(&gateway));
    let nat = opaque(1007, &words(&[1, 0xcb00_7101, 1, 0xcb00_7102]));
    let nat_port = opaque(1020, &words(&[1_024, 8_080]));
    let row = row_of(&[switch, router, raw_udp(), gateway, nat, nat_port]);
    let expected = [
        ("vlan", Value::from(100)),
        ("postVlan", 200.into()),
        ("nextHop", "10.0.0.1".into()),
        ("srcMaskLen", 24.into()),
        ("dstMaskLen", 16.into()),
        ("bgpNextHop", "10.0.0.2".into()),
        ("srcAs", 64_501.into()),
        ("dstAs", 64_499.into()),
        ("postNatSrcAddr", "203.0.113.1".into()),
        ("postNatDstAddr", "203.0.113.2".into()),
        ("postNatSrcPort", 1_024.into()),
        ("postNatDstPort", 8_080.into()),
    ];
    for (column, value) in expected {
        assert_eq!(row[column], value, "{column}");
    }
}

#[test]
fn other_records_are_stepped_over_and_counted() {
    let vendor = opaque(5_703 << 12 | 1, &[1, 2, 3, 4, 5]);
    let user = opaque(1004, &[0; 16]);
    let mut bench = Bench::new();
    let tally = bench.decode(&datagram(&[flow_sample(1, 1, 2, &[vendor, user, raw_udp()])]));
    assert_eq!((tally.flows, tally.skipped_records, dropped(&tally)), (1, 2, vec![]));
}

#[test]
fn a_record_shorter_than_its_format_costs_that_record() {
    // A path of more ASes than the record, or the address space, has.
    let gateway = words(&[1, 0x0a00_0002, 1, 2, 3, 1, 2, u32::MAX, 4]);
    let mut bench = Bench::new();
    let sample = flow_sample(1, 1, 2, &[opaque(1003, &gateway), raw_udp()]);
    let tally = bench.decode(&datagram(&[sample]));
    assert_eq!((tally.flows, dropped(&tally)), (1, vec![("bad_record", 1, 36)]));
    assert_eq!(bench.rows[0]["srcAs"], Value::Null);
}

#[test]
fn a_bad_sample_costs_that_sample_and_the_others_are_kept() {
    let good = || flow_sample(1, 1, 2, &[raw_udp()]);
    let without_packet = flow_sample(1, 1, 2, &[opaque(1001, &[0; 16])]);
    let cut = opaque(1, &[0; 20]);
    let vendor = opaque(9 << 12 | 1, &[0; 12]);
    let mut bench = Bench::new();
    let tally = bench.decode(&datagram(&[good(), without_packet, cut, vendor, good()]));
    let expected =
        vec![("bad_sample", 1, 20), ("unknown_sample", 1, 12), ("no_packet", 1, 32 + 24)];
    assert_eq!((tally.flows, dropped(&tally)), (2, expected));
    let mut beyond = datagram(&[good(), good()]);
    let at = beyond.len() - good().len() + 4;
    beyond[at] = 0xff;
    let rest = good().len() as u64;
    let tally = bench.decode(&beyond);
    assert_eq!((tally.flows, dropped(&tally)), (1, vec![("bad_sample_length", 1, rest)]));
}

#[test]
fn a_count_of_samples_is_not_believed() {
    let mut many = datagram(&[flow_sample(1, 1, 2, &[raw_udp()])]);
    many[24..28].copy_from_slice(&u32::MAX.to_be_bytes());
    let tally = Bench::new().decode(&many);
    assert_eq!((tally.flows, dropped(&tally)), (1, vec![("missing_samples", 1, 0)]));
    let behind = [datagram(&[flow_sample(1, 1, 2, &[raw_udp()])]), vec![1, 2, 3]].concat();
    let tally = Bench::new().decode(&behind);
    assert_eq!((tally.flows, dropped(&tally)), (1, vec![("trailing_bytes", 1, 3)]));
}

#[test]
fn other_versions_of_sflow_are_unknown() {
    let mut datagram = datagram(&[]);
    datagram[3] = 4;
    assert_eq!(Bench::new().decode(&datagram).dropped(DropReason::UnknownVersion).count, 1);
}

#[test]
fn counters_are_kept_for_each_interface_and_drop_events_counted() {
    let mut bench = Bench::new();
    bench.decode(&datagram(&[counter_sample(3, 1_000)]));
    let event = opaque(5, &[0; 40]);
    let samples = [counter_sample(3, 2_000), counter_sample(4, 5), event];
    let tally = bench.decode(&datagram(&samples));
    assert_eq!((tally.counter_samples, tally.drop_events, tally.skipped_records), (2, 1, 2));
    assert_eq!((tally.flows, dropped(&tally)), (0, vec![]));
    let interfaces = bench.exporters.list()[0].interfaces();
    let seen: Vec<_> =
        interfaces.iter().map(|it| (it.key.if_index, it.counters.in_octets)).collect();
    assert_eq!(seen, [(3, 2_000), (4, 5)]);
    let first = &interfaces[0];
    assert_eq!((first.key.agent, first.key.sub_agent), ([10, 1, 2, 3].into(), 7));
    assert_eq!((first.received_ms, first.counters.speed_bits), (NOW_MS, 1_000_000_000));
    let counters = &first.counters;
    assert_eq!((counters.out_octets, counters.out_errors, counters.status), (77, 24, 3));
}

#[test]
fn one_exporter_has_a_limited_number_of_interfaces() {
    let mut bench = Bench::new();
    let max = u32::try_from(crate::decode::interfaces::INTERFACES_MAX.of_one).unwrap();
    let refused: u64 = (1..=max + 5)
        .map(|if_index| bench.decode(&datagram(&[counter_sample(if_index, 1)])))
        .map(|tally| tally.dropped(DropReason::InterfaceLimit).count)
        .sum();
    let known = bench.decode(&datagram(&[counter_sample(1, 2)]));
    assert_eq!((refused, dropped(&known)), (5, vec![]));
}

#[test]
fn bytes_of_a_bad_record_are_not_counted_again_with_the_sample_that_ends_behind_it() {
    let bad = || opaque(1, &[0; 12]);
    let cut_flow = flow_sample(1, 1, 2, &[bad(), vec![0; 4]]);
    let no_packet = flow_sample(1, 1, 2, &[bad(), opaque(1002, &[0; 4])]);
    let cut_counters = [&words(&[1, 0, 2])[..], &opaque(1, &[0; 84]), &[0; 4]].concat();
    let cut_counters = opaque(2, &cut_counters);
    let cases = [
        (cut_flow, "bad_sample", 12),
        (no_packet, "no_packet", 16),
        (cut_counters, "bad_sample", 84),
    ];
    for (sample, reason, record_bytes) in cases {
        let bytes = sample.len() as u64 - 8;
        let drops = dropped(&Bench::new().decode(&datagram(&[sample])));
        let of = |label| drops.iter().find(|drop| drop.0 == label).map(|&(_, _, bytes)| bytes);
        assert_eq!(of("bad_record"), Some(record_bytes), "{reason}");
        assert_eq!(of(reason), Some(bytes - record_bytes), "{reason}");
    }
}

/// Every prefix keeps the samples before the cut and counts one loss; each cut sample likewise.
#[test]
fn no_prefix_panics_and_none_is_uncounted() {
    let expanded = words(&[1, 0, 3, 512, 1_000, 0, 0, 3, 0, 4, 2]);
    let router = opaque(1002, &words(&[2, 0x2001_0db8, 0, 0, 1, 24, 16]));
    let samples = [
        flow_sample(1, 1, 2, &[opaque(1001, &[0; 16]), raw_udp()]),
        counter_sample(3, 1),
        opaque(3, &[&expanded[..], &router, &raw_udp()].concat()),
    ];
    let whole = datagram(&samples);
    for length in 0..whole.len() {
        let tally = Bench::new().decode(&whole[..length]);
        let complete = [28 + samples[0].len(), whole.len()];
        let flows = complete.iter().filter(|end| **end <= length).count() as u64;
        assert_eq!((tally.flows, dropped(&tally).len()), (flows, 1), "{length} bytes");
    }
    for sample in &samples {
        let format = u32::from_be_bytes([sample[0], sample[1], sample[2], sample[3]]);
        for length in 0..sample.len() - 8 {
            // The datagram is whole, the sample is not.
            let tally = Bench::new().decode(&datagram(&[opaque(format, &sample[8..8 + length])]));
            assert_eq!(tally.flows + tally.counter_samples, 0, "{length} bytes");
            assert_eq!(dropped(&tally), [("bad_sample", 1, length as u64)]);
        }
    }
}

/// Generated datagrams with damaged bytes: nothing panics, and there are never more rows than samples.
#[test]
fn damaged_datagrams_are_survived() {
    let spec = Spec { protocol: traffic::Protocol::Sflow, exporters: 4, ..Spec::default() };
    let mut generator = Generator::new(&spec);
    let mut bench = Bench::new();
    let mut rng = fastrand::Rng::with_seed(3);
    for _ in 0..20_000 {
        let mut payload = generator.next(1_800_000_000_000).unwrap().payload.clone();
        for _ in 0..rng.usize(1..8) {
            let at = rng.usize(4..payload.len());
            payload[at] = rng.u8(..);
        }
        payload.truncate(rng.usize(4..=payload.len()));
        let tally = bench.decode(&payload);
        assert!(tally.flows <= 7 && bench.rows.len() as u64 == tally.flows);
        bench.rows.clear();
    }
}
