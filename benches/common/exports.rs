//! Exports of synthetic exporters, and the columns that are decoded of them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use tidegate::decode::{Datagram, Decoder, DecoderOptions, Exporters};
use tidegate::flow::{CHUNK_ROWS_MAX, Chunk, ChunkWriter};
use tidegate::traffic::{Generator, Spec};

/// When all of them are made and received.
pub const NOW_MS: u64 = 1_800_000_000_000;

/// One datagram.
pub struct Export {
    pub exporter: IpAddr,
    pub payload: Vec<u8>,
}

/// All datagrams of a specification that has an end.
pub fn exports(spec: &Spec) -> Vec<Export> {
    let mut generator = Generator::new(spec);
    let mut exports = Vec::new();
    while let Some(emission) = generator.next(NOW_MS) {
        let exporter = [192, 0, 2, u8::try_from(emission.exporter).unwrap()].into();
        exports.push(Export { exporter, payload: emission.payload.clone() });
    }
    exports
}

/// A decoder that knows nothing yet.
pub fn decoder() -> Decoder {
    Decoder::new(DecoderOptions::default(), Arc::new(Exporters::default()))
}

/// The flows of all exports.
pub fn decode(decoder: &mut Decoder, exports: &[Export]) -> Vec<Chunk> {
    let mut writer = ChunkWriter::new(CHUNK_ROWS_MAX);
    for Export { exporter, payload } in exports {
        let received_ms = NOW_MS.cast_signed();
        let datagram = Datagram { exporter: *exporter, source_port: 0, received_ms, payload };
        decoder.decode(&datagram, Instant::now(), &mut writer);
    }
    writer.close_all();
    writer.take_closed().collect()
}
