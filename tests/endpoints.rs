//! Several ClickHouse servers: which one gets the batches when one is away, hangs or cannot be used.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{
    Collector, PATIENCE, Scrape, clickhouse, clickhouse_with, config, config_text, config_text_of,
    free_port, get, query_number, target, wait_until,
};
use socket2::{Domain, Socket, Type};
use tidegate::app::App;
use tidegate::clickhouse::{ClickHouseError, Connection};
use tidegate::devserver::{DevServer, DevServerOptions};
use tidegate::traffic::{self, Pace, Spec, Totals};

/// Small batches, tried again soon.
const QUICK: &str = "connect-timeout = \"300ms\"\n\
                     [clickhouse.batch]\nmax-rows = 2000\nmax-latency = \"50ms\"\nshutdown-grace-period = \"30s\"\n\
                     [clickhouse.retry]\ndelay = \"100ms\"";
const BATCH_ROWS: u64 = 2_000;

/// The server of the tests that is killed keeps its data and its port.
fn lasting_clickhouse(data: &tempfile::TempDir) -> DevServer {
    let path = Some(data.path().join("ch"));
    clickhouse_with(&DevServerOptions { path, ..DevServerOptions::default() })
}

fn generate(target: SocketAddr, flows: u64) {
    let spec = Spec { flows: Some(flows), ..Spec::default() };
    let pace = Pace { flows_per_second: 20_000, duration: None };
    traffic::run(&spec, target, pace, &AtomicBool::new(false), &Totals::default()).unwrap();
}

fn rows(server: &DevServer) -> u64 {
    query_number(server, "SELECT count() FROM tidegate.flows")
}

fn failovers(scrape: &Scrape) -> u64 {
    scrape.sum("tidegate_clickhouse_failovers_total", &[])
}

/// The endpoint that `/api/v1/status` names, which must be the one that the metric has.
fn endpoint_in_use(management: SocketAddr) -> String {
    let status: serde_json::Value =
        serde_json::from_str(&get(management, "/api/v1/status").1).unwrap();
    let url = status["clickhouse"]["endpointInUse"].as_str().unwrap().to_owned();
    let scrape = Scrape::at(management);
    let is_in_use = |labels: &[&str]| scrape.sum("tidegate_clickhouse_endpoint_in_use", labels);
    let label = format!("endpoint=\"{url}\"");
    assert_eq!((is_in_use(&[&label]), is_in_use(&[])), (1, 1), "{url}");
    url
}

#[test]
fn a_killed_server_gives_way_to_the_next_and_gets_the_traffic_back_when_it_returns() {
    let data = tempfile::tempdir().unwrap();
    let first = lasting_clickhouse(&data);
    let second = clickhouse();
    let urls = [first.http_url(), second.http_url()];
    let mut collector = Collector::start(&config_text_of(&[&urls[0], &urls[1]], QUICK));
    let management = collector.management;
    let stored = || Scrape::at(management).sum("tidegate_batch_stored_rows_total", &[]);
    assert_eq!(endpoint_in_use(management), urls[0]);

    // In the middle of the traffic: the insert that is under way may be stored on both.
    let again = first.options();
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| generate(collector.target, 40_000));
        wait_until("the first server has rows", || stored() >= 4 * BATCH_ROWS);
        first.kill().unwrap();
        sending.join().unwrap();
    });
    wait_until("all is stored", || stored() == 40_000);
    assert_eq!(endpoint_in_use(management), urls[1]);
    let on_second = rows(&second);
    assert!(on_second > 0);
    let log = collector.log();
    let change = log.lines().find(|line| line.contains("ClickHouse endpoint failed")).unwrap();
    let doubled_max = if change.contains("no answer") { BATCH_ROWS } else { 0 };

    // Back on its port, and asked at most 30 s later; what is sent meanwhile is on the second.
    let first = clickhouse_with(&again);
    let on_first = rows(&first);
    let doubled = on_first + on_second - 40_000;
    assert!(doubled <= doubled_max, "{doubled} rows are on both: {change}");
    let mut sent = 40_000;
    wait_until("the first server is used again", || {
        generate(collector.target, 100);
        sent += 100;
        endpoint_in_use(management) == urls[0]
    });
    generate(collector.target, 5_000);
    sent += 5_000;
    wait_until("all is stored", || stored() == sent);
    assert!(rows(&first) >= on_first + 5_000);
    // No insert was under way at this change: nothing is on both.
    assert_eq!(rows(&first) + rows(&second), sent + doubled);
    assert_eq!(failovers(&Scrape::at(management)), 1);

    collector.signal("TERM");
    let (code, log) = collector.wait();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("The first ClickHouse endpoint is back and used again."), "{log}");
}

#[test]
fn between_two_inserts_a_killed_server_costs_and_doubles_nothing() {
    let data = tempfile::tempdir().unwrap();
    let first = lasting_clickhouse(&data);
    let second = clickhouse();
    let text = config_text_of(&[&first.http_url(), &second.http_url()], QUICK);
    let app = App::start(&config(&text)).unwrap();
    generate(target(&app), 5_000);
    wait_until("all is stored", || app.view().ledger.books().stored == 5_000);
    let again = first.options();
    first.kill().unwrap();
    generate(target(&app), 5_000);
    let books = app.stop().books;
    assert_eq!((books.stored, books.dropped_total()), (10_000, 0));
    assert_eq!((rows(&clickhouse_with(&again)), rows(&second)), (5_000, 5_000));
}

/// What `docs/delivery.md` says of servers that are not replicated.
#[test]
fn a_batch_whose_answer_is_lost_is_stored_on_both_servers() {
    let (first, second) = (clickhouse(), clickhouse());
    let is_cut = Arc::new(AtomicBool::new(false));
    let way = forward(first.http_address(), Arc::clone(&is_cut));
    let text = config_text_of(&[&format!("http://{way}"), &second.http_url()], QUICK);
    let app = App::start(&config(&text)).unwrap();
    generate(target(&app), 1_000);
    wait_until("all is stored", || app.view().ledger.books().stored == 1_000);
    is_cut.store(true, Ordering::Relaxed);
    generate(target(&app), 1_000);
    let books = app.stop().books;
    assert_eq!((books.stored, books.dropped_total()), (2_000, 0));
    let (on_first, on_second) = (rows(&first), rows(&second));
    let doubled = on_first + on_second - 2_000;
    assert!((1..=BATCH_ROWS).contains(&doubled), "{on_first} and {on_second}");
    assert_eq!((on_first, on_second), (1_000 + doubled, 1_000));
}

/// A way to `server`. Once it is cut it carries requests and no answers.
fn forward(server: SocketAddr, is_cut: Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
            let (requests, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut &requests, &mut &to_server));
            let is_cut = Arc::clone(&is_cut);
            std::thread::spawn(move || answer(&server, &client, &is_cut));
        }
    });
    address
}

/// Carries answers to the client, and ends the connection instead when it is cut.
fn answer(mut server: &TcpStream, mut client: &TcpStream, is_cut: &AtomicBool) {
    let mut bytes = [0; 4_096];
    while let Ok(length @ 1..) = server.read(&mut bytes) {
        if is_cut.load(Ordering::Relaxed) || client.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    drop(client.shutdown(Shutdown::Both));
}

/// A listener whose backlog is full: the kernel does not answer those who connect. Closed with what is returned.
fn unanswering() -> (SocketAddr, impl Sized) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(300)).ok();
    let waiting: Vec<_> = std::iter::from_fn(connect).collect();
    (address, (socket, waiting))
}

#[test]
fn a_connection_that_nobody_answers_ends_with_the_connect_timeout() {
    let (address, _held) = unanswering();
    let text = config_text(&format!("http://{address}"), "connect-timeout = \"300ms\"");
    let config = config(&text).clickhouse;
    let connection = Connection::new(&config).unwrap();
    let start = Instant::now();
    let error = connection.execute("SELECT 1").unwrap_err();
    let elapsed = start.elapsed();
    assert!((300..2_000).contains(&elapsed.as_millis()), "{elapsed:?}");
    assert!(matches!(error, ClickHouseError::Unreachable(_)), "{error:?}");
    assert_eq!(error.to_string(), "no connection: none within clickhouse.connect-timeout");
}

#[test]
fn a_server_that_nobody_reaches_a_port_without_one_and_a_proxy_without_one_are_passed_over() {
    let (address, _held) = unanswering();
    let proxy = proxy_without_server();
    let server = clickhouse();
    let urls = [
        format!("http://{address}"),
        format!("http://127.0.0.1:{}", free_port()),
        format!("http://{proxy}"),
        server.http_url(),
    ];
    let urls: Vec<_> = urls.iter().map(String::as_str).collect();
    let app = App::start(&config(&config_text_of(&urls, QUICK))).unwrap();
    generate(target(&app), 5_000);
    wait_until("all is stored", || app.view().ledger.books().stored == 5_000);
    assert_eq!(endpoint_in_use(app.management_address()), urls[3]);
    assert_eq!(failovers(&Scrape::of(&app)), 3);
    app.stop();
    assert_eq!(rows(&server), 5_000);
}

/// Answers every request with 503, as a load balancer does whose servers are all away.
fn proxy_without_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            assert!(stream.read(&mut [0; 4_096]).unwrap() > 0);
            let body = "no server is available";
            write!(stream, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
    });
    address
}

#[test]
fn a_server_with_another_table_is_passed_over_once_the_collector_runs() {
    let data = tempfile::tempdir().unwrap();
    let first = lasting_clickhouse(&data);
    let second = clickhouse();
    second.query("CREATE DATABASE tidegate").unwrap();
    second.query("CREATE TABLE tidegate.flows (bytes String) ENGINE = Memory").unwrap();
    let text = config_text_of(&[&first.http_url(), &second.http_url()], QUICK);
    let mut collector = Collector::start(&text);
    let management = collector.management;
    let stored = || Scrape::at(management).sum("tidegate_batch_stored_rows_total", &[]);
    generate(collector.target, 1_000);
    wait_until("all is stored", || stored() == 1_000);
    let again = first.options();
    first.kill().unwrap();
    generate(collector.target, 1_000);
    wait_until("both were tried", || failovers(&Scrape::at(management)) > 4);
    let first = clickhouse_with(&again);
    wait_until("all is stored", || stored() == 2_000);
    assert_eq!((rows(&first), rows(&second)), (2_000, 0));
    collector.signal("TERM");
    let (code, log) = collector.wait();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("bytes is String, must be UInt64"), "{log}");
}

/// The first of the list is the one that is meant: what it refuses at the start is told at once.
#[test]
fn a_first_server_that_cannot_be_used_ends_the_start() {
    let (first, second) = (clickhouse(), clickhouse());
    first.query("CREATE DATABASE tidegate").unwrap();
    first.query("CREATE TABLE tidegate.flows (bytes String) ENGINE = Memory").unwrap();
    let text = config_text_of(&[&first.http_url(), &second.http_url()], QUICK);
    let app = App::start(&config(&text)).unwrap();
    wait_until("the collector says why", || app.fatal().is_some());
    app.stop();
}
