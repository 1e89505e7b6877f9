//! Sets, lengths and padding as devices really write them.

use tidegate::traffic::{Field, MessageBuilder, variable_length};

use super::{Collector, ipfix, v9};

const BYTES: [Field; 1] = [Field::new(1, 4)];

fn flows(builder: MessageBuilder, bytes: &[u32]) -> MessageBuilder {
    let records: Vec<_> = bytes.iter().map(|bytes| bytes.to_be_bytes()).collect();
    builder.data_set(300, &records)
}

/// goflow2#499, goflow2#502: the count of the header is one of records, of sets, or of nothing.
#[test]
fn the_count_of_netflow_v9_means_nothing() {
    for count in [0, 1, 2, 3, 30, 999] {
        let mut collector = Collector::new();
        let message = flows(flows(v9().template(300, &BYTES), &[1, 2]), &[3]).declare(count);
        collector.receive(&message.finish());
        assert_eq!((collector.numbers("bytes"), collector.drops()), (vec![1.0, 2.0, 3.0], vec![]));
    }
}

/// nfdump#73, logstash-codec-netflow#146: Palo Alto fills the packet with zeros behind one small set.
#[test]
fn a_packet_filled_with_zeros_is_no_error() {
    let mut collector = Collector::new();
    let mut packet = flows(v9().template(300, &BYTES), &[7]).finish();
    packet.resize(1_400, 0);
    collector.receive(&packet);
    assert_eq!((collector.numbers("bytes"), collector.drops()), (vec![7.0], vec![]));
}

/// elastic/beats#18098, nfdump#56: 4 to 7 bytes of padding behind the records of a set.
#[test]
fn a_set_may_be_padded_by_more_than_three_bytes() {
    for zeros in 0..8 {
        let mut collector = Collector::new();
        let fields = [Field::new(1, 8)];
        let set = [&9_u64.to_be_bytes()[..], &vec![0; zeros]].concat();
        collector.receive(&v9().template(300, &fields).raw_set(300, &set).finish());
        assert_eq!((collector.numbers("bytes"), collector.drops()), (vec![9.0], vec![]), "{zeros}");
    }
}

/// netflow_parser#58: softflowd's sets are not aligned to 4 bytes.
#[test]
fn sets_need_no_alignment() {
    let mut collector = Collector::new();
    let fields = [Field::new(1, 4), Field::new(4, 1)];
    let set = |builder: MessageBuilder| builder.raw_set(300, &[0, 0, 0, 5, 6]);
    collector.receive(&set(set(v9().template(300, &fields))).finish());
    assert_eq!(
        (collector.numbers("bytes"), collector.numbers("protocol")),
        (vec![5.0; 2], vec![6.0; 2])
    );
}

/// goflow2#76, cloudflare/goflow#74, netflow_parser#313: a text of no bytes ended the set.
#[test]
fn an_empty_text_does_not_end_the_set() {
    let mut collector = Collector::new();
    let fields = [Field::new(96, u16::MAX), Field::new(1, 4)];
    let record = |text: &[u8], bytes: u8| [&variable_length(text)[..], &[0, 0, 0, bytes]].concat();
    let records = [record(b"dns", 1), record(b"", 2), record(b"ntp", 3)];
    collector.receive(&ipfix().template(300, &fields).data_set(300, &records).finish());
    assert_eq!(collector.texts("applicationName"), ["dns", "", "ntp"]);
    assert_eq!(collector.numbers("bytes"), [1.0, 2.0, 3.0]);
}

/// netflow_parser#56, netflow_parser#299: templates of fields without bytes made the decoder run for ever.
#[test]
fn a_template_without_bytes_makes_no_records() {
    let mut collector = Collector::new();
    let message =
        v9().template(300, &[Field::new(1, 0), Field::new(2, 0)]).data_set(300, &[[1; 40]]);
    collector.receive(&message.finish());
    assert_eq!((collector.rows.len(), collector.drops()), (0, vec![("bad_template", 1)]));
    let message = v9().template(301, &[Field::new(2, 0), Field::new(1, 4)]);
    collector.receive(&message.data_set(301, &[[0, 0, 0, 8]]).finish());
    assert_eq!(collector.numbers("bytes"), [8.0], "a field without bytes among others is none");
}

/// nfdump#622: lists in lists of YAF made the decoder grow without end.
#[test]
fn structured_data_is_stepped_over_and_counted() {
    let mut collector = Collector::new();
    let fields = [Field::new(293, u16::MAX), Field::new(1, 4)];
    let nested = variable_length(&[0xff; 500]);
    let record = [&nested[..], &[0, 0, 0, 6]].concat();
    collector.receive(&ipfix().template(300, &fields).data_set(300, &[record]).finish());
    assert_eq!((collector.numbers("bytes"), collector.tally.list_values), (vec![6.0], 1));
}

/// nfdump#45, nfdump#22: counters of FortiGate have 64 bits.
#[test]
fn counters_have_64_bits() {
    let mut collector = Collector::new();
    let fields = [Field::new(1, 8), Field::new(2, 8)];
    let record = [5_000_000_000_000_u64.to_be_bytes(), 4_000_000_000_u64.to_be_bytes()].concat();
    collector.receive(&v9().template(300, &fields).data_set(300, &[record]).finish());
    assert_eq!(collector.numbers("bytes"), [5e12]);
    assert_eq!(collector.numbers("packets"), [4e9]);
}

/// nfdump#364: records of CloudGenix have no counters, and were refused.
#[test]
fn a_record_without_counters_is_a_row() {
    let mut collector = Collector::new();
    let fields = [Field::new(8, 4), Field::new(12, 4)];
    let record = [192, 0, 2, 7, 192, 0, 2, 8];
    collector.receive(&ipfix().template(300, &fields).data_set(300, &[record]).finish());
    assert_eq!(
        (collector.texts("srcAddr"), collector.numbers("bytes")),
        (vec!["192.0.2.7"], vec![0.0])
    );
}

/// goflow2#284, akvorado#960: labels are 20 of 24 bits, and the stack has an end.
#[test]
fn mpls_labels_are_read_to_the_bottom_of_the_stack() {
    let mut collector = Collector::new();
    let fields = [Field::new(70, 3), Field::new(71, 3), Field::new(72, 3), Field::new(1, 4)];
    let record = [0x03, 0xe8, 0x00, 0x06, 0x40, 0x01, 0xff, 0xff, 0xf0, 0, 0, 0, 1];
    collector.receive(&ipfix().template(300, &fields).data_set(300, &[record]).finish());
    assert_eq!(collector.rows[0]["mplsLabels"], serde_json::json!([16_000, 25_600]));
}

/// pmacct#137, pmacct#559: NBAR names of applications come in an options table.
#[test]
fn applications_are_named_by_the_exporters_table() {
    let mut collector = Collector::new();
    let name = |name: &[u8]| [name, &vec![0; 24 - name.len()]].concat();
    let record = [&[0, 0, 0, 0, 3, 0, 0, 53][..], &name(b"dns")].concat();
    let table =
        v9().options_template(400, &[Field::new(1, 4)], &[Field::new(95, 4), Field::new(96, 24)]);
    collector.receive(&table.data_set(400, &[record]).finish());
    let fields = [Field::new(95, 4), Field::new(1, 4)];
    let flow = [3, 0, 0, 53, 0, 0, 0, 1];
    collector.receive(&v9().template(300, &fields).data_set(300, &[flow]).finish());
    assert_eq!(collector.texts("applicationName"), ["dns"]);
}

/// pmacct#909: Open vSwitch has the names of interfaces in the record, each behind its interface; they stayed
/// empty.
#[test]
fn interfaces_are_named_in_the_record() {
    let mut collector = Collector::new();
    let fields = [Field::new(10, 4), Field::new(82, u16::MAX), Field::new(14, 4)];
    let fields = [&fields[..], &[Field::new(82, u16::MAX), Field::new(83, u16::MAX)]].concat();
    let texts = |texts: &[&[u8]]| texts.iter().flat_map(|text| variable_length(text)).collect();
    let (input, output): (Vec<u8>, Vec<u8>) = (texts(&[b"p1"]), texts(&[b"br0", b"uplink"]));
    let record = [&[0, 0, 0, 1][..], &input, &[0, 0, 0, 2], &output].concat();
    collector.receive(&ipfix().template(300, &fields).data_set(300, &[record]).finish());
    assert_eq!(collector.texts("inputSnmpIfName"), ["p1"]);
    assert_eq!(collector.texts("outputSnmpIfName"), ["br0"]);
    assert_eq!(collector.texts("outputSnmpIfAlias"), ["uplink"]);
}

/// cloudflare/goflow#111, akvorado#818: Juniper's inline monitoring sends the packet itself, and no addresses.
#[test]
fn a_frame_section_is_read_like_a_packet() {
    let mut collector = Collector::new();
    let ip = [0x45, 0, 0, 60, 0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2];
    let tcp = [0xc0, 0, 1, 0xbb, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0];
    let frame = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0][..], &ip, &tcp].concat();
    let fields = [Field::new(312, 2), Field::new(315, u16::MAX)];
    let record = [&[0, 74][..], &variable_length(&frame)].concat();
    collector.receive(&ipfix().template(300, &fields).data_set(300, &[record]).finish());
    let row = &collector.rows[0];
    assert_eq!((&row["srcAddr"], &row["dstPort"]), (&"192.0.2.1".into(), &443.into()));
    assert_eq!((&row["bytes"], &row["packets"]), (&74.into(), &1.into()));
}
