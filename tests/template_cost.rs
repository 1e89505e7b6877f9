//! What templates cost in memory, against what they are charged for.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use tidegate::decode::{Datagram, Decoder, DecoderOptions, Exporters};
use tidegate::flow::ChunkWriter;
use tidegate::traffic::{Field, IpfixHeader, MessageBuilder};

const NOW_S: u32 = 1_800_000_000;

/// Bytes that a template and a field of it are charged with, `decode/template_counts.rs`.
const CHARGED: (usize, usize) = (900, 100);

/// An allocator keeps more than it gives away, and keeps it differently from run to run.
/// This part of what is charged may be missing.
const TOLERANCE: usize = 8;

/// Of this process, bytes.
fn memory() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// Memory of each of many templates of `fields`.
fn cost_of(fields: &[Field], exporters: u32) -> (usize, Arc<Exporters>) {
    let known = Arc::new(Exporters::default());
    let mut decoder = Decoder::new(DecoderOptions::default(), Arc::clone(&known));
    let mut writer = ChunkWriter::new(1);
    let before = memory();
    for exporter in 0..exporters {
        for id in 256..256 + 1_000 {
            let header = IpfixHeader { export_time_s: NOW_S, sequence: 0, domain_id: 1 };
            let payload = &MessageBuilder::ipfix(header).template(id, fields).finish();
            let exporter = IpAddr::from(exporter.to_be_bytes());
            let received_ms = i64::from(NOW_S) * 1_000;
            let datagram = Datagram { exporter, source_port: 0, received_ms, payload };
            decoder.decode(&datagram, Instant::now(), &mut writer);
        }
    }
    assert_eq!(known.template_count(), exporters as usize * 1_000);
    ((memory() - before) / known.template_count(), known)
}

/// One test, so that nothing else allocates meanwhile.
#[test]
fn templates_cost_what_they_are_charged_for() {
    let unknown = |n: u16| Field::enterprise(40_000, n, 4);
    let cases: [(&str, u32, Vec<Field>); 5] = [
        ("one field", 40, vec![Field::new(1, 4)]),
        ("twenty fields", 20, (1..=20).map(|id| Field::new(id, 4)).collect()),
        ("all elements", 5, (1..=400).map(|id| Field::new(id, 4)).collect()),
        ("one element, repeated", 3, vec![Field::new(1, 4); 512]),
        ("unknown elements", 3, (1..=512).map(unknown).collect()),
    ];
    // What is freed would be used for the next case.
    let mut kept = Vec::new();
    let mut too_low = Vec::new();
    for (name, exporters, fields) in cases {
        let charged = CHARGED.0 + CHARGED.1 * fields.len();
        let (measured, known) = cost_of(&fields, exporters);
        kept.push(known);
        println!("{name}: {measured} bytes, charged {charged}");
        if measured > charged + charged / TOLERANCE {
            too_low.push(name);
        }
    }
    assert!(too_low.is_empty(), "{too_low:?}");
}
