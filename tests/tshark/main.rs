//! Every field of every record in the captures of real exporters: `tidegate decode` against tshark.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unreachable_pub, reason = "modules of this test only")]

#[path = "../common/mod.rs"]
mod common;
mod netflow;
mod pdml;
mod record;
mod sflow;
mod time;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use common::{captures, has_program, tidegate};
use record::{Expected, text_of};
use serde_json::Value;
use tidegate::capture::Capture;

/// Rows or records of a day in their order: a chunk holds one day.
type Days<T> = BTreeMap<i64, Vec<T>>;

const DAY_MS: i64 = 86_400_000;

/// Captures of which tshark reads other records, and why; `docs/decoding.md` says more.
const EXPLAINED: &[(&str, &str)] = &[
    ("netflow-data-netflow-v9-1.pcap", COUNT_READ_AS_SETS),
    ("netflow-data-netflow9.pcap", COUNT_READ_AS_SETS),
    ("netflow-data-nprobe-netflow9-4.pcap", SETS_BEFORE_TEMPLATE),
    ("pcap-arkime-synthetic.pcap", "made-up datagrams, most of them malformed"),
    (
        "tests-sflow-multiple-counter-30-pdus.pcap",
        "NetFlow v5 and sFlow go to one port, which tshark reads as one protocol",
    ),
    (
        "two-inputs-filter-by-ipversion-expected.pcap",
        "a template is redefined in mid-stream, and tshark keeps the old one",
    ),
    ("vendor-ipfix-netscaler-with-variable-length-fields-2.pcap", SETS_BEFORE_TEMPLATE),
    ("vendor-netflow-5-invalid-01.pcap", COUNT_BEYOND_DATAGRAM),
    ("vendor-netflow-5-invalid-02.pcap", COUNT_BEYOND_DATAGRAM),
    ("vendor-netflow-9-h3c.pcap", COUNT_READ_AS_SETS),
    ("vendor-netflow-9-invalid-01.pcap", COUNT_READ_AS_SETS),
];

const COUNT_READ_AS_SETS: &str = "tshark reads the header's count as sets and stops early";
const SETS_BEFORE_TEMPLATE: &str = "sets before their template are decoded with it";
const COUNT_BEYOND_DATAGRAM: &str =
    "the header counts more records than there are, so none is read";

/// Columns that tidegate fills from something else than a field of the record that tshark shows: its
/// configuration, the receive time, the addresses, or options records.
const OWN: &[&str] = &[
    "applicationId", // of more than 8 bytes it is shortened
    "applicationName",
    "deltaSwitched",
    "egressVrfName",
    "firstSwitched",
    "flowProtocol",
    "ingressVrfName",
    "inputSnmpIfAlias",
    "inputSnmpIfName",
    "ipProtocolVersion",
    "lastSwitched",
    "organisation",
    "outputSnmpIfAlias",
    "outputSnmpIfName",
    "receivedAt",
    "samplingAlgorithm",
    "samplingInterval",
    "samplingProvenance",
    "system",
    "tenant",
    "timestamp",
    "zone",
];

/// The packets in the records of this capture are bytes to tshark.
const PACKET_SECTIONS: &str = "exporter-softflowd-psamp.pcap";

/// Fewer values than this were compared: something is not read any more.
const VALUES_MIN: usize = 600_000;

/// What was compared: records, values by column, and where they differ.
#[derive(Default)]
struct Compared {
    records: usize,
    values: BTreeMap<&'static str, usize>,
    differ: Vec<String>,
}

#[test]
fn values_equal_what_tshark_reads() {
    let Some(folder) = captures() else { return };
    if !has_program("tshark") {
        return;
    }
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|file| file.extension().is_some_and(|extension| extension == "pcap"));
    let files = Mutex::new(files.collect::<Vec<PathBuf>>());
    let threads = std::thread::available_parallelism().unwrap().get();
    let (mut all, mut captures) = (Compared::default(), 0);
    let take = || files.lock().unwrap().pop();
    let compare_some = || std::iter::from_fn(take).map(|file| compare(&file)).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(compare_some)).collect();
        for compared in threads.into_iter().flat_map(|t| -> Vec<_> { t.join().unwrap() }) {
            all.add(compared);
            captures += 1;
        }
    });
    let values: usize = all.values.values().sum();
    println!("{captures} captures, {} records, {values} values: {:?}", all.records, all.values);
    assert!(all.differ.is_empty(), "{}", all.differ.join("\n"));
    assert!(values >= VALUES_MIN, "only {values} values");
}

impl Compared {
    fn add(&mut self, other: Self) {
        self.records += other.records;
        self.differ.extend(other.differ);
        for (column, count) in other.values {
            *self.values.entry(column).or_insert(0) += count;
        }
    }
}

/// Compares the records of each day in their order.
fn compare(file: &Path) -> Compared {
    let name = file.file_name().unwrap().to_str().unwrap();
    let (expected, mut rows) = (expected(file), rows(file));
    let (read, found) = (lengths(&expected), lengths(&rows));
    let mut compared = Compared::default();
    let is_explained = EXPLAINED.iter().any(|(explained, _)| *explained == name);
    match (read == found, is_explained) {
        (true, false) => {}
        (false, true) => return compared,
        (true, true) => compared.differ.push(format!("{name} is right: take it off the list")),
        (false, false) => {
            compared.differ.push(format!("{name}: rows by day {found:?}, records {read:?}"));
            return compared;
        }
    }
    for (day, records) in expected {
        for (at, (record, row)) in records.iter().zip(rows.remove(&day).unwrap()).enumerate() {
            compared.records += 1;
            for (column, value) in &record.columns {
                *compared.values.entry(*column).or_insert(0) += 1;
                let got = text_of(&row[*column]);
                if got != *value {
                    let line = format!("{name}: record {at}: {column} is {got:?}, not {value:?}");
                    compared.differ.push(line);
                }
            }
            let is_own = |column: &str| OWN.contains(&column) || name == PACKET_SECTIONS;
            for (column, value) in row.as_object().unwrap() {
                if !record.columns.contains_key(column.as_str()) && !is_own(column) {
                    let line = format!("{name}: record {at}: {column} is {value}, tshark has none");
                    compared.differ.push(line);
                }
            }
        }
    }
    compared
}

fn lengths<T>(days: &Days<T>) -> BTreeMap<i64, usize> {
    days.iter().map(|(day, items)| (*day, items.len())).collect()
}

/// What tshark reads.
fn expected(file: &Path) -> Days<Expected> {
    let mut exporters = netflow::Exporters::default();
    let mut days = Days::new();
    for packet in pdml::packets(file, &decode_as(file)) {
        let source = packet.find("ip.src").or_else(|| packet.find("ipv6.src"));
        let source = source.map_or("", |field| &field.show);
        for protocol in &packet.children {
            let records = match protocol.name.as_str() {
                "cflow" => exporters.records(source, protocol),
                "sflow" => sflow::records(protocol),
                _ => continue,
            };
            for record in records {
                days.entry(record.export_ms.div_euclid(DAY_MS)).or_default().push(record);
            }
        }
    }
    days
}

/// The ports of the capture: who listens on them is told by the version that datagrams begin with.
fn decode_as(file: &Path) -> Vec<String> {
    let mut ports = BTreeMap::new();
    for datagram in Capture::open(file).unwrap().map_while(Result::ok) {
        let protocol = match datagram.payload[..] {
            [0, 0, 0, 5, ..] => "sflow",
            [0, 1 | 5 | 7 | 9 | 10, ..] => "cflow",
            _ => continue,
        };
        ports.insert(datagram.destination.port(), protocol);
    }
    ports.into_iter().map(|(port, protocol)| format!("udp.port=={port},{protocol}")).collect()
}

/// What `tidegate decode` reads. Samples of sFlow have no export time.
fn rows(file: &Path) -> Days<Value> {
    let output = tidegate(&["decode", file.to_str().unwrap()]);
    let mut days = Days::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let export_ms = match row["flowProtocol"].as_str() {
            Some("SFLOW") => 0,
            _ => row["timestamp"].as_i64().unwrap_or(0),
        };
        days.entry(export_ms.div_euclid(DAY_MS)).or_default().push(row);
    }
    days
}
