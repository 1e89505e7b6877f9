//! sFlow of real switches, and of attackers.

use super::Collector;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A datagram of agent 10.1.2.3 that announces `samples`, followed by `bytes`.
fn datagram(samples: u32, bytes: &[u8]) -> Vec<u8> {
    [&words(&[5, 1, 0x0a01_0203, 0, 1, 60_000, samples])[..], bytes].concat()
}

/// sampled_ipv4: 192.0.2.1 to 198.51.100.2, 100 bytes.
fn sampled_ipv4() -> Vec<u8> {
    words(&[3, 32, 100, 6, 0xc000_0201, 0xc633_6402, 1_024, 443, 2, 0])
}

/// akvorado#153, akvorado#370: 0x3FFFFFFF is the device itself, and expanded samples have any ifIndex; the
/// flows were thrown away.
#[test]
fn internal_and_large_interfaces_are_kept() {
    let mut collector = Collector::new();
    let internal = words(&[1, 32 + 40, 1, 3, 1_000, 1, 0, 7, 0x3fff_ffff, 1]);
    let expanded = words(&[3, 44 + 40, 1, 0, 3, 1_000, 2, 0, 0, 4_000_000_000, 0, 7, 1]);
    let record = sampled_ipv4();
    collector.receive(&datagram(2, &[internal, record.clone(), expanded, record].concat()));
    assert_eq!((collector.rows.len(), collector.drops()), (2, vec![]));
    assert_eq!(collector.numbers("inputSnmp"), [7.0, 4_000_000_000.0]);
    assert_eq!(collector.numbers("outputSnmp"), [0.0, 7.0]);
}

/// golang/vulndb#1032, CVE-2022-2529: counts in a small packet made the decoder take gigabytes.
#[test]
fn counts_of_a_small_packet_cost_nothing() {
    let mut collector = Collector::new();
    collector.receive(&datagram(u32::MAX, &[]));
    let records = words(&[1, 32, 1, 3, 1_000, 1, 0, 7, 8, u32::MAX]);
    collector.receive(&datagram(1, &records));
    assert_eq!(collector.rows.len(), 0);
    assert_eq!(collector.drops().iter().map(|(_, count)| count).sum::<u64>(), 2);
}

/// telegraf#15375: a notification of dropped packets was an error for the whole datagram.
#[test]
fn a_drop_event_beside_a_sample_is_counted_and_costs_no_flow() {
    let mut collector = Collector::new();
    let event = words(&[5, 28, 1, 0, 3, 0, 1, 2, 256]);
    let sample = [words(&[1, 32 + 40, 1, 3, 1_000, 1, 0, 7, 8, 1]), sampled_ipv4()].concat();
    collector.receive(&datagram(2, &[event, sample].concat()));
    assert_eq!((collector.rows.len(), collector.tally.drop_events), (1, 1));
}
