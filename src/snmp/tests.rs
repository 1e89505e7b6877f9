use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::failure::{Failure, pause_after};
use super::interfaces::Interface;
use super::known::{Confirmed, Known, NoRoom};
use super::schedule::{Now, Schedule};
use super::text::clean;
use crate::config::{Config, SnmpConfig};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY_MS: i64 = 86_400_000;

fn config(agents: &str) -> SnmpConfig {
    Config::parse(agents, std::path::Path::new("test.toml"), Vec::new()).unwrap().snmp
}

fn public(range: &str) -> String {
    format!("[[snmp.agents]]\nrange = \"{range}\"\ncommunity = \"public\"\n")
}

fn ip(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

/// So many interfaces, with texts of ten bytes.
fn confirmed(interfaces: u32, confirmed_ms: i64) -> Confirmed {
    let interface =
        |index| (index, Interface { name: "01234".into(), alias: "56789".into(), speed_mbit: 1 });
    Confirmed { table: Arc::new((0..interfaces).map(interface).collect()), confirmed_ms }
}

/// Times from one start, in seconds.
struct Clock(Instant);

impl Clock {
    fn at(&self, seconds: u64) -> Now {
        let unix_ms = i64::try_from(seconds).unwrap() * 1_000 + DAY_MS;
        Now { instant: self.0 + Duration::from_secs(seconds), unix_ms }
    }
}

fn none(_: IpAddr) -> Option<i64> {
    None
}

#[test]
fn an_exporter_that_fails_is_asked_after_a_minute_and_at_last_every_half_hour() {
    let minutes = [1, 2, 3, 4, 5, 6, 7, u32::MAX].map(|it| pause_after(it).as_secs() / 60);
    assert_eq!(minutes, [1, 2, 4, 8, 16, 30, 30, 30]);
}

#[test]
fn first_walks_are_spread_and_later_ones_do_not_stay_together() {
    let (clock, config) = (Clock(Instant::now()), config(&public("192.0.2.0/24")));
    let mut schedule = Schedule::new(&config);
    let exporters = || (1..=200).map(|last| (ip(last), DAY_MS));
    schedule.look(exporters(), &config, none, clock.at(0));
    let due = schedule.start_due(200, clock.at(2).instant).len();
    assert!((40..=120).contains(&due), "{due} of 200 within 2 s of 5");
    assert_eq!(schedule.start_due(50, clock.at(5).instant).len(), 50, "no more than there is room");
    schedule.start_due(200, clock.at(5).instant);
    assert_eq!(
        schedule.start_due(200, clock.at(9_999).instant),
        [],
        "each is walked once at a time"
    );
    for last in 1..=200 {
        schedule.note(ip(last), true, None, clock.at(6));
    }
    assert_eq!(schedule.start_due(200, clock.at(3_200).instant), []);
    let due = schedule.start_due(200, clock.at(3_606).instant).len();
    assert!((60..=140).contains(&due), "{due} of 200 within an interval");
    assert_eq!(schedule.start_due(200, clock.at(4_000).instant).len(), 200 - due);
}

#[test]
fn what_was_confirmed_before_a_restart_is_asked_again_an_interval_after_that() {
    let (clock, config) = (Clock(Instant::now()), config(&public("192.0.2.0/24")));
    let mut schedule = Schedule::new(&config);
    // Half an hour ago, and in a time to come of a clock that was set.
    let confirmed = |it: IpAddr| Some(if it == ip(1) { DAY_MS - 1_800_000 } else { 2 * DAY_MS });
    schedule.look([(ip(1), DAY_MS), (ip(2), DAY_MS)], &config, confirmed, clock.at(0));
    assert_eq!(schedule.start_due(9, clock.at(1_400).instant), []);
    let due = schedule.start_due(9, clock.at(2_200).instant);
    assert_eq!(due.iter().map(|(exporter, _)| *exporter).collect::<Vec<_>>(), [ip(1)]);
    assert_eq!(schedule.start_due(9, clock.at(4_000).instant).len(), 1);
}

#[test]
fn who_is_silent_for_three_intervals_or_in_no_range_or_nobody_is_not_asked() {
    let (clock, config) = (Clock(Instant::now()), config(&public("192.0.2.0/25")));
    let mut schedule = Schedule::new(&config);
    let exporters =
        |seen_ms| [(ip(1), seen_ms), (ip(200), seen_ms), ([0, 0, 0, 0].into(), seen_ms)];
    schedule.look(exporters(DAY_MS), &config, none, clock.at(0));
    assert_eq!(schedule.count(), 1);
    schedule.look(exporters(DAY_MS), &config, none, clock.at(3 * 3_600));
    assert_eq!(schedule.count(), 1);
    schedule.look(exporters(DAY_MS), &config, none, clock.at(3 * 3_600 + 1));
    assert_eq!(schedule.count(), 0);
    schedule.look(exporters(DAY_MS), &config, none, clock.at(0));
    assert_eq!(schedule.start_due(9, clock.at(5).instant).len(), 1);
    schedule.look([], &config, none, clock.at(6));
    assert_eq!(schedule.count(), 1, "not before its walk has ended");
    assert!(schedule.note(ip(1), true, None, clock.at(7)));
    schedule.look([], &config, none, clock.at(8));
    assert!(!schedule.note(ip(1), true, None, clock.at(11_000)), "a walk of one that is forgotten");
}

#[test]
fn changed_credentials_are_used_soon_also_when_a_walk_with_old_ones_is_under_way() {
    let (clock, config_before) = (Clock(Instant::now()), config(&public("192.0.2.0/24")));
    let other = config(&public("192.0.2.0/24").replace("public", "other"));
    let mut schedule = Schedule::new(&config_before);
    schedule.look([(ip(1), DAY_MS), (ip(2), DAY_MS)], &config_before, none, clock.at(0));
    assert_eq!(schedule.start_due(9, clock.at(5).instant).len(), 2);
    schedule.note(ip(1), false, Some(&Failure::Timeout), clock.at(6));
    schedule.reconfigure(&other, clock.at(7));
    assert!(!schedule.wants_result(ip(2)));
    schedule.note(ip(2), true, None, clock.at(12));
    let due = schedule.start_due(9, clock.at(12).instant);
    assert_eq!(due.len(), 2);
    assert!(due.iter().all(|(_, agent)| *agent == other.agents[0]));

    // With the same credentials nothing happens before its time, unless the interval is shorter.
    for last in [1, 2] {
        schedule.note(ip(last), true, None, clock.at(20));
    }
    schedule.reconfigure(&other, clock.at(30));
    assert_eq!(schedule.start_due(9, clock.at(60).instant), []);
    let shorter = SnmpConfig { interval: Duration::from_secs(60), ..other };
    schedule.reconfigure(&shorter, clock.at(60));
    assert_eq!(schedule.start_due(9, clock.at(127).instant).len(), 2);
    schedule.reconfigure(&config(""), clock.at(130));
    assert_eq!(schedule.count(), 0);
}

#[test]
fn names_that_are_not_confirmed_are_kept_for_three_intervals_and_a_day_at_least() {
    let mut known = Known::new(usize::MAX);
    known.confirm(ip(1), confirmed(1, 0)).unwrap();
    known.confirm(ip(2), confirmed(1, 0)).unwrap();
    assert!(!known.expire(DAY_MS, HOUR, |_| true));
    assert!(!known.expire(3 * DAY_MS, 24 * HOUR, |_| true));
    assert!(known.expire(DAY_MS, HOUR, |exporter| exporter == ip(1)));
    assert_eq!(known.interface_count(), 1);
    assert!(known.expire(DAY_MS + 1, HOUR, |_| true));
    assert_eq!((known.tables(), known.bytes()), (HashMap::new(), 0));
}

#[test]
fn memory_is_bounded_and_an_exporter_without_room_keeps_what_it_had() {
    let mut known = Known::new(10 * 170);
    known.confirm(ip(1), confirmed(4, 0)).unwrap();
    known.confirm(ip(2), confirmed(6, 0)).unwrap();
    assert_eq!(known.confirm(ip(3), confirmed(1, 1)), Err(NoRoom));
    assert_eq!(known.confirm(ip(2), confirmed(7, 1)), Err(NoRoom));
    assert_eq!((known.tables()[&ip(2)].len(), known.bytes()), (6, 1_700));
    known.confirm(ip(2), confirmed(5, 1)).unwrap();
    known.confirm(ip(3), confirmed(1, 1)).unwrap();
    assert_eq!((known.confirmed_ms(ip(2)), known.bytes()), (Some(1), 1_700));
}

#[test]
fn texts_are_cut_between_characters() {
    assert_eq!(clean(b"\tGi0/1\0\0"), "Gi0/1");
    assert_eq!(clean("\u{9b}31m\u{7f}caf\u{e9}".as_bytes()), "31mcaf\u{e9}");
    assert_eq!(clean(&[b'x'; 300]).len(), 255);
    assert_eq!(clean("\u{20ac}".repeat(100).as_bytes()).len(), 255);
    assert_eq!(
        clean(
            "a".repeat(254)
                .as_bytes()
                .iter()
                .chain("\u{20ac}".as_bytes())
                .copied()
                .collect::<Vec<_>>()
                .as_slice()
        )
        .len(),
        254
    );
}
