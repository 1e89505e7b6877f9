//! Without batching: one insert for each datagram, refused or stored at once.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use common::{
    Collector, Scrape, clickhouse, config, config_text, query_number, start, stored_sums, target,
    tidegate, wait_until,
};
use tidegate::app::App;
use tidegate::devserver::DevServer;
use tidegate::sink::RowDropReason;
use tidegate::traffic::{self, Pace, Protocol, Sent, Spec, Totals};

const DIRECT: &str = "[clickhouse.batch]\nenabled = false";

fn generate(app: &App, flows: u64) -> Sent {
    let spec = Spec { protocol: Protocol::V5, flows: Some(flows), ..Spec::default() };
    let totals = Totals::default();
    let pace = Pace { flows_per_second: 3_000, duration: None };
    traffic::run(&spec, target(app), pace, &AtomicBool::new(false), &totals).unwrap();
    totals.read()
}

fn parts(server: &DevServer) -> u64 {
    let sql = "SELECT count() FROM system.parts WHERE database = 'tidegate' AND level = 0 \
               AND table = 'flows'";
    query_number(server, sql)
}

#[test]
fn each_datagram_is_an_insert_whether_clickhouse_gathers_them_or_not() {
    for async_inserts in ["true", "false"] {
        let server = clickhouse();
        let app = start(&server.http_url(), &format!("async-inserts = {async_inserts}\n{DIRECT}"));
        server.query("SYSTEM STOP MERGES").unwrap();
        let sent = generate(&app, 600);
        wait_until("all rows are stored", || app.view().ledger.books().stored == 600);
        assert_eq!(stored_sums(&server), (sent.flows, sent.bytes, sent.packets));
        assert_eq!(parts(&server), 20, "30 flows a datagram");
        let scraped = Scrape::of(&app);
        assert_eq!(scraped.sum("tidegate_batch_stored_batches_total", &[]), 20);
        assert_eq!(scraped.sum("tidegate_batch_queue_capacity_rows", &[]), 0);
        let stopped = app.stop();
        assert!(stopped.is_drained && stopped.books.received == 600);
    }
}

#[test]
fn a_refused_datagram_is_lost_and_counted_and_the_others_are_stored() {
    let server = clickhouse();
    let app = start(&server.http_url(), &format!("async-inserts = false\n{DIRECT}"));
    generate(&app, 30);
    wait_until("the table is there", || app.view().ledger.books().stored == 30);
    server.query("ALTER TABLE tidegate.flows ADD CONSTRAINT c CHECK protocol != 17").unwrap();
    generate(&app, 600);
    wait_until("all have their outcome", || {
        let books = app.view().ledger.books();
        books.received == 630 && books.pending() == 0
    });
    let refused = Scrape::of(&app).sum("tidegate_dispatch_errors_total", &[]);
    let books = app.stop().books;
    assert!(refused > 0 && refused.is_multiple_of(30), "{refused}");
    assert_eq!(books.dropped[RowDropReason::DispatchError as usize], refused);
    assert_eq!((books.stored + refused, books.dead_lettered), (630, 0));
    assert_eq!(stored_sums(&server).0, books.stored);
}

#[test]
fn a_stop_does_not_wait_for_a_clickhouse_that_hangs() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let app = start(&endpoint, &format!("{DIRECT}\nshutdown-grace-period = \"2s\""));
    generate(&app, 300);
    let start = Instant::now();
    let stopped = app.stop();
    assert!(start.elapsed().as_secs() < 3, "{:?}", start.elapsed());
    let books = stopped.books;
    assert_eq!(books.received, books.dropped_total(), "said, each of them");
}

#[test]
fn a_wrong_password_ends_the_collector_before_the_first_datagram() {
    let server = clickhouse();
    let text = config_text(&server.http_url(), &format!("password = \"wrong\"\n{DIRECT}"));
    let mut collector = Collector::start(&text);
    let (code, log) = collector.wait();
    assert_eq!(code, Some(78), "{log}");
    assert!(
        log.contains("check clickhouse.username (\"default\") and clickhouse.password"),
        "{log}"
    );
}

#[test]
fn what_needs_batches_is_refused_without_them() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tidegate.toml");
    let check = |more: &str| {
        std::fs::write(&file, config_text("http://127.0.0.1:8123", more)).unwrap();
        let output = tidegate(&["check", "-c", file.to_str().unwrap()]);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout) + &text(output.stderr))
    };
    let (code, said) =
        check(&format!("on-row-error = \"quarantine\"\n{DIRECT}\n[spool]\ndirectory = \"/x\""));
    assert_eq!(code, Some(78));
    for key in ["clickhouse.on-row-error", "spool.directory"] {
        let mistake = format!("{key}: goes with clickhouse.batch.enabled = true only");
        assert!(said.contains(&mistake), "{said}");
    }
    let (code, said) = check("async-inserts = true");
    assert!(code == Some(78) && said.contains("clickhouse.async-inserts: goes with"), "{said}");
    let (_, said) = check(DIRECT);
    let derived = "batch: off, inserts gathered by ClickHouse (clickhouse.manage-schema)";
    assert!(said.contains(derived), "{said}");
    let text = config_text("http://127.0.0.1:8123", &format!("manage-schema = false\n{DIRECT}"));
    assert!(!config(&text).clickhouse.gathers_inserts().0);
}
