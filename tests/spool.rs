//! The spool against what ends a process or a disk, and what `tidegate spool` shows of it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use common::tidegate;
use fastrand::Rng;
use tempfile::TempDir;
use tidegate::config::{OnRowError, SpoolConfig};
use tidegate::spool::{AppendError, Entry, Header, Spool, Why};
use tidegate::telemetry::Metrics;

/// Tells the child of a test which directory to use.
const CHILD_DIRECTORY: &str = "SPOOL_TEST_CHILD_DIRECTORY";

/// Tells it whether to bring batches to the disk.
const CHILD_FSYNC: &str = "SPOOL_TEST_CHILD_FSYNC";

const KILLS: u64 = 100;

fn open(directory: &Path, fsync: bool) -> Spool {
    let config = SpoolConfig {
        directory: Some(directory.to_owned()),
        max_bytes: 1 << 30,
        fsync,
        drain_rate_rows: 1_000,
    };
    Spool::open(&config, &Metrics::default()).unwrap().unwrap()
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// A batch that follows from its token, of up to 200,000 bytes.
fn entry(token: u64) -> Entry {
    let mut rng = Rng::with_seed(token);
    let mut body = vec![0; rng.usize(..200_000)];
    rng.fill(&mut body);
    let header = Header {
        token: token.to_string(),
        target: "tidegate.flows".to_owned(),
        rows: rng.usize(1..50_000),
        first_row: 0,
        on_row_error: OnRowError::Fail,
        why: Why::Outage,
        created_ms: 0,
        replaces: None,
    };
    Entry { header, body: Bytes::from(body) }
}

#[test]
fn what_was_acknowledged_is_there_whole_after_a_kill() {
    let folder = TempDir::new().unwrap();
    let mut rng = Rng::with_seed(7);
    let mut expected = Acknowledged::default();
    let (mut acknowledged, mut half_files) = (0, 0);
    for kill in 0..KILLS {
        let mut child = child(folder.path(), kill.is_multiple_of(2));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.by_ref().find(|line| line.as_ref().unwrap().ends_with("opened"));
        assert!(ready.is_some(), "kill {kill}");
        std::thread::sleep(Duration::from_micros(rng.u64(..20_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines.map(Result::unwrap) {
            acknowledged += u64::from(line.starts_with("appended"));
            expected.note(&line);
        }
        half_files += files_named(folder.path(), ".new");
        expected.check(&mut open(folder.path(), false), kill);
        assert_eq!(files_named(folder.path(), ".new") + files_named(folder.path(), ".damaged"), 0);
    }
    let text = format!("{KILLS} kills, {acknowledged} batches, {half_files} half files\n");
    std::io::stderr().write_all(text.as_bytes()).unwrap();
    // A busy disk takes fewer.
    assert!(acknowledged > KILLS / 10);
}

/// What a child said that it did.
#[derive(Default)]
struct Acknowledged {
    /// Tokens that must be in the spool.
    tokens: VecDeque<u64>,
    /// One that may be gone: its removal had begun.
    removing: Option<u64>,
}

impl Acknowledged {
    fn note(&mut self, line: &str) {
        let (what, token) = line.split_once(' ').unwrap();
        let token = token.parse().unwrap();
        match what {
            "appended" => self.tokens.push_back(token),
            "removing" => {
                assert_eq!(self.tokens.pop_front(), Some(token));
                self.removing = Some(token);
            }
            _ => self.removing = None,
        }
    }

    /// All of them are there in order, and at most one more, which was not acknowledged and is from now on.
    fn check(&mut self, spool: &mut Spool, kill: u64) {
        let mut tokens = VecDeque::new();
        let now = Instant::now();
        while let Some(batch) = spool.next(now, |_| true) {
            let token = batch.entry.header.token.parse().unwrap();
            assert_eq!(batch.entry, entry(token), "kill {kill}");
            tokens.push_back(token);
            spool.defer(batch.id, now + Duration::from_secs(60));
        }
        assert_eq!(tokens.len(), spool.batches(), "kill {kill}");
        if let Some(token) = self.removing.take()
            && tokens.front() == Some(&token)
        {
            self.tokens.push_front(token);
        }
        if tokens.len() > self.tokens.len() {
            self.tokens.extend(tokens.back());
        }
        assert_eq!(tokens, self.tokens, "kill {kill}");
    }
}

/// A process that appends and drains.
fn child(directory: &Path, fsync: bool) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_child_appends_and_drains_until_it_is_killed", "--nocapture"])
        .env(CHILD_DIRECTORY, directory)
        .env(CHILD_FSYNC, fsync.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Does nothing unless another test starts it.
#[test]
fn a_child_appends_and_drains_until_it_is_killed() {
    let Some(directory) = std::env::var_os(CHILD_DIRECTORY) else { return };
    let fsync = std::env::var(CHILD_FSYNC).unwrap() == "true";
    let mut spool = open(Path::new(&directory), fsync);
    let say = |what: &str| writeln!(stdout().lock(), "{what}").unwrap();
    say("opened");
    // Tokens grow over all children.
    let first = u64::try_from(now_ms()).unwrap() * 1_000_000;
    for token in first.. {
        spool.append(&entry(token)).unwrap();
        say(&format!("appended {token}"));
        if spool.batches() > 20 {
            let oldest = spool.next(Instant::now(), |_| true).unwrap();
            say(&format!("removing {}", oldest.entry.header.token));
            spool.remove(oldest.id);
            say(&format!("removed {}", oldest.entry.header.token));
        }
    }
}

fn files_named(directory: &Path, end: &str) -> usize {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().ends_with(end)).count()
}

/// A file system of one megabyte that goes away.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        if !common::may_as_root("a small file system is to be mounted") {
            return None;
        }
        let folder = TempDir::new().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(folder.path());
        let output = mount.output();
        if output.is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        common::skip("no file system can be mounted here");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg(self.0.path()).status());
    }
}

#[test]
fn a_full_disk_refuses_a_batch_and_takes_the_next_that_fits() {
    let Some(disk) = SmallDisk::mount() else { return };
    let path = disk.0.path().join("spool");
    let mut spool = open(&path, true);
    let mut kept = Vec::new();
    let big = |token| Entry { body: Bytes::from(vec![7; 300_000]), ..entry(token) };
    let error = loop {
        match spool.append(&big(kept.len() as u64)) {
            Ok(id) => kept.push(id),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, AppendError::DiskFull(_)), "{error}");
    assert_eq!(kept.len(), 3);
    assert_eq!(files_named(&path, ".new"), 0);
    assert!(matches!(spool.append(&big(3)), Err(AppendError::DiskFull(_))));
    spool.remove(kept[0]);
    spool.append(&big(3)).unwrap();
    drop(spool);
    let mut spool = open(&path, true);
    for token in 1..4 {
        let batch = spool.next(Instant::now(), |_| true).unwrap();
        assert_eq!(batch.entry, big(token));
        spool.remove(batch.id);
    }
    assert_eq!(spool.batches(), 0);
}

fn stdout_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn spool_list_and_verify_work_beside_a_collector_and_say_what_is_damaged() {
    let folder = TempDir::new().unwrap();
    let directory = folder.path().to_str().unwrap();
    let mut spool = open(folder.path(), false);
    let hours = 3_600_000_i64;
    for (why, age_ms) in [
        (Why::Outage, 50 * hours),
        (Why::Refused { code: 516 }, 2 * hours + 60_000),
        (Why::Shutdown, hours),
    ] {
        let mut entry = entry(age_ms.cast_unsigned());
        entry.header.why = why;
        entry.header.created_ms = now_ms() - age_ms;
        spool.append(&entry).unwrap();
    }
    fs::write(folder.path().join("0000000000000009.new"), "grows").unwrap();
    let output = tidegate(&["spool", "verify", "--directory", directory]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");

    let first = folder.path().join("0000000000000001.batch");
    let mut bytes = fs::read(&first).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&first, bytes).unwrap();
    let second = folder.path().join("0000000000000002.batch");
    let length = fs::metadata(&second).unwrap().len();
    fs::copy(&second, folder.path().join("0000000000000005.damaged")).unwrap();
    fs::File::options().write(true).open(&second).unwrap().set_len(length / 2).unwrap();
    fs::write(folder.path().join("0000000000000004.damaged"), "").unwrap();
    // A name of the directory in the configuration.
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), format!("[spool]\ndirectory = \"{directory}\"\n")).unwrap();
    let config = config.path().to_str().unwrap();
    let output = tidegate(&["spool", "list", "-c", config]);
    assert_eq!(output.status.code(), Some(0));
    insta::assert_snapshot!("list", stdout_of(&output));
    let output = tidegate(&["spool", "verify", "-c", config]);
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!("verify", stdout_of(&output));
}

#[test]
fn without_a_spool_there_is_nothing_to_list() {
    let config = tempfile::NamedTempFile::new().unwrap();
    let path = config.path().to_str().unwrap();
    let output = tidegate(&["spool", "list", "-c", path]);
    assert_eq!(output.status.code(), Some(78));
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(line, format!("{path}: there is no spool, spool.directory is empty\n"));
    let output = tidegate(&["spool", "verify", "--directory", "/not/there"]);
    assert_eq!(output.status.code(), Some(1));
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(line.starts_with("tidegate: cannot read the spool /not/there: No such file"), "{line}");
}
