//! Outages of ClickHouse with a spool: no row is lost, over restarts and kills of the collector.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use common::{
    Collector, Scrape, clickhouse_with, config_text, free_port, query_number, start, stored_sums,
    target, wait_until,
};
use tidegate::devserver::{DevServer, DevServerOptions};
use tidegate::sink::RowDropReason;
use tidegate::traffic::{self, Pace, Sent, Spec, Totals};

const FLOWS: u64 = 30_000;

fn generate(address: SocketAddr) -> Sent {
    let spec = Spec { flows: Some(FLOWS), ..Spec::default() };
    let pace = Pace { flows_per_second: 30_000, duration: None };
    let totals = Totals::default();
    traffic::run(&spec, address, pace, &AtomicBool::new(false), &totals).unwrap();
    totals.read()
}

/// A queue that holds a third of the flows: the others must be on disk. `fsync` is for power cuts.
fn settings(spool: &std::path::Path) -> String {
    format!(
        "[clickhouse.schema]\nrollups = []\n\
         [clickhouse.batch]\nmax-rows = 1000\nmax-latency = \"100ms\"\nqueue-capacity = 10000\n\
         [clickhouse.retry]\ndelay = \"100ms\"\n\
         [spool]\ndirectory = \"{}\"\nfsync = false\n",
        spool.display()
    )
}

fn server_at(http_port: u16) -> DevServer {
    clickhouse_with(&DevServerOptions { http_port, ..DevServerOptions::default() })
}

fn sum(scraped: &Scrape, metric: &str) -> u64 {
    scraped.sum(metric, &[])
}

#[test]
fn an_outage_ends_with_every_row_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let http_port = free_port();
    let app = start(&format!("http://127.0.0.1:{http_port}"), &settings(folder.path()));
    let sent = generate(target(&app));
    wait_until("all rows are on disk", || app.view().ledger.books().spooled == FLOWS);
    let server = server_at(http_port);
    wait_until("all rows are stored", || app.view().ledger.books().stored == FLOWS);
    let books = app.stop().books;
    assert_eq!((books.received, books.spooled, books.dropped_total()), (FLOWS, 0, 0));
    assert_eq!(stored_sums(&server), (sent.flows, sent.bytes, sent.packets));
    assert!(std::fs::read_dir(folder.path()).unwrap().count() <= 1, "only the lock is left");
}

#[test]
fn a_stop_in_an_outage_loses_nothing_and_the_next_start_delivers_it() {
    let folder = tempfile::tempdir().unwrap();
    let http_port = free_port();
    let text = config_text(&format!("http://127.0.0.1:{http_port}"), &settings(folder.path()));
    let mut first = Collector::start(&text);
    let sent = generate(first.target);
    wait_until("all is received", || {
        sum(&Scrape::at(first.management), "tidegate_batch_received_rows_total") == FLOWS
    });
    first.signal("TERM");
    let (code, log) = first.wait();
    assert_eq!(code, Some(0), "all was spooled: {log}");
    assert!(
        log.contains("received=30000 stored=0 dead_lettered=0 spooled=30000 dropped=0"),
        "{log}"
    );

    let server = server_at(http_port);
    let second = Collector::start(&text);
    wait_until("it delivers what it found", || {
        sum(&Scrape::at(second.management), "tidegate_batch_stored_rows_total") == FLOWS
    });
    assert_eq!(stored_sums(&server), (sent.flows, sent.bytes, sent.packets));
}

#[test]
fn a_kill_in_an_outage_loses_only_what_was_no_batch_yet() {
    let folder = tempfile::tempdir().unwrap();
    let http_port = free_port();
    let text = config_text(&format!("http://127.0.0.1:{http_port}"), &settings(folder.path()));
    let mut first = Collector::start(&text);
    generate(first.target);
    wait_until("most is on disk", || {
        sum(&Scrape::at(first.management), "tidegate_spool_rows") > FLOWS / 2
    });
    first.signal("KILL");
    first.wait();

    let server = server_at(http_port);
    let second = Collector::start(&text);
    let scraped = || Scrape::at(second.management);
    wait_until("the spool is empty", || sum(&scraped(), "tidegate_spool_rows") == 0);
    // The last batch may be out of the spool and not yet in the books.
    let stored = || sum(&scraped(), "tidegate_batch_stored_rows_total");
    wait_until("each is stored once", || stored_sums(&server).0 == stored());
    assert!(stored() > FLOWS / 2, "{}", second.log());
}

#[test]
fn live_rows_do_not_wait_for_spooled_ones() {
    let folder = tempfile::tempdir().unwrap();
    let http_port = free_port();
    let more = settings(folder.path())
        .replace("fsync = false", "fsync = false\ndrain-rate = 1000")
        .replace("queue-capacity = 10000", "queue-capacity = 100000");
    let app = start(&format!("http://127.0.0.1:{http_port}"), &more);
    generate(target(&app));
    wait_until("all rows are on disk", || app.view().ledger.books().spooled == FLOWS);
    let server = server_at(http_port);
    // At a thousand rows a second the spool has work for half a minute; live rows do not wait for it.
    wait_until("the first are stored", || app.view().ledger.books().stored > 0);
    generate(target(&app));
    wait_until("live rows are stored", || app.view().ledger.books().stored >= FLOWS);
    let books = app.view().ledger.books();
    assert!(books.spooled > 10_000, "{books:?}");
    let stopped = app.stop();
    assert!(stopped.is_drained, "what is spooled is kept");
    assert_eq!(stored_sums(&server).0, stopped.books.stored);
    assert_eq!(stopped.books.received, stopped.books.stored + stopped.books.spooled);
}

#[test]
fn a_full_spool_drops_rows_and_counts_them() {
    let folder = tempfile::tempdir().unwrap();
    let http_port = free_port();
    // Rows are about 170 bytes without compression, so 16 MiB take a part of 180,000.
    const ALL: u64 = 6 * FLOWS;
    let more =
        format!("compress-requests = false\n{}max-size = \"16MiB\"\n", settings(folder.path()));
    let app = start(&format!("http://127.0.0.1:{http_port}"), &more);
    for _ in 0..6 {
        generate(target(&app));
    }
    wait_until("all rows are on disk or lost", || {
        let books = app.view().ledger.books();
        books.received == ALL && books.pending() == 0
    });
    let lost = app.view().ledger.books().dropped[RowDropReason::SpoolFull as usize];
    assert!(lost > 0 && lost < ALL / 2 + FLOWS, "{lost}");
    let server = server_at(http_port);
    wait_until("the others are stored", || app.view().ledger.books().spooled == 0);
    let books = app.stop().books;
    assert_eq!((books.stored, books.dropped_total()), (ALL - lost, lost));
    assert_eq!(stored_sums(&server).0, ALL - lost);
}

#[test]
fn rows_that_are_refused_after_an_outage_become_dead_letters() {
    let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = Some(data.path().join("clickhouse"));
    let options = DevServerOptions { path, ..DevServerOptions::default() };
    let server = clickhouse_with(&options);
    start(&server.http_url(), "").stop();
    wait_until("the table is there", || {
        start(&server.http_url(), "").stop();
        server.query("EXISTS tidegate.flows_dead_letter").unwrap().trim() == "1"
    });
    server.query("ALTER TABLE tidegate.flows ADD CONSTRAINT c CHECK bytes % 251 != 7").unwrap();
    drop(server);

    let http_port = free_port();
    let more = format!("on-row-error = \"quarantine\"\n{}", settings(folder.path()));
    let app = start(&format!("http://127.0.0.1:{http_port}"), &more);
    generate(target(&app));
    wait_until("all rows are on disk", || app.view().ledger.books().spooled == FLOWS);
    let server = clickhouse_with(&DevServerOptions { http_port, ..options });
    wait_until("all rows have their end", || {
        let books = app.view().ledger.books();
        books.stored + books.dead_lettered == FLOWS
    });
    let books = app.stop().books;
    assert!(books.dead_lettered > 0 && books.stored > FLOWS / 2, "{books:?}");
    let count =
        |table: &str| query_number(&server, &format!("SELECT count() FROM tidegate.{table}"));
    assert_eq!((count("flows"), count("flows_dead_letter")), (books.stored, books.dead_lettered));
}
