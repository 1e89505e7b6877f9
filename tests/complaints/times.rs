//! Times: wrapped, reversed, in the wrong unit, of the wrong century.

use tidegate::traffic::{Field, IpfixHeader, MessageBuilder, V9Header};

use super::{Collector, NOW_MS, NOW_S, UPTIME_MS, ipfix, v9};

/// Start and end of the only flow, as distances to now.
fn times(collector: &Collector) -> (i64, i64) {
    let time = |column| collector.rows[0][column].as_i64().unwrap() - NOW_MS;
    (time("firstSwitched"), time("lastSwitched"))
}

fn uptimes(first: u32, last: u32) -> Vec<u8> {
    [first.to_be_bytes(), last.to_be_bytes()].concat()
}

const UPTIMES: [Field; 2] = [Field::new(22, 4), Field::new(21, 4)];

/// goflow2#431, softflowd#52: the uptime wraps after 49.7 days, and flows were in the future.
#[test]
fn an_uptime_that_wrapped_is_in_the_past() {
    let mut collector = Collector::new();
    let header = V9Header { uptime_ms: 500, export_time_s: NOW_S, sequence: 0, source_id: 1 };
    let record = uptimes(u32::MAX - 9_499, 100);
    let message = MessageBuilder::v9(header).template(300, &UPTIMES).data_set(300, &[record]);
    collector.receive(&message.finish());
    assert_eq!(times(&collector), (-10_000, -400));
}

/// goflow2#305, #313, #325: milliseconds of the uptime were added as seconds.
#[test]
fn uptimes_are_milliseconds() {
    let mut collector = Collector::new();
    let record = uptimes(UPTIME_MS - 60_000, UPTIME_MS - 1);
    collector.receive(&v9().template(300, &UPTIMES).data_set(300, &[record]).finish());
    assert_eq!(times(&collector), (-60_000, -1));
}

/// goflow2#406: MikroTik's IPFIX has uptimes, and the start of the router in the record.
#[test]
fn uptimes_of_ipfix_count_from_the_start_in_the_record() {
    let mut collector = Collector::new();
    let fields = [Field::new(160, 8), UPTIMES[0], UPTIMES[1]];
    let boot = (NOW_MS - 100_000).to_be_bytes();
    let record = [&boot[..], &uptimes(40_000, 90_000)].concat();
    collector.receive(&ipfix().template(300, &fields).data_set(300, &[record]).finish());
    assert_eq!(times(&collector), (-60_000, -10_000));
}

/// pmacct#640: MX flows began after the uptime of the header, and the difference became huge.
#[test]
fn a_flow_that_begins_after_its_end_has_no_duration() {
    let mut collector = Collector::new();
    let record = uptimes(UPTIME_MS + 3_000, UPTIME_MS - 1_000);
    collector.receive(&v9().template(300, &UPTIMES).data_set(300, &[record]).finish());
    assert_eq!((times(&collector), collector.tally.reversed_flows), ((-1_000, -1_000), 1));
}

/// nfdump#80: FIRST_SWITCHED and LAST_SWITCHED of Nexus 7700 have 8 bytes.
#[test]
fn uptimes_have_eight_bytes() {
    let mut collector = Collector::new();
    let fields = [Field::new(22, 8), Field::new(21, 8)];
    let record =
        [u64::from(UPTIME_MS) - 5_000, u64::from(UPTIME_MS)].map(u64::to_be_bytes).concat();
    collector.receive(&v9().template(300, &fields).data_set(300, &[record]).finish());
    assert_eq!(times(&collector), (-5_000, 0));
}

/// antrea#1417: flows dated 2106, since a time that was not known is all ones.
#[test]
fn a_time_of_all_ones_is_not_known() {
    let mut collector = Collector::new();
    let fields = [Field::new(150, 4), Field::new(151, 4)];
    let record = uptimes(u32::MAX, u32::MAX);
    collector.receive(&ipfix().template(300, &fields).data_set(300, &[record]).finish());
    assert_eq!(times(&collector), (0, 0));
}

/// goflow2#33: Open vSwitch sends microseconds before the export.
#[test]
fn delta_microseconds_lie_before_the_export() {
    let mut collector = Collector::new();
    let fields = [Field::new(158, 4), Field::new(159, 4)];
    let record = uptimes(7_000_000, 2_000);
    collector.receive(&ipfix().template(300, &fields).data_set(300, &[record]).finish());
    assert_eq!(times(&collector), (-7_000, -2));
}

/// akvorado: micro- and nanoseconds are NTP timestamps from 1900, not integers (RFC 7011 section 6.1.9).
#[test]
fn microseconds_are_ntp_timestamps() {
    let mut collector = Collector::new();
    let fields = [Field::new(154, 8), Field::new(157, 8)];
    let ntp = |seconds_ago: u64, fraction: u64| {
        ((u64::from(NOW_S) - seconds_ago + 2_208_988_800) << 32 | fraction).to_be_bytes()
    };
    let record = [ntp(9, 0x4000_0000), ntp(1, 0x8000_0000)].concat();
    collector.receive(&ipfix().template(300, &fields).data_set(300, &[record]).finish());
    assert_eq!(times(&collector), (-8_750, -500));
}

/// otel-contrib#43599: wild export times spread one insert over more than a hundred partitions, and
/// ClickHouse refused it.
#[test]
fn exporters_with_wild_clocks_write_to_one_partition() {
    let mut collector = Collector::new();
    for days in 1..=150 {
        let export_time_s = NOW_S - days * 86_400;
        let header = IpfixHeader { export_time_s, sequence: 0, domain_id: 1 };
        let message = MessageBuilder::ipfix(header).template(300, &[Field::new(1, 4)]);
        let exporter = [192, 0, 2, u8::try_from(days).unwrap()];
        collector.receive_from(exporter, &message.data_set(300, &[[0, 0, 0, 1]]).finish());
    }
    let days: Vec<_> = collector.numbers("timestamp");
    #[expect(clippy::cast_precision_loss, reason = "milliseconds are far below 2^53")]
    let now_ms = NOW_MS as f64;
    assert_eq!(days, vec![now_ms; 150]);
    assert_eq!(collector.numbers("clockCorrection")[0], 86_400_000.0, "and the row says so");
}
