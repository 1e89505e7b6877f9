//! What the worst datagrams cost, against an ordinary one: no input makes one datagram cost more than a stated
//! multiple of its size (docs/decoding.md).
//!
//! Time on the processor is compared within the run, by the byte, and the best of several rounds counts. Rows
//! and bytes of columns are counted.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unreachable_pub, reason = "the fuzz targets use some of these modules")]
#![expect(dead_code, reason = "the same")]

mod cases;
#[path = "../hostile/native.rs"]
mod native;
#[path = "../hostile/sflow.rs"]
mod sflow;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::decode::{Datagram, Decoder, Exporters};
use tidegate::flow::{CHUNK_ROWS_MAX, ChunkWriter};
use tidegate::traffic::{self, Generator, Spec};

use self::cases::Case;

const NOW_MS: i64 = 1_800_000_000_000;

/// A byte costs at most this many times what a byte of an ordinary datagram costs.
const TIME_RATIO_MAX: f64 = 300.0;

/// Bytes of columns for each byte of a datagram, and of what waited for it.
const COLUMN_BYTES_MAX: f64 = 200.0;

/// Measured so many times; the best one counts.
const ROUNDS: usize = 6;

/// What one byte cost.
struct Cost {
    nanos: f64,
    /// As many times as a byte of an ordinary datagram.
    times: f64,
    rows: f64,
    column_bytes: f64,
}

#[test]
fn the_worst_datagrams_cost_a_bounded_multiple_of_an_ordinary_one() {
    println!("{:40} {:>9} {:>8} {:>9} {:>8}", "", "ns/byte", "times", "rows/byte", "columns");
    let ordinary = ordinary();
    let mut too_much = Vec::new();
    for case in cases::all() {
        let Cost { nanos, times, rows, column_bytes } = cost(&case, &ordinary);
        println!("{:40} {nanos:9.1} {times:8.1} {rows:9.2} {column_bytes:8.1}", case.name);
        if times > TIME_RATIO_MAX || rows > 1.0 || column_bytes > COLUMN_BYTES_MAX {
            too_much.push(case.name);
        }
    }
    assert_eq!(too_much, Vec::<&str>::new());
}

/// Full IPFIX datagrams of one exporter, 22 flows of 20 fields each.
fn ordinary() -> Case {
    let protocol = traffic::Protocol::Ipfix;
    let mut generator = Generator::new(&Spec { protocol, exporters: 1, ..Spec::default() });
    let mut datagrams =
        (0..101).map(|_| generator.next(NOW_MS.unsigned_abs()).unwrap().payload.clone());
    let before = datagrams.by_ref().take(1).collect();
    cases::case("ordinary", before, datagrams.collect())
}

/// The best of several rounds, in turn with those of an ordinary datagram.
fn cost(case: &Case, ordinary: &Case) -> Cost {
    let (mut best, mut best_ordinary) = (round(case), round(ordinary));
    for _ in 1..ROUNDS {
        best.nanos = best.nanos.min(round(case).nanos);
        best_ordinary.nanos = best_ordinary.nanos.min(round(ordinary).nanos);
    }
    Cost { times: best.nanos / best_ordinary.nanos, ..best }
}

/// Decodes everything with a new decoder.
fn round(case: &Case) -> Cost {
    let (options, exporters) = (case.options.clone(), Arc::new(Exporters::default()));
    let new = if case.is_connection { Decoder::of_connection } else { Decoder::new };
    let mut decoder = new(options, Arc::clone(&exporters));
    let mut writer = ChunkWriter::new(CHUNK_ROWS_MAX);
    let now = Instant::now();
    let mut decode = |payload: &[u8], writer: &mut ChunkWriter| {
        let exporter = [192, 0, 2, 1].into();
        decoder.decode(
            &Datagram { exporter, source_port: 0, received_ms: NOW_MS, payload },
            now,
            writer,
        )
    };
    for payload in &case.before {
        decode(payload, &mut writer);
    }
    writer.close_all();
    writer.take_closed().for_each(drop);
    // Sets that wait are paid for when they come.
    let mut bytes = exporters.waiting().1;
    let (mut rows, mut column_bytes) = (0, 0);
    let start = cpu_time();
    for payload in &case.datagrams {
        decode(payload, &mut writer);
        bytes += payload.len();
        for chunk in writer.take_closed() {
            rows += chunk.rows();
            column_bytes += chunk.bytes();
        }
    }
    let time = cpu_time() - start;
    writer.close_all();
    for chunk in writer.take_closed() {
        rows += chunk.rows();
        column_bytes += chunk.bytes();
    }
    let by_byte = |amount: f64| amount / bytes as f64;
    Cost {
        nanos: by_byte(time.as_nanos() as f64),
        times: 1.0,
        rows: by_byte(rows as f64),
        column_bytes: by_byte(column_bytes as f64),
    }
}

/// Time that this thread was on a processor. Other programs would make slow datagrams slower than short ones
/// that fit a time slice.
fn cpu_time() -> Duration {
    // The kernel brings its count up to date when it looks for another thread.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}
