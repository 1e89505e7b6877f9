//! Columns that take some thought, and what has no column.

use serde_json::{Value, json};

use super::*;
use crate::flow::Chunk;

#[test]
fn the_type_of_icmp_is_in_the_port_when_no_field_has_it() {
    let mut bench = Bench::new();
    let fields = [Field::new(4, 1), Field::new(11, 2)];
    let records: [&[u8]; 4] = [&[1, 8, 0], &[58, 135, 1], &[6, 8, 0], &[1, 0, 0]];
    bench.decode(&v9().template(300, &fields).data_set(300, &records).finish());
    let none = Value::Null;
    assert_eq!(bench.column(Column::IcmpType), [json!(8), json!(135), none.clone(), none.clone()]);
    assert_eq!(bench.column(Column::IcmpCode), [none.clone(), json!(1), none.clone(), none]);
    let mut bench = Bench::new();
    let fields = [Field::new(4, 1), Field::new(11, 2), Field::new(32, 2)];
    bench.decode(&v9().template(300, &fields).data_set(300, &[&[1, 8, 0, 3, 1]]).finish());
    bench.decode(&v9().data_set(300, &[&[1, 0x44, 0x8d, 0, 0]]).finish());
    let types = [json!(3), Value::Null];
    assert_eq!(bench.column(Column::IcmpType), types, "its own field wins, an echo reply's too");
}

#[test]
fn a_label_stack_ends_at_its_bottom_or_where_nothing_is() {
    let mut bench = Bench::new();
    let fields = [Field::new(70, 3), Field::new(71, 3), Field::new(72, 3)];
    let label = |label: u32, bottom: u8| {
        let [_, high, middle, low] = (label << 4).to_be_bytes();
        [high, middle, low | bottom]
    };
    let bottom = [label(16_001, 0), label(0, 1), label(9, 0)].concat();
    let open = [label(1_048_575, 0), label(7, 0), [0; 3]].concat();
    let none = vec![0; 9];
    bench.decode(&ipfix().template(300, &fields).data_set(300, &[&bottom, &open, &none]).finish());
    let labels = bench.column(Column::MplsLabels);
    assert_eq!(labels, [json!([16_001, 0]), json!([1_048_575, 7]), Value::Null]);
}

#[test]
fn an_application_of_a_vendor_keeps_engine_vendor_and_id() {
    let mut bench = Bench::new();
    // Engine 20: a number of the vendor 35632 (RFC 6759 section 4.2), 9 bytes.
    let id = [20, 0, 0, 0x8b, 0x30, 0, 0, 1, 2];
    let names = ipfix()
        .options_template(400, &[Field::new(95, u16::MAX)], &[Field::new(96, u16::MAX)])
        .data_set(400, &[&[&variable_length(&id)[..], &variable_length(b"chess")].concat()]);
    bench.decode(&names.finish());
    bench.decode(&ipfix().template(300, &[Field::new(95, 9)]).data_set(300, &[&id]).finish());
    assert_eq!(bench.column(Column::ApplicationId), [0x1400_8b30_0000_0102_u64]);
    assert_eq!(bench.column(Column::ApplicationName), ["chess"]);
}

#[test]
fn elements_without_a_column_are_kept_where_the_receiver_says_so() {
    let fields = [
        Field::new(1, 1),
        Field::new(245, 2),               // dot1qCustomerVlanId
        Field::new(210, 1),               // paddingOctets
        Field::enterprise(999_999, 7, 2), // nobody's
        Field::new(371, u16::MAX),        // userName
    ];
    let record = |user: &[u8]| [&[5, 0, 42, 0, 0xab, 0xcd][..], &variable_length(user)].concat();
    let records = [record(b"alice"), record(b"")];
    let message = ipfix().template(300, &fields).data_set(300, &[&records[0], &records[1]]);
    for keep_unknown_elements in [true, false] {
        let options = DecoderOptions { keep_unknown_elements, ..DecoderOptions::default() };
        let mut bench = Bench::with(options);
        bench.decode(&message.clone().finish());
        let expected = [
            json!({"dot1qCustomerVlanId": "42", "999999/7": "0xabcd", "userName": "alice"}),
            json!({"dot1qCustomerVlanId": "42", "999999/7": "0xabcd"}),
        ];
        let expected = if keep_unknown_elements { expected } else { [Value::Null, Value::Null] };
        assert_eq!(bench.column(Column::Extra), expected);
    }
}

#[test]
fn a_row_keeps_a_limited_number_of_elements_and_the_others_are_counted() {
    let options = DecoderOptions { keep_unknown_elements: true, ..DecoderOptions::default() };
    let mut bench = Bench::with(options);
    let fields: Vec<_> = (1..=70).map(|id| Field::enterprise(999_999, id, 1)).collect();
    let tally = bench.decode(&ipfix().template(300, &fields).data_set(300, &[&[1; 70]]).finish());
    assert_eq!(tally.left_out_values, 6);
    assert_eq!(bench.column(Column::Extra)[0].as_object().unwrap().len(), 64);
}

/// 64 elements of each of 1,100 enterprises in one chunk.
#[test]
fn no_value_is_under_an_empty_key_however_many_keys_a_chunk_sees() {
    let options = DecoderOptions { keep_unknown_elements: true, ..DecoderOptions::default() };
    let mut bench = Bench::with(options);
    bench.writer = ChunkWriter::new(1_100);
    let mut left_out = 0;
    for enterprise in 900_000..901_100 {
        let fields: Vec<_> = (1..=64).map(|id| Field::enterprise(enterprise, id, 1)).collect();
        let message = ipfix().template(300, &fields).data_set(300, &[&[1; 64]]).finish();
        let datagram = Datagram {
            exporter: [192, 0, 2, 1].into(),
            source_port: 0,
            received_ms: NOW_MS,
            payload: &message,
        };
        let (_, tally) = bench.decoder.decode(&datagram, Instant::now(), &mut bench.writer);
        left_out += tally.left_out_values;
    }
    let chunks: Vec<_> = bench.writer.take_closed().collect();
    let keys = |chunk: &Chunk| chunk.items(Column::Extra).as_chunks::<2>().0.to_vec();
    let [keys] = &chunks.iter().map(keys).collect::<Vec<_>>()[..] else { panic!("one chunk") };
    assert_eq!((keys.len(), left_out), (65_535, 1_100 * 64 - 65_535));
    assert!(!keys.contains(&[0; 2]), "the empty key");
}

#[test]
fn values_that_are_stepped_over_though_they_mean_something_are_counted() {
    let mut bench = Bench::new();
    // A packet count of nine bytes, and a basicList.
    let fields = [Field::new(1, 1), Field::new(2, 9), Field::new(291, u16::MAX)];
    let record = [&[1; 10][..], &variable_length(&[255, 0, 1, 0, 1, 7])].concat();
    let records: [&[u8]; 2] = [&record, &record];
    let tally = bench.decode(&ipfix().template(300, &fields).data_set(300, &records).finish());
    assert_eq!((tally.flows, tally.odd_length_values, tally.list_values), (2, 2, 2));
}

#[test]
fn a_preferred_element_that_is_0_gives_way_but_counters_do_not() {
    let mut bench = Bench::new();
    let fields = [9, 29, 180, 182, 61, 1, 85].map(|id| Field::new(id, 1));
    let times = [Field::new(152, 8), Field::new(22, 4), Field::new(153, 8)];
    let absolute = |ms: i64| ms.to_be_bytes();
    let record = |masks: [u8; 2], first: i64| {
        let uptime = 50_000_u32.to_be_bytes();
        let numbers = [masks[0], masks[1], 0, 7, 1, 0, 9];
        [&numbers[..], &absolute(first), &uptime, &absolute(NOW_MS)].concat()
    };
    let records = [record([0, 64], 0), record([24, 0], NOW_MS - 5), record([24, 64], NOW_MS - 5)];
    let all = [&fields[..], &times].concat();
    bench.decode(&v9().template(300, &all).data_set_padded(300, &records, 0).finish());
    assert_eq!(bench.column(Column::SrcMaskLen), [64, 24, 24]);
    assert_eq!(bench.column(Column::SrcPort), [7, 7, 7]);
    assert_eq!(bench.column(Column::Bytes), [Value::Null, Value::Null, Value::Null]);
    let first = bench.column(Column::FirstSwitched);
    assert_eq!(first, [NOW_MS - 10_000, NOW_MS - 5, NOW_MS - 5]);
}

#[test]
fn records_behind_a_bad_one_are_not_lost_on_the_way() {
    let mut bench = Bench::new();
    let of = |sequence| {
        MessageBuilder::ipfix(IpfixHeader { export_time_s: NOW_S, sequence, domain_id: 7 })
    };
    let fields = [Field::new(96, u16::MAX), Field::new(1, 1)];
    let (good, bad) = ([1, b'a', 1], [200, b'a', 1]);
    bench.decode(&of(0).template(300, &fields).data_set_padded(300, &[good], 0).finish());
    let tally = bench.decode(&of(1).data_set_padded(300, &[good, bad, bad], 0).finish());
    assert_eq!(dropped(&tally), [("bad_record", 1)]);
    let lost = (4..200).map(|n| bench.decode(&of(n).data_set_padded(300, &[good], 0).finish()));
    assert_eq!(lost.map(|tally| tally.lost_records).sum::<u64>(), 0);
}

#[test]
fn what_a_cut_set_takes_of_the_bytes_behind_its_message_is_not_dropped() {
    let mut bench = Bench::new();
    bench.decode(&ipfix().template(300, &[Field::new(1, 4)]).finish());
    let mut message = ipfix().data_set(300, &[[0, 0, 0, 1], [0, 0, 0, 2]]).finish();
    let cut = u16::try_from(message.len() - 4).unwrap();
    message[2..4].copy_from_slice(&cut.to_be_bytes());
    let tally = bench.decode(&message);
    assert_eq!((tally.flows, dropped(&tally)), (2, vec![]));
}
