//! A batch to the disk and back: with and without bringing it there, and what of that is the checksum.
//! `TIDEGATE_BENCH_DIRECTORY` chooses the disk.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::path::Path;
use std::time::Instant;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sha2::{Digest, Sha256};
use tidegate::config::{OnRowError, SpoolConfig};
use tidegate::spool::{Entry, Header, Spool, Why};
use tidegate::telemetry::Metrics;

/// A batch of the default size, 36 bytes a row.
const ROWS: usize = 50_000;
const BODY_BYTES: usize = 36 * ROWS;

/// Batches that wait at a start.
const FILES: u64 = 10_000;

fn entry() -> Entry {
    let mut body = vec![0; BODY_BYTES];
    fastrand::fill(&mut body);
    let header = Header {
        token: "5f0c-17".to_owned(),
        target: "tidegate.flows".to_owned(),
        rows: ROWS,
        first_row: 0,
        on_row_error: OnRowError::Fail,
        why: Why::Outage,
        created_ms: 0,
        replaces: None,
    };
    Entry { header, body: Bytes::from(body) }
}

fn config(directory: &Path, fsync: bool) -> SpoolConfig {
    let directory = Some(directory.to_owned());
    SpoolConfig { directory, max_bytes: 1 << 30, fsync, drain_rate_rows: 1_000 }
}

fn spool(criterion: &mut Criterion) {
    let folder = std::env::var_os("TIDEGATE_BENCH_DIRECTORY").unwrap_or_else(|| "target".into());
    let entry = entry();
    let mut group = criterion.benchmark_group("spool");
    group.sample_size(20);
    group.throughput(Throughput::Bytes(BODY_BYTES as u64));
    group.bench_function("sha-256", |bencher| bencher.iter(|| Sha256::digest(&entry.body)));
    for (name, fsync) in [("append and remove", false), ("append with fsync and remove", true)] {
        let directory = tempfile::tempdir_in(&folder).unwrap();
        let config = config(directory.path(), fsync);
        let mut spool = Spool::open(&config, &Metrics::default()).unwrap().unwrap();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let id = spool.append(&entry).unwrap();
                spool.remove(id);
            });
        });
        spool.append(&entry).unwrap();
        if !fsync {
            group.bench_function("next", |bencher| {
                bencher.iter(|| spool.next(Instant::now(), |_| true))
            });
        }
    }
    let directory = tempfile::tempdir_in(&folder).unwrap();
    let config = config(directory.path(), false);
    let small = Entry { body: Bytes::new(), ..entry };
    let mut spool = Spool::open(&config, &Metrics::default()).unwrap().unwrap();
    for _ in 0..FILES {
        spool.append(&small).unwrap();
    }
    drop(spool);
    group.throughput(Throughput::Elements(FILES));
    group.bench_function("open", |bencher| {
        bencher.iter(|| Spool::open(&config, &Metrics::default()).unwrap());
    });
    group.finish();
}

criterion_group!(benches, spool);
criterion_main!(benches);
