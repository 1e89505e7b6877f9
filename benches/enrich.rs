//! Time a flow from datagram to encoded row, without enrichment, with what needs no table, and with all tables.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![expect(unreachable_pub, reason = "shared with tests")]

#[path = "common/exports.rs"]
mod exports;
#[path = "../tests/common/mmdb.rs"]
mod mmdb;
#[path = "common/tables.rs"]
mod tables;

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use exports::Export;
use fastrand::Rng;
use tidegate::clickhouse::{Method, encode_batch};
use tidegate::config::Config;
use tidegate::enrich::{Enricher, TableFiles, Tables};
use tidegate::hostnames::HostNames;
use tidegate::telemetry::Metrics;
use tidegate::traffic::{Protocol, Spec};

const FLOWS: usize = 50_000;

/// Header and record of NetFlow v5, bytes.
const HEADER_BYTES: usize = 24;
const RECORD_BYTES: usize = 48;

/// Datagrams of NetFlow v5: few hosts have most of the flows, or every address is another.
fn datagrams(is_scan: bool) -> Vec<Export> {
    let protocol = Protocol::V5;
    let spec = Spec { protocol, exporters: 1, flows: Some(FLOWS as u64), ..Spec::default() };
    let (mut exports, mut random) = (exports::exports(&spec), Rng::with_seed(1));
    if is_scan {
        for export in &mut exports {
            for record in export.payload[HEADER_BYTES..].chunks_exact_mut(RECORD_BYTES) {
                random.fill(&mut record[..8]);
            }
        }
    }
    exports
}

fn all_tables(folder: &Path, metrics: &Metrics) -> Arc<Tables> {
    let text = tables::write_all(folder, "192.0.2.0");
    let config = Config::parse(&text, Path::new("bench.toml"), Vec::new()).unwrap();
    let mut files = TableFiles::new(metrics);
    let start = Instant::now();
    files.take(files.follow(&config.enrichment));
    let out = &mut std::io::stdout().lock();
    writeln!(out, "tables read in {:.1?}: {:?}", start.elapsed(), files.list()).unwrap();
    let mut tables = Tables::new(&config.exporters, Arc::default(), HostNames::default());
    files.fill(&config.enrichment, &mut tables);
    Arc::new(tables)
}

fn enrich(criterion: &mut Criterion) {
    let (folder, metrics) = (tempfile::tempdir().unwrap(), Metrics::default());
    let all = all_tables(folder.path(), &metrics);
    let tables =
        [("not enriched", None), ("no table", Some(Arc::default())), ("all tables", Some(all))];
    let mut group = criterion.benchmark_group("datagram to row");
    group.throughput(Throughput::Elements(FLOWS as u64)).sample_size(20);
    for (traffic, datagrams) in [("hosts", datagrams(false)), ("scan", datagrams(true))] {
        for (name, tables) in &tables {
            let mut enricher = tables.clone().map(|tables| Enricher::new(tables, &metrics));
            group.bench_function(format!("{traffic}, {name}"), |bencher| {
                bencher.iter(|| {
                    let mut chunks = exports::decode(&mut exports::decoder(), &datagrams);
                    if let Some(enricher) = &mut enricher {
                        chunks.iter_mut().for_each(|chunk| enricher.enrich(chunk));
                    }
                    encode_batch(&chunks, Method::Lz4)
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, enrich);
criterion_main!(benches);
