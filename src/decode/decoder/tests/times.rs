//! When flows began and ended.

use super::*;

#[test]
fn times_of_every_form_are_read() {
    const NTP_OF_NOW: u64 = (NOW_S as u64 + 2_208_988_800) << 32 | 1 << 31;
    let millis = NOW_MS.to_be_bytes();
    let cases: [(u16, &[u8], i64); 4] = [
        (152, &millis, NOW_MS),
        (150, &NOW_S.to_be_bytes(), NOW_MS),
        (154, &NTP_OF_NOW.to_be_bytes(), NOW_MS + 500),
        (156, &NTP_OF_NOW.to_be_bytes(), NOW_MS + 500),
    ];
    for (element, value, expected) in cases {
        let mut bench = Bench::new();
        let field = Field::new(element, value.len().try_into().unwrap());
        bench.decode(&ipfix().template(300, &[field]).data_set(300, &[value]).finish());
        for column in ["firstSwitched", "deltaSwitched", "lastSwitched"] {
            assert_eq!(bench.rows[0][column], expected, "element {element}");
        }
    }
}

#[test]
fn uptimes_of_ipfix_count_from_the_start_that_the_exporter_announced() {
    let boot_ms = NOW_MS - 3_600_000;
    let mut bench = Bench::new();
    let announce = ipfix()
        .options_template(400, &[Field::new(143, 4)], &[Field::new(160, 8)])
        .data_set(400, &[&[&[0, 0, 0, 1][..], &boot_ms.to_be_bytes()].concat()])
        .template(300, &[Field::new(22, 4), Field::new(21, 4)])
        .data_set(300, &[&[0, 0, 0x75, 0x30, 0, 0, 0xea, 0x60]]);
    bench.decode(&announce.finish());
    let own = ipfix()
        .template(301, &[Field::new(22, 4), Field::new(160, 8)])
        .data_set(301, &[&[&[0, 0, 0x75, 0x30][..], &(boot_ms - 1).to_be_bytes()].concat()]);
    bench.decode(&own.finish());
    let first = bench.column(Column::FirstSwitched);
    assert_eq!(first, [boot_ms + 30_000, boot_ms + 29_999]);
    assert_eq!(bench.rows[0]["lastSwitched"], boot_ms + 60_000);
}

/// Start and end of the one flow of a record of `fields`.
fn times_of(builder: MessageBuilder, fields: &[Field], record: &[u8]) -> (i64, i64) {
    let mut bench = Bench::new();
    bench.decode(&builder.template(300, fields).data_set(300, &[record]).finish());
    let time = |column: Column| bench.column(column)[0].as_i64().unwrap();
    (time(Column::FirstSwitched), time(Column::LastSwitched))
}

#[test]
fn a_flow_that_begins_after_its_end_is_counted_and_has_no_duration() {
    let mut bench = Bench::new();
    // The start wrapped below the exporter's uptime of 60,000 ms.
    let record = [0, 0, 0xea, 0x61, 0, 0, 0xea, 0x60];
    let fields = [Field::new(22, 4), Field::new(21, 4)];
    let tally = bench.decode(&v9().template(300, &fields).data_set(300, &[&record]).finish());
    assert_eq!(tally.reversed_flows, 1);
    assert_eq!(bench.column(Column::FirstSwitched), [NOW_MS]);
    assert_eq!(bench.column(Column::LastSwitched), [NOW_MS]);
}

#[test]
fn a_duration_tells_the_time_that_is_missing() {
    let second = 1_000_u32.to_be_bytes();
    let now = NOW_MS.to_be_bytes();
    let duration = Field::new(161, 4);
    let of = |fields: &[Field], values: &[&[u8]]| times_of(ipfix(), fields, &values.concat());
    let first_only = of(&[Field::new(152, 8), duration], &[&now, &second]);
    assert_eq!(first_only, (NOW_MS, NOW_MS + 1_000));
    let last_only = of(&[duration, Field::new(153, 8)], &[&second, &now]);
    assert_eq!(last_only, (NOW_MS - 1_000, NOW_MS));
    assert_eq!(of(&[duration, Field::new(1, 1)], &[&second, &[1]]), (NOW_MS - 1_000, NOW_MS));
    let micros = of(&[Field::new(162, 4), Field::new(1, 1)], &[&second, &[1]]);
    assert_eq!(micros, (NOW_MS - 1, NOW_MS));
}

#[test]
fn one_time_stands_for_both_and_none_is_the_export_time() {
    let past = (NOW_MS - 5_000).to_be_bytes();
    assert_eq!(times_of(ipfix(), &[Field::new(152, 8)], &past), (NOW_MS - 5_000, NOW_MS - 5_000));
    assert_eq!(times_of(ipfix(), &[Field::new(1, 4)], &[1; 4]), (NOW_MS, NOW_MS));
}

#[test]
fn times_that_cannot_be_are_the_export_time() {
    let fields = [Field::new(150, 4), Field::new(151, 4)];
    let in_1970_and_2106 = [&60_u32.to_be_bytes()[..], &u32::MAX.to_be_bytes()].concat();
    assert_eq!(times_of(v9(), &fields, &in_1970_and_2106), (NOW_MS, NOW_MS));
}

#[test]
fn absolute_times_and_uptimes_of_eight_bytes_are_read_in_netflow_v9() {
    let millis = [Field::new(152, 8), Field::new(153, 8)];
    let record = [(NOW_MS - 9_000).to_be_bytes(), (NOW_MS - 1_000).to_be_bytes()].concat();
    assert_eq!(times_of(v9(), &millis, &record), (NOW_MS - 9_000, NOW_MS - 1_000));
    let uptimes = [Field::new(22, 8), Field::new(21, 8)];
    let record = [50_000_u64.to_be_bytes(), 59_000_u64.to_be_bytes()].concat();
    assert_eq!(times_of(v9(), &uptimes, &record), (NOW_MS - 10_000, NOW_MS - 1_000));
}

#[test]
fn a_duration_that_cannot_be_or_is_all_ones_moves_nothing() {
    let ms = NOW_MS.to_be_bytes();
    let fields = [Field::new(153, 8), Field::new(161, 8)];
    let record = [ms, (i64::MAX / 2).to_be_bytes()].concat();
    assert_eq!(times_of(ipfix(), &fields, &record), (NOW_MS, NOW_MS));
    let fields = [Field::new(153, 8), Field::new(161, 4)];
    let record = [&ms[..], &[0xff; 4]].concat();
    assert_eq!(times_of(ipfix(), &fields, &record), (NOW_MS, NOW_MS));
    let fields = [Field::new(152, 8), Field::new(161, 4)];
    let record = [&ms[..], &[0x7f, 0xff, 0xff, 0xff]].concat();
    assert_eq!(times_of(ipfix(), &fields, &record), (NOW_MS, NOW_MS), "24 days ahead");
}
