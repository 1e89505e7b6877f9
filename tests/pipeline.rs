//! Datagrams in, rows out, on a real ClickHouse.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, UNIX_EPOCH};

use common::{
    Scrape, clickhouse, clickhouse_with, free_port, query_row, start, stored_sums, target,
    wait_until,
};
use tidegate::app::App;
use tidegate::devserver::DevServerOptions;
use tidegate::traffic::{
    self, Field, IpfixHeader, MessageBuilder, Pace, Protocol, Sent, Spec, Totals,
};

fn generate(app: &App, protocol: Protocol, flows: u64, flows_per_second: u64) -> Sent {
    let spec = Spec { protocol, flows: Some(flows), exporters: 12, ..Spec::default() };
    let totals = Totals::default();
    let pace = Pace { flows_per_second, duration: None };
    traffic::run(&spec, target(app), pace, &AtomicBool::new(false), &totals).unwrap();
    totals.read()
}

#[test]
fn generated_flows_of_every_protocol_arrive_once_with_the_right_sums() {
    let server = clickhouse();
    for protocol in [Protocol::V5, Protocol::V9, Protocol::Ipfix, Protocol::Sflow] {
        let app = start(&server.http_url(), "");
        let sent = generate(&app, protocol, 20_011, 50_000);
        let books = app.stop().books;
        assert_eq!((books.received, books.stored), (sent.flows, sent.flows), "{protocol:?}");
        assert_eq!(stored_sums(&server), (sent.flows, sent.bytes, sent.packets), "{protocol:?}");
        server.query("TRUNCATE TABLE tidegate.flows").unwrap();
    }
}

#[test]
fn a_million_flows_arrive_as_a_million_rows() {
    let server = clickhouse();
    let app = start(&server.http_url(), "");
    let sent = generate(&app, Protocol::Mixed, 1_000_000, 100_000);
    assert_eq!(app.stop().books.stored, 1_000_000);
    assert_eq!(stored_sums(&server), (1_000_000, sent.bytes, sent.packets));
    let row = query_row(
        &server,
        "SELECT uniqExact(exporterAddr), min(flowProtocol), max(flowProtocol), countIf(srcAddr = toIPv6('::') OR dstPort = 0 AND srcPort = 0 AND protocol IN (6, 17)) FROM tidegate.flows",
    );
    assert_eq!(row, ["12", "IPFIX", "SFLOW", "0"]);
}

#[test]
fn a_batch_is_an_insert_of_max_rows_into_one_partition() {
    let server = clickhouse();
    let app =
        start(&server.http_url(), "[clickhouse.batch]\nmax-rows = 1000\nmax-latency = \"2s\"");
    let sent = generate(&app, Protocol::V5, 5_000, 100_000);
    let scraped = wait_for_stored(&app, sent.flows);
    assert_eq!(scraped.sum("tidegate_batch_stored_batches_total", &[]), 5);
    assert_eq!(scraped.sum("tidegate_batch_rows_count", &[]), 5);
    app.stop();
}

#[test]
fn flows_around_midnight_go_to_a_partition_each() {
    let server = clickhouse();
    let app = start(&server.http_url(), "[clock]\nskew-threshold = \"24h\"");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let now_s = u32::try_from(UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
    // Half a day back and forth: two or three days, whatever the time is now.
    let times = [now_s - 43_200, now_s, now_s + 43_200, now_s];
    for (sequence, export_time_s) in (0..).zip(times) {
        socket.send_to(&one_flow(sequence, export_time_s), target(&app)).unwrap();
    }
    wait_for_stored(&app, 4);
    app.stop();
    let row = query_row(
        &server,
        "SELECT count(), uniqExact(toDate(timestamp)) > 1, max(abs(clockCorrection)) FROM tidegate.flows",
    );
    assert_eq!(row, ["4", "1", "0"]);
}

fn one_flow(sequence: u32, export_time_s: u32) -> Vec<u8> {
    MessageBuilder::ipfix(IpfixHeader { export_time_s, sequence, domain_id: 7 })
        .template(300, &[Field::new(8, 4), Field::new(12, 4), Field::new(1, 8), Field::new(2, 8)])
        .data_set(
            300,
            &[&[10, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 5, 220, 0, 0, 0, 0, 0, 0, 0, 1][..]],
        )
        .finish()
}

#[test]
fn books_balance_when_the_queue_overflows_and_templates_are_missing() {
    // ClickHouse is away at first, so the queue fills; then it comes and takes what was kept.
    let http_port = free_port();
    let endpoint = format!("http://127.0.0.1:{http_port}");
    let batch =
        "[clickhouse.batch]\nmax-rows = 1000\nmax-latency = \"100ms\"\nqueue-capacity = 20000";
    let app = start(&endpoint, batch);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let records_per_set = 3;
    let orphan = MessageBuilder::ipfix(IpfixHeader { export_time_s: 1, sequence: 0, domain_id: 9 })
        .data_set(999, &[&[1; 20][..]; 3])
        .finish();
    for _ in 0..5 {
        socket.send_to(&orphan, target(&app)).unwrap();
    }
    let sent = generate(&app, Protocol::Mixed, 60_000, 60_000);
    let row_drops = |scraped: &Scrape, reason: &str| {
        scraped.sum("tidegate_batch_dropped_rows_total", &[&format!("reason=\"{reason}\"")])
    };
    scrape_when(&app, |scraped| {
        scraped.sum("tidegate_decode_flows_total", &[]) == sent.flows
            && row_drops(scraped, "queue_full") > 0
    });
    let server = clickhouse_with(&DevServerOptions { http_port, ..DevServerOptions::default() });
    let scraped = scrape_when(&app, |scraped| {
        let known = scraped.sum("tidegate_batch_stored_rows_total", &[])
            + scraped.sum("tidegate_batch_dropped_rows_total", &[]);
        scraped.sum("tidegate_decode_flows_total", &[]) == known
    });
    let stored = scraped.sum("tidegate_batch_stored_rows_total", &[]);
    // Their template may come yet.
    let waiting = scraped.sum("tidegate_decode_waiting_sets", &[]);
    assert!(stored >= 20_000, "the queue kept its rows: {stored}");
    assert_eq!(waiting, 5);
    assert_eq!(
        sent.flows + 5 * records_per_set,
        stored
            + row_drops(&scraped, "queue_full")
            + row_drops(&scraped, "dead_letter_failed")
            + scraped.sum("tidegate_dead_letter_rows_total", &[])
            + row_drops(&scraped, "shutdown")
            + waiting * records_per_set
    );
    assert_eq!(stored_sums(&server).0, stored);

    // None comes any more when the collector stops.
    let metrics = Arc::clone(&app.view().metrics);
    assert_eq!(app.stop().books.pending(), 0);
    let scraped = Scrape::parse(&metrics.render());
    assert_eq!(scraped.sum("tidegate_decode_waiting_sets", &[]), 0);
    let no_template =
        scraped.sum("tidegate_decode_dropped_sets_total", &["reason=\"no_template\""]);
    assert_eq!(no_template, waiting);
}

#[test]
fn a_datagram_that_cannot_be_decoded_is_counted_with_its_exporter() {
    let app = start("http://127.0.0.1:9", "");
    let socket = UdpSocket::bind("127.9.9.9:0").unwrap();
    socket.connect(target(&app)).unwrap();
    let header_v5 = |count: u8| [&[0, 5, 0, count][..], &[0; 20]].concat();
    socket.send(&[0]).unwrap();
    socket.send(&[0, 42, 1, 2]).unwrap();
    socket.send(&[0, 9, 0, 1]).unwrap();
    socket.send(&header_v5(31)).unwrap();
    socket.send(&[&[0, 10, 0, 99][..], &[0; 12]].concat()).unwrap();
    let largest =
        [&[0, 9, 0, 1][..], &[0; 16], &[1, 0, 0xff, 0xff], &vec![7; 65_507 - 24]].concat();
    socket.send(&largest).unwrap();
    let scraped =
        scrape_when(&app, |scraped| scraped.sum("tidegate_receive_datagrams_total", &[]) == 6);
    let datagrams = |reason: &str| {
        scraped.sum("tidegate_decode_dropped_datagrams_total", &[&format!("reason=\"{reason}\"")])
    };
    assert_eq!(
        ["unknown_version", "truncated", "bad_count", "bad_length"].map(datagrams),
        [1, 2, 1, 1]
    );
    assert_eq!(
        scraped.sum("tidegate_decode_dropped_sets_total", &["reason=\"bad_set_length\""]),
        1
    );
    let (_, body) = common::get(app.management_address(), "/api/v1/exporters");
    let exporters: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(exporters[0]["address"], "127.9.9.9");
    assert_eq!(exporters[0]["datagrams"], 6);
    assert_eq!(exporters[0]["dropped"]["bad_set_length"]["bytes"], 65_507 - 20);
    let management = app.management_address().to_string();
    let output = common::tidegate(&["exporters", "--management", &management]);
    let table = String::from_utf8(output.stdout).unwrap();
    let line: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((line[0], *line.last().unwrap()), ("127.9.9.9", "6"), "{table}");
    app.stop();
}

#[test]
fn counters_of_an_sflow_agent_are_shown_by_interface() {
    let app = start("http://127.0.0.1:9", "");
    // Version, agent 10.1.2.3, sub-agent 7, one counter sample of one record: ifIndex 3.
    let head = [5, 1, 0x0a01_0203, 7, 1, 60_000, 1, 2, 108, 1, 3, 1, 1, 88, 3, 6, 0, 1_000_000_000];
    let counters = [1, 3, 0, 4_096, 1, 2, 3, 4, 5, u32::MAX, 0, 77, 1, 2, 3, 4, 5, 0];
    let words = head.iter().chain(&counters);
    let datagram: Vec<u8> = words.flat_map(|word: &u32| word.to_be_bytes()).collect();
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&datagram, target(&app)).unwrap();
    let sflow = "protocol=\"sflow\"";
    let scraped = scrape_when(&app, |scraped| {
        scraped.sum("tidegate_decode_counter_samples_total", &[sflow]) == 1
    });
    assert_eq!(scraped.sum("tidegate_decode_dropped_bytes_total", &[]), 0);
    let (_, body) = common::get(app.management_address(), "/api/v1/interfaces");
    let interfaces: serde_json::Value = serde_json::from_str(&body).unwrap();
    let interface = &interfaces[0];
    assert_eq!((&interface["agent"], &interface["ifIndex"]), (&"10.1.2.3".into(), &3.into()));
    assert_eq!((&interface["ifInOctets"], &interface["ifOutOctets"]), (&4_096.into(), &77.into()));
    assert_eq!(interface["ifInUnknownProtos"], serde_json::Value::Null);
    let (_, body) = common::get(app.management_address(), "/api/v1/exporters");
    let exporters: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&exporters[0]["interfaces"], &exporters[0]["counterSamples"]),
        (&1.into(), &1.into())
    );
    app.stop();
}

fn wait_for_stored(app: &App, rows: u64) -> Scrape {
    scrape_when(app, |scraped| scraped.sum("tidegate_batch_stored_rows_total", &[]) == rows)
}

fn scrape_when(app: &App, is_it: impl Fn(&Scrape) -> bool) -> Scrape {
    let mut scraped = Scrape::of(app);
    wait_until("the metrics say so", || {
        std::thread::sleep(Duration::from_millis(20));
        scraped = Scrape::of(app);
        is_it(&scraped)
    });
    scraped
}
