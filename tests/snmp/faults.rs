//! Agents that do wrong end their own walk, and nothing else.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use async_snmp::{Oid, Value, VarBind};

use super::common::say;
use super::fake::{Answer, Fake, row, split, text};
use super::{Running, public};

fn looping(asked: &Oid, repetitions: u32) -> Vec<VarBind> {
    let (column, _) = split(asked);
    (0..repetitions).map(|number| text(row(&column, 1 + number % 2), "lo")).collect()
}

fn numbers(asked: &Oid, _: u32) -> Vec<VarBind> {
    let (column, _) = split(asked);
    vec![VarBind::new(row(&column, 1), Value::Integer(7))]
}

fn longer_rows(asked: &Oid, _: u32) -> Vec<VarBind> {
    let (column, index) = split(asked);
    vec![text(row(&column, index + 1).child(9), "lo")]
}

fn endless(asked: &Oid, repetitions: u32) -> Vec<VarBind> {
    let (column, index) = split(asked);
    let value = |oid: Oid, index: u32| match column.last() {
        Some(15 | 5) => VarBind::new(oid, Value::Gauge32(1_000)),
        _ => text(oid, &format!("pppoe-{index}")),
    };
    (1..=repetitions).map(|more| value(row(&column, index + more), index + more)).collect()
}

fn flood(asked: &Oid, repetitions: u32) -> Vec<VarBind> {
    let (column, index) = split(asked);
    (1..=repetitions).map(|more| text(row(&column, index + more), &"~".repeat(255))).collect()
}

fn empty(_: &Oid, _: u32) -> Vec<VarBind> {
    Vec::new()
}

fn odd_texts(asked: &Oid, _: u32) -> Vec<VarBind> {
    let (column, index) = split(asked);
    let beyond = vec![text(row(&[1, 3, 6, 1, 3], 1), "")];
    match (column.last(), index) {
        (Some(1), 0) => vec![VarBind::new(
            row(&column, 3),
            Value::OctetString(b" \x1b[31mGi\xe9/0\0\r\n ".to_vec().into()),
        )],
        (Some(18), 0) => vec![text(row(&column, 3), &"\u{e9}".repeat(200))],
        (Some(15), 0) => vec![VarBind::new(row(&column, 3), Value::Gauge32(0))],
        (Some(5), 0) => vec![VarBind::new(row(&column, 3), Value::Gauge32(2_048_000_000))],
        _ => beyond,
    }
}

#[test]
fn an_agent_that_does_wrong_ends_its_walk_and_is_counted() {
    let cases = [
        ("127.0.0.11", looping as Answer, "do not grow"),
        ("127.0.0.12", numbers, "of another type"),
        ("127.0.0.13", longer_rows, "that of no interface"),
        ("127.0.0.19", flood, "more than 16MiB"),
    ];
    let fakes = cases.map(|(address, answer, _)| Fake::start(address, answer, 0));
    let agents: Vec<_> =
        cases.iter().zip(&fakes).map(|(case, fake)| public(case.0, fake.port)).collect();
    let addresses = cases.map(|case| case.0);
    let running = Running::start(&agents.concat(), None, &addresses);
    for (address, _, expected) in cases {
        let walked = running.walked(address);
        let error = walked.last_error.unwrap();
        assert!(error.contains(expected), "{address}: {error}");
        assert_eq!((walked.failures, walked.interfaces), (1, 0));
    }
    assert_eq!(running.walks("wrong_answer"), 3);
    assert_eq!(running.walks("limit"), 1);
}

#[test]
fn half_an_answer_is_none_and_an_empty_one_is_an_empty_table() {
    let half = Fake::start("127.0.0.14", endless, 7);
    let nothing = Fake::start("127.0.0.15", empty, 0);
    let agents = [public("127.0.0.14", half.port), public("127.0.0.15", nothing.port)].concat();
    let running = Running::start(&agents, None, &["127.0.0.14", "127.0.0.15"]);
    let error = running.walked("127.0.0.14").last_error.unwrap();
    assert!(error.contains("not well-formed") || error.contains("no answer"), "{error}");
    assert_eq!(running.walked("127.0.0.15").last_error, None);
    assert_eq!(running.interfaces("127.0.0.15"), []);
}

#[test]
fn an_agent_without_end_is_cut_at_65_536_interfaces() {
    let fake = Fake::start("127.0.0.16", endless, 0);
    let running = Running::start(&public("127.0.0.16", fake.port), None, &["127.0.0.16"]);
    let walked = running.walked("127.0.0.16");
    assert_eq!((walked.interfaces, walked.failures), (65_536, 0));
    assert!(walked.last_error.unwrap().contains("more than 65536 interfaces"));
    assert!(running.walks("limit") >= 1);
    say(&format!("65,536 interfaces of a fake: {:.2} s a walk", running.seconds_a_walk()));
    let table = running.walker.interfaces().of("127.0.0.16".parse().unwrap()).unwrap();
    let last = &table[&65_536];
    assert_eq!((&*last.name, &*last.alias, last.speed_mbit), ("pppoe-65536", "pppoe-65536", 1_000));
}

#[test]
fn texts_are_cleaned_and_a_speed_of_ifspeed_is_taken_when_the_other_is_0() {
    let fake = Fake::start("127.0.0.17", odd_texts, 0);
    let running = Running::start(&public("127.0.0.17", fake.port), None, &["127.0.0.17"]);
    assert_eq!(running.walked("127.0.0.17").last_error, None);
    let expected = (3, "[31mGi\u{fffd}/0".to_owned(), "\u{e9}".repeat(127), 2_048);
    assert_eq!(running.interfaces("127.0.0.17"), [expected]);
}

#[test]
fn a_stop_does_not_wait_for_a_walk_that_hangs() {
    let silent = UdpSocket::bind(("127.0.0.18", 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    let running = Running::start(&public("127.0.0.18", port), None, &["127.0.0.18"]);
    silent.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    silent.recv(&mut [0; 2_048]).unwrap();
    let start = Instant::now();
    drop(running);
    assert!(start.elapsed() < Duration::from_millis(200), "{:?}", start.elapsed());
}
