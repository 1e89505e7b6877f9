use insta::assert_snapshot;

use super::*;
use crate::traffic::{Field, IpfixHeader, MessageBuilder, V9Header, variable_length};

const NOW_S: u32 = 1_800_000_000;

fn ipfix() -> MessageBuilder {
    MessageBuilder::ipfix(IpfixHeader { export_time_s: NOW_S, sequence: 1, domain_id: 7 })
}

fn v9() -> MessageBuilder {
    let header = V9Header { uptime_ms: 60_000, export_time_s: NOW_S, sequence: 1, source_id: 7 };
    MessageBuilder::v9(header)
}

/// What is written of these datagrams of one exporter.
fn inspect(payloads: &[Vec<u8>]) -> String {
    inspect_with(Inspector::new(false), payloads)
}

fn inspect_with(mut inspector: Inspector, payloads: &[Vec<u8>]) -> String {
    let mut out = Vec::new();
    for (number, payload) in (1..).zip(payloads) {
        let captured = Captured {
            time_unix_ns: i64::from(NOW_S) * 1_000_000_000,
            source: "192.0.2.1:50000".parse().unwrap(),
            destination: "192.0.2.2:2055".parse().unwrap(),
            payload: payload.clone(),
        };
        inspector.write(number, &captured, &mut out).unwrap();
    }
    inspector.finish(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn templates_and_records_of_netflow_v9_are_shown_with_names() {
    let fields = [Field::new(8, 4), Field::new(56, 6), Field::new(33_002, 2), Field::new(1, 5)];
    let sampler = [Field::new(48, 1), Field::new(50, 4), Field::new(84, 8)];
    let record = [&[192, 0, 2, 9, 0, 1, 2, 3, 4, 5, 0, 9, 1, 0, 0, 0][..], &[0]].concat();
    let text = inspect(&[v9()
        .template(256, &fields)
        .options_template(257, &[Field::new(2, 4)], &sampler)
        .data_set(257, &[[&[0, 0, 0, 3, 1, 0, 0, 0, 100][..], b"edge\0\0\0\0"].concat()])
        .data_set(256, &[record])
        .finish()]);
    assert_snapshot!(text);
}

#[test]
fn what_tidegate_does_stands_beside_each_set() {
    let fields = [Field::new(8, 4), Field::enterprise(9, 12_232, 65_535), Field::new(152, 8)];
    let record = |text: &[u8]| {
        let time = (u64::from(NOW_S) * 1_000 + 5).to_be_bytes();
        [&[192, 0, 2, 9][..], &variable_length(text), &time].concat()
    };
    let text = inspect(&[
        ipfix().data_set(300, &[record(b"early")]).finish(),
        ipfix().template(300, &fields).template(301, &[]).finish(),
        ipfix().template(300, &fields).template(100, &fields).raw_set(200, &[1, 2, 3]).finish(),
        ipfix().data_set(300, &[record(b"web"), record(b""), record(b"\x1b[2J")]).finish(),
        [ipfix().raw_set(300, &[9; 30]).finish(), ipfix().template(300, &fields[..1]).finish()]
            .concat(),
        ipfix().data_set(301, &[[1, 2, 3, 4]]).raw(&[1, 44, 0, 3]).finish(),
    ]);
    assert_snapshot!(text);
}

/// A device is not shown as bytes because the crate refuses its templates.
#[test]
fn templates_that_only_tidegate_takes_are_used_all_the_same() {
    let variable = [Field::new(8, 4), Field::new(96, 65_535)];
    let empty = [Field::new(8, 4), Field::new(150, 0)];
    let record = [&[192, 0, 2, 9][..], &variable_length(b"web")].concat();
    let text = inspect(&[
        v9().template(256, &variable).data_set(256, &[record]).finish(),
        ipfix().template(257, &empty).data_set(257, &[[192, 0, 2, 1], [192, 0, 2, 2]]).finish(),
    ]);
    assert_snapshot!(text);
}

#[test]
fn only_templates_are_shown_when_asked_for() {
    let payloads = [
        ipfix().template(300, &[Field::new(8, 4)]).data_set(300, &[[192, 0, 2, 1]]).finish(),
        ipfix().data_set(300, &[[192, 0, 2, 1]]).finish(),
    ];
    assert_snapshot!(inspect_with(Inspector::new(true), &payloads));
}

/// NetFlow v5 with one record, and one that its header announces but is not there.
fn v5(count: u8, sampling: u8) -> Vec<u8> {
    let mut payload = vec![0; 72];
    payload[..4].copy_from_slice(&[0, 5, 0, count]);
    payload[8..12].copy_from_slice(&NOW_S.to_be_bytes());
    payload[22..].copy_from_slice(&[[0x40, sampling].as_slice(), &[1; 48]].concat());
    payload
}

#[test]
fn records_of_fixed_formats_are_shown_as_fields_and_sflow_as_flows() {
    let mut v1 = vec![0; 68];
    v1[..4].copy_from_slice(&[0, 1, 0, 1]);
    v1[8..12].copy_from_slice(&NOW_S.to_be_bytes());
    v1[16..].fill(1);
    let sflow = [5, 1, 0x0a00_0001, 3, 8, 1_000, 0].map(u32::to_be_bytes).concat();
    let payloads = [v5(1, 100), v5(2, 0), v1, sflow, vec![0, 3, 1], vec![]];
    assert_snapshot!(inspect(&payloads));
}

#[test]
fn messages_without_datagrams_are_told_apart() {
    let messages = [
        v9().template(256, &[Field::new(8, 4)]).data_set(256, &[[1; 4]]).finish(),
        v9().data_set(256, &[[2; 4]]).finish(),
        ipfix().template(256, &[Field::new(8, 4)]).finish(),
        v5(1, 0),
        [5, 1, 0x0a00_0001, 3, 8, 1_000, 1, 9, 8, 0, 0].map(u32::to_be_bytes).concat(),
        v9().data_set(256, &[[3; 4]]).finish(),
        vec![0xff, 0xff, 1],
    ];
    let found: Vec<_> = raw::split(&messages.concat()).map(<[u8]>::to_vec).collect();
    assert_eq!(found, messages);
}

/// Cut anywhere and with any byte changed, a datagram costs a line or some, never a panic or a flood.
#[test]
fn damaged_datagrams_are_shown_as_far_as_they_go() {
    let fields = [Field::new(8, 4), Field::new(82, 65_535), Field::new(0, 0)];
    let good = [
        ipfix().template(300, &fields[..2]).data_set(300, &[[1, 2, 3, 4, 1, 9]]).finish(),
        v9().template(300, &[fields[0], fields[2]]).data_set(300, &[[1; 4]]).finish(),
        v5(1, 0),
        [5, 1, 0x0a00_0001, 3, 8, 1_000, 1, 1, 8, 0, 0].map(u32::to_be_bytes).concat(),
    ];
    for payload in &good {
        for position in 0..payload.len() {
            let mut changed = payload.clone();
            changed[position] = 0xff;
            let text = inspect(&[payload[..position].to_vec(), changed.clone(), payload.clone()]);
            assert!(text.len() < 16_000, "{}", text.len());
            assert_eq!(raw::split(&changed).map(<[u8]>::len).sum::<usize>(), changed.len());
        }
    }
}

#[test]
fn a_set_of_any_size_makes_lines_of_bounded_length() {
    let long = ipfix().template(300, &[Field::new(82, 65_535), Field::new(313, 65_535)]).finish();
    let value = variable_length(&[b'x'; 20_000]);
    let record = [value.clone(), value].concat();
    let text = inspect(&[long, ipfix().data_set(300, &[record]).finish()]);
    let longest = text.lines().map(str::len).max();
    assert!(longest < Some(400), "{longest:?}");
    assert_eq!(text.matches("(20000 bytes)").count(), 2);
}
