//! What a user sees when something is wrong: one clear line that says what to do, and the exit code.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{
    Collector, TIDEGATE, clickhouse, clickhouse_with, config_text, free_port, tidegate, wait_until,
};
use tidegate::devserver::DevServerOptions;

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn run_with(config: &str) -> Output {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), config).unwrap();
    tidegate(&["run", "-c", file.path().to_str().unwrap()])
}

#[test]
fn a_bad_configuration_says_every_mistake_and_exits_78() {
    let config = "[receivers.edge]\nlisten = \"2055\"\n[clickhouse.batch]\nmax-rows = 0\n";
    for command in ["run", "check"] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), config).unwrap();
        let path = file.path().to_str().unwrap();
        let output = tidegate(&[command, "-c", path]);
        assert_eq!(output.status.code(), Some(78));
        let expected = format!(
            "{path}:2: receivers.edge.listen: must be an address and a port, \"0.0.0.0:2055\"\n\
             {path}:4: clickhouse.batch.max-rows: must be a whole number from 100 to 1000000\n"
        );
        assert_eq!(stderr(&output), expected);
    }
    let output = tidegate(&["check", "-c", "not-there.toml"]);
    assert_eq!(output.status.code(), Some(78));
    assert!(stderr(&output).starts_with("not-there.toml: cannot be read: "));
}

#[test]
fn a_good_configuration_is_shown_without_its_password() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = "[receivers.edge]\nlisten = \"0.0.0.0:2055\"\nworkers = 2\n\
                  [receivers.reliable]\nlisten = \"0.0.0.0:4739\"\ntransport = \"tcp\"\n\
                  [clickhouse]\npassword = \"tide\"\n\
                  endpoint = [\"http://a:8123\", \"http://b:8123\"]\n\
                  [[snmp.agents]]\nrange = \"192.0.2.0/24\"\ncommunity = \"flood-mark\"\n\
                  [[snmp.agents]]\nrange = \"2001:db8::1\"\nport = 1161\nversion = \"v3\"\n\
                  username = \"monitor\"\nauth-protocol = \"sha-256\"\nauth-password = \"flood-mark\"\n\
                  privacy-protocol = \"aes-128\"\nprivacy-password = \"flood-mark\"\n";
    std::fs::write(file.path(), config).unwrap();
    let output = tidegate(&["check", "-c", file.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!shown.contains("tide\"") && !shown.contains("flood-mark"));
    let rest = shown.split_once(": ok\n").unwrap().1;
    insta::assert_snapshot!(rest);
}

#[test]
fn a_port_in_use_is_said_with_receiver_and_advice() {
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let output =
        run_with(&format!("[receivers.edge]\nlisten = \"127.0.0.1:{port}\"\nworkers = 2\n"));
    assert_eq!(output.status.code(), Some(1));
    let expected = format!(
        "tidegate: receivers.edge: cannot listen on udp 127.0.0.1:{port}: \
         Address already in use (os error 98); another process has the port \
         (ss -ulpn shows it): stop it or change `listen`\n"
    );
    assert_eq!(last_line(&output), expected.trim_end());
}

#[test]
fn a_tcp_port_in_use_is_said_with_receiver_and_advice() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let config = format!("[receivers.core]\nlisten = \"127.0.0.1:{port}\"\ntransport = \"tcp\"\n");
    let output = run_with(&config);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!(
        "tidegate: receivers.core: cannot listen on tcp 127.0.0.1:{port}: \
         Address already in use (os error 98); another process has the port \
         (ss -tlpn shows it): stop it or change `listen`\n"
    );
    assert_eq!(last_line(&output), expected.trim_end());
}

fn last_line(output: &Output) -> String {
    stderr(output).lines().last().unwrap().to_owned()
}

#[test]
fn a_port_that_another_tidegate_shares_is_in_use_too() {
    let first = Collector::start(&config_text("http://127.0.0.1:9", ""));
    let output = run_with(&format!("[receivers.edge]\nlisten = \"{}\"\n", first.target));
    assert!(last_line(&output).contains("another process has the port"), "{output:?}");
}

#[test]
fn an_unreachable_clickhouse_is_said_and_waited_for() {
    let http_port = free_port();
    let mut collector =
        Collector::start(&config_text(&format!("http://127.0.0.1:{http_port}"), ""));
    wait_until("the log says so", || collector.log().contains("ClickHouse does not take rows"));
    let log = collector.log();
    assert!(log.contains("Connection refused"), "{log}");
    assert!(
        log.contains("check [clickhouse] endpoint, and that the server runs and keeps up."),
        "{log}"
    );
    assert_eq!(common::get(collector.management, "/readyz").0, 200);
    let server = clickhouse_with(&DevServerOptions { http_port, ..DevServerOptions::default() });
    wait_until("the log says so", || collector.log().contains("ClickHouse takes rows again."));
    assert_eq!(server.query("SELECT count() FROM tidegate.flows").unwrap(), "0\n");
    collector.signal("TERM");
    assert_eq!(collector.wait().0, Some(0));
}

#[test]
fn a_wrong_password_ends_the_start_with_advice() {
    let server = clickhouse();
    let more = "username = \"default\"\npassword = \"wrong\"";
    let output = run_with(&config_text(&server.http_url(), more));
    assert_eq!(output.status.code(), Some(78));
    let line = last_line(&output);
    let advice = "; check clickhouse.username (\"default\") and clickhouse.password";
    assert!(line.contains("Authentication failed") && line.ends_with(advice), "{line}");
}

#[test]
fn a_missing_library_is_said_with_the_command_that_installs_it() {
    let empty = tempfile::tempdir().unwrap();
    for command in [&["clickhouse", "run", "--http-port", "0"][..], &["demo"]] {
        let output = Command::new(TIDEGATE)
            .args(command)
            .env("TIDEGATE_CACHE_DIR", empty.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(last_line(&output).contains("run `tidegate clickhouse install`"), "{output:?}");
    }
}

#[test]
fn the_demo_ends_by_itself_with_balanced_books() {
    drop(clickhouse()); // installs the library
    let output = tidegate(&["demo", "--seconds", "3", "--rate", "5000"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.lines().last().unwrap();
    let sent = last.strip_prefix("demo: sent ").unwrap().split(',').next().unwrap();
    assert!(sent.parse::<u64>().unwrap() > 10_000, "{last}");
    assert_eq!(last, format!("demo: sent {sent}, stored {sent}, dropped 0"));
}

#[test]
fn an_interrupted_demo_stops_in_order_and_leaves_no_process() {
    drop(clickhouse()); // installs the library
    let mut demo = Command::new(TIDEGATE).arg("demo").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    let first = lines.find(|line| line.as_ref().unwrap().contains("flows/s"));
    assert!(first.is_some());
    let children = children_of(demo.id());
    assert_eq!(children.len(), 1, "ClickHouse is the only child");
    assert!(
        Command::new("kill").args(["-INT", &demo.id().to_string()]).status().unwrap().success()
    );
    let last = lines.map(Result::unwrap).last().unwrap();
    assert!(last.starts_with("demo: sent ") && last.ends_with(", dropped 0"), "{last}");
    assert_eq!(demo.wait().unwrap().code(), Some(0));
    assert!(!Path::new(&format!("/proc/{}", children[0])).exists());
}

fn children_of(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let children = |task: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(task.unwrap().path().join("children")).unwrap();
        text.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    tasks.flat_map(children).collect()
}

#[test]
fn send_replays_a_capture_that_decode_reads() {
    let Some(folder) = common::captures() else { return };
    let capture = folder.join("exporter-softflowd-v9.pcap");
    let server = clickhouse();
    let app = common::start(&server.http_url(), "");
    let to = common::target(&app).to_string();
    let output = tidegate(&["send", capture.to_str().unwrap(), "--to", &to, "--rate", "1000"]);
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(line.starts_with("sent datagrams=8 ") && line.contains(" exporters=1 "), "{line}");
    assert_eq!(app.stop().books.stored, 200);
    assert_eq!(common::stored_sums(&server), (200, 244_219, 762));
    let output = tidegate(&["decode", capture.to_str().unwrap()]);
    let flows = String::from_utf8(output.stdout).unwrap();
    let bytes = flows.lines().map(|line| {
        let flow: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(flow["srcAddr"].is_string(), "{line}");
        flow["bytes"].as_u64().unwrap()
    });
    assert_eq!(bytes.sum::<u64>(), 244_219);
}

#[test]
fn inspect_says_what_is_no_capture_and_stops_in_silence_when_nobody_reads() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let output = tidegate(&["inspect", path]);
    assert_eq!(output.status.code(), Some(1));
    let expected =
        format!("tidegate: {path} is neither a capture nor begins with an export message\n");
    assert_eq!(stderr(&output), expected);
    let header = [[0, 9, 0, 0].as_slice(), &[0; 16]].concat();
    std::fs::write(file.path(), header.repeat(10_000)).unwrap();
    let output = tidegate(&["inspect", "--limit", "2", path]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).matches("datagram ").count(), 2);
    let mut inspect = Command::new(TIDEGATE)
        .args(["inspect", path])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let first = BufReader::new(inspect.stdout.take().unwrap()).lines().next();
    assert!(first.unwrap().unwrap().starts_with("datagram 1: "));
    let output = inspect.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn elements_are_printed_and_an_unknown_one_exits_1_with_the_nearest() {
    let output = tidegate(&["elements", "1"]);
    assert_eq!(output.status.code(), Some(0));
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("octetDeltaCount  unsigned64  octets  bytes\n"), "{shown}");
    let output = tidegate(&["elements", "octetDeltaCuont"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stdout, b"");
    assert!(stderr(&output).contains("nearest: octetDeltaCount (1), "), "{}", stderr(&output));
}
