//! `tidegate decode --summary` on real captures against what independent decoders counted.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::HashMap;
use std::path::Path;

use common::{captures, tidegate};
use serde_json::Value;

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
