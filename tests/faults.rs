//! Faults between the collector and a real ClickHouse: whatever happens on the way, each row is stored once,
//! in the table and in a rollup.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{PATIENCE, Scrape, clickhouse, query_number, start, stored_sums, target};
use tidegate::app::App;
use tidegate::devserver::DevServer;
use tidegate::traffic::{self, Pace, Sent, Spec, Totals};

/// What the way to ClickHouse does to inserts.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The connection is reset when this many bytes of an insert have passed.
    ResetInBody(usize),
    /// All of the insert passes, and the answer does not come back.
    ResetBeforeAnswer,
    /// A proxy answers instead of ClickHouse, which gets nothing.
    BadGateway,
    /// ClickHouse's answer comes late, but it comes.
    Slow(Duration),
}

/// Bytes of a request with which it is taken for an insert; probes and statements are shorter.
const INSERT_BYTES_MIN: usize = 20_000;

/// Between the collector and ClickHouse. Hurts the first `faults` inserts.
struct Proxy {
    address: SocketAddr,
    /// Inserts that were hurt.
    hurt: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Proxy {
    fn start(server: &DevServer, fault: Fault, faults: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let upstream: SocketAddr = server.http_url().trim_start_matches("http://").parse().unwrap();
        let (hurt, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (hurts, stops) = (Arc::clone(&hurt), Arc::clone(&stop));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if stops.load(Ordering::Relaxed) {
                    return;
                }
                let (client, hurts) = (client.unwrap(), Arc::clone(&hurts));
                let upstream = TcpStream::connect(upstream).unwrap();
                std::thread::spawn(move || pass(&client, &upstream, fault, faults, &hurts));
            }
        });
        Self { address, hurt, stop }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
    }
}

/// Copies requests one way and answers the other, but for the fault.
fn pass(client: &TcpStream, upstream: &TcpStream, fault: Fault, faults: usize, hurt: &AtomicUsize) {
    let is_cut = AtomicBool::new(false);
    let end = || {
        drop(client.shutdown(Shutdown::Both));
        drop(upstream.shutdown(Shutdown::Both));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut from, mut to) = (upstream, client);
            let mut buffer = [0; 65_536];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                if is_cut.load(Ordering::Relaxed) {
                    break;
                }
                if let Fault::Slow(pause) = fault
                    && hurt.fetch_add(1, Ordering::Relaxed) < faults
                {
                    std::thread::sleep(pause);
                }
                if to.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
            end();
        });
        let (mut from, mut to) = (client, upstream);
        let mut buffer = [0; 65_536];
        let mut request = 0;
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            // A new request begins with its method; bodies are frames.
            if buffer.starts_with(b"POST ") || buffer.starts_with(b"GET ") {
                request = 0;
            }
            request += length;
            let may_hurt = |at: usize| {
                request >= at
                    && !is_cut.load(Ordering::Relaxed)
                    && hurt
                        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                            (n < faults).then_some(n + 1)
                        })
                        .is_ok()
            };
            match fault {
                Fault::ResetInBody(at) if may_hurt(at) => break,
                Fault::ResetBeforeAnswer if may_hurt(INSERT_BYTES_MIN) => {
                    is_cut.store(true, Ordering::Relaxed);
                }
                Fault::BadGateway if may_hurt(INSERT_BYTES_MIN) => {
                    let answer = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbad";
                    drop((&mut &*client).write_all(answer));
                    break;
                }
                _ => {}
            }
            if to.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        end();
    });
}

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
    let proxy = Proxy::start(&server, fault, 3);
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
        if scraped.sum("tidegate_batch_stored_rows_total", &[]) == FLOWS {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{fault:?}: {:?}", app.view().ledger.books());
        std::thread::sleep(Duration::from_millis(5));
    }
    let books = app.stop().books;
    assert!(proxy.hurt.load(Ordering::Relaxed) >= 3, "{fault:?} did not happen");
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
        Fault::ResetInBody(INSERT_BYTES_MIN),
        Fault::ResetInBody(60_000),
        Fault::ResetBeforeAnswer,
        Fault::BadGateway,
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
