//! Columns to the body of an insert: time a row, plain and compressed.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::sync::Arc;
use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tidegate::clickhouse::{Method, encode_batch};
use tidegate::decode::{Datagram, Decoder, DecoderOptions, Exporters};
use tidegate::flow::{CHUNK_ROWS_MAX, Chunk, ChunkWriter};
use tidegate::traffic::{Generator, Spec};

const NOW_MS: u64 = 1_800_000_000_000;
const ROWS: usize = 50_000;

/// A batch of flows of all protocols from ten exporters.
fn batch() -> Vec<Chunk> {
    let options = DecoderOptions::default();
    let mut decoder = Decoder::new(options, Arc::new(Exporters::default()));
    let mut writer = ChunkWriter::new(CHUNK_ROWS_MAX);
    let mut generator = Generator::new(&Spec { flows: Some(ROWS as u64), ..Spec::default() });
    while let Some(emission) = generator.next(NOW_MS) {
        let exporter = [192, 0, 2, u8::try_from(emission.exporter).unwrap()].into();
        let received_ms = NOW_MS.cast_signed();
        let datagram =
            Datagram { exporter, source_port: 0, received_ms, payload: &emission.payload };
        decoder.decode(&datagram, Instant::now(), &mut writer);
    }
    writer.close_all();
    writer.take_closed().collect()
}

fn encode(criterion: &mut Criterion) {
    let chunks = batch();
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
