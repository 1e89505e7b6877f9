//! One stage of the way of a flow, so many times over: for counting its instructions (benches/instructions.py). Prints
//! the flows of a round.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![expect(clippy::print_stdout, reason = "its result")]
#![expect(unreachable_pub, reason = "shared with benches")]

#[path = "../benches/common/exports.rs"]
mod exports;

use std::hint::black_box;
use std::sync::Arc;

use anyhow::Context as _;
use tidegate::clickhouse::{Method, encode_batch};
use tidegate::decode::Decoder;
use tidegate::enrich::Enricher;
use tidegate::flow::Chunk;
use tidegate::telemetry::Metrics;
use tidegate::traffic::{Protocol, Spec};

/// More than a chunk, less than a batch.
const FLOWS: u64 = 20_000;

fn spec(protocol: Protocol) -> Spec {
    Spec { protocol, exporters: 1, flows: Some(FLOWS), ..Spec::default() }
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [stage, rounds] = &arguments[..] else { anyhow::bail!("stages STAGE ROUNDS") };
    let rounds: usize = rounds.parse()?;
    let mut decoder = exports::decoder();
    let mut decoded = |protocol| {
        let exports = exports::exports(&spec(protocol));
        repeat(rounds, || drop(black_box(exports::decode(&mut decoder, &exports))));
    };
    match stage.as_str() {
        "decode netflow-v5" => decoded(Protocol::V5),
        "decode netflow-v9" => decoded(Protocol::V9),
        "decode ipfix" => decoded(Protocol::Ipfix),
        "decode sflow" => decoded(Protocol::Sflow),
        "enrich" => {
            let mut chunks = chunks(&mut decoder);
            let mut enricher = Enricher::new(Arc::default(), &Metrics::default());
            repeat(rounds, || chunks.iter_mut().for_each(|chunk| enricher.enrich(chunk)));
        }
        "encode" => {
            let chunks = chunks(&mut decoder);
            repeat(rounds, || drop(black_box(encode_batch(&chunks, Method::None))));
        }
        "encode lz4" => {
            let chunks = chunks(&mut decoder);
            repeat(rounds, || drop(black_box(encode_batch(&chunks, Method::Lz4))));
        }
        other => return Err(anyhow::anyhow!("{other}")).context("no such stage"),
    }
    println!("{FLOWS}");
    Ok(())
}

fn chunks(decoder: &mut Decoder) -> Vec<Chunk> {
    exports::decode(decoder, &exports::exports(&spec(Protocol::Mixed)))
}

fn repeat(rounds: usize, mut round: impl FnMut()) {
    for number in 0..=rounds {
        // The first one fills what is remembered.
        if number == 0 { round() } else { counted(&mut round) }
    }
}

/// What callgrind counts.
#[inline(never)]
fn counted(round: &mut dyn FnMut()) {
    round();
}
