//! `tidegate decode --summary` on real captures against what independent decoders counted.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use common::{captures, tidegate};
use serde_json::Value;
use tidegate::capture::Capture;

/// Captures whose figures differ from the truth, and why in short; `docs/decoding.md` says more.
const EXPLAINED: &[(&str, &str)] = &[
    (
        "ipfix-data-bad-template-field-count.pcap",
        "the truth counts no undecoded set; its three data sets follow a template that is cut",
    ),
    ("netflow-data-netflow-v9-1.pcap", COUNT_READ_AS_SETS),
    ("netflow-data-netflow9.pcap", COUNT_READ_AS_SETS),
    (
        "netflow-data-nprobe-netflow9-4.pcap",
        "two sets come before their template and are decoded with it",
    ),
    (
        "vendor-ipfix-netscaler-with-variable-length-fields-2.pcap",
        "three sets come before their template and are decoded with it",
    ),
    ("telegraf-ipfix-example.pcap", "ambiguous: counters are in other elements than 1 and 2"),
    ("exporter-softflowd-psamp.pcap", "ambiguous: packet sections, each of which is one packet"),
    ("pcap-arkime-synthetic.pcap", "made-up datagrams, most of them malformed; no decoder agrees"),
    (
        "tests-sflow-multiple-counter-30-pdus.pcap",
        "the truth leaves out five NetFlow v5 datagrams sent to the sFlow port",
    ),
    (
        "two-inputs-filter-by-ipversion-expected.pcap",
        "the truth counts two sets that are decoded here",
    ),
    (
        "vendor-ipfix-yaf-basic-with-applabel.pcap",
        "ambiguous: counters are in other elements than 1 and 2",
    ),
    ("vendor-netflow-9-cisco-asa-2.pcap", "ambiguous: counters are in other elements than 1 and 2"),
    ("vendor-netflow-9-cisco-asa.pcap", "ambiguous: counters are in other elements than 1 and 2"),
    ("vendor-netflow-9-invalid-01.pcap", COUNT_READ_AS_SETS),
];

const COUNT_READ_AS_SETS: &str = "tshark reads the header's count as sets and stops early";

/// Protocols that are decoded, as the truth names them.
const DECODED: [&str; 6] = ["v1", "v5", "v7", "v9", "ipfix", "sflow5"];

#[test]
fn summaries_equal_what_independent_decoders_counted() {
    let Some(folder) = captures() else { return };
    let truth = std::fs::read_to_string(folder.join("truth.csv")).unwrap();
    let mut rows = truth.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = rows.next().unwrap();
    let mut equal = 0;
    let mut differ = Vec::new();
    for row in rows {
        let row: HashMap<&str, &str> = header.iter().copied().zip(row).collect();
        let is_decoded = |part: &str| DECODED.contains(&part.split(':').next().unwrap());
        if !row["protocols"].split('+').all(is_decoded) {
            continue;
        }
        let file = row["file"];
        let (got, expected) = (summary(&folder.join(file)), expected(&row));
        match EXPLAINED.iter().any(|(explained, _)| *explained == file) {
            true => assert_ne!(got, expected, "{file} is right: take it off the list"),
            false if got == expected => equal += 1,
            false => differ.push(format!("{file}: {got:?} instead of {expected:?}")),
        }
    }
    assert_eq!(differ, Vec::<String>::new());
    assert_eq!(equal, 137);
}

/// Sums of the reverse direction are not in the summary; flows have them.
#[test]
fn reverse_counters_equal_what_independent_decoders_counted() {
    let Some(folder) = captures() else { return };
    let file = folder.join("exporter-softflowd-v10-b.pcap");
    let output = tidegate(&["decode", file.to_str().unwrap()]);
    let flows = String::from_utf8(output.stdout).unwrap();
    let flows: Vec<Value> = flows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sum = |key: &str| flows.iter().filter_map(|flow| flow[key].as_u64()).sum::<u64>();
    assert_eq!((sum("reverseBytes"), sum("reversePackets")), (195_657, 323));
}

/// Ids, the names that the exporter's options records give them, and flows with both.
#[test]
fn names_of_options_records_are_with_their_ids() {
    let Some(folder) = captures() else { return };
    let named = |file: &str, id, name| named_flows(&folder.join(file), id, name);
    let huawei = "106-ipfixv10-huawei-vrf-name-traffic-00.pcap";
    assert_eq!(named(huawei, "ingressVrf", "ingressVrfName"), [(1, "A4".into(), 1)]);
    assert_eq!(named(huawei, "egressVrf", "egressVrfName"), [(1, "A4".into(), 2)]);
    let cisco = "500-ipfixv10-bgp-cisco-srv6-traffic-00.pcap";
    let (default, customer) = (0x6000_0000, 0x6000_0001);
    assert_eq!(
        named(cisco, "ingressVrf", "ingressVrfName"),
        [(default, "default".into(), 41), (customer, "D10".into(), 2)]
    );
    assert_eq!(
        named(cisco, "inputSnmp", "inputSnmpIfName"),
        [
            (42, "TenGigE0_0_0_0".into(), 33),
            (69, "TenGigE0_0_0_0.516".into(), 2),
            (70, "TenGigE0_0_0_0.523".into(), 8),
        ]
    );
    assert_eq!(
        named(cisco, "outputSnmp", "outputSnmpIfAlias"),
        [(42, "TenGigE0/0/0/0".into(), 2), (69, "TenGigE0/0/0/0.516".into(), 2)]
    );
    // A scope of type Interface, and the interface is 0.
    let softflowd = named("exporter-softflowd-v9-a.pcap", "inputSnmp", "inputSnmpIfName");
    assert_eq!(softflowd, [(0, "traffic.pcap".into(), 200)]);
}

/// The table and the flows of one device are in two captures.
#[test]
fn names_of_an_nbar_table_are_with_their_applications() {
    const PCAP_HEADER_BYTES: usize = 24;
    let Some(folder) = captures() else { return };
    let read = |file| std::fs::read(folder.join(file)).unwrap();
    let mut both = read("vendor-netflow-9-cisco-nbar-options-template-260.pcap");
    both.extend(&read("vendor-netflow-9-cisco-nbar-flowset-262.pcap")[PCAP_HEADER_BYTES..]);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), both).unwrap();
    let named = named_flows(file.path(), "applicationId", "applicationName");
    assert_eq!(named, [(0x0100_0001, "icmp".into(), 2)]);
}

/// Every record that is decoded is shown, and nothing makes a line without bounds.
#[test]
fn every_capture_can_be_inspected() {
    let Some(folder) = captures() else { return };
    let (mut files, mut records) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "pcap") {
            continue;
        }
        let output = tidegate(&["inspect", file.to_str().unwrap()]);
        assert!(output.status.success(), "{}: {:?}", file.display(), output.stderr);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().all(|line| line.len() < 1_000), "{}", file.display());
        let is_record = |line: &&str| {
            let line = line.trim_start();
            line.starts_with("record ") || line.starts_with("flow ")
        };
        let shown = text.lines().filter(is_record).count() as u64;
        let [_, flows, _, _, options_records, _] = summary(&file);
        assert_eq!(shown, flows + options_records, "{}", file.display());
        files += 1;
        records += shown;
    }
    println!("inspected {files} captures with {records} records");
    assert!(files > 100 && records > 10_000);
}

/// The payloads of a capture one behind the other are the same messages.
#[test]
fn messages_without_a_capture_are_inspected_alike() {
    let Some(folder) = captures() else { return };
    for name in ["exporter-softflowd-v5", "exporter-softflowd-v9", "exporter-softflowd-v10"] {
        let capture = folder.join(name).with_extension("pcap");
        let payloads = Capture::open(&capture).unwrap().map(|datagram| datagram.unwrap().payload);
        let raw = tempfile::NamedTempFile::with_suffix(".dat").unwrap();
        std::fs::write(raw.path(), payloads.collect::<Vec<_>>().concat()).unwrap();
        let shown = |file: &Path| {
            let output = tidegate(&["inspect", file.to_str().unwrap()]);
            let text = String::from_utf8(output.stdout).unwrap();
            let lines = text.lines().filter(|line| !line.starts_with("datagram "));
            lines.map(ToOwned::to_owned).collect::<Vec<_>>()
        };
        let lines = shown(raw.path());
        assert!(lines.len() > 1_000, "{name}: {lines:?}");
        assert!(lines == shown(&capture), "{name}");
    }
}

/// The pairs of two columns, and how many flows have them.
fn named_flows(file: &Path, id: &str, name: &str) -> Vec<(u64, String, usize)> {
    let output = tidegate(&["decode", file.to_str().unwrap()]);
    let flows = String::from_utf8(output.stdout).unwrap();
    let mut named = BTreeMap::new();
    for flow in flows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if let Some(name) = flow[name].as_str() {
            let pair = (flow[id].as_u64().unwrap_or(0), name.to_owned());
            *named.entry(pair).or_insert(0) += 1;
        }
    }
    named.into_iter().map(|((id, name), flows)| (id, name, flows)).collect()
}

const KEYS: [(&str, &str); 6] = [
    ("datagrams", "datagrams"),
    ("flows", "flows"),
    ("bytes", "bytes"),
    ("packets", "packets"),
    ("optionsRecords", "options_records"),
    ("undecodedSets", "undecoded_sets"),
];

fn expected(row: &HashMap<&str, &str>) -> [u64; 6] {
    KEYS.map(|(_, column)| row[column].parse().unwrap())
}

fn summary(file: &Path) -> [u64; 6] {
    let output = tidegate(&["decode", "--summary", file.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    KEYS.map(|(key, _)| summary[key].as_u64().unwrap())
}
