//! ClickHouse killed in a loop at random moments of busy inserting: in the end the table and both rollups have
//! what was received, each row once.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use common::{clickhouse_with, number_of, rollups, start, target, wait_until};
use tidegate::devserver::{DevServer, DevServerOptions};
use tidegate::sink::Books;
use tidegate::traffic::{self, Pace, Spec, Totals};

/// How many without `KILLS`.
const KILLS: u64 = 30;

/// What waited while there was no server keeps the next one busy for all of its life.
const FLOWS_PER_SECOND: u64 = 100_000;

/// From the first batch that a new server has stored to its end.
const LIFE_MS: Range<u64> = 0..500;

/// A queue for the rows that come while there is no server; no pause worth mentioning between tries.
const SETTINGS: &str = "[clickhouse.batch]\nmax-rows = 20000\nqueue-capacity = 20000000\n\
                        shutdown-grace-period = \"60s\"\n[clickhouse.retry]\ndelay = \"20ms\"";

#[test]
fn every_row_is_stored_once_however_often_clickhouse_is_killed() {
    let kills = number_of("KILLS", KILLS);
    let data = tempfile::tempdir().unwrap();
    let path = Some(data.path().join("clickhouse"));
    let server = clickhouse_with(&DevServerOptions { path, ..DevServerOptions::default() });
    rollups::create(&server);
    let app = start(&server.http_url(), SETTINGS);
    let (totals, stop) = (Totals::default(), AtomicBool::new(false));
    let spec = Spec::default();
    let pace = Pace { flows_per_second: FLOWS_PER_SECOND, duration: None };
    let (server, tally) = scope(|scope| {
        let sending = scope.spawn(|| traffic::run(&spec, target(&app), pace, &stop, &totals));
        let result = kill_in_a_loop(server, kills, || app.view().ledger.books());
        stop.store(true, Ordering::Relaxed);
        sending.join().unwrap().unwrap();
        result
    });
    let sent = totals.read();
    let books = app.stop().books;
    println!("{kills} kills, {} flows: {tally:?}", sent.flows);
    assert_eq!((books.received, books.stored), (sent.flows, sent.flows), "{books:?}");
    assert_eq!(rollups::totals(&server), [(sent.flows, sent.bytes, sent.packets); 3]);
}

/// What was found after kills, before anything was sent again.
#[derive(Debug, Default)]
struct Tally {
    /// The table and the rollups had not the same rows.
    disagreed: u64,
    /// They had, and the batch in flight was there, acknowledged to nobody.
    unacknowledged: u64,
}

/// Kills the server at random moments, and starts it again with the same data at the same addresses.
fn kill_in_a_loop(
    mut server: DevServer,
    kills: u64,
    books: impl Fn() -> Books,
) -> (DevServer, Tally) {
    let mut tally = Tally::default();
    for _ in 0..kills {
        let stored = books().stored;
        wait_until("a batch is stored", || books().stored > stored);
        sleep(Duration::from_millis(fastrand::u64(LIFE_MS)));
        let again = server.options();
        server.kill().unwrap();
        look_at_the_tables(&again, books().stored, &mut tally);
        server = clickhouse_with(&again);
    }
    (server, tally)
}

/// Starts the server where the collector does not find it. What was acknowledged must be there.
fn look_at_the_tables(options: &DevServerOptions, acknowledged: u64, tally: &mut Tally) {
    let elsewhere = DevServerOptions { http_port: 0, tcp_port: 0, ..options.clone() };
    let server = clickhouse_with(&elsewhere);
    let found = rollups::totals(&server);
    assert!(found.iter().all(|sums| sums.0 >= acknowledged), "{acknowledged} rows: {found:?}");
    if found != [found[0]; 3] {
        tally.disagreed += 1;
    } else if found[0].0 > acknowledged {
        tally.unacknowledged += 1;
    }
    server.stop().unwrap();
}
