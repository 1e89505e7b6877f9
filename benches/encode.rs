//! Columns to the body of an insert: time a row, plain and compressed.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![expect(unreachable_pub, reason = "shared with other benchmarks")]

#[path = "common/exports.rs"]
mod exports;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tidegate::clickhouse::{Method, encode_batch};
use tidegate::traffic::Spec;

const ROWS: usize = 50_000;

fn encode(criterion: &mut Criterion) {
    // Of all protocols, from ten exporters.
    let spec = Spec { flows: Some(ROWS as u64), ..Spec::default() };
    let chunks = exports::decode(&mut exports::decoder(), &exports::exports(&spec));
    let mut group = criterion.benchmark_group("encode");
    group.throughput(Throughput::Elements(ROWS as u64));
    for (name, method) in [("plain", Method::None), ("lz4", Method::Lz4)] {
        let bytes = encode_batch(&chunks, method).len();
        group.bench_function(format!("{name}, {} bytes a row", bytes / ROWS), |bencher| {
            bencher.iter(|| encode_batch(&chunks, method));
        });
    }
    group.finish();
}

criterion_group!(benches, encode);
criterion_main!(benches);
