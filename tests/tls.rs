//! ClickHouse over TLS: a real one behind a proxy that speaks it, and every certificate that can be wrong.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use common::authority::{Authority, LOOPBACK, Validity, server};
use common::tls_proxy::TlsProxy;
use common::{Collector, Scrape, clickhouse, config_text, get, query_number, tidegate, wait_until};
use rustls::ServerConfig;
use tidegate::devserver::DevServer;
use tidegate::traffic::{self, Pace, Spec, Totals};

const ROWS: u64 = 1_000;

/// Batches that are sent soon, and again soon.
const QUICK: &str = "connect-timeout = \"500ms\"\n\
                     [clickhouse.batch]\nmax-rows = 2000\nmax-latency = \"50ms\"\nshutdown-grace-period = \"30s\"\n\
                     [clickhouse.retry]\ndelay = \"50ms\"";

fn generate(target: SocketAddr) {
    let spec = Spec { flows: Some(ROWS), ..Spec::default() };
    let pace = Pace { flows_per_second: 20_000, duration: None };
    traffic::run(&spec, target, pace, &AtomicBool::new(false), &Totals::default()).unwrap();
}

fn text(endpoint: &str, tls: &str) -> String {
    config_text(endpoint, &format!("{QUICK}\n[clickhouse.tls]\n{tls}"))
}

fn ca_file(path: &Path) -> String {
    format!("ca-file = \"{}\"\n", path.display())
}

fn no_answer(collector: &Collector) -> u64 {
    Scrape::at(collector.management).sum("tidegate_clickhouse_alarm", &["alarm=\"no_answer\""])
}

fn rows(server: &DevServer) -> u64 {
    query_number(server, "SELECT count() FROM tidegate.flows")
}

/// A collector that meets a server which it cannot trust, or which does not trust it: what it logs is `said`,
/// nothing is stored, and everything when the server is `mended`.
fn nothing_is_lost(wrong: Arc<ServerConfig>, mended: Arc<ServerConfig>, tls: &str, said: &str) {
    let clickhouse = clickhouse();
    let proxy = TlsProxy::start(clickhouse.http_address(), wrong);
    let mut collector = Collector::start(&text(&proxy.url(), tls));
    generate(collector.target);
    wait_until("the alarm is raised", || no_answer(&collector) == 1);
    let status = get(collector.management, "/api/v1/status").1;
    let log = collector.log();
    assert!(log.contains(said) && status.contains(said), "{said}\n{log}\n{status}");
    let databases = "SELECT count() FROM system.databases WHERE name = 'tidegate'";
    assert_eq!(query_number(&clickhouse, databases), 0);

    proxy.restart_with(mended);
    wait_until("the alarm has passed", || no_answer(&collector) == 0);
    collector.signal("TERM");
    let (code, log) = collector.wait();
    let books = format!("received={ROWS} stored={ROWS} dead_lettered=0 spooled=0 dropped=0");
    assert!(code == Some(0) && log.contains(&books), "{log}");
    assert_eq!(rows(&clickhouse), ROWS);
}

#[test]
fn rows_are_stored_by_a_server_that_an_own_authority_has_signed() {
    let authority = Authority::new("ours");
    let signed = authority.sign("server", LOOPBACK, Validity::Now);
    let clickhouse = clickhouse();
    let proxy = TlsProxy::start(clickhouse.http_address(), server(&signed, None));
    let mut collector = Collector::start(&text(&proxy.url(), &ca_file(&authority.file())));
    generate(collector.target);
    let stored = || Scrape::at(collector.management).sum("tidegate_batch_stored_rows_total", &[]);
    wait_until("all is stored", || stored() == ROWS);
    assert_eq!((rows(&clickhouse), no_answer(&collector)), (ROWS, 0));
    collector.signal("TERM");
    assert_eq!(collector.wait().0, Some(0));
}

#[test]
fn an_unknown_authority_is_named_and_rows_wait() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    nothing_is_lost(
        server(&theirs.sign("server", LOOPBACK, Validity::Now), None),
        server(&ours.sign("server", LOOPBACK, Validity::Now), None),
        &ca_file(&ours.file()),
        "no connection: certificate of the server is not trusted: no authority that is trusted has signed it",
    );
}

/// The authorities of the system do not have that of the test among them.
#[test]
fn without_an_own_authority_those_of_the_system_are_trusted() {
    let (system, other) = (Authority::new("ours"), Authority::new("theirs"));
    let proxy = |by: &Authority, to| {
        TlsProxy::start(to, server(&by.sign("server", LOOPBACK, Validity::Now), None))
    };
    let clickhouse = clickhouse();
    let to = clickhouse.http_address();
    let (trusted, untrusted) = (proxy(&system, to), proxy(&other, to));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tidegate.toml");
    let apply = |proxy: &TlsProxy| {
        std::fs::write(&file, text(&proxy.url(), "")).unwrap();
        std::process::Command::new(common::TIDEGATE)
            .args(["schema", "apply", "-c"])
            .arg(&file)
            .env("SSL_CERT_FILE", system.file())
            .output()
            .unwrap()
    };
    let (right, wrong) = (apply(&trusted), apply(&untrusted));
    assert!(right.status.success(), "{right:?}");
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && said.contains("is not trusted"), "{wrong:?}");
}

#[test]
fn a_certificate_for_another_host_is_refused() {
    let authority = Authority::new("ours");
    nothing_is_lost(
        server(&authority.sign("other", "ch.example.net", Validity::Now), None),
        server(&authority.sign("server", LOOPBACK, Validity::Now), None),
        &ca_file(&authority.file()),
        "is not trusted: it is for DnsName(ch.example.net), not for 127.0.0.1",
    );
}

#[test]
fn a_certificate_for_another_host_is_taken_when_it_is_named() {
    let authority = Authority::new("ours");
    let tls = format!("{}server-name = \"ch.example.net\"", ca_file(&authority.file()));
    nothing_is_lost(
        server(&authority.sign("server", LOOPBACK, Validity::Now), None),
        server(&authority.sign("other", "ch.example.net", Validity::Now), None),
        &tls,
        "is not trusted: it is for IpAddress(127.0.0.1), not for ch.example.net",
    );
}

#[test]
fn an_authority_of_the_same_name_is_another_one() {
    let (ours, theirs) = (Authority::new("same"), Authority::new("same"));
    nothing_is_lost(
        server(&theirs.sign("server", LOOPBACK, Validity::Now), None),
        server(&ours.sign("server", LOOPBACK, Validity::Now), None),
        &ca_file(&ours.file()),
        "is not trusted: an authority that is trusted is named in it, and has not signed it",
    );
}

#[test]
fn an_expired_certificate_is_refused() {
    let authority = Authority::new("ours");
    nothing_is_lost(
        server(&authority.sign("old", LOOPBACK, Validity::Before), None),
        server(&authority.sign("server", LOOPBACK, Validity::Now), None),
        &ca_file(&authority.file()),
        "no connection: certificate of the server is not trusted: it has expired, ",
    );
}

#[test]
fn a_server_that_wants_a_certificate_and_gets_none_says_so() {
    let authority = Authority::new("ours");
    let signed = authority.sign("server", LOOPBACK, Validity::Now);
    nothing_is_lost(
        server(&signed, Some(&authority.file())),
        server(&signed, None),
        &ca_file(&authority.file()),
        "no connection: the server wants a certificate of the client",
    );
}

#[test]
fn a_server_that_wants_a_certificate_of_its_authority_gets_it() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let signed = ours.sign("server", LOOPBACK, Validity::Now);
    let client = ours.sign("client", "collector.example.net", Validity::Now);
    let tls = format!(
        "{}certificate-file = \"{}\"\nkey-file = \"{}\"",
        ca_file(&ours.file()),
        client.certificate.display(),
        client.key.display()
    );
    nothing_is_lost(
        server(&signed, Some(&theirs.file())),
        server(&signed, Some(&ours.file())),
        &tls,
        "no connection: the server does not trust the certificate of the client: ",
    );
}

/// The kernel takes the connection, and nobody shakes hands.
#[test]
fn a_handshake_that_does_not_end_is_no_connection_within_the_timeout() {
    let authority = Authority::new("ours");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("https://{}", silent.local_addr().unwrap());
    let collector = Collector::start(&text(&endpoint, &ca_file(&authority.file())));
    let start = Instant::now();
    let said = "no connection: none within clickhouse.connect-timeout";
    wait_until("it is given up", || collector.log().contains(said));
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_server_that_speaks_no_tls_is_told() {
    let (clickhouse, authority) = (clickhouse(), Authority::new("ours"));
    let endpoint = clickhouse.http_url().replace("http:", "https:");
    let collector = Collector::start(&text(&endpoint, &ca_file(&authority.file())));
    let said = "no connection: the other side does not speak TLS";
    wait_until("it is said", || collector.log().contains(said));
}

#[test]
fn every_mistake_of_files_is_said_with_line_and_key() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let mine = ours.sign("mine", LOOPBACK, Validity::Now);
    let other = theirs.sign("other", LOOPBACK, Validity::Now);
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(path("empty.pem"), "").unwrap();
    std::fs::write(path("cut.pem"), "-----BEGIN CERTIFICATE-----\nMIIB").unwrap();
    let (certificate, key) = (mine.certificate.display(), mine.key.display());
    let other = other.key.display();
    let (missing, empty, cut) = (path("missing.pem"), path("empty.pem"), path("cut.pem"));
    let cases = [
        (
            format!("ca-file = \"{missing}\""),
            "ca-file: ",
            "missing.pem cannot be read: No such file",
        ),
        (format!("ca-file = \"{empty}\""), "ca-file: ", "empty.pem has no certificate in PEM"),
        (format!("ca-file = \"{cut}\""), "ca-file: ", "cut.pem is not PEM: "),
        (format!("ca-file = \"{key}\""), "ca-file: ", "mine.key has no certificate in PEM"),
        (
            format!("certificate-file = \"{certificate}\""),
            "certificate-file: ",
            "goes with key-file only",
        ),
        (format!("key-file = \"{key}\""), "key-file: ", "goes with certificate-file only"),
        (
            format!("certificate-file = \"{certificate}\"\nkey-file = \"{certificate}\""),
            "key-file: ",
            "mine.pem has no private key (without a passphrase) in PEM",
        ),
        (
            format!("certificate-file = \"{certificate}\"\nkey-file = \"{other}\""),
            "key-file: ",
            "does not go with the certificate: ",
        ),
        ("server-name = \"a b\"".to_owned(), "server-name: ", "must be a host name"),
    ];
    let check = |endpoint: &str, section: &str, keys: &str| {
        let file = directory.path().join("tidegate.toml");
        let text = format!("[clickhouse]\nendpoint = \"{endpoint}\"\n[{section}]\n{keys}\n");
        std::fs::write(&file, text).unwrap();
        let output = tidegate(&["check", "-c", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(78), "{keys}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for (keys, key, why) in &cases {
        for (section, endpoint) in [("clickhouse.tls", "https://h"), ("management.tls", "http://h")]
        {
            let is_of_both = keys.contains("certificate-file") || keys.contains("key-file");
            if section == "management.tls" && !is_of_both {
                continue;
            }
            let said = check(endpoint, section, keys);
            let said: Vec<_> = said.lines().collect();
            let [line] = &said[..] else { panic!("{keys}: {said:?}") };
            let place = if keys.contains('\n') { "tidegate.toml:5: " } else { "tidegate.toml:4: " };
            assert!(
                line.contains(&format!("{place}{section}.{key}")) && line.contains(why),
                "{keys}: {line}"
            );
        }
    }
    let said = check("http://h", "clickhouse.tls", &format!("ca-file = \"{certificate}\""));
    assert!(
        said.contains("clickhouse.tls.ca-file: goes with an endpoint that is https:// only"),
        "{said}"
    );
}
