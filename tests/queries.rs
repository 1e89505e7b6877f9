//! The queries of docs/queries.md on a real ClickHouse with flows in it: each has an answer, and where it is easily wrong
//! the right one.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::atomic::AtomicBool;

use common::{clickhouse, config, config_text, query_number, query_row, start, target, wait_until};
use tidegate::app::App;
use tidegate::clickhouse::Connection;
use tidegate::devserver::DevServer;
use tidegate::schema::ensure;
use tidegate::traffic::{self, Pace, Spec, Totals};

fn generate(app: &App, flows: u64) {
    let spec = Spec { flows: Some(flows), ..Spec::default() };
    let pace = Pace { flows_per_second: 20_000, duration: None };
    traffic::run(&spec, target(app), pace, &AtomicBool::new(false), &Totals::default()).unwrap();
}

/// Title and statement of each.
fn queries() -> Vec<(String, String)> {
    let document = include_str!("../docs/queries.md");
    let sections = document.split("\n## ").skip(1);
    let query = |section: &str| {
        let title = section.lines().next().unwrap().to_owned();
        let sql = section.split_once("```sql\n").unwrap().1.split_once("```").unwrap().0;
        (title, sql.to_owned())
    };
    sections.map(query).collect()
}

fn query(title: &str) -> String {
    queries().into_iter().find(|it| it.0 == title).unwrap().1
}

/// A server with the schema and without flows.
fn empty_server() -> DevServer {
    let server = clickhouse();
    let config = config(&config_text(&server.http_url(), "")).clickhouse;
    ensure(&Connection::new(&config).unwrap(), &config).unwrap();
    server
}

/// Flows that the generator does not make: let through, dropped for two reasons, consumed, denied by a firewall, and ended.
const REFUSED: &str = "\
INSERT INTO tidegate.flows (timestamp, exporterAddr, forwardingStatus, firewallEvent, packets) \
SELECT now(), 'refusing', flow.1, flow.2, 1 \
FROM (SELECT arrayJoin([(64, 0), (128, 0), (130, 0), (192, 0), (0, 3), (0, 2)]) AS flow)";

#[test]
fn every_query_of_the_document_has_rows() {
    let server = clickhouse();
    let app = start(&server.http_url(), "");
    generate(&app, 20_000);
    wait_until("all is stored", || app.view().ledger.books().stored == 20_000);
    server.query(REFUSED).unwrap();
    let queries = queries();
    assert_eq!(queries.len(), 11);
    let hosts = query_row(
        &server,
        "SELECT srcAddr, dstAddr FROM tidegate.flows WHERE srcAddr != dstAddr LIMIT 1",
    );
    for (title, sql) in queries {
        let sql = sql.replace("10.0.0.1", &hosts[0]).replace("10.0.0.2", &hosts[1]);
        let rows = server.query(&sql).unwrap_or_else(|error| panic!("{title}: {error:?}"));
        assert!(rows.lines().count() >= 1, "{title}: no rows");
        assert!(
            rows.split(['\t', '\n']).any(|it| it.parse::<f64>().is_ok_and(|it| it > 0.0)),
            "{title}: {rows}"
        );
    }
}

#[test]
fn what_was_let_through_is_not_among_what_was_not() {
    let server = empty_server();
    server.query(REFUSED).unwrap();
    let rows = server.query(&query("What was not let through")).unwrap();
    let mut found: Vec<_> = rows
        .lines()
        .map(|row| row.split('\t').skip(1).take(2).collect::<Vec<_>>().join(" "))
        .collect();
    found.sort();
    assert_eq!(found, ["0 3", "128 0", "130 0"]);
}

/// Two interfaces with the same ifIndex at two exporters: one has traffic in as many intervals as are left out, and one
/// in one more.
#[test]
fn intervals_without_traffic_count_for_the_95th_percentile() {
    let server = empty_server();
    let now = "toDateTime('2026-11-20 12:34:56')";
    let intervals = query_number(
        &server,
        &format!(
            "SELECT intDiv(dateDiff('second', toDateTime(toStartOfMonth({now})), {now}), 300) + 1"
        ),
    );
    for (exporter, busy) in [("left out", intervals / 20), ("billed", intervals / 20 + 1)] {
        let sql = format!(
            "INSERT INTO tidegate.flows (timestamp, exporterAddr, inputSnmp, deltaSwitched, lastSwitched, bytes) \
             WITH toStartOfFiveMinutes({now}) - number * 300 AS begun \
             SELECT begun + 299, '{exporter}', 3, begun, begun + 299, 3000 + 300 * number FROM numbers({busy})"
        );
        server.query(&sql).unwrap();
    }
    let sql = query("The 95th percentile of an interface").replace("now()", now);
    assert_eq!(server.query(&sql).unwrap(), "billed\t3\t80\nleft out\t3\t0\n");
}
