//! Time a flow from datagram to encoded row, without enrichment, with what needs no table, and with all tables: half
//! a million prefixes, a million networks of cities, half a million of ASs, and a thousand rules.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![expect(unreachable_pub, reason = "shared with tests")]

#[path = "../tests/common/mmdb.rs"]
mod mmdb;

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fastrand::Rng;
use mmdb::{Mmdb, Value};
use tidegate::clickhouse::{Method, encode_batch};
use tidegate::config::Config;
use tidegate::decode::{Datagram, Decoder, DecoderOptions, Exporters};
use tidegate::enrich::{Enricher, TableFiles, Tables};
use tidegate::flow::{CHUNK_ROWS_MAX, Chunk, ChunkWriter};
use tidegate::hostnames::HostNames;
use tidegate::telemetry::Metrics;
use tidegate::traffic::{Generator, Protocol, Spec};

const NOW_MS: u64 = 1_800_000_000_000;
const FLOWS: usize = 50_000;
const PREFIXES: u32 = 500_000;
const CITY_NETWORKS: u32 = 1_000_000;
const AS_NETWORKS: u32 = 500_000;
const RULES: u32 = 1_000;

/// Header and record of NetFlow v5, bytes.
const HEADER_BYTES: usize = 24;
const RECORD_BYTES: usize = 48;

/// Datagrams of NetFlow v5: few hosts have most of the flows, or every address is another.
fn datagrams(is_scan: bool) -> Vec<Vec<u8>> {
    let spec = Spec { flows: Some(FLOWS as u64), protocol: Protocol::V5, ..Spec::default() };
    let (mut generator, mut random) = (Generator::new(&spec), Rng::with_seed(1));
    let mut datagrams = Vec::new();
    while let Some(emission) = generator.next(NOW_MS) {
        let mut payload = emission.payload.clone();
        if is_scan {
            for record in payload[HEADER_BYTES..].chunks_exact_mut(RECORD_BYTES) {
                random.fill(&mut record[..8]);
            }
        }
        datagrams.push(payload);
    }
    datagrams
}

fn decode(datagrams: &[Vec<u8>]) -> Vec<Chunk> {
    let mut decoder = Decoder::new(DecoderOptions::default(), Arc::new(Exporters::default()));
    let mut writer = ChunkWriter::new(CHUNK_ROWS_MAX);
    for payload in datagrams {
        let exporter = [192, 0, 2, 1].into();
        let received_ms = NOW_MS.cast_signed();
        let datagram = Datagram { exporter, source_port: 0, received_ms, payload };
        decoder.decode(&datagram, Instant::now(), &mut writer);
    }
    writer.close_all();
    writer.take_closed().collect()
}

/// So many networks of 24 bits, spread over all addresses of IPv4.
fn networks(count: u32) -> impl Iterator<Item = (u32, Ipv4Addr)> {
    let step = (1 << 24) / count;
    (0..count).map(move |number| (number, Ipv4Addr::from((number * step) << 8)))
}

fn city_database() -> Vec<u8> {
    let mut mmdb = Mmdb::new();
    for (number, address) in networks(CITY_NETWORKS) {
        let (city, country) = (format!("City {}", number % 100_000), format!("C{}", number % 250));
        let names = |names: &'static [&str]| {
            Value::Map(names.iter().map(|name| (*name, Value::Text(&city))).collect())
        };
        let all = &["de", "en", "es", "fr", "ja", "pt-BR", "ru", "zh-CN"];
        let record = Value::Map(vec![
            (
                "city",
                Value::Map(vec![("geoname_id", Value::Number(number)), ("names", names(all))]),
            ),
            (
                "country",
                Value::Map(vec![("iso_code", Value::Text(&country)), ("names", names(all))]),
            ),
        ]);
        mmdb.insert(address.into(), 24, &record);
    }
    mmdb.finish("GeoLite2-City")
}

fn as_database() -> Vec<u8> {
    let mut mmdb = Mmdb::new();
    for (number, address) in networks(AS_NETWORKS) {
        let name = format!("Network number {}", number % 75_000);
        let record = Value::Map(vec![
            ("autonomous_system_number", Value::Number(1 + number % 75_000)),
            ("autonomous_system_organization", Value::Text(&name)),
        ]);
        mmdb.insert(address.into(), 24, &record);
    }
    mmdb.finish("GeoLite2-ASN")
}

fn prefixes() -> String {
    let mut text = "prefix,as,name,country,site,role\n".to_owned();
    for (number, address) in networks(PREFIXES) {
        let system = number % 1_000;
        writeln!(
            text,
            "{address}/24,{},Network {system},DE,site {},role {}",
            1 + system,
            number % 200,
            number % 10
        )
        .unwrap();
    }
    text
}

fn rules() -> String {
    let mut text = "application,protocol,ports,prefixes\n".to_owned();
    for number in 0..RULES {
        let (port, network) = (10_000 + number, number % 250);
        writeln!(text, "app {number},tcp|udp,{port},10.{network}.0.0/16").unwrap();
    }
    text
}

fn all_tables(folder: &Path, metrics: &Metrics) -> Arc<Tables> {
    let write = |name: &str, content: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let text = format!(
        "[enrichment]\ngeoip = [{:?}, {:?}]\nprefixes = {:?}\napplications = {:?}\n\
         [[exporters]]\naddress = \"192.0.2.1\"\nname = \"edge\"\n\
         [[exporters.interfaces]]\nindex = 1\nname = \"xe-0/0/0\"\nspeed = 10000\nboundary = \"external\"\n\
         [[exporters.interfaces]]\nindex = 2\nname = \"xe-0/0/1\"\nboundary = \"internal\"\n",
        write("city.mmdb", &city_database()),
        write("asn.mmdb", &as_database()),
        write("prefixes.csv", prefixes().as_bytes()),
        write("applications.csv", rules().as_bytes()),
    );
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
                    let mut chunks = decode(&datagrams);
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
