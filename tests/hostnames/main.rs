//! Names by reverse DNS, of a real server (NSD): when they are known, when they are asked for again, and what happens
//! when nobody answers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, unreachable_pub)]

#[path = "../common/mod.rs"]
mod common;
mod server;

use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::flows::{FLOW, Flow};
use common::{Scrape, config, has_program, say, wait_until};
use server::{NEGATIVE_TTL, Relay, Server};
use tidegate::hostnames::HostNames;
use tidegate::telemetry::Metrics;

/// Names that ask one server.
struct Bench {
    names: HostNames,
    metrics: Metrics,
}

impl Bench {
    fn new(server: SocketAddr, more: &str) -> Self {
        let text = format!(
            "[hostnames]\nenabled = true\nservers = [\"{server}\"]\nmin-ttl = \"1s\"\n{more}"
        );
        let metrics = Metrics::default();
        let names = HostNames::start(&config(&text).hostnames, &metrics).unwrap();
        Self { names, metrics }
    }

    fn name(&self, address: &str) -> Option<Arc<str>> {
        self.names.name(mapped(address))
    }

    /// The name, which is there in the end.
    fn name_at_last(&self, address: &str) -> Arc<str> {
        let mut name = None;
        wait_until("the name is known", || {
            name = self.name(address);
            name.is_some()
        });
        name.unwrap()
    }

    fn outcomes(&self, outcome: &str) -> u64 {
        let label = format!("outcome=\"{outcome}\"");
        self.sum("tidegate_hostnames_questions_total", &[&label])
    }

    fn dropped(&self, reason: &str) -> u64 {
        let label = format!("reason=\"{reason}\"");
        self.sum("tidegate_hostnames_dropped_questions_total", &[&label])
    }

    fn sum(&self, metric: &str, labels: &[&str]) -> u64 {
        Scrape::parse(&self.metrics.render()).sum(metric, labels)
    }

    fn wait_for(&self, outcome: &str, count: u64) {
        wait_until(outcome, || self.outcomes(outcome) == count);
    }
}

fn mapped(address: &str) -> Ipv6Addr {
    match address.parse().unwrap() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

#[test]
fn names_are_known_from_the_second_look_on() {
    if !has_program("nsd") {
        return;
    }
    let server = Server::start();
    let bench = Bench::new(server.address, "");
    let longest = format!("{0}.{0}.{0}.{1}", "x".repeat(63), "y".repeat(61));
    for (address, name) in [
        ("192.0.2.1", "host-1.example.net"),
        ("192.0.2.5", longest.as_str()),
        // By an alias (RFC 2317).
        ("192.0.2.6", "alias.example"),
        ("2001:db8::1", "six.example"),
        ("10.1.2.3", "any.example"),
    ] {
        assert_eq!(bench.name(address), None, "nobody waits");
        assert_eq!(*bench.name_at_last(address), *name);
    }
    assert_eq!(bench.outcomes("found"), 5);
    // Sixty names are cut in a datagram and come over TCP; any of them may be the first.
    assert!(bench.name_at_last("192.0.2.7").starts_with("one-of-many-names-"));
}

#[test]
fn what_is_no_name_is_refused_and_counted() {
    if !has_program("nsd") {
        return;
    }
    let server = Server::start();
    let bench = Bench::new(server.address, "");
    for (count, address) in [(1, "192.0.2.3"), (2, "192.0.2.4")] {
        assert_eq!(bench.name(address), None);
        bench.wait_for("bad_answer", count);
        assert_eq!(bench.name(address), None);
    }
}

#[test]
fn an_address_without_name_is_asked_for_once_within_the_time_of_its_soa() {
    if !has_program("nsd") {
        return;
    }
    let server = Server::start();
    let bench = Bench::new(server.address, "");
    assert_eq!(bench.name("192.0.2.200"), None);
    bench.wait_for("no_name", 1);
    let start = Instant::now();
    wait_until("it is asked for again", || {
        assert_eq!(bench.name("192.0.2.200"), None);
        bench.outcomes("no_name") == 2
    });
    let seconds = start.elapsed().as_secs_f64();
    assert!(seconds > NEGATIVE_TTL as f64 - 0.5, "{seconds}");
}

#[test]
fn a_name_is_asked_for_again_after_its_ttl_and_told_meanwhile() {
    if !has_program("nsd") {
        return;
    }
    let server = Server::start();
    let relay = Relay::start(server.address);
    let bench = Bench::new(relay.address, "");
    bench.name_at_last("192.0.2.1");
    bench.name_at_last("192.0.2.2");
    let start = Instant::now();
    wait_until("it is asked for again", || {
        assert!(bench.name("192.0.2.1").is_some() && bench.name("192.0.2.2").is_some());
        bench.outcomes("found") == 3
    });
    assert!(start.elapsed() > Duration::from_millis(500));
    assert_eq!(relay.count("2.2.0.192.in-addr.arpa"), 1, "its TTL is a minute");
    relay.be_silent(true);
    std::thread::sleep(Duration::from_secs(1));
    assert!(bench.name("192.0.2.1").is_some());
    bench.wait_for("no_answer", 1);
    assert!(bench.name("192.0.2.1").is_some(), "an old name is better than none");
}

#[test]
fn a_silent_server_makes_nobody_wait_and_is_left_alone_until_it_is_back() {
    if !has_program("nsd") {
        return;
    }
    let server = Server::start();
    let relay = Relay::start(server.address);
    relay.be_silent(true);
    let bench = Bench::new(relay.address, "timeout = \"200ms\"\nconcurrency = 8\n");
    let addresses: Vec<_> = (0..50_000).map(address_in_10).collect();
    let start = Instant::now();
    addresses.iter().for_each(|address| assert_eq!(bench.names.name(*address), None));
    let micros = start.elapsed().as_secs_f64() * 1e6 / 50_000.0;
    say(&format!("name() of a silent server: {micros:.2} µs"));
    assert!(micros < 20.0, "{micros}");
    wait_until("nothing is asked", || bench.sum("tidegate_hostnames_paused", &[]) == 1);
    // What waited is dropped, and what was under way has ended.
    wait_until("all questions have an end", || {
        let ends =
            bench.outcomes("no_answer") + bench.dropped("queue_full") + bench.dropped("paused");
        ends == 50_000
    });
    assert!(bench.dropped("queue_full") > 0 && bench.dropped("paused") > 0);
    assert!(bench.outcomes("no_answer") < 100, "{}", bench.outcomes("no_answer"));
    relay.be_silent(false);
    assert_eq!(*bench.name_at_last("10.9.9.9"), *"any.example");
    assert_eq!(bench.sum("tidegate_hostnames_paused", &[]), 0);
}

fn address_in_10(number: u32) -> Ipv6Addr {
    let [_, a, b, c] = number.to_be_bytes();
    std::net::Ipv4Addr::new(10, a, b, c).to_ipv6_mapped()
}

#[test]
fn what_is_known_is_bounded_and_every_question_is_in_the_books() {
    if !has_program("nsd") {
        return;
    }
    const ADDRESSES: u32 = 10_000;
    let server = Server::start();
    let bench = Bench::new(server.address, "cache-size = 1000\n");
    for number in 0..ADDRESSES {
        assert_eq!(bench.names.name(address_in_10(number)), None);
    }
    wait_until("all are answered", || {
        assert!(bench.sum("tidegate_hostnames_entries", &[]) <= 1_000);
        let questions = bench.sum("tidegate_hostnames_questions_total", &[]);
        questions + bench.dropped("queue_full") == u64::from(ADDRESSES)
    });
    assert!(bench.sum("tidegate_hostnames_entries", &[]) > 900);
    let known = (0..ADDRESSES).filter(|&number| bench.names.name(address_in_10(number)).is_some());
    assert!((500..=1_000).contains(&known.count()));
}

#[test]
fn the_same_address_is_asked_for_once_at_a_time() {
    if !has_program("nsd") {
        return;
    }
    let server = Server::start();
    let bench = Bench::new(server.address, "");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for number in 0..500 {
                    drop(bench.names.name(address_in_10(number)));
                }
            });
        }
    });
    wait_until("all are known", || {
        (0..500).all(|number| bench.names.name(address_in_10(number)).is_some())
    });
    // Under load a datagram may be lost, and its question be asked again later.
    let questions = bench.sum("tidegate_hostnames_questions_total", &[]);
    assert_eq!(questions - bench.outcomes("no_answer"), 500);
}

#[test]
fn only_addresses_that_may_have_a_name_and_are_wanted_are_asked_for() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    nobody.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let bench = Bench::new(
        nobody.local_addr().unwrap(),
        "prefixes = [\"192.0.2.0/24\", \"2001:db8::/32\"]\n",
    );
    for address in ["192.0.3.1", "2001:db9::1", "10.0.0.1"] {
        assert_eq!(bench.name(address), None, "{address}");
    }
    let all = Bench::new(nobody.local_addr().unwrap(), "");
    for address in ["0.0.0.0", "255.255.255.255", "127.0.0.1", "224.0.0.1", "::", "::1", "ff02::1"]
    {
        assert_eq!(all.name(address), None, "{address}");
    }
    assert!(nobody.recv(&mut [0; 512]).is_err(), "nothing is asked");
    assert_eq!(bench.name("192.0.2.1"), None);
    assert!(nobody.recv(&mut [0; 512]).is_ok());
}

#[test]
fn without_it_there_is_no_name_and_the_metrics_are_0() {
    let metrics = Metrics::default();
    let names = HostNames::start(&config("").hostnames, &metrics).unwrap();
    assert_eq!(names.name(mapped("192.0.2.1")), None);
    assert_eq!(Scrape::parse(&metrics.render()).sum("tidegate_hostnames_questions_total", &[]), 0);
}

#[test]
fn rows_have_the_names_that_are_known() {
    if !has_program("nsd") {
        return;
    }
    let (server, clickhouse) = (Server::start(), common::clickhouse());
    let names = format!("[hostnames]\nenabled = true\nservers = [\"{}\"]\n", server.address);
    let app = common::start(&clickhouse.http_url(), &names);
    let (mut bytes, mut last) = (0, Vec::new());
    wait_until("rows have names", || {
        bytes += 1;
        let (from, to) = ([192, 0, 2, 2], [192, 0, 2, 200]);
        common::flows::send(common::target(&app), &[Flow { from, to, bytes, ..FLOW }]);
        let stored = || app.view().ledger.books().stored == u64::from(bytes);
        wait_until("the row is stored", stored);
        let columns = "srcAddrHostname, dstAddrHostname, nextHopHostname";
        last = common::flows::row(&clickhouse, columns, bytes);
        if bytes == 1 {
            assert_eq!(last, ["", "", ""], "nobody waited for it");
        }
        !last[0].is_empty()
    });
    assert_eq!(last, ["kept.example", "", ""]);
    app.stop();
}
