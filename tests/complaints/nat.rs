//! Firewall and NAT events, and flows of both directions.

use tidegate::traffic::Field;

use super::{Collector, ipfix, v9};

/// akvorado#1156, #1157, nfdump#115: ASA counts in 231, 232, 298 and 299, so traffic was 0.
#[test]
fn bytes_of_an_asa_are_those_of_initiator_and_responder() {
    let mut collector = Collector::new();
    let fields = [231, 232, 298, 299].map(|id| Field::new(id, 4));
    let record = [1_500, 64_000, 3, 50_u32].map(u32::to_be_bytes).concat();
    collector.receive(&v9().template(300, &fields).data_set(300, &[record]).finish());
    assert_eq!(
        (collector.numbers("bytes"), collector.numbers("packets")),
        (vec![1_500.0], vec![3.0])
    );
    assert_eq!(collector.numbers("reverseBytes"), [64_000.0]);
    assert_eq!(collector.numbers("reversePackets"), [50.0]);
}

/// nfdump#116, netdata#23201: every event was taken for traffic. A row says which event it is.
#[test]
fn an_event_says_which_it_is_and_is_no_traffic() {
    let mut collector = Collector::new();
    let fields = [Field::new(8, 4), Field::new(233, 1), Field::new(231, 4)];
    let event = |event: u8, bytes: u8| [192, 0, 2, 7, event, 0, 0, 0, bytes];
    let records = [event(1, 0), event(2, 99), event(3, 0)];
    collector.receive(&v9().template(300, &fields).data_set(300, &records).finish());
    assert_eq!(collector.numbers("firewallEvent"), [1.0, 2.0, 3.0]);
    assert_eq!(collector.numbers("bytes"), [0.0, 99.0, 0.0]);
}

/// nfdump#298, pmacct#527: events of carrier-grade NAT have addresses after translation, and no counters.
#[test]
fn a_nat_event_has_both_addresses() {
    let mut collector = Collector::new();
    let fields = [Field::new(8, 4), Field::new(225, 4), Field::new(227, 2), Field::new(230, 1)];
    let record = [100, 64, 0, 9, 203, 0, 113, 1, 0x04, 0x00, 4];
    collector.receive(&ipfix().template(300, &fields).data_set(300, &[record]).finish());
    let row = &collector.rows[0];
    assert_eq!(
        (&row["srcAddr"], &row["postNatSrcAddr"]),
        (&"100.64.0.9".into(), &"203.0.113.1".into())
    );
    assert_eq!((&row["postNatSrcPort"], &row["natEvent"]), (&1_024.into(), &4.into()));
}

/// elastiflow#260, pmacct#855: a record that counts both directions became two flows, or twice the bytes.
#[test]
fn a_biflow_is_one_row_with_reverse_counters() {
    let mut collector = Collector::new();
    let fields = [
        Field::new(1, 4),
        Field::new(2, 4),
        Field::enterprise(29_305, 1, 4),
        Field::enterprise(29_305, 2, 4),
    ];
    let record = [100, 1, 2_000, 2_u32].map(u32::to_be_bytes).concat();
    collector.receive(&ipfix().template(300, &fields).data_set(300, &[record]).finish());
    assert_eq!(
        (collector.numbers("bytes"), collector.numbers("packets")),
        (vec![100.0], vec![1.0])
    );
    assert_eq!(collector.numbers("reverseBytes"), [2_000.0]);
}

/// pmacct#714, nfdump: a record with the delta, the total and the count behind the device was added up.
#[test]
fn of_several_counters_one_is_taken() {
    let mut collector = Collector::new();
    let fields = [85, 23, 1].map(|id| Field::new(id, 4));
    let record = [9_000, 900, 90_u32].map(u32::to_be_bytes).concat();
    collector.receive(&ipfix().template(300, &fields).data_set(300, &[record]).finish());
    assert_eq!(collector.numbers("bytes"), [90.0], "octetDeltaCount");
}
