//! Stopping drains what was accepted, within the grace period, and says what was left.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use common::{Collector, Scrape, clickhouse, config_text, free_port, get, stored_sums, wait_until};
use tidegate::sink::RowDropReason;
use tidegate::traffic::{self, Pace, Protocol, Spec, Totals};

fn generate(target: SocketAddr, flows: u64) {
    let spec = Spec { protocol: Protocol::Mixed, flows: Some(flows), ..Spec::default() };
    let pace = Pace { flows_per_second: 50_000, duration: None };
    traffic::run(&spec, target, pace, &AtomicBool::new(false), &Totals::default()).unwrap();
}

#[test]
fn sigterm_and_sigint_store_everything_that_was_received() {
    let server = clickhouse();
    for (round, signal) in (1..).zip(["TERM", "INT"]) {
        // No batch is due before the signal: all of it is stored by the shutdown.
        let batch = "[clickhouse.batch]\nmax-rows = 1000000\nqueue-capacity = 1000000\nmax-latency = \"30s\"\nshutdown-grace-period = \"60s\"";
        let mut collector = Collector::start(&config_text(&server.http_url(), batch));
        generate(collector.target, 30_000);
        collector.signal(signal);
        let (code, log) = collector.wait();
        assert_eq!(code, Some(0), "{log}");
        assert!(
            log.contains("received=30000 stored=30000 dead_lettered=0 spooled=0 dropped=0"),
            "{log}"
        );
        assert_eq!(stored_sums(&server).0, round * 30_000);
    }
}

/// Stops a collector that has received 5,000 rows of which ClickHouse takes none; exit code and log.
fn stop_with_rows(endpoint: &str, more: &str) -> (Option<i32>, String) {
    let batch = "[clickhouse.batch]\nmax-rows = 1000\nmax-latency = \"100ms\"\n\
                 shutdown-grace-period = \"1s\"";
    let mut collector = Collector::start(&config_text(endpoint, &format!("{batch}\n{more}")));
    generate(collector.target, 5_000);
    wait_until("all is received", || {
        Scrape::at(collector.management).sum("tidegate_batch_received_rows_total", &[]) == 5_000
    });
    let start = Instant::now();
    collector.signal("TERM");
    let ended = collector.wait();
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    ended
}

/// An endpoint that accepts connections and never answers.
fn hanging() -> (TcpListener, String) {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    (silent, endpoint)
}

fn away() -> String {
    format!("http://127.0.0.1:{}", free_port())
}

#[test]
fn rows_that_clickhouse_does_not_take_are_said_and_the_exit_code_is_1() {
    let (_silent, hanging) = hanging();
    for endpoint in [hanging, away()] {
        let (code, log) = stop_with_rows(&endpoint, "");
        assert_eq!(code, Some(1), "{log}");
        assert!(log.contains("rows_left=5000"), "{log}");
        let balance = "received=5000 stored=0 dead_lettered=0 spooled=0 dropped=5000";
        assert!(log.lines().last().unwrap().contains(balance), "{log}");
    }
}

#[test]
fn with_a_spool_the_batch_in_flight_is_kept_too_and_the_next_start_delivers_all() {
    let (_silent, hanging) = hanging();
    for endpoint in [hanging, away()] {
        let folder = tempfile::tempdir().unwrap();
        let spool = format!("[spool]\ndirectory = \"{}\"\n", folder.path().display());
        let (code, log) = stop_with_rows(&endpoint, &spool);
        assert_eq!(code, Some(0), "{log}");
        let balance = "received=5000 stored=0 dead_lettered=0 spooled=5000 dropped=0";
        assert!(log.lines().last().unwrap().contains(balance), "{log}");

        let server = clickhouse();
        let app = common::start(&server.http_url(), &spool);
        wait_until("all is delivered", || app.view().ledger.books().stored == 5_000);
        assert_eq!(stored_sums(&server).0, 5_000);
    }
}

#[test]
fn a_slow_clickhouse_gets_what_fits_in_the_grace_period() {
    let server = clickhouse();
    // Each insert takes half a second: two of five batches are stored in a second.
    server.query("CREATE DATABASE tidegate").unwrap();
    server.query(&tidegate::schema::create_table_sql("tidegate", 30)).unwrap();
    server
        .query(
            "CREATE MATERIALIZED VIEW tidegate.slow ENGINE = Null AS \
             SELECT bytes + sleep(0.5) AS bytes FROM tidegate.flows",
        )
        .unwrap();
    let (code, log) = stop_with_rows(&server.http_url(), "");
    assert_eq!(code, Some(1), "{log}");
    let last = log.lines().last().unwrap();
    let number = |name: &str| -> u64 {
        let rest = last.split_once(&format!(" {name}=")).unwrap().1;
        rest.split(' ').next().unwrap().parse().unwrap()
    };
    assert!(number("stored") > 0 && number("dropped") > 0, "{last}");
    assert_eq!(number("stored") + number("dropped"), 5_000, "{last}");

    let folder = tempfile::tempdir().unwrap();
    let spool = format!("[spool]\ndirectory = \"{}\"\n", folder.path().display());
    let before = stored_sums(&server).0;
    let (code, log) = stop_with_rows(&server.http_url(), &spool);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.lines().last().unwrap().contains("dropped=0"), "{log}");
    server.query("DROP TABLE tidegate.slow").unwrap();
    let app = common::start(&server.http_url(), &spool);
    wait_until("the spool is empty", || app.view().ledger.books().spooled == 0);
    wait_until("each row is there once", || stored_sums(&server).0 == before + 5_000);
}

#[test]
fn management_answers_while_clickhouse_hangs() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let app = common::start(
        &endpoint,
        "[clickhouse.batch]\nmax-latency = \"100ms\"\nshutdown-grace-period = \"200ms\"",
    );
    generate(common::target(&app), 5_000);
    for path in ["/livez", "/readyz", "/metrics", "/api/v1/status", "/api/v1/exporters"] {
        assert_eq!(get(app.management_address(), path).0, 200, "{path}");
    }
    assert_eq!(get(app.management_address(), "/nothing").0, 404);
    assert_eq!(app.stop().books.dropped[RowDropReason::Shutdown as usize], 5_000);
}
