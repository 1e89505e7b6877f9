//! Faults between the collector and a real ClickHouse: whatever happens on the way, each row is stored once,
//! in the table and in a rollup.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use common::proxy::{Fault, Proxy};
use common::{PATIENCE, Scrape, clickhouse, query_number, start, stored_sums, target};
use tidegate::app::App;
use tidegate::devserver::DevServer;
use tidegate::traffic::{self, Pace, Sent, Spec, Totals};

/// Of an insert, before it is cut.
const CUT_BYTES: usize = 20_000;

/// A rollup that counts what the table has.
fn with_rollup(server: &DevServer) {
    server.query("CREATE DATABASE tidegate").unwrap();
    server.query(&tidegate::schema::create_table_sql("tidegate", 30)).unwrap();
    server
        .query(
            "CREATE TABLE tidegate.rollup (exporterAddr String, bytes UInt64, flows UInt64) \
             ENGINE = SummingMergeTree ORDER BY exporterAddr \
             SETTINGS non_replicated_deduplication_window = 10000",
        )
        .unwrap();
    server
        .query(
            "CREATE MATERIALIZED VIEW tidegate.rollup_mv TO tidegate.rollup AS \
             SELECT toString(exporterAddr) AS exporterAddr, sum(bytes) AS bytes, count() AS flows \
             FROM tidegate.flows GROUP BY exporterAddr",
        )
        .unwrap();
}

fn generate(app: &App, flows: u64) -> Sent {
    let spec = Spec { flows: Some(flows), ..Spec::default() };
    let pace = Pace { flows_per_second: 20_000, duration: None };
    let totals = Totals::default();
    traffic::run(&spec, target(app), pace, &AtomicBool::new(false), &totals).unwrap();
    totals.read()
}

/// Sends flows through a fault until all are stored; the longest that `/metrics` took meanwhile.
fn survive(fault: Fault, on_row_error: &str) -> Duration {
    const FLOWS: u64 = 20_000;
    let server = clickhouse();
    with_rollup(&server);
    let proxy = Proxy::start(server.http_address());
    proxy.begin(fault);
    let more = format!(
        "on-row-error = \"{on_row_error}\"\n[clickhouse.batch]\nmax-rows = 4000\n\
         max-latency = \"200ms\"\n[clickhouse.retry]\ndelay = \"20ms\""
    );
    let app = start(&proxy.url(), &more);
    let sent = generate(&app, FLOWS);
    let mut slowest = Duration::ZERO;
    let begin = Instant::now();
    loop {
        let asked = Instant::now();
        let scraped = Scrape::of(&app);
        slowest = slowest.max(asked.elapsed());
        if proxy.hurt() >= 3 {
            proxy.end();
        }
        if scraped.sum("tidegate_batch_stored_rows_total", &[]) == FLOWS {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{fault:?}: {:?}", app.view().ledger.books());
        std::thread::sleep(Duration::from_millis(5));
    }
    let books = app.stop().books;
    assert!(proxy.hurt() >= 3, "{fault:?} did not happen");
    assert_eq!((books.received, books.stored, books.dead_lettered), (FLOWS, FLOWS, 0), "{fault:?}");
    assert_eq!(stored_sums(&server), (sent.flows, sent.bytes, sent.packets), "{fault:?}");
    let rollup =
        |sum: &str| query_number(&server, &format!("SELECT sum({sum}) FROM tidegate.rollup"));
    assert_eq!((rollup("flows"), rollup("bytes")), (FLOWS, sent.bytes), "{fault:?}: the rollup");
    slowest
}

#[test]
fn every_row_is_stored_once_whatever_happens_on_the_way() {
    let faults = [
        Fault::ResetInBody(CUT_BYTES),
        Fault::ResetInBody(60_000),
        Fault::ResetAfterBody,
        Fault::Answer("502 Bad Gateway", "bad"),
        Fault::Slow(Duration::from_millis(700)),
    ];
    for fault in faults {
        for on_row_error in ["fail", "quarantine"] {
            let slowest = survive(fault, on_row_error);
            println!("{fault:?} with {on_row_error}: /metrics answered within {slowest:?}");
            assert!(slowest < Duration::from_secs(2), "management waits for ClickHouse");
        }
    }
}
