//! The schema on a real ClickHouse: created, extended, checked; rollups that agree with the flows.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::atomic::AtomicBool;

use common::{clickhouse, config, config_text, query_number, query_row, start, target, wait_until};
use tidegate::app::App;
use tidegate::clickhouse::Connection;
use tidegate::devserver::DevServer;
use tidegate::schema::{Difference, Repair, Repaired, differences, ensure, rollups};
use tidegate::traffic::{self, Pace, Sent, Spec, Totals};

const OWN: &str =
    "[clickhouse.rollups.next-hop]\ndimensions = [\"nextHop\", \"ipProtocolVersion\"]";

fn generate(app: &App, flows: u64) -> Sent {
    let spec = Spec { flows: Some(flows), ..Spec::default() };
    let pace = Pace { flows_per_second: 20_000, duration: None };
    let totals = Totals::default();
    traffic::run(&spec, target(app), pace, &AtomicBool::new(false), &totals).unwrap();
    totals.read()
}

/// How the rollups differ, for a configuration with these lines in `[clickhouse]`.
fn drift(server: &DevServer, more: &str) -> Vec<(String, String)> {
    let config = config(&config_text(&server.http_url(), more)).clickhouse;
    let connection = Connection::new(&config).unwrap();
    let found = differences(&connection, &config).unwrap();
    found.into_iter().map(|Difference { name, what }| (name, what)).collect()
}

fn apply(server: &DevServer, more: &str) -> Result<(), String> {
    let config = config(&config_text(&server.http_url(), more)).clickhouse;
    let connection = Connection::new(&config).unwrap();
    ensure(&connection, &config).map_err(|error| error.to_string())
}

#[test]
fn rollups_are_as_they_should_be_and_agree_with_the_flows() {
    let server = clickhouse();
    let app = start(&server.http_url(), &format!("[clickhouse.batch]\nmax-rows = 1000\n{OWN}"));
    let sent = generate(&app, 20_000);
    wait_until("all is stored", || app.view().ledger.books().stored == 20_000);
    assert_eq!(drift(&server, OWN), []);
    let names = query_row(
        &server,
        "SELECT arrayStringConcat(arraySort(groupArray(name)), ' ') FROM system.tables \
         WHERE database = 'tidegate' AND engine = 'SummingMergeTree'",
    );
    assert_eq!(
        names[0],
        "flows_by_application_1m flows_by_conversation_1m flows_by_exporter_iface_1m \
         flows_by_geo_asn_1m flows_by_next_hop_1m"
    );
    let sums = "sum(bytes), sum(packets), sum(bytesIn), sum(bytesOut), sum(packetsIn), \
                sum(packetsOut), sum(scaledBytes), sum(scaledPackets), sum(scaledBytesIn), \
                sum(scaledBytesOut), sum(scaledPacketsIn), sum(scaledPacketsOut), sum(flowCount)";
    let of_flows = query_row(
        &server,
        "WITH toUInt64(bytes * greatest(samplingInterval, 1)) AS b, \
         toUInt64(packets * greatest(samplingInterval, 1)) AS p \
         SELECT sum(bytes), sum(packets), sumIf(bytes, direction = 'INGRESS'), \
         sumIf(bytes, direction = 'EGRESS'), sumIf(packets, direction = 'INGRESS'), \
         sumIf(packets, direction = 'EGRESS'), sum(b), sum(p), sumIf(b, direction = 'INGRESS'), \
         sumIf(b, direction = 'EGRESS'), sumIf(p, direction = 'INGRESS'), \
         sumIf(p, direction = 'EGRESS'), count() FROM tidegate.flows",
    );
    assert_eq!(of_flows[0], sent.bytes.to_string());
    for name in names[0].split(' ') {
        let of_rollup = query_row(&server, &format!("SELECT {sums} FROM tidegate.{name}"));
        assert_eq!(of_rollup, of_flows, "{name}");
    }
    let minutes = "SELECT uniqExact(timestamp) = (SELECT uniqExact(toStartOfMinute(timestamp)) \
                   FROM tidegate.flows) FROM tidegate.flows_by_conversation_1m";
    assert_eq!(query_number(&server, minutes), 1);
}

#[test]
fn sums_of_sampled_flows_are_exact_without_sampling_and_cut_at_their_end() {
    let server = clickhouse();
    apply(&server, "").unwrap();
    let big = u64::MAX - 5;
    for (bytes, interval) in [(big, "0"), (1_000, "0.5"), (7, "100"), (big, "1000")] {
        let tenant = format!("{bytes}/{interval}");
        let sql = format!(
            "INSERT INTO tidegate.flows (timestamp, tenant, bytes, packets, samplingInterval) \
             VALUES ('2026-12-01 10:00:00', '{tenant}', {bytes}, 1, {interval})"
        );
        server.query(&sql).unwrap();
    }
    let scaled = |tenant: String| {
        let sql = format!(
            "SELECT bytes, scaledBytes, scaledPackets FROM tidegate.flows_by_geo_asn_1m \
             WHERE tenant = '{tenant}'"
        );
        query_row(&server, &sql)
    };
    let big = big.to_string();
    assert_eq!(scaled(format!("{big}/0")), [big.as_str(), big.as_str(), "1"]);
    assert_eq!(scaled("1000/0.5".to_owned()), ["1000", "1000", "1"]);
    assert_eq!(scaled("7/100".to_owned()), ["7", "700", "100"]);
    assert_eq!(scaled(format!("{big}/1000")), [&big, "18446744073709549568", "1000"]);
}

#[test]
fn a_rollup_that_differs_is_reported_by_what_differs_and_costs_no_flow() {
    let server = clickhouse();
    apply(&server, "").unwrap();
    for sql in [
        "DROP TABLE tidegate.flows_by_application_1m_mv",
        "DROP TABLE tidegate.flows_by_geo_asn_1m_mv",
        "DROP TABLE tidegate.flows_by_geo_asn_1m",
        "ALTER TABLE tidegate.flows_by_conversation_1m DROP COLUMN scaledBytes",
        "ALTER TABLE tidegate.flows_by_conversation_1m MODIFY COLUMN bytesIn Float64",
        "ALTER TABLE tidegate.flows_by_exporter_iface_1m \
         MODIFY SETTING non_replicated_deduplication_window = 7",
        "ALTER TABLE tidegate.flows_by_exporter_iface_1m_mv MODIFY QUERY SELECT tenant FROM tidegate.flows",
    ] {
        server.query(sql).unwrap();
    }
    let found = drift(&server, "");
    let text: Vec<_> = found.iter().map(|(name, what)| format!("{name}: {what}")).collect();
    insta::assert_snapshot!(text.join("\n"));
    let app = start(&server.http_url(), "manage-schema = false");
    generate(&app, 1_000);
    wait_until("all is stored", || app.view().ledger.books().stored == 1_000);
    assert_eq!(app.stop().books.dropped_total(), 0);
}

#[test]
fn a_newer_schema_is_left_as_it_is_when_it_only_adds() {
    let server = clickhouse();
    apply(&server, "").unwrap();
    let comment = || query_row(&server, "SELECT comment FROM system.tables WHERE name = 'flows'");
    assert!(comment()[0].starts_with("tidegate schema "), "{:?}", comment());
    for sql in [
        "ALTER TABLE tidegate.flows ADD COLUMN later UInt64",
        "ALTER TABLE tidegate.flows MODIFY COMMENT 'tidegate schema 1000'",
        "DROP TABLE tidegate.flows_by_geo_asn_1m_mv",
    ] {
        server.query(sql).unwrap();
    }
    apply(&server, "").unwrap();
    assert_eq!(comment(), ["tidegate schema 1000"]);
    assert_eq!(query_number(&server, "EXISTS tidegate.flows_by_geo_asn_1m_mv"), 0);
    server.query("ALTER TABLE tidegate.flows DROP COLUMN bytes").unwrap_err();
    server.query("ALTER TABLE tidegate.flows DROP COLUMN tcpFlags").unwrap();
    assert!(apply(&server, "").unwrap_err().contains("tcpFlags is missing"));
}

#[test]
fn many_collectors_that_start_at_once_make_one_schema() {
    let server = clickhouse();
    std::thread::scope(|scope| {
        let starts: Vec<_> = (0..8).map(|_| scope.spawn(|| apply(&server, OWN))).collect();
        for start in starts {
            assert_eq!(start.join().unwrap(), Ok(()));
        }
    });
    assert_eq!(drift(&server, OWN), []);
}

#[test]
fn chosen_rollups_only_are_made() {
    let server = clickhouse();
    let more = "[clickhouse.schema]\nrollups = [\"geo-asn\"]";
    apply(&server, more).unwrap();
    assert_eq!(drift(&server, more), []);
    let views = "SELECT count() FROM system.tables WHERE engine = 'MaterializedView'";
    assert_eq!(query_number(&server, views), 1);
    let config = config(&config_text("http://127.0.0.1:1", OWN)).clickhouse;
    assert_eq!(rollups(&config).len(), 5);
}

/// Makes a rollup anew by its name.
fn repair(server: &DevServer, name: &str) -> Repaired {
    let config = config(&config_text(&server.http_url(), "")).clickhouse;
    let connection = Connection::new(&config).unwrap();
    let all = rollups(&config);
    let rollup = all.iter().find(|rollup| rollup.table.contains(name)).unwrap();
    Repair::new(&connection, &config, rollup, false).run().unwrap()
}

#[test]
fn a_repair_while_flows_come_in_leaves_no_gap_and_counts_nothing_twice() {
    let server = clickhouse();
    let more = "[clickhouse.batch]\nmax-rows = 1000\nmax-latency = \"50ms\"\n\
                [clickhouse.retry]\ndelay = \"50ms\"";
    let app = start(&server.http_url(), more);
    wait_until("the schema is there", || {
        query_row(&server, "EXISTS tidegate.flows_by_geo_asn_1m_mv") == ["1"]
    });
    // One view is gone for a while, one table has lost a column, one is gone with its view.
    for sql in [
        "DROP TABLE tidegate.flows_by_application_1m_mv",
        "DROP TABLE tidegate.flows_by_conversation_1m_mv",
        "ALTER TABLE tidegate.flows_by_conversation_1m DROP COLUMN scaledPackets",
        "DROP TABLE tidegate.flows_by_geo_asn_1m_mv",
        "DROP TABLE tidegate.flows_by_geo_asn_1m",
    ] {
        server.query(sql).unwrap();
    }
    let old = "INSERT INTO tidegate.flows_by_application_1m \
               (tenant, timestamp, application, bytes, flowCount) \
               VALUES ('default', now() - INTERVAL 100 DAY, 'old', 77, 1)";
    server.query(old).unwrap();
    let sent = std::thread::scope(|scope| {
        let sending = scope.spawn(|| generate(&app, 60_000));
        wait_until("flows come in", || app.view().ledger.books().stored > 5_000);
        for (name, kept_rows) in [("application", 1), ("conversation", 0), ("geo_asn", 0)] {
            let repaired = repair(&server, name);
            assert_eq!((repaired.days, repaired.kept_rows), (1, kept_rows), "{name}");
        }
        sending.join().unwrap()
    });
    wait_until("all is stored", || app.view().ledger.books().stored == 60_000);
    let books = app.stop().books;
    assert_eq!((books.dead_lettered, books.dropped_total()), (0, 0));
    assert_eq!(drift(&server, ""), []);
    for table in ["application", "conversation", "exporter_iface", "geo_asn"] {
        let sums = query_row(
            &server,
            &format!(
                "SELECT sum(flowCount), sum(bytes), sum(packets), sum(scaledPackets) >= sum(packets) \
                 FROM tidegate.flows_by_{table}_1m WHERE timestamp > now() - INTERVAL 50 DAY"
            ),
        );
        let wanted = [sent.flows, sent.bytes, sent.packets, 1].map(|number| number.to_string());
        assert_eq!(sums, wanted, "{table}");
    }
    let kept = "SELECT sum(bytes) FROM tidegate.flows_by_application_1m WHERE application = 'old'";
    assert_eq!(query_number(&server, kept), 77);
    let left = "SELECT count() FROM system.tables WHERE name LIKE '%repair%'";
    assert_eq!(query_number(&server, left), 0);
    let setting = "SELECT position(engine_full, 'parts_to_throw_insert') FROM system.tables \
                   WHERE name = 'flows'";
    assert_eq!(query_number(&server, setting), 0, "inserts are not held");
}

#[test]
fn fifty_batches_each_sent_twice_and_a_repair_agree_to_the_byte() {
    use tidegate::clickhouse::{Insert, InsertSettings, Method, Views, encode_batch};

    let server = clickhouse();
    apply(&server, "").unwrap();
    let config = config(&config_text(&server.http_url(), "")).clickhouse;
    let connection = Connection::new(&config).unwrap();
    let settings = InsertSettings::probe(&connection).unwrap();
    let sends = |round: u32| {
        for number in 0..50 {
            let chunks = common::generated_chunks(500 + number, &[]);
            let body = encode_batch(&chunks, Method::Lz4);
            for _ in 0..2 {
                let insert = Insert {
                    sql: "INSERT INTO tidegate.flows FORMAT Native",
                    settings: &settings,
                    token: &format!("{round}-{number}"),
                    body: &body,
                    views: Views::Required,
                };
                connection.insert(&insert, common::PATIENCE).unwrap();
            }
        }
    };
    sends(1);
    // As a repair leaves it that was killed in the wrong moment.
    server
        .query(
            "ALTER TABLE tidegate.flows MODIFY SETTING parts_to_throw_insert = 1, \
             max_avg_part_size_for_too_many_parts = 9223372036854775807",
        )
        .unwrap();
    repair(&server, "conversation");
    sends(2);
    let rows = 2 * (0..50).map(|number| 500 + number).sum::<u64>();
    let of_flows =
        query_row(&server, "SELECT count(), sum(bytes), sum(packets) FROM tidegate.flows");
    assert_eq!(of_flows[0], rows.to_string());
    for table in ["application", "conversation", "exporter_iface", "geo_asn"] {
        let sums = "sum(flowCount), sum(bytes), sum(packets)";
        let sql = format!("SELECT {sums} FROM tidegate.flows_by_{table}_1m");
        assert_eq!(query_row(&server, &sql), of_flows, "{table}");
    }
}

#[test]
fn the_statements_for_a_cluster_are_those_of_clickhouse() {
    let more = "[clickhouse.schema]\ncluster = \"main\"\nrollups = [\"geo-asn\"]";
    let config = config(&config_text("http://127.0.0.1:1", more)).clickhouse;
    let statements = tidegate::schema::statements(&config);
    let server = clickhouse();
    for statement in &statements {
        let quoted = statement.replace('\\', "\\\\").replace('\'', "\\'");
        server.query(&format!("SELECT formatQuery('{quoted}')")).unwrap();
    }
    let is_column = |line: &&str| line.starts_with("    ") && !line.contains("sum(");
    let text = statements.join(";\n\n");
    let lines: Vec<_> = text.lines().filter(|line| !is_column(line)).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn the_first_schema_is_upgraded_with_its_rows() {
    let server = clickhouse();
    server.query("CREATE DATABASE tidegate").unwrap();
    let first = include_str!("fixtures/first-schema.sql");
    let first = first.split_once('\n').unwrap().1;
    first.split(";\n").filter(|sql| !sql.trim().is_empty()).for_each(|sql| {
        server.query(sql).unwrap();
    });
    let old = "INSERT INTO tidegate.flows (timestamp, tenant, bytes, packets) \
               SELECT now() - number % 7200, 'default', number, 1 FROM numbers(5000)";
    server.query(old).unwrap();
    server
        .query("INSERT INTO tidegate.flows_dead_letter (tenant, failedAt, batchId) SELECT 'default', now(), 'old'")
        .unwrap();
    let app = start(&server.http_url(), "");
    let sent = generate(&app, 2_000);
    wait_until("all is stored", || app.view().ledger.books().stored == 2_000);
    app.stop();
    assert_eq!(drift(&server, ""), []);
    let sums = "SELECT count(), sum(bytes) FROM tidegate.flows";
    let wanted = [7_000, 5_000 * 4_999 / 2 + sent.bytes].map(|it| it.to_string());
    assert_eq!(query_row(&server, sums), wanted);
    // A rollup begins with the upgrade, and has what was before after a repair.
    let rollup = "SELECT sum(flowCount), sum(bytes) FROM tidegate.flows_by_geo_asn_1m";
    assert_eq!(query_row(&server, rollup)[0], "2000");
    repair(&server, "geo_asn");
    assert_eq!(query_row(&server, rollup), wanted);
    let letter = "SELECT batchId, mayBeStored, replayToken FROM tidegate.flows_dead_letter";
    assert_eq!(query_row(&server, letter), ["old", "0", ""]);
    // Once more changes nothing.
    apply(&server, "").unwrap();
    assert_eq!(query_row(&server, rollup), wanted);
}

#[test]
fn a_start_that_ended_anywhere_in_the_middle_is_mended_by_the_next() {
    let server = clickhouse();
    let statements_of = |more: &str| {
        let config = config(&config_text(&server.http_url(), more)).clickhouse;
        tidegate::schema::statements(&config)
    };
    let count = statements_of("").len();
    for done in 0..count {
        let more = format!("database = \"middle_{done}\"");
        for statement in statements_of(&more).iter().take(done) {
            server.query(statement).unwrap();
        }
        apply(&server, &more).unwrap();
        assert_eq!(drift(&server, &more), [], "{done} of {count}");
    }
}

#[test]
fn a_changed_ttl_reaches_the_tables_that_are_there() {
    let server = clickhouse();
    apply(&server, "").unwrap();
    apply(&server, "[clickhouse.schema]\nttl-days = 7\nrollup-ttl-days = 700").unwrap();
    let ttl = |table: &str| {
        let sql = format!(
            "SELECT extract(engine_full, 'toIntervalDay\\\\((\\\\d+)\\\\)') FROM system.tables \
             WHERE database = 'tidegate' AND name = '{table}'"
        );
        query_row(&server, &sql).remove(0)
    };
    assert_eq!((ttl("flows"), ttl("flows_by_geo_asn_1m")), ("7".to_owned(), "700".to_owned()));
}
