//! Two decoders over the same datagrams: tidegate's own and the crate `netflow_parser`, which shares no code with
//! it. Records are counted set by set, and every column that an element of a record fills is compared.
//!
//! Where they differ is listed in [`KNOWN`] with the reason; what is not listed fails, and so does what is listed
//! and no longer differs. The crate keeps no data for templates to come, and reads neither sFlow nor NetFlow v1.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod columns;
#[path = "../common/mod.rs"]
mod common;
mod known;
mod theirs;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::captures;
use known::{KNOWN, Kind};
use serde_json::Value;
use theirs::{Body, Set, Theirs};
use tidegate::capture::Capture;
use tidegate::decode::{Datagram, Decoder, DecoderOptions, Exporters, Protocol, SeenSet, Tally};
use tidegate::flow::{CHUNK_ROWS_MAX, ChunkWriter, Row};

/// Lowest id of a template, RFC 7011 section 3.4.1.
const TEMPLATE_ID_MIN: u16 = 256;

/// Differences of one kind that are shown when they are not listed.
const SHOWN_MAX: usize = 3;

/// How much was compared.
#[derive(Debug, Default)]
struct Compared {
    captures: usize,
    datagrams: usize,
    sets: usize,
    templates: u64,
    options_records: u64,
    records: u64,
    values: usize,
    /// Of values other than 0 and the empty text.
    telling_values: usize,
    /// Columns that had such.
    columns: BTreeSet<&'static str>,
}

#[derive(Default)]
struct Comparison {
    compared: Compared,
    capture: String,
    /// By kind and capture: how often, and the first ones.
    differences: BTreeMap<(Kind, String), (usize, Vec<String>)>,
}

#[test]
fn another_decoder_finds_the_same_records_and_values() {
    let Some(folder) = captures() else { return };
    let mut comparison = Comparison::default();
    for file in pcap_files(&folder) {
        comparison.read(&file);
    }
    let compared = &comparison.compared;
    println!("{compared}");
    let mut wrong = Vec::new();
    for ((kind, capture), (count, examples)) in &comparison.differences {
        let is_listed = |known: &&known::Known| {
            known.kind == *kind && known.captures.contains(&capture.as_str())
        };
        match KNOWN.iter().find(is_listed) {
            Some(known) => println!("{capture}: {count} x {} ({})", known.name, known.reason),
            None => wrong.push(format!("{kind:?}, {count} times in {capture}: {examples:#?}")),
        }
    }
    for known in KNOWN {
        for capture in known.captures {
            if !comparison.differences.contains_key(&(known.kind, (*capture).to_owned())) {
                wrong.push(format!("\"{}\" no longer shows in {capture}", known.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared.captures >= 130, "{compared}");
    assert!(compared.records >= 25_000, "{compared}");
    assert!(compared.columns.len() >= 40, "{compared}: {:?}", compared.columns);
    assert!(compared.values >= 500_000 && compared.telling_values >= 400_000, "{compared}");
}

fn pcap_files(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "pcap"))
        .collect();
    files.sort();
    files
}

impl Comparison {
    fn read(&mut self, file: &Path) {
        self.capture = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let options = DecoderOptions { skew_max: Duration::MAX, ..DecoderOptions::default() };
        let mut ours = Decoder::new(options, Arc::new(Exporters::default()));
        ours.watch_sets();
        let mut writer = ChunkWriter::new(CHUNK_ROWS_MAX);
        let mut theirs = Theirs::default();
        let before = self.compared.datagrams;
        for captured in Capture::open(file).unwrap() {
            let captured = captured.unwrap();
            let exporter = captured.source.ip().to_canonical();
            let datagram = Datagram {
                exporter,
                source_port: captured.source.port(),
                received_ms: captured.time_unix_ns.div_euclid(1_000_000),
                payload: &captured.payload,
            };
            let (protocol, tally) = ours.decode(&datagram, Instant::now(), &mut writer);
            writer.close_all();
            let chunks: Vec<_> = writer.take_closed().collect();
            let rows =
                chunks.iter().flat_map(|chunk| (0..chunk.rows()).map(|row| Row::new(chunk, row)));
            let rows: Vec<Value> = rows.map(|row| serde_json::to_value(row).unwrap()).collect();
            let ours_sets = ours.take_sets();
            match protocol {
                Some(Protocol::NetflowV9 | Protocol::Ipfix) => {
                    let sets = theirs.sets(exporter, &captured.payload);
                    self.compare_sets(&ours_sets, rows, &sets);
                }
                Some(Protocol::NetflowV5 | Protocol::NetflowV7) => {
                    let records = theirs.fixed_records(exporter, &captured.payload);
                    self.compare_fixed(&tally, &rows, &records);
                }
                _ => continue,
            }
            self.compared.datagrams += 1;
        }
        self.compared.captures += usize::from(self.compared.datagrams > before);
    }

    fn compare_fixed(&mut self, tally: &Tally, rows: &[Value], records: &[columns::Expected]) {
        if rows.len() != records.len() {
            let what = format!("{} instead of {}; {tally:?}", records.len(), rows.len());
            return self.differ(Kind::FixedRecords, what);
        }
        self.compared.records += rows.len() as u64;
        for (row, expected) in rows.iter().zip(records) {
            self.compare_values(row, expected);
        }
    }

    /// Both walk the sets in order, so the first of ours is the first of theirs. They may end early.
    fn compare_sets(&mut self, ours: &[SeenSet], rows: Vec<Value>, theirs: &[Set]) {
        // Chunks are of one day each: rows of several are not in the order of their sets.
        let day = |row: &Value| row["timestamp"].as_i64().map(|ms| ms.div_euclid(86_400_000));
        let is_in_order = rows.windows(2).all(|pair| day(&pair[0]) == day(&pair[1]));
        let mut rows = rows.into_iter();
        for (position, set) in ours.iter().enumerate() {
            let rows: Vec<Value> =
                rows.by_ref().take(set.tally.flows.try_into().unwrap()).collect();
            let Some(their) = theirs.get(position) else {
                self.differ(Kind::Sets, format!("set {} is missing: {:?}", set.id, set.tally));
                continue;
            };
            assert_eq!((set.id, set.length), (their.id, their.length), "{}", self.capture);
            self.compared.sets += 1;
            self.compare_set(set, &rows, their, is_in_order);
        }
    }

    fn compare_set(&mut self, ours: &SeenSet, rows: &[Value], theirs: &Set, is_in_order: bool) {
        let mine = &ours.tally;
        let is_data = ours.id >= TEMPLATE_ID_MIN;
        if !is_data && mine.flows + mine.options_records > 0 {
            self.differ(Kind::DataBeforeTemplate, format!("{} flows", mine.flows));
        }
        match &theirs.body {
            Body::Templates(count) => {
                self.compared.templates += mine.templates;
                self.equal(Kind::Templates, ours, mine.templates, *count);
            }
            Body::Options(count) => {
                self.compared.options_records += mine.options_records;
                self.equal(Kind::OptionsRecords, ours, mine.options_records, *count);
            }
            Body::Records(records) => {
                self.equal(Kind::Records, ours, mine.flows, records.len());
                let pairs = rows.iter().zip(records).filter(|_| is_in_order);
                for (row, record) in pairs {
                    self.compared.records += 1;
                    self.compare_values(row, &columns::expected(record, theirs.header));
                }
            }
            Body::Nothing if is_data => {
                self.equal(Kind::Records, ours, mine.flows + mine.options_records, 0);
            }
            Body::Nothing => self.equal(Kind::Templates, ours, mine.templates, 0),
        }
    }

    fn compare_values(&mut self, row: &Value, expected: &columns::Expected) {
        for (column, value) in expected {
            self.compared.values += 1;
            let found = row.get(column.name()).unwrap_or(&Value::Null);
            if !found.is_null() {
                self.compared.telling_values += 1;
                self.compared.columns.insert(column.name());
            }
            if found != value {
                self.differ(Kind::Value(column.name()), format!("{found} instead of {value}"));
            }
        }
    }

    fn equal(&mut self, kind: Kind, set: &SeenSet, ours: u64, theirs: usize) {
        if ours != theirs as u64 {
            let what = format!("set {}: {ours} by tidegate, {theirs} by the crate", set.id);
            self.differ(if ours > theirs as u64 { kind } else { Kind::OnlyTheirs }, what);
        }
    }

    fn differ(&mut self, kind: Kind, what: String) {
        let entry = self.differences.entry((kind, self.capture.clone())).or_default();
        entry.0 += 1;
        if entry.1.len() < SHOWN_MAX {
            entry.1.push(what);
        }
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { captures, datagrams, sets, templates, options_records, records, .. } = self;
        write!(
            f,
            "compared {captures} captures: {datagrams} datagrams, {sets} sets, {templates} templates, \
             {options_records} options records, {records} records with {} values in {} columns, {} of them not 0 or empty",
            self.values,
            self.columns.len(),
            self.telling_values
        )
    }
}
