//! A restart in the middle of a stream: what is received after it is decoded, though no template comes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};

use common::{Collector, Scrape, clickhouse, query_number, wait_until};
use tidegate::devserver::DevServer;
use tidegate::traffic::{Field, IpfixHeader, MessageBuilder, V9Header};

const FIELDS: [Field; 3] = [Field::new(8, 4), Field::new(1, 4), Field::new(2, 4)];
const TEMPLATE: u16 = 300;

/// Starts a message: of NetFlow v9 or IPFIX.
type Begin = fn() -> MessageBuilder;

fn v9() -> MessageBuilder {
    MessageBuilder::v9(V9Header { export_time_s: now_s(), source_id: 7, ..V9Header::default() })
}

fn ipfix() -> MessageBuilder {
    let header = IpfixHeader { export_time_s: now_s(), domain_id: 7, ..IpfixHeader::default() };
    MessageBuilder::ipfix(header)
}

fn now_s() -> u32 {
    u32::try_from(UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap()
}

/// An exporter that sends a datagram of one flow every two milliseconds, whoever listens.
struct Stream {
    is_ended: Arc<AtomicBool>,
    sent: Arc<AtomicU32>,
    thread: JoinHandle<()>,
}

impl Stream {
    fn start(socket: &UdpSocket, begin: Begin) -> Self {
        let socket = socket.try_clone().unwrap();
        let (is_ended, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (end, count) = (Arc::clone(&is_ended), Arc::clone(&sent));
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                // Refused while no collector has the port.
                drop(socket.send(&data(begin)));
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Self { is_ended, sent, thread }
    }

    fn sent(&self) -> u32 {
        self.sent.load(Ordering::Relaxed)
    }

    fn end(self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

fn template(begin: Begin) -> Vec<u8> {
    begin().template(TEMPLATE, &FIELDS).finish()
}

fn data(begin: Begin) -> Vec<u8> {
    begin().data_set(TEMPLATE, &[&[10, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 2][..]]).finish()
}

/// An exporter and the configuration of the collector that it sends to, on the same port at every start.
fn exporter(endpoint: &str, directory: &Path) -> (UdpSocket, String) {
    let target = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(target).unwrap();
    let config = format!(
        "[receivers.test]\nlisten = \"{target}\"\n\
         [management]\nlisten = \"127.0.0.1:0\"\n\
         [state]\ndirectory = \"{}\"\n\
         [clickhouse]\nendpoint = \"{endpoint}\"\n\
         [clickhouse.batch]\nmax-latency = \"100ms\"\n",
        directory.display()
    );
    (socket, config)
}

fn scrape_until(collector: &Collector, what: &str, is_it: impl Fn(&Scrape) -> bool) -> Scrape {
    let mut scraped = Scrape::at(collector.management);
    wait_until(what, || {
        scraped = Scrape::at(collector.management);
        is_it(&scraped)
    });
    scraped
}

fn flows(scraped: &Scrape) -> u64 {
    scraped.sum("tidegate_decode_flows_total", &[])
}

/// Rows of `flows`, when no insert changes them any more: one whose client was killed behind its last byte
/// still goes on.
fn settled_count(server: &DevServer) -> u64 {
    let count = || query_number(server, "SELECT count() FROM tidegate.flows");
    let inserts = "SELECT count() FROM system.processes WHERE query LIKE 'INSERT INTO%'";
    let mut rows = count();
    wait_until("no insert runs", || {
        std::thread::sleep(Duration::from_millis(300));
        let before = std::mem::replace(&mut rows, count());
        query_number(server, inserts) == 0 && before == rows
    });
    rows
}

/// Restarts the collector in the middle of a stream.
fn restart(begin: Begin, signal: &str) {
    let server = clickhouse();
    let directory = tempfile::tempdir().unwrap();
    let (socket, config) = exporter(&server.http_url(), &directory.path().join("state"));
    let mut first = Collector::start(&config);
    socket.send(&template(begin)).unwrap();
    let stream = Stream::start(&socket, begin);
    // What came in the last second may be lost with a process that is killed.
    scrape_until(&first, "flows are decoded and the template is written", |scraped| {
        flows(scraped) > 100 && scraped.sum("tidegate_state_templates", &[]) == 1
    });
    first.signal(signal);
    let (code, log) = first.wait();
    assert_eq!(code, if signal == "KILL" { None } else { Some(0) }, "{log}");
    let stored_before = settled_count(&server);
    if signal != "KILL" {
        assert!(
            log.contains(&format!("received={stored_before} stored={stored_before} ")),
            "{log}"
        );
    }

    let mut second = Collector::start(&config);
    let log = second.log();
    assert!(log.contains("Templates restored. templates=1 exporters=1"), "{log}");
    let sent_before = stream.sent();
    wait_until("the stream went on", || stream.sent() > sent_before + 200);
    stream.end();
    let scraped = scrape_until(&second, "what is received is decoded", |scraped| {
        let received = scraped.sum("tidegate_receive_datagrams_total", &[]);
        received > 200 && received == flows(scraped)
    });
    for none in ["templates_learned_total", "waiting_sets", "dropped_sets_total"] {
        assert_eq!(scraped.sum(&format!("tidegate_decode_{none}"), &[]), 0, "{none}");
    }
    assert_eq!(scraped.sum("tidegate_receive_kernel_dropped_datagrams_total", &[]), 0);
    let received = flows(&scraped);
    second.signal("TERM");
    let (code, log) = second.wait();
    assert_eq!(code, Some(0), "{log}");
    let books =
        format!("received={received} stored={received} dead_lettered=0 spooled=0 dropped=0");
    assert!(log.contains(&books), "{log}");
    let stored = query_number(&server, "SELECT count() FROM tidegate.flows WHERE bytes = 256");
    assert_eq!(stored, stored_before + received);
}

#[test]
fn no_record_that_is_received_is_lost_after_a_restart() {
    restart(v9, "TERM");
    restart(ipfix, "TERM");
}

#[test]
fn no_record_that_is_received_is_lost_after_a_kill() {
    restart(v9, "KILL");
    restart(ipfix, "KILL");
}

/// At a first start, and after a restart without the file: data waits and is decoded when the template comes.
#[test]
fn with_an_empty_directory_data_waits_for_its_template() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, config) = exporter("http://127.0.0.1:9", directory.path());
    for begin in [v9 as Begin, ipfix] {
        let collector = Collector::start(&config);
        for _ in 0..50 {
            socket.send(&data(begin)).unwrap();
        }
        let scraped = scrape_until(&collector, "the sets wait", |scraped| {
            scraped.sum("tidegate_decode_waiting_sets", &[]) == 50
        });
        assert_eq!(flows(&scraped), 0);
        socket.send(&template(begin)).unwrap();
        // Gauges are read before counters, so both are asked for.
        let scraped = scrape_until(&collector, "they are decoded", |scraped| {
            flows(scraped) == 50 && scraped.sum("tidegate_decode_waiting_sets", &[]) == 0
        });
        assert_eq!(scraped.sum("tidegate_decode_dropped_sets_total", &[]), 0);
        drop(collector);
        let file = directory.path().join("templates");
        if file.exists() {
            std::fs::remove_file(file).unwrap();
        }
    }
}

#[test]
fn a_damaged_file_is_set_aside_and_a_directory_that_cannot_be_written_is_said_once() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("templates");
    std::fs::write(&file, "damaged").unwrap();
    let (socket, config) = exporter("http://127.0.0.1:9", directory.path());
    let collector = Collector::start(&config);
    socket.send(&template(v9)).unwrap();
    scrape_until(&collector, "a new file is written", |scraped| {
        scraped.sum("tidegate_state_templates", &[]) == 1
    });
    assert!(collector.log().contains("WARN"), "{}", collector.log());
    assert!(collector.log().contains("the file is damaged"), "{}", collector.log());
    assert!(file.exists());
    assert_eq!(std::fs::read(directory.path().join("templates.damaged")).unwrap(), b"damaged");
    drop(collector);

    // The directory is a file.
    let (socket, config) = exporter("http://127.0.0.1:9", &file);
    let mut collector = Collector::start(&config);
    socket.send(&template(v9)).unwrap();
    socket.send(&data(v9)).unwrap();
    scrape_until(&collector, "it decodes, and counts the failures", |scraped| {
        flows(scraped) == 1 && scraped.sum("tidegate_state_write_failures_total", &[]) > 1
    });
    collector.signal("TERM");
    let (_, log) = collector.wait();
    assert_eq!(log.matches("Templates cannot be written").count(), 1, "{log}");
}
