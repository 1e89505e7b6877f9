//! Names over a restart.

use super::common::wait_until;
use super::fake::Fake;
use super::snmpd::{Snmpd, is_installed};
use super::{Running, public};

#[test]
fn names_are_there_at_once_after_a_restart_and_a_damaged_file_is_set_aside() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let directory = Some(folder.path());
    let snmpd = Snmpd::start(&["127.0.0.1"], "", "");
    let agents = public("127.0.0.0/8", snmpd.port);
    let running = Running::start(&agents, directory, &["127.0.0.1"]);
    running.walked("127.0.0.1");
    let before = running.interfaces("127.0.0.1");
    assert!(!before.is_empty());
    drop(running);
    drop(snmpd);

    let restarted = Running::start(&agents, directory, &["127.0.0.1"]);
    assert_eq!(restarted.interfaces("127.0.0.1"), before);
    wait_until("it is watched", || restarted.exporter("127.0.0.1").is_some());
    let watched = restarted.exporter("127.0.0.1").unwrap();
    assert!(watched.last_success_ms.is_some());
    // The agent is away now, and its names stay.
    wait_until("it is asked", || restarted.walks("timeout") > 0);
    assert_eq!(restarted.interfaces("127.0.0.1"), before);
    drop(restarted);

    // In no range any more: not even read.
    let other = Running::start(&public("192.0.2.0/24", 161), directory, &[]);
    assert_eq!(other.interfaces("127.0.0.1"), []);
    drop(other);
}

#[test]
fn a_directory_that_cannot_be_written_is_counted_and_ends_nothing() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let fake = Fake::start("127.0.0.20", |_, _| Vec::new(), 0);
    let agents = public("127.0.0.20", fake.port);
    let running = Running::start(&agents, Some(file.path()), &["127.0.0.20"]);
    wait_until("it is walked again", || running.walks("ok") > 1);
    let text = running.metrics.render();
    assert!(text.contains("tidegate_snmp_write_failures_total 1"), "{text}");
}

#[test]
fn a_damaged_file_is_set_aside_and_nothing_else_happens() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("interfaces");
    for bytes in [&b""[..], b"no names", b"tidegate interfaces 1 00\n[]"] {
        std::fs::write(&file, bytes).unwrap();
        drop(Running::start(&public("127.0.0.0/8", 161), Some(folder.path()), &[]));
        assert_eq!(std::fs::read(folder.path().join("interfaces.damaged")).unwrap(), bytes);
    }
    // Without agents the file is left alone.
    std::fs::write(&file, "no names").unwrap();
    drop(Running::start("", Some(folder.path()), &[]));
    assert_eq!(std::fs::read(&file).unwrap(), b"no names");
}
