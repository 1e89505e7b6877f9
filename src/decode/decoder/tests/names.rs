//! Names of interfaces, applications and VRFs that options records announce.

use serde_json::Value;

use super::*;

/// A data set with input and output interface.
fn flow_between(builder: MessageBuilder, input: u8, output: u8) -> Vec<u8> {
    let fields = [Field::new(10, 2), Field::new(14, 2)];
    builder.template(300, &fields).data_set(300, &[&[0, input, 0, output]]).finish()
}

#[test]
fn interfaces_are_named_in_every_way_to_say_an_ifindex() {
    let text = [Field::new(82, 4), Field::new(83, 6)];
    let record = [&[0, 0, 0, 9][..], b"ge-9", b"uplink"].concat();
    let variable = [Field::new(82, u16::MAX), Field::new(83, u16::MAX)];
    let variable_record =
        [&[0, 0, 0, 9][..], &variable_length(b"ge-9"), &variable_length(b"uplink")].concat();
    let with = |fields: &[Field]| [fields, &text].concat();
    let behind = |zeros: usize| [&vec![0; zeros][..], &record].concat();
    let system = [Field::new(1, 4)];
    let both = with(&[Field::new(10, 4), Field::new(14, 4)]);
    let mut announcements = vec![
        // Scope type Interface.
        (v9().options_template(400, &[Field::new(2, 4)], &text), record.clone()),
        (ipfix().options_template(400, &[Field::new(10, 4)], &variable), variable_record),
        // Of several the first that is not 0.
        (v9().options_template(400, &system, &both), behind(8)),
    ];
    for id in [10, 14, 252, 253] {
        let field = [Field::new(id, 4)];
        announcements.push((ipfix().options_template(400, &field, &text), record.clone()));
        announcements.push((v9().options_template(400, &system, &with(&field)), behind(4)));
    }
    for (nth, (builder, record)) in announcements.into_iter().enumerate() {
        let mut bench = Bench::new();
        let tally = bench.decode(&builder.data_set(400, &[&record]).finish());
        assert_eq!((tally.options_records, dropped(&tally)), (1, vec![]), "{nth}");
        bench.decode(&flow_between(ipfix(), 9, 8));
        bench.decode(&flow_between(v9(), 8, 9));
        let none = Value::Null;
        let columns = [
            (Column::InputSnmpIfName, ["ge-9".into(), none.clone()]),
            (Column::InputSnmpIfAlias, ["uplink".into(), none.clone()]),
            (Column::OutputSnmpIfName, [none.clone(), "ge-9".into()]),
            (Column::OutputSnmpIfAlias, [none, "uplink".into()]),
        ];
        for (column, expected) in columns {
            assert_eq!(bench.column(column), expected, "{nth}, {}", column.name());
        }
    }
}

/// Announces names of interfaces: index and one byte of name.
fn name_interfaces(domain_id: u32, records: &[[u8; 2]]) -> Vec<u8> {
    MessageBuilder::ipfix(IpfixHeader { export_time_s: NOW_S, sequence: 0, domain_id })
        .options_template(400, &[Field::new(10, 1)], &[Field::new(82, 1)])
        .data_set_padded(400, records, 0)
        .finish()
}

#[test]
fn an_interface_name_is_of_its_domain_until_it_changes_or_expires() {
    let mut bench = Bench::new();
    let exporter = IpAddr::from([192, 0, 2, 1]);
    bench.decode(&name_interfaces(7, &[[9, b'a'], [8, b'x']]));
    bench.decode(&name_interfaces(6, &[[9, b'b'], [4, b'y']]));
    bench.decode(&flow_between(ipfix(), 9, 4));
    bench.decode(&name_interfaces(7, &[[9, b'c']]));
    bench.decode(&flow_between(ipfix(), 9, 8));
    bench.decode_at(exporter, NOW_MS + 3_600_000, &flow_between(ipfix(), 9, 8));
    bench.decode_from([192, 0, 2, 2].into(), &flow_between(ipfix(), 9, 8));
    let none = Value::Null;
    let input = bench.column(Column::InputSnmpIfName);
    assert_eq!(input, ["a".into(), "c".into(), none.clone(), none.clone()]);
    let output = bench.column(Column::OutputSnmpIfName);
    assert_eq!(output, ["y".into(), "x".into(), none.clone(), none]);
}

#[test]
fn names_beyond_the_limit_are_counted() {
    let mut bench = Bench::new();
    let mut lost = Tally::default();
    for block in 0..17_u16 {
        let record = |n: u16| {
            let [high, low] = (block * 1_000 + n).to_be_bytes();
            [high, low, b'v']
        };
        let records: Vec<_> = (0..1_000).map(record).collect();
        let vrfs = ipfix().options_template(400, &[Field::new(234, 2)], &[Field::new(236, 1)]);
        lost.add(&bench.decode(&vrfs.data_set_padded(400, &records, 0).finish()));
    }
    assert_eq!((lost.options_records, dropped(&lost)), (17_000, vec![("options_limit", 1)]));
}

#[test]
fn applications_are_named_where_the_record_does_not_name_them() {
    let mut bench = Bench::new();
    let table = ipfix()
        .options_template(400, &[Field::new(95, 4)], &[Field::new(94, 4), Field::new(96, 5)])
        .data_set(400, &[b"\x03\0\0\x50Web\0http\0"]);
    bench.decode(&table.finish());
    let only_described = ipfix()
        .options_template(401, &[Field::new(95, 4)], &[Field::new(94, 4)])
        .data_set(401, &[b"\x03\0\0\x35DNS\0"]);
    bench.decode(&only_described.finish());
    let fields = [Field::new(95, 4), Field::new(96, 3)];
    let records =
        [b"\x03\0\0\x50\0\0\0", b"\x03\0\0\x50own", b"\x03\0\0\x35\0\0\0", b"\x03\0\0\x51\0\0\0"];
    bench.decode(&ipfix().template(300, &fields).data_set_padded(300, &records, 0).finish());
    let names = bench.column(Column::ApplicationName);
    assert_eq!(names, ["http".into(), "own".into(), "DNS".into(), Value::Null]);
}

#[test]
fn vrfs_are_named_on_the_way_in_and_out_over_the_end_of_a_chunk() {
    let mut bench = Bench::new();
    let table = v9()
        .options_template(400, &[Field::new(1, 4)], &[Field::new(234, 4), Field::new(236, 5)])
        .data_set(400, &[b"\0\0\0\0\0\0\0\x01red\0\0", b"\0\0\0\0\0\0\0\x02green"]);
    bench.decode(&table.finish());
    let fields = [Field::new(234, 1), Field::new(235, 1)];
    let records = [[1, 2], [1, 1], [9, 2], [2, 9], [2, 1]];
    bench.decode(&ipfix().template(300, &fields).data_set_padded(300, &records, 0).finish());
    let text = |texts: [&str; 5]| {
        texts.map(|text| if text.is_empty() { Value::Null } else { text.into() })
    };
    let ingress = bench.column(Column::IngressVrfName);
    assert_eq!(ingress, text(["red", "red", "", "green", "green"]));
    let egress = bench.column(Column::EgressVrfName);
    assert_eq!(egress, text(["green", "red", "green", "", "red"]));
}
