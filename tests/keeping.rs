//! With a spool nothing is lost that may pass or be mended, and one batch that cannot go stops no other.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use common::{
    Collector, Scrape, clickhouse, clickhouse_with, config_text, query_number, start, stored_sums,
    target, wait_until,
};
use tidegate::app::App;
use tidegate::devserver::{DevServer, DevServerOptions};
use tidegate::sink::RowDropReason;
use tidegate::traffic::{self, Pace, Spec, Totals};

const FLOWS: u64 = 10_000;

fn generate(address: SocketAddr) {
    let spec = Spec { flows: Some(FLOWS), ..Spec::default() };
    let pace = Pace { flows_per_second: 8_000, duration: None };
    traffic::run(&spec, address, pace, &AtomicBool::new(false), &Totals::default()).unwrap();
}

fn settings(spool: &Path) -> String {
    format!(
        "[clickhouse.schema]\nrollups = []\n\
         [clickhouse.batch]\nmax-rows = 1000\nmax-latency = \"100ms\"\nqueue-capacity = 20000\n\
         [clickhouse.retry]\ndelay = \"20ms\"\n\
         [spool]\ndirectory = \"{}\"\nfsync = false\n",
        spool.display()
    )
}

fn wait_for_tables(server: &DevServer) {
    wait_until("the tables are there", || {
        server.query("EXISTS tidegate.flows_dead_letter").unwrap().trim() == "1"
    });
}

fn count(server: &DevServer, table: &str) -> u64 {
    query_number(server, &format!("SELECT count() FROM tidegate.{table}"))
}

fn alarm(app: &App, name: &str) -> u64 {
    Scrape::of(app).sum("tidegate_clickhouse_alarm", &[&format!("alarm=\"{name}\"")])
}

#[test]
fn letters_that_cannot_be_written_wait_and_stop_nothing_else() {
    let (server, folder) = (clickhouse(), tempfile::tempdir().unwrap());
    let app = start(&server.http_url(), &settings(folder.path()));
    wait_for_tables(&server);
    server.query("ALTER TABLE tidegate.flows ADD CONSTRAINT c CHECK cityHash64(srcAddr, dstAddr, srcPort, bytes) % 997 != 7").unwrap();
    server.query("DROP TABLE tidegate.flows_dead_letter").unwrap();
    generate(target(&app));
    wait_until("letters wait", || {
        let books = app.view().ledger.books();
        books.stored + books.spooled == FLOWS && alarm(&app, "configuration") == 1
    });
    server.query("ALTER TABLE tidegate.flows DROP CONSTRAINT c").unwrap();
    generate(target(&app));
    // Rows of before the mend are less than these.
    wait_until("live rows are stored", || app.view().ledger.books().stored >= FLOWS);
    assert!(Scrape::of(&app).sum("tidegate_dead_letter_failed_rows_total", &[]) > 0);
    let stopped = app.stop();
    assert!(stopped.is_drained && stopped.books.spooled > 0);

    let app = start(&server.http_url(), &settings(folder.path()));
    wait_until("the spool is empty", || app.view().ledger.books().spooled == 0);
    let letters = app.view().ledger.books().dead_lettered;
    assert!(letters > 0 && count(&server, "flows_dead_letter") == letters, "{letters}");
    assert_eq!(count(&server, "flows"), 2 * FLOWS - letters);
}

#[test]
fn while_clickhouse_hangs_the_queue_goes_to_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let app = start(&endpoint, &settings(folder.path()));
    for _ in 0..3 {
        generate(target(&app));
    }
    wait_until("all is received", || app.view().ledger.books().received == 3 * FLOWS);
    let books = app.view().ledger.books();
    assert_eq!(books.dropped_total(), 0, "{books:?}");
    let stopped = app.stop();
    assert_eq!((stopped.books.spooled, stopped.is_drained), (3 * FLOWS, true));

    let server = clickhouse();
    let app = start(&server.http_url(), &settings(folder.path()));
    wait_until("all is stored", || app.view().ledger.books().stored == 3 * FLOWS);
    assert_eq!(count(&server, "flows"), 3 * FLOWS);
}

#[test]
fn a_kill_in_the_middle_of_a_search_doubles_no_row() {
    let (server, folder) = (clickhouse(), tempfile::tempdir().unwrap());
    // The search takes seconds: its parts are tried at the rate of the spool.
    let more =
        format!("on-row-error = \"quarantine\"\n{}drain-rate = 20000\n", settings(folder.path()))
            .replace("max-rows = 1000", "max-rows = 5000");
    let text = config_text(&server.http_url(), &more);
    let mut first = Collector::start(&text);
    wait_for_tables(&server);
    server.query("ALTER TABLE tidegate.flows ADD CONSTRAINT c CHECK cityHash64(srcAddr, dstAddr, srcPort, bytes) % 997 != 7").unwrap();
    generate(first.target);
    wait_until("a part is stored and others wait", || {
        let scraped = Scrape::at(first.management);
        let sum = |name| scraped.sum(name, &[]);
        let spooled = sum("tidegate_spool_rows");
        let ended =
            sum("tidegate_batch_stored_rows_total") + sum("tidegate_dead_letter_rows_total");
        sum("tidegate_batch_received_rows_total") == FLOWS
            // None is in memory only, which a kill would lose.
            && ended + spooled == FLOWS
            && count(&server, "flows_dead_letter") > 0
            && spooled > 0
    });
    first.signal("KILL");
    first.wait();
    server.query("ALTER TABLE tidegate.flows DROP CONSTRAINT c").unwrap();
    let text = text.replace("drain-rate = 20000\n", "");
    let second = Collector::start(&text);
    wait_until("the spool is empty", || {
        Scrape::at(second.management).sum("tidegate_spool_rows", &[]) == 0
    });
    let (stored, letters) = (count(&server, "flows"), count(&server, "flows_dead_letter"));
    assert_eq!(stored + letters, FLOWS, "{stored} {letters}");
}

#[test]
fn a_refusal_that_may_pass_is_waited_for() {
    let (server, folder) = (clickhouse(), tempfile::tempdir().unwrap());
    let app = start(&server.http_url(), &settings(folder.path()));
    wait_for_tables(&server);
    server.query("SYSTEM STOP MERGES").unwrap();
    let throw = |parts: u32| {
        for table in ["flows", "flows_dead_letter"] {
            let setting = format!("parts_to_throw_insert = {parts}");
            let sql = format!("ALTER TABLE tidegate.{table} MODIFY SETTING {setting}");
            server.query(&sql).unwrap();
        }
    };
    throw(1);
    generate(target(&app));
    wait_until("all but the first batch waits", || app.view().ledger.books().spooled > FLOWS / 2);
    // Each is refused more often than retry.max-attempts.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(alarm(&app, "refusal"), 1);
    throw(3_000);
    wait_until("all is stored", || app.view().ledger.books().stored == FLOWS);
    assert_eq!((count(&server, "flows"), count(&server, "flows_dead_letter")), (FLOWS, 0));
}

#[test]
fn a_wrong_password_at_the_start_costs_no_flow() {
    let (server, folder) = (clickhouse(), tempfile::tempdir().unwrap());
    let wrong = format!("password = \"wrong\"\n{}", settings(folder.path()));
    let app = start(&server.http_url(), &wrong);
    wait_until("the alarm is raised", || alarm(&app, "configuration") == 1);
    generate(target(&app));
    wait_until("all is spooled", || app.view().ledger.books().spooled == FLOWS);
    assert!(app.stop().is_drained);
    let app = start(&server.http_url(), &settings(folder.path()));
    wait_until("all is stored", || app.view().ledger.books().stored == FLOWS);
    assert_eq!(stored_sums(&server).0, FLOWS);
}

#[test]
fn a_full_spool_keeps_what_it_has_when_that_is_refused() {
    let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = Some(data.path().join("clickhouse"));
    let options = DevServerOptions { path, ..DevServerOptions::default() };
    let server = clickhouse_with(&options);
    let app = start(&server.http_url(), "");
    wait_for_tables(&server);
    app.stop();
    server.query("ALTER TABLE tidegate.flows ADD CONSTRAINT c CHECK bytes < 0").unwrap();
    drop(server);
    // Letters take more room than rows: they do not fit beside the batches.
    let more =
        format!("compress-requests = false\n{}max-size = \"16MiB\"\n", settings(folder.path()));
    let http_port = common::free_port();
    let app = start(&format!("http://127.0.0.1:{http_port}"), &more);
    for _ in 0..12 {
        generate(target(&app));
    }
    wait_until("the spool is full", || {
        let books = app.view().ledger.books();
        books.received == 12 * FLOWS && books.pending() == 0 && books.dropped_total() > 0
    });
    let lost = app.view().ledger.books().dropped[RowDropReason::SpoolFull as usize];
    let server = clickhouse_with(&DevServerOptions { http_port, ..options });
    wait_until("some were refused", || {
        Scrape::of(&app).sum("tidegate_batch_failed_rows_total", &[]) > FLOWS
    });
    server.query("ALTER TABLE tidegate.flows DROP CONSTRAINT c").unwrap();
    assert!(app.stop().is_drained);
    let app = start(&server.http_url(), &more);
    wait_until("the spool is empty", || app.view().ledger.books().spooled == 0);
    let books = app.stop().books;
    assert_eq!(books.dropped_total(), 0);
    let ended = count(&server, "flows") + count(&server, "flows_dead_letter");
    assert_eq!(ended, 12 * FLOWS - lost, "each once");
}
