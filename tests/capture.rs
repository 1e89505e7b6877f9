//! Captures of real exporters hold as many flow datagrams as independent decoders saw in them.
//!
//! The captures are third parties' and are no part of the repository. `TIDEGATE_CAPTURES` names
//! their directory; without them the test says so, and fails where `CI` is set.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tidegate::capture::Capture;

/// What the truth leaves out: NetFlow v5 sent to the sFlow port, and TFTP and STUN, which begin like v1.
const UNLISTED: [(&str, &str, u64); 2] = [
    ("tests-sflow-multiple-counter-30-pdus.pcap", "v5", 5),
    ("pcap-arkime-synthetic.pcap", "v1", 2),
];

#[test]
fn datagrams_of_every_capture_match_the_decoders() {
    let Some(directory) = captures() else { return };
    let truth = std::fs::read_to_string(directory.join("truth.csv")).unwrap();
    let mut compared = 0;
    let mut differences = Vec::new();
    for line in truth.lines().skip(1) {
        // The first columns are never quoted: file, protocols as `v5:5+v9:4`, datagrams.
        let mut columns = line.split(',');
        let (file, protocols) = (columns.next().unwrap(), columns.next().unwrap());
        let datagrams: u64 = columns.next().unwrap().parse().unwrap();
        let mut expected: BTreeMap<&str, u64> = protocols
            .split('+')
            .filter_map(|item| item.split_once(':'))
            .map(|(protocol, count)| (protocol, count.parse().unwrap()))
            .collect();
        assert_eq!(expected.values().sum::<u64>(), datagrams, "{file}");
        for (_, protocol, count) in UNLISTED.iter().filter(|unlisted| unlisted.0 == file) {
            expected.insert(protocol, *count);
        }
        let (seen, rest) = count(&directory.join(file));
        compared += 1;
        if seen != expected {
            differences.push(format!("{file}: {seen:?}, expected {expected:?}; {rest}"));
        }
    }
    assert!(compared > 100, "only {compared} captures compared");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Datagrams by the protocol that their first bytes announce, and a line on the others.
fn count(path: &Path) -> (BTreeMap<&'static str, u64>, String) {
    let mut capture = Capture::open(path).unwrap_or_else(|error| panic!("{error}"));
    let mut seen = BTreeMap::new();
    let mut others = 0;
    for datagram in capture.by_ref() {
        let datagram = datagram.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        match protocol(&datagram.payload) {
            Some(protocol) => *seen.entry(protocol).or_insert(0) += 1,
            None => others += 1,
        }
    }
    (seen, format!("{others} others, {}", capture.skipped()))
}

/// NetFlow and IPFIX begin with a version of 16 bits, sFlow with one of 32.
fn protocol(payload: &[u8]) -> Option<&'static str> {
    match payload {
        [0, 1, ..] => Some("v1"),
        [0, 5, ..] => Some("v5"),
        [0, 7, ..] => Some("v7"),
        [0, 9, ..] => Some("v9"),
        [0, 10, ..] => Some("ipfix"),
        [0, 0, 0, 5, ..] => Some("sflow5"),
        _ => None,
    }
}

fn captures() -> Option<PathBuf> {
    let directory = std::env::var_os("TIDEGATE_CAPTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/captures"),
        PathBuf::from,
    );
    if directory.join("truth.csv").is_file() {
        return Some(directory);
    }
    assert!(std::env::var_os("CI").is_none(), "no captures at {}", directory.display());
    eprintln!("skipped: no captures at {}, set TIDEGATE_CAPTURES", directory.display());
    None
}
