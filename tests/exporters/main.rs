//! Real exporters: what they export of traffic that the test made is what ClickHouse has, flow by flow,
//! and what nfdump or tshark counts in the same datagrams.
//!
//! `tests/install-tools` installs the exporters. A test without its exporter says so and passes, but fails
//! where `CI` is set and root runs it. fprobe and Open vSwitch need root.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, unused_imports, unreachable_pub)]

mod bench;
#[path = "../common/mod.rs"]
mod common;
mod flows;
mod fprobe;
mod nfdump;
mod nfreplay;
mod openvswitch;
mod pcap;
mod pmacct;
mod row;
mod softflowd;
mod traffic;

use std::path::Path;
use std::thread::scope;

use common::has_program;

/// Whether all of these are installed.
fn has_programs(names: &[&str]) -> bool {
    names.iter().all(|name| has_program(name))
}

/// Runs `test` on each item at the same time: exporters wait for their own timers most of the time.
fn at_once<T: Send>(items: impl IntoIterator<Item = T>, test: impl Fn(T) + Sync) {
    let test = &test;
    scope(|scope| {
        for item in items {
            scope.spawn(move || test(item));
        }
    });
}

/// A path as text; those of the tests are.
fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
