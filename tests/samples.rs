//! The view `samples(ival)` on a real ClickHouse: proportional in time, exact in sum.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{clickhouse, config, config_text, query_number, query_row};
use tidegate::clickhouse::Connection;
use tidegate::devserver::DevServer;
use tidegate::schema::ensure;

fn server() -> DevServer {
    let server = clickhouse();
    let config = config(&config_text(&server.http_url(), "")).clickhouse;
    ensure(&Connection::new(&config).unwrap(), &config).unwrap();
    server
}

/// Stores a flow between two moments after 2026-12-01 10:00:00, in milliseconds.
fn insert(server: &DevServer, tenant: &str, begun: i64, ended: i64, bytes: u64) {
    let base = 1_796_119_200_000_i64;
    let sql = format!(
        "INSERT INTO tidegate.flows (timestamp, tenant, deltaSwitched, lastSwitched, bytes, packets, samplingInterval) \
         VALUES (fromUnixTimestamp64Milli({base}), '{tenant}', fromUnixTimestamp64Milli({}), \
         fromUnixTimestamp64Milli({}), {bytes}, 3, 10)",
        base + begun,
        base + ended
    );
    server.query(&sql).unwrap();
}

/// Half of the flows are within a bucket or two, half long; a part ends before it begins. 100,000 of any size.
const ANY_FLOWS: &str = "\
INSERT INTO tidegate.flows (timestamp, exporterAddr, deltaSwitched, lastSwitched, bytes, packets, reverseBytes, \
    reversePackets, samplingInterval) \
WITH toDateTime64('2026-12-01 12:00:00', 3, 'UTC') + number % 1000 AS exported, \
    exported - toIntervalMillisecond(rand(1) % 400000) AS begun, if(number % 2, 5000, 400000) AS longest \
SELECT exported, toString(number), begun, begun + toIntervalMillisecond(rand(2) % longest) - toIntervalSecond(number % 50 = 0), \
    bitShiftRight(rand64(3), rand(4) % 64), rand(5) % 1000, rand64(6), bitShiftRight(rand64(8), rand(9) % 64), rand(7) % 3 \
FROM numbers(100000)";

/// Buckets of a tenant as seconds:bytes, seconds after 10:00:00.
fn buckets(server: &DevServer, tenant: &str, ival: u32) -> String {
    let sql = format!(
        "SELECT arrayStringConcat(groupArray(concat(toString(toUnixTimestamp(timestamp) - 1796119200), ':', \
         toString(bytes))), ' ') FROM (SELECT timestamp, bytes FROM tidegate.samples(ival = {ival}) \
         WHERE tenant = '{tenant}' ORDER BY timestamp)"
    );
    query_row(server, &sql).remove(0)
}

#[test]
fn a_flow_is_spread_over_its_buckets_in_proportion() {
    let server = server();
    for (tenant, begun, ended, bytes, ival, expected) in [
        ("crossing", 30_000, 150_000, 120, 60, "0:30 60:60 120:30"),
        ("at edges", 60_000, 120_000, 7, 60, "60:7"),
        ("zero length", 61_000, 61_000, 9, 60, "60:9"),
        ("reversed", 90_000, 61_000, 9, 60, "60:9"),
        ("one byte", 0, 4_000, 1, 1, "0:0 1:0 2:0 3:1"),
        ("a moment over a day", -86_395_001, 5_000, 9, 60, "0:9"),
        ("ten years", -315_360_000_000, 5_000, 9, 60, "0:9"),
        ("five minutes at edges", -300_000, 300_000, 5, 300, "-300:2 0:3"),
        ("a moment over an edge", 59_999, 60_001, 2, 60, "0:1 60:1"),
        ("up to an edge", 59_999, 60_000, 2, 60, "0:2"),
        ("begun in 1970", -1_796_119_200_000, 61_000, 9, 60, "60:9"),
        ("half of all bits", 0, 2_000, 1 << 63, 1, "0:4611686018427387904 1:4611686018427387904"),
        ("unequal", 500, 2_000, 3, 1, "0:1 1:2"),
        (
            "an hour",
            -1_800_000,
            1_800_000,
            u64::MAX,
            3_600,
            "-3600:9223372036854775807 0:9223372036854775808",
        ),
    ] {
        insert(&server, tenant, begun, ended, bytes);
        assert_eq!(buckets(&server, tenant, ival), expected, "{tenant}");
    }
    // Without times it is where it was exported.
    server
        .query(
            "INSERT INTO tidegate.flows (timestamp, tenant, bytes) \
             VALUES (fromUnixTimestamp64Milli(1796119261000), 'unknown', 5)",
        )
        .unwrap();
    assert_eq!(buckets(&server, "unknown", 60), "60:5");
}

#[test]
fn the_buckets_of_any_flows_add_up_to_their_counters() {
    let server = server();
    server.query(ANY_FLOWS).unwrap();
    let sums = "count(DISTINCT exporterAddr), sum(toUInt128(bytes)), sum(toUInt128(packets)), sum(toUInt128(reverseBytes)), sum(toUInt128(reversePackets))";
    let of_flows = query_row(&server, &format!("SELECT {sums}, count() FROM tidegate.flows"));
    for ival in [1, 7, 60, 3_600] {
        let view = format!("tidegate.samples(ival = {ival})");
        let of_view = query_row(&server, &format!("SELECT {sums}, sum(flowCount) FROM {view}"));
        assert_eq!(of_view, of_flows, "{ival}");
        // A share that is negative would be a very large one.
        let unequal = format!(
            "SELECT count() FROM (SELECT exporterAddr, sum(bytes) AS b, sum(packets) AS p, sum(reverseBytes) AS rb, \
             sum(reversePackets) AS rp, max(bytes) AS most, sum(flowCount) AS n, argMin(flowCount, timestamp) AS first, \
             count() != uniqExact(timestamp) AS twice \
             FROM {view} GROUP BY exporterAddr) AS s INNER JOIN tidegate.flows AS f USING exporterAddr \
             WHERE (b, p, rb, rp) != (f.bytes, f.packets, f.reverseBytes, f.reversePackets) OR most > f.bytes \
             OR (n, first) != (1, 1) OR twice"
        );
        assert_eq!(query_number(&server, &unequal), 0, "{ival}");
        let outside = format!(
            "SELECT count() FROM {view} WHERE lastSwitched > deltaSwitched AND \
             (toUnixTimestamp(timestamp) * 1000 >= toUnixTimestamp64Milli(lastSwitched) \
             OR (toUnixTimestamp(timestamp) + {ival}) * 1000 <= toUnixTimestamp64Milli(deltaSwitched))"
        );
        assert_eq!(query_number(&server, &outside), 0, "{ival}");
    }
}

#[test]
fn the_longest_flow_in_the_shortest_buckets_has_one_for_each_second() {
    let server = server();
    insert(&server, "a day", -86_400_000, 0, u64::MAX);
    insert(&server, "a day of little", -86_400_000, 0, 1);
    let sums = |tenant: &str| {
        let sql = format!(
            "SELECT count(), uniqExact(timestamp), dateDiff('second', min(timestamp), max(timestamp)), \
             max(bytes) - min(bytes), sum(bytes), sum(flowCount) FROM tidegate.samples(ival = 1) WHERE tenant = '{tenant}'"
        );
        query_row(&server, &sql).join(" ")
    };
    assert_eq!(sums("a day"), format!("86400 86400 86399 1 {} 1", u64::MAX));
    assert_eq!(sums("a day of little"), "86400 86400 86399 1 1 1");
    // One byte over 100 buckets is where it is complete: in the last.
    insert(&server, "a hundred", 0, 6_000_000, 1);
    let expected: Vec<_> = (0..100).map(|at| format!("{}:{}", at * 60, at / 99)).collect();
    assert_eq!(buckets(&server, "a hundred", 60), expected.join(" "));
}

#[test]
fn long_flows_in_short_buckets_need_little_memory() {
    let server = server();
    server
        .query(
            "INSERT INTO tidegate.flows (timestamp, deltaSwitched, lastSwitched, bytes) \
             SELECT '2026-12-01 12:00:00', '2026-12-01 11:00:00', '2026-12-01 12:00:00', 1000 FROM numbers(65000)",
        )
        .unwrap();
    let sql = "SELECT count(), sum(bytes) FROM tidegate.samples(ival = 10) SETTINGS max_memory_usage = 400000000";
    assert_eq!(query_row(&server, sql), [(65_000 * 360).to_string(), 65_000_000.to_string()]);
}

#[test]
fn a_bound_on_the_time_of_the_export_prunes_partitions() {
    let server = server();
    for day in 1..=9 {
        let sql = format!(
            "INSERT INTO tidegate.flows (timestamp, bytes) VALUES ('2026-12-0{day} 10:00:00', 1)"
        );
        server.query(&sql).unwrap();
    }
    let explain = server
        .query(
            "EXPLAIN indexes = 1 SELECT sum(bytes) FROM tidegate.samples(ival = 60) \
             WHERE flow.timestamp >= '2026-12-03 00:00:00' AND flow.timestamp < '2026-12-05 00:00:00'",
        )
        .unwrap();
    assert!(explain.contains("Parts: 2/9"), "{explain}");
}
