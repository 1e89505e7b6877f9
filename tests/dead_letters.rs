//! Rows that a real ClickHouse refuses: kept whole or one by one, shown, replayed once, deleted.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use common::{
    clickhouse, config_text, query_number, query_row, start, target, tidegate, wait_until,
};
use tidegate::app::App;
use tidegate::devserver::DevServer;
use tidegate::sink::Books;
use tidegate::traffic::{self, Pace, Spec, Totals};

const FLOWS: u64 = 5_000;

/// Batches of whatever comes within two seconds, so that all of a test are one.
const ONE_BATCH: &str = "[clickhouse.batch]\nmax-latency = \"2s\"\n";

fn generate_to(address: SocketAddr) {
    let spec = Spec { flows: Some(FLOWS), ..Spec::default() };
    let pace = Pace { flows_per_second: 50_000, duration: None };
    traffic::run(&spec, address, pace, &AtomicBool::new(false), &Totals::default()).unwrap();
}

/// A server whose table refuses rows for which `check` is false, and the books of a collector that wrote
/// to it.
fn refused(server: &DevServer, check: &str, more: &str) -> Books {
    let app = start(&server.http_url(), &format!("{more}{ONE_BATCH}"));
    wait_until("the table is there", || {
        server.query("EXISTS tidegate.flows_dead_letter").unwrap().trim() == "1"
    });
    server.query(&format!("ALTER TABLE tidegate.flows ADD CONSTRAINT c CHECK {check}")).unwrap();
    generate_to(target(&app));
    wait_until("all rows have their end", || {
        let books = app.view().ledger.books();
        books.received == FLOWS && books.pending() == 0
    });
    app.stop().books
}

fn letters(server: &DevServer) -> u64 {
    query_number(server, "SELECT count() FROM tidegate.flows_dead_letter")
}

/// A configuration file for the program.
fn config_file(server: &DevServer) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidegate.toml");
    std::fs::write(&file, config_text(&server.http_url(), "")).unwrap();
    (folder, file)
}

#[test]
fn under_fail_one_refused_row_makes_all_rows_of_its_batch_dead_letters() {
    let server = clickhouse();
    let books = refused(&server, "dstPort != 53 OR bytes % 97 != 3", "");
    assert_eq!((books.stored, books.dead_lettered, books.dropped_total()), (0, FLOWS, 0));
    assert_eq!(letters(&server), FLOWS);
    let letter = query_row(
        &server,
        "SELECT errorCode, errorName, errorClass, failedColumns, attempts, tenant, exporterAddr != '', \
         position(error, 'Column values'), uniqExact(rowIndex) OVER (), \
         JSONExtractString(payload, 'flowProtocol') != '' \
         FROM tidegate.flows_dead_letter LIMIT 1",
    );
    let expected = [
        "469",
        "VIOLATED_CONSTRAINT",
        "permanent",
        "['dstPort','bytes']",
        "1",
        "default",
        "1",
        "0",
        "5000",
        "1",
    ];
    assert_eq!(letter, expected);
}

#[test]
fn under_quarantine_only_refused_rows_become_dead_letters() {
    let server = clickhouse();
    let check = "bytes % 251 != 7";
    let books = refused(&server, check, "on-row-error = \"quarantine\"\n");
    let kept = letters(&server);
    assert!((1..500).contains(&kept), "{kept}");
    assert_eq!((books.stored, books.dead_lettered), (FLOWS - kept, kept));
    assert_eq!(query_number(&server, "SELECT count() FROM tidegate.flows"), FLOWS - kept);
    let wrong = "SELECT countIf(bytes % 251 != 7) FROM (SELECT \
                 toUInt64(JSONExtractString(payload, 'bytes')) AS bytes FROM tidegate.flows_dead_letter)";
    assert_eq!(query_number(&server, wrong), 0, "a good row is no dead letter");
}

#[test]
fn a_receiver_may_want_another_way_than_the_others() {
    let server = clickhouse();
    let text = config_text(&server.http_url(), ONE_BATCH).replace(
        "[management]",
        "on-row-error = \"quarantine\"\n[receivers.other]\nlisten = \"127.0.0.1:0\"\n[management]",
    );
    let app = App::start(&common::config(&text)).unwrap();
    wait_until("the table is there", || {
        server.query("EXISTS tidegate.flows_dead_letter").unwrap().trim() == "1"
    });
    server.query("ALTER TABLE tidegate.flows ADD CONSTRAINT c CHECK bytes % 251 != 7").unwrap();
    let receivers = app.receivers().to_vec();
    receivers.iter().for_each(|(_, receiver)| generate_to(*receiver));
    wait_until("all rows have their end", || {
        let books = app.view().ledger.books();
        books.received == 2 * FLOWS && books.pending() == 0
    });
    let books = app.stop().books;
    assert!(books.stored > 0 && books.stored < FLOWS, "those of one receiver: {}", books.stored);
    assert_eq!(books.stored + books.dead_lettered, 2 * FLOWS);
}

#[test]
fn dead_letters_are_shown_replayed_once_and_deleted() {
    let server = clickhouse();
    refused(&server, "bytes % 251 != 7", "");
    let (_folder, file) = config_file(&server);
    let run = |arguments: &[&str]| {
        let mut all = vec!["dead-letters"];
        all.extend(arguments);
        all.extend(["-c", file.to_str().unwrap()]);
        let output = tidegate(&all);
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code().unwrap(), text + &String::from_utf8(output.stderr).unwrap())
    };
    let (code, list) = run(&["list"]);
    assert!(
        code == 0 && list.contains("VIOLATED_CONSTRAINT") && list.contains("127.64.1.1"),
        "{list}"
    );
    let id = query_row(&server, "SELECT batchId FROM tidegate.flows_dead_letter LIMIT 1").remove(0);
    let (code, shown) = run(&["show", &format!("{id}:7")]);
    assert!(code == 0 && shown.contains("flowProtocol"), "{shown}");
    assert_eq!(run(&["show", "nobody"]).0, 1);

    assert_eq!(run(&["replay", "--dry-run"]).1.lines().last(), Some("5000 rows would be replayed"));
    let (code, refused_again) = run(&["replay"]);
    assert!(code == 1 && refused_again.ends_with("0 of 5000 rows replayed\n"), "{refused_again}");
    server.query("ALTER TABLE tidegate.flows DROP CONSTRAINT c").unwrap();
    assert_eq!(run(&["replay"]), (0, "5000 of 5000 rows replayed\n".to_owned()));
    assert_eq!(run(&["replay"]), (0, "0 of 0 rows replayed\n".to_owned()));
    // As if the letters had not been marked.
    server
        .query("ALTER TABLE tidegate.flows_dead_letter UPDATE replayedAt = toDateTime64(0, 3) WHERE 1 SETTINGS mutations_sync = 1")
        .unwrap();
    assert_eq!(run(&["replay"]).0, 0);
    assert_eq!(query_number(&server, "SELECT count() FROM tidegate.flows"), FLOWS);
    // Every column of a replayed row is what it was in its letter.
    let unequal = "SELECT countIf(flows != letters) FROM (
        SELECT (SELECT (sum(bytes), sum(packets), uniqExact(srcAddr, dstPort, firstSwitched), min(receivedAt))
                FROM tidegate.flows) AS flows,
               (SELECT (sum(toUInt64OrZero(JSONExtractString(payload, 'bytes'))),
                        sum(toUInt64OrZero(JSONExtractString(payload, 'packets'))),
                        uniqExact(JSONExtractString(payload, 'srcAddr'), JSONExtractString(payload, 'dstPort'),
                                  JSONExtractString(payload, 'firstSwitched')),
                        min(parseDateTime64BestEffort(JSONExtractString(payload, 'receivedAt'), 3, 'UTC')))
                FROM tidegate.flows_dead_letter) AS letters)";
    assert_eq!(query_number(&server, unequal), 0);

    assert_eq!(run(&["purge"]).0, 1, "which is not said");
    assert_eq!(run(&["purge", "--older-than", "1d"]).1, "0 dead letters deleted\n");
    assert_eq!(run(&["purge", "--replayed"]).1, "5000 dead letters deleted\n");
    assert_eq!(letters(&server), 0);
}
