//! Stopping drains what was accepted, within the grace period, and says what was left.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use common::{Collector, Scrape, clickhouse, config_text, get, stored_sums, wait_until};
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

#[test]
fn rows_that_a_hanging_clickhouse_does_not_take_are_said_and_the_exit_code_is_1() {
    // Accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let batch = "[clickhouse.batch]\nmax-latency = \"100ms\"\nshutdown-grace-period = \"1s\"";
    let mut collector = Collector::start(&config_text(&endpoint, batch));
    generate(collector.target, 5_000);
    wait_until("all is received", || {
        Scrape::at(collector.management).sum("tidegate_batch_received_rows_total", &[]) == 5_000
    });
    let start = Instant::now();
    collector.signal("TERM");
    let (code, log) = collector.wait();
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("rows_left=5000"), "{log}");
    assert!(log.contains("received=5000 stored=0 dead_lettered=0 spooled=0 dropped=5000"), "{log}");
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
