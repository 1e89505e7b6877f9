//! Chunks of several datagrams, of any protocol, joined to one block.
#![no_main]

use std::sync::Arc;
use std::time::Instant;

use tidegate::clickhouse::{Method, encode_batch};
use tidegate::decode::{Datagram, Decoder, DecoderOptions, Exporters};
use tidegate::flow::{Chunk, ChunkWriter};
use tidegate_fuzz::trial::NOW_MS;
use tidegate_fuzz::{datagrams, native};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let options = DecoderOptions { keep_unknown_elements: true, ..DecoderOptions::default() };
    let mut decoder = Decoder::new(options, Arc::new(Exporters::default()));
    // Small chunks, so that there are many to join.
    let mut writer = ChunkWriter::new(3);
    let now = Instant::now();
    for payload in datagrams(input) {
        let exporter = [192, 0, 2, 1].into();
        let datagram = Datagram { exporter, source_port: 0, received_ms: NOW_MS, payload };
        decoder.decode(&datagram, now, &mut writer);
    }
    writer.close_all();
    let chunks: Vec<_> = writer.take_closed().collect();
    let rows: usize = chunks.iter().map(Chunk::rows).sum();
    if rows > 0 {
        assert_eq!(native::read(&encode_batch(&chunks, Method::None)).rows, rows);
        assert!(!encode_batch(&chunks, Method::Lz4).is_empty());
    }
});
