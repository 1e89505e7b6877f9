//! ClickHouse accepts connections and never answers, while flows come as fast as they can be made: memory has a
//! bound, management answers, and when the server goes on the books balance to the row.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use common::{
    Collector, Scrape, clickhouse, config_text, number_of, process, say, stored_sums, wait_until,
};
use tidegate::devserver::DevServer;
use tidegate::traffic::{self, Pace, Spec, Totals};

/// Without `HANG_SECONDS`.
const HANG_SECONDS: u64 = 20;

/// What the collector may have resident: a full queue, of 400,000 rows, and the batches behind it.
const MEMORY_BYTES_MAX: u64 = 256 << 20;

/// Of `/metrics`, on a machine that is busy with nothing but flows.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// A server that hangs is noticed soon.
const SETTINGS: &str = "response-timeout = \"1s\"\n[clickhouse.batch]\nshutdown-grace-period = \"60s\"\n\
                        [clickhouse.retry]\ndelay = \"500ms\"\n";

/// Stops all threads of the server where they are, or lets them go on. The kernel still accepts for it.
fn signal(server: &DevServer, name: &str) {
    let pid = server.pid().to_string();
    assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
}

/// Rows that came and rows that were lost, as `/metrics` has them.
fn received_and_dropped(scraped: &Scrape) -> (u64, u64) {
    let sum = |metric| scraped.sum(metric, &[]);
    (sum("tidegate_batch_received_rows_total"), sum("tidegate_batch_dropped_rows_total"))
}

/// Scrapes until `end`; the longest that an answer took.
fn scrape_until(end: Instant, collector: &Collector) -> Duration {
    let mut slowest = Duration::ZERO;
    while Instant::now() < end {
        let asked = Instant::now();
        Scrape::at(collector.management);
        slowest = slowest.max(asked.elapsed());
        sleep(Duration::from_millis(20));
    }
    slowest
}

/// Lets a server hang under full traffic, and go on.
fn hang(name: &str, more: &str) {
    let server = clickhouse();
    let mut collector =
        Collector::start(&config_text(&server.http_url(), &format!("{SETTINGS}{more}")));
    let (totals, stop) = (Totals::default(), AtomicBool::new(false));
    let (spec, pace) = (Spec::default(), Pace::default());
    let length = Duration::from_secs(number_of("HANG_SECONDS", HANG_SECONDS));
    let slowest = scope(|scope| {
        let sending =
            scope.spawn(|| traffic::run(&spec, collector.target, pace, &stop, &totals).unwrap());
        wait_until("rows are stored", || {
            Scrape::at(collector.management).sum("tidegate_batch_stored_rows_total", &[]) > 0
        });
        signal(&server, "STOP");
        let slowest = scrape_until(Instant::now() + length, &collector);
        stop.store(true, Ordering::Relaxed);
        sending.join().unwrap();
        slowest
    });
    let memory = process::peak_memory(collector.pid());
    let (received, dropped) = received_and_dropped(&Scrape::at(collector.management));
    say(&format!(
        "{name}: {} flows/s sent, {} received, {dropped} rows of {received} dropped, memory at most {} MiB, \
         /metrics within {slowest:?}",
        totals.read().flows / length.as_secs(),
        received / length.as_secs(),
        memory >> 20
    ));
    signal(&server, "CONT");
    wait_until("everything has its end", || {
        let scraped = Scrape::at(collector.management);
        let sum = |metric| scraped.sum(metric, &[]);
        let (received, dropped) = received_and_dropped(&scraped);
        sum("tidegate_batch_stored_rows_total") + dropped == received
    });
    let (received, dropped) = received_and_dropped(&Scrape::at(collector.management));
    collector.signal("TERM");
    let (_, log) = collector.wait();
    assert!(dropped > 0, "the hang was not long enough");
    // Without an answer nobody knows: a batch that found the spool full then is counted as lost, and may be there.
    let stored = stored_sums(&server).0;
    assert!((received - dropped..=received).contains(&stored), "{name}: {stored}, {log}");
    assert!(memory < MEMORY_BYTES_MAX, "{name}: {memory}");
    assert!(slowest < ANSWER_MAX, "{name}: management waits for ClickHouse");
}

#[test]
fn memory_has_a_bound_while_clickhouse_hangs() {
    hang("without a spool", "");
}

#[test]
fn memory_has_a_bound_while_clickhouse_hangs_and_the_spool_is_full() {
    let spool = tempfile::tempdir().unwrap();
    let directory = spool.path().display();
    hang("spool", &format!("[spool]\ndirectory = \"{directory}\"\nmax-size = \"64MiB\"\n"));
}
