//! A long outage with a spool, at a rate that goes on: nothing is lost, nothing is doubled, and memory does not grow
//! with what waits.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use common::{
    Collector, Scrape, clickhouse_with, config_text, number_of, process, say, stored_sums,
    wait_until,
};
use tidegate::devserver::DevServerOptions;
use tidegate::traffic::{self, Pace, Spec, Totals};

/// Without `OUTAGE_SECONDS`.
const OUTAGE_SECONDS: u64 = 60;

const FLOWS_PER_SECOND: u64 = 20_000;

/// Before the outage, to know what the same rate costs without one.
const CALM: Duration = Duration::from_secs(10);

/// What the collector may have resident, however long the outage is: some batches and what it has without one.
const MEMORY_BYTES_MAX: u64 = 100 << 20;

/// A drain that does not keep its rate, 100,000 rows a second beside live ones, on a busy machine.
const DRAIN_PATIENCE: u32 = 1;

/// The collector at one moment.
struct Reading {
    at: Instant,
    cpu: Duration,
    received: u64,
    stored: u64,
    spooled: u64,
    spool_bytes: u64,
}

impl Reading {
    fn of(collector: &Collector) -> Self {
        let scraped = Scrape::at(collector.management);
        let sum = |metric| scraped.sum(metric, &[]);
        Self {
            at: Instant::now(),
            cpu: process::cpu(collector.pid()),
            received: sum("tidegate_batch_received_rows_total"),
            stored: sum("tidegate_batch_stored_rows_total"),
            spooled: sum("tidegate_spool_rows"),
            spool_bytes: sum("tidegate_spool_bytes"),
        }
    }

    /// Says what happened since another one.
    fn say(&self, phase: &str, since: &Self) {
        let (received, stored) = (self.received - since.received, self.stored - since.stored);
        let cpu = self.cpu - since.cpu;
        say(&format!(
            "{phase}: {:.1?}, {received} rows received, {stored} stored, CPU {cpu:.2?}",
            self.at - since.at
        ));
    }
}

#[test]
fn an_outage_at_a_steady_rate_ends_with_every_row_stored_once() {
    let outage = Duration::from_secs(number_of("OUTAGE_SECONDS", OUTAGE_SECONDS));
    let (data, spool) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = Some(data.path().join("clickhouse"));
    let server = clickhouse_with(&DevServerOptions { path, ..DevServerOptions::default() });
    let more = format!("[spool]\ndirectory = \"{}\"\n", spool.path().display());
    let mut collector = Collector::start(&config_text(&server.http_url(), &more));

    let (totals, stop) = (Totals::default(), AtomicBool::new(false));
    let spec = Spec::default();
    let pace = Pace { flows_per_second: FLOWS_PER_SECOND, duration: None };
    let server = scope(|scope| {
        let sending =
            scope.spawn(|| traffic::run(&spec, collector.target, pace, &stop, &totals).unwrap());
        wait_until("rows are stored", || Reading::of(&collector).stored > 0);
        let start = Reading::of(&collector);
        sleep(CALM);
        let calm = Reading::of(&collector);
        calm.say("calm", &start);

        let again = server.options();
        server.stop().unwrap();
        sleep(outage);
        let away = Reading::of(&collector);
        away.say("away", &calm);
        say(&format!(
            "{} rows in the spool, {:.1} bytes each",
            away.spooled,
            away.spool_bytes as f64 / away.spooled as f64
        ));

        let server = clickhouse_with(&again);
        let back = Instant::now();
        let patience = CALM + outage / DRAIN_PATIENCE;
        while Reading::of(&collector).spooled > 0 && back.elapsed() < patience {
            sleep(Duration::from_millis(20));
        }
        Reading::of(&collector).say("drained", &away);
        stop.store(true, Ordering::Relaxed);
        sending.join().unwrap();
        server
    });

    let memory = process::peak_memory(collector.pid());
    say(&format!("memory at most {} MiB", memory >> 20));
    assert!(memory < MEMORY_BYTES_MAX, "{memory}");
    collector.signal("TERM");
    let (code, log) = collector.wait();
    let sent = totals.read();
    let books = format!("received={0} stored={0} dead_lettered=0 spooled=0 dropped=0", sent.flows);
    assert!(code == Some(0) && log.contains(&books), "{books}: {log}");
    assert_eq!(stored_sums(&server), (sent.flows, sent.bytes, sent.packets));
}
