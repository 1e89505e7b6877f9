//! IPFIX over TCP: what a connection has for itself, what it must bear, and how it ends.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, UNIX_EPOCH};

use common::{
    Scrape, captures, clickhouse, clickhouse_with, free_port, query_number, query_row, stored_sums,
    tidegate, wait_until,
};
use tidegate::app::App;
use tidegate::devserver::DevServerOptions;
use tidegate::sink::RowDropReason;
use tidegate::traffic::{
    self, Field, IpfixHeader, MessageBuilder, Pace, Protocol, Spec, Totals, Transport,
};

/// The receiver that `start` adds to the one of UDP.
const RECEIVER: &str = "[receivers.tcp]\nlisten = \"127.0.0.1:0\"\ntransport = \"tcp\"\n";

/// Nobody listens there.
const NO_CLICKHOUSE: &str = "http://127.0.0.1:9";

/// A collector with a receiver of UDP and one of TCP; `more` begins with keys of the latter.
fn start(endpoint: &str, more: &str) -> App {
    common::start(endpoint, &format!("{RECEIVER}{more}"))
}

fn target(app: &App, receiver: &str) -> SocketAddr {
    app.receivers().iter().find(|(name, _)| name == receiver).unwrap().1
}

fn connect(app: &App) -> TcpStream {
    let stream = TcpStream::connect(target(app, "tcp")).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(common::PATIENCE)).unwrap();
    stream
}

/// A message that begins now, as the first of its session.
fn message() -> MessageBuilder {
    let export_time_s = u32::try_from(UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
    MessageBuilder::ipfix(IpfixHeader { export_time_s, sequence: 0, domain_id: 7 })
}

/// Source port, bytes, packets.
const FIELDS: [Field; 3] = [Field::new(7, 2), Field::new(1, 4), Field::new(2, 4)];

fn template() -> Vec<u8> {
    message().template(300, &FIELDS).finish()
}

fn data(port: u16, bytes: u32) -> Vec<u8> {
    let record = [&port.to_be_bytes()[..], &bytes.to_be_bytes(), &[0, 0, 0, 1]].concat();
    message().data_set_padded(300, &[record], 0).finish()
}

/// The sum of a metric over the series with these labels.
fn sum(app: &App, metric: &str, labels: &[&str]) -> u64 {
    Scrape::of(app).sum(&format!("tidegate_{metric}"), labels)
}

fn wait_for(app: &App, metric: &str, labels: &[&str], value: u64) {
    wait_until(&format!("{metric} {labels:?} is {value}"), || sum(app, metric, labels) == value);
}

/// Waits until the collector has closed the connection.
fn wait_for_end(mut stream: TcpStream) {
    // What it had not read is answered by a reset.
    assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
}

#[test]
fn connections_at_once_with_another_template_of_the_same_id_store_their_own_rows() {
    let server = clickhouse();
    let app = start(&server.http_url(), "");
    let (connections, messages, records) = (12_u16, 50_u32, 40_u32);
    std::thread::scope(|scope| {
        for connection in 0..connections {
            let mut stream = connect(&app);
            scope.spawn(move || {
                // Every order of the three fields, with counters of 4 and of 8 bytes.
                let octets = if connection < 6 { 4 } else { 8 };
                let fields = [Field::new(7, 2), Field::new(1, octets), Field::new(2, octets)];
                let order = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
                    [usize::from(connection) % 6];
                let template = message().template(300, &order.map(|index| fields[index])).finish();
                stream.write_all(&template).unwrap();
                for number in 0..messages {
                    let record = |record: u32| {
                        let width = usize::from(octets);
                        let bytes = u64::from(number * records + record).to_be_bytes();
                        let packets = u64::from(connection + 1).to_be_bytes();
                        let port = (1_000 + connection).to_be_bytes();
                        let values = [&port[..], &bytes[8 - width..], &packets[8 - width..]];
                        order.map(|index| values[index]).concat()
                    };
                    let records: Vec<_> = (0..records).map(record).collect();
                    stream
                        .write_all(&message().data_set_padded(300, &records, 0).finish())
                        .unwrap();
                }
            });
        }
    });
    let rows = u64::from(u32::from(connections) * messages * records);
    wait_for(&app, "batch_stored_rows_total", &[], rows);
    let of_each = u64::from(messages * records);
    let answer = server
        .query("SELECT srcPort, count(), sum(bytes), sum(packets) FROM tidegate.flows GROUP BY 1 ORDER BY 1")
        .unwrap();
    let expected: String = (0..u64::from(connections))
        .map(|connection| {
            let bytes = of_each * (of_each - 1) / 2;
            format!("{}\t{of_each}\t{bytes}\t{}\n", 1_000 + connection, of_each * (connection + 1))
        })
        .collect();
    assert_eq!(answer, expected);
    assert_eq!(sum(&app, "decode_dropped_bytes_total", &[]), 0);
    assert_eq!(sum(&app, "decode_lost_records_total", &[]), 0);
    let messages = u64::from(u32::from(connections) * (messages + 1));
    assert_eq!(sum(&app, "receive_datagrams_total", &["receiver=\"tcp\""]), messages);
    wait_for(
        &app,
        "receive_connections_closed_total",
        &["reason=\"exporter\""],
        connections.into(),
    );
    app.stop();
}

#[test]
fn the_end_of_a_connection_forgets_its_templates_and_datagrams_never_had_them() {
    let app = start(NO_CLICKHOUSE, "");
    let mut first = connect(&app);
    first.write_all(&[template(), data(1, 10)].concat()).unwrap();
    wait_for(&app, "decode_flows_total", &[], 1);
    assert_eq!(sum(&app, "decode_templates", &[]), 1);
    let mut second = connect(&app);
    second.write_all(&data(2, 10)).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&data(3, 10), target(&app, "test")).unwrap();
    wait_for(&app, "decode_waiting_sets", &[], 2);
    drop(second);
    wait_for(&app, "decode_dropped_sets_total", &["reason=\"no_template\""], 1);
    drop(first);
    wait_for(&app, "decode_templates", &[], 0);
    let mut third = connect(&app);
    third.write_all(&data(4, 10)).unwrap();
    wait_for(&app, "decode_waiting_sets", &[], 2);
    // The template comes at last.
    third.write_all(&template()).unwrap();
    wait_for(&app, "decode_flows_total", &[], 2);
    let metrics = Arc::clone(&app.view().metrics);
    assert_eq!(app.stop().books.received, 2);
    let scraped = Scrape::parse(&metrics.render());
    let dropped = scraped.sum("tidegate_decode_dropped_sets_total", &["reason=\"no_template\""]);
    assert_eq!(dropped, 2, "that of the datagram too");
}

#[test]
fn exporters_wait_while_clickhouse_is_away_and_then_every_row_arrives() {
    let http_port = free_port();
    let batch =
        "[clickhouse.batch]\nmax-rows = 1000\nmax-latency = \"100ms\"\nqueue-capacity = 2000";
    let app = start(&format!("http://127.0.0.1:{http_port}"), batch);
    let to = target(&app, "tcp");
    // 20 MB a connection: more than the kernel's buffers of both ends.
    let spec = Spec {
        protocol: Protocol::Ipfix,
        exporters: 2,
        flows: Some(600_000),
        transport: Transport::Tcp,
        ..Spec::default()
    };
    let totals = Arc::new(Totals::default());
    let counts = Arc::clone(&totals);
    let exporters = std::thread::spawn(move || {
        traffic::run(&spec, to, Pace::default(), &AtomicBool::new(false), &counts).unwrap();
    });
    let paused = || sum(&app, "receive_paused_milliseconds_total", &["receiver=\"tcp\""]);
    wait_until("the collector waits", || paused() > 500);
    let mut sent = totals.read().flows;
    wait_until("the exporters wait", || {
        std::thread::sleep(Duration::from_millis(500));
        let before = std::mem::replace(&mut sent, totals.read().flows);
        sent == before
    });
    assert!(!exporters.is_finished() && sent < 600_000, "{sent} flows fit in buffers");
    assert!(app.view().ledger.books().received < 20_000, "the rest is not read");
    let server = clickhouse_with(&DevServerOptions { http_port, ..DevServerOptions::default() });
    exporters.join().unwrap();
    let sent = totals.read();
    wait_for(&app, "batch_stored_rows_total", &[], 600_000);
    assert_eq!(stored_sums(&server), (600_000, sent.bytes, sent.packets));
    assert_eq!(sum(&app, "batch_dropped_rows_total", &[]), 0);
    assert_eq!(sum(&app, "decode_dropped_bytes_total", &[]), 0);
    assert_eq!(app.stop().books.dropped_total(), 0);
}

#[test]
fn what_is_no_message_closes_its_connection_and_no_other() {
    let app = start(NO_CLICKHOUSE, "");
    let mut good = connect(&app);
    good.write_all(&template()).unwrap();
    let too_short = [&[0, 10, 0, 15][..], &[7; 30]].concat();
    let cases = [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "unknown_version"),
        (&[0, 9, 0, 1, 7, 7], "protocol_refused"),
        (&too_short, "bad_length"),
    ];
    for (closed, (garbage, reason)) in (1..).zip(cases) {
        let mut stream = connect(&app);
        stream.write_all(&[&template(), &data(1, 1), garbage].concat()).unwrap();
        wait_for_end(stream);
        wait_for(&app, "receive_connections_closed_total", &["reason=\"garbage\""], closed);
        let label = format!("reason=\"{reason}\"");
        assert_eq!(sum(&app, "decode_dropped_datagrams_total", &[&label]), 1, "{reason}");
        let bytes = garbage.len() as u64;
        assert_eq!(sum(&app, "decode_dropped_bytes_total", &[&label]), bytes, "{reason}");
        assert_eq!(sum(&app, "decode_flows_total", &[]), closed, "what was before is decoded");
    }
    // A message that the end of the connection cuts.
    let mut stream = connect(&app);
    stream.write_all(&data(1, 1)[..20]).unwrap();
    drop(stream);
    wait_for(&app, "decode_dropped_datagrams_total", &["reason=\"bad_length\""], 2);
    good.write_all(&data(2, 2)).unwrap();
    wait_for(&app, "decode_flows_total", &[], 4);
    let datagrams = sum(&app, "receive_datagrams_total", &[]);
    assert_eq!(datagrams, sum(&app, "decode_datagrams_total", &[]));
    let (_, body) = common::get(app.management_address(), "/api/v1/exporters");
    let exporters: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(exporters[0]["datagrams"], datagrams);
    assert_eq!(exporters[0]["dropped"]["bad_length"]["count"], 2);
    app.stop();
}

#[test]
fn a_connection_that_is_quiet_for_too_long_is_closed() {
    let app = start(NO_CLICKHOUSE, "idle-timeout = \"1s\"\n");
    let (quiet, mut busy) = (connect(&app), connect(&app));
    let started = Instant::now();
    let writer = std::thread::spawn(move || {
        for byte in [template(), data(1, 1)].concat() {
            busy.write_all(&[byte]).unwrap();
            std::thread::sleep(Duration::from_millis(30));
        }
        busy
    });
    wait_for_end(quiet);
    assert!(started.elapsed() >= Duration::from_millis(990), "{:?}", started.elapsed());
    let busy = writer.join().unwrap();
    wait_for(&app, "decode_flows_total", &[], 1);
    assert_eq!(sum(&app, "receive_connections_closed_total", &["reason=\"idle\""]), 1);
    assert_eq!(sum(&app, "receive_connections", &["receiver=\"tcp\""]), 1);
    drop(busy);
    app.stop();
}

#[test]
fn connections_beyond_the_limit_are_refused_and_counted() {
    let app = start(NO_CLICKHOUSE, "max-connections = 2\n");
    let (first, second) = (connect(&app), connect(&app));
    wait_for(&app, "receive_connections", &[], 2);
    wait_for_end(connect(&app));
    wait_for(&app, "receive_connections_refused_total", &[], 1);
    drop(first);
    wait_for(&app, "receive_connections", &[], 1);
    let mut third = connect(&app);
    third.write_all(&[template(), data(1, 1)].concat()).unwrap();
    wait_for(&app, "decode_flows_total", &[], 1);
    assert_eq!(sum(&app, "receive_connections_accepted_total", &[]), 3);
    drop(second);
    app.stop();
}

#[test]
fn messages_that_come_byte_by_byte_are_read_as_those_that_come_together() {
    let app = start(NO_CLICKHOUSE, "");
    let mut stream = connect(&app);
    let messages = [template(), data(1, 1), data(2, 2)].concat();
    for byte in &messages {
        stream.write_all(&[*byte]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    stream.write_all(&messages.repeat(200)).unwrap();
    wait_for(&app, "decode_flows_total", &[], 2 * 201);
    let tcp = ["receiver=\"tcp\""];
    assert_eq!(sum(&app, "receive_datagrams_total", &tcp), 3 * 201);
    assert_eq!(sum(&app, "receive_bytes_total", &tcp), messages.len() as u64 * 201);
    app.stop();
}

#[test]
fn a_stop_decodes_what_was_received_and_ends_the_connections() {
    let server = clickhouse();
    let batch = "[clickhouse.batch]\nmax-latency = \"30s\"\nshutdown-grace-period = \"60s\"";
    let app = start(&server.http_url(), batch);
    let mut stream = connect(&app);
    let whole = [template(), data(1, 5)].concat();
    let cut = &data(1, 9)[..21];
    stream.write_all(&[&whole.repeat(500)[..], cut].concat()).unwrap();
    wait_for(&app, "receive_connections", &[], 1);
    let metrics = Arc::clone(&app.view().metrics);
    let stopped = app.stop();
    assert_eq!((stopped.books.stored, stopped.is_drained), (500, true));
    wait_for_end(stream);
    assert_eq!(stored_sums(&server), (500, 2_500, 500));
    let scraped = Scrape::parse(&metrics.render());
    assert_eq!(scraped.sum("tidegate_receive_connections", &[]), 0);
    let closed = scraped.sum("tidegate_receive_connections_closed_total", &["reason=\"stop\""]);
    assert_eq!(closed, 1);
    let cut_bytes = scraped.sum("tidegate_decode_dropped_bytes_total", &["reason=\"bad_length\""]);
    assert_eq!(cut_bytes, cut.len() as u64);
}

#[test]
fn rows_that_wait_at_a_stop_without_clickhouse_are_lost_to_it_and_counted() {
    let batch = "[clickhouse.batch]\nmax-rows = 100\nmax-latency = \"10ms\"\nqueue-capacity = 100\nshutdown-grace-period = \"1s\"";
    let app = start(NO_CLICKHOUSE, batch);
    let mut stream = connect(&app);
    stream.write_all(&[template(), data(1, 5).repeat(2_000)].concat()).unwrap();
    wait_until("the collector waits", || {
        sum(&app, "receive_paused_milliseconds_total", &["receiver=\"tcp\""]) > 100
    });
    let start = Instant::now();
    let stopped = app.stop();
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    let dropped = stopped.books.dropped;
    let lost = |reason: RowDropReason| dropped[reason as usize];
    assert_eq!(
        (lost(RowDropReason::QueueFull), lost(RowDropReason::Shutdown)),
        (0, stopped.books.received),
        "no row is queue_full"
    );
    assert!(!stopped.is_drained);
    assert!(stopped.books.received > 300, "{:?}", stopped.books);
}

#[test]
fn generate_and_send_travel_over_tcp() {
    let server = clickhouse();
    let app = start(&server.http_url(), "");
    let to = target(&app, "tcp").to_string();
    let generate = |protocol| {
        let flows = ["--flows", "10000", "--rate", "0", "--exporters", "20"];
        let over = ["generate", "--to", &to, "--transport", "tcp", "--protocol", protocol];
        tidegate(&[&over[..], &flows].concat())
    };
    let output = generate("ipfix");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    wait_for(&app, "batch_stored_rows_total", &[], 10_000);
    let exporters = "SELECT uniqExact(exporterAddr) FROM tidegate.flows";
    assert_eq!(query_number(&server, exporters), 20);
    let output = generate("mixed");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text, "tidegate: only IPFIX travels over TCP: add --protocol ipfix\n");
    if let Some(folder) = captures() {
        let send = |capture: &str| {
            let capture = folder.join(capture);
            tidegate(&["send", capture.to_str().unwrap(), "--to", &to, "--transport", "tcp"])
        };
        let output = send("exporter-softflowd-v10.pcap");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        wait_for(&app, "batch_stored_rows_total", &[], 10_200);
        let output = send("exporter-softflowd-v9.pcap");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let left_out = "left out 8 datagrams that are no IPFIX messages\n";
        assert_eq!((output.status.code(), text.as_str()), (Some(0), left_out));
    }
    app.stop();
}

/// A real exporter: python-ipfix, Debian's package python3-ipfix.
#[test]
fn flows_of_python_ipfix_are_stored_as_it_exported_them() {
    let python = "/usr/bin/python3";
    let exporter = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/export_ipfix.py");
    let check = Command::new(python).args(["-c", "import ipfix"]).output();
    if !check.is_ok_and(|output| output.status.success()) {
        return common::skip("python3-ipfix is not installed");
    }
    let server = clickhouse();
    let app = start(&server.http_url(), "");
    let to = target(&app, "tcp");
    let flows = 5_000;
    let status = Command::new(python)
        .arg(exporter)
        .args([to.ip().to_string(), to.port().to_string(), flows.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
    wait_for(&app, "batch_stored_rows_total", &[], flows);
    let row = query_row(
        &server,
        "SELECT count(), sum(bytes), sum(packets), uniqExact(srcAddr), min(observationDomainId), max(length(applicationName)) FROM tidegate.flows",
    );
    let bytes = (flows * (flows - 1) / 2).to_string();
    assert_eq!(row, [&flows.to_string(), &bytes, &flows.to_string(), "250", "8304", "9"]);
    assert_eq!(sum(&app, "decode_dropped_bytes_total", &[]), 0);
    assert_eq!(sum(&app, "decode_lost_records_total", &[]), 0);
    app.stop();
}
