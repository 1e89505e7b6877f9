//! TLS with OpenSSL on the other side, which ClickHouse has too: socat in front of a real ClickHouse, curl at the
//! management server.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

use common::authority::{Authority, LOOPBACK, Signed, Validity};
use common::{
    Collector, Scrape, clickhouse, config_text, free_port, has_program, query_number, wait_until,
};
use tidegate::traffic::{self, Pace, Spec, Totals};

const ROWS: u64 = 1_000;

const TOKEN: &str = "a-token-of-27-characters.=/";

/// Speaks TLS on one side and plain TCP on the other.
struct Socat {
    child: Child,
    port: u16,
}

impl Socat {
    /// With `more` options of its listener.
    fn start(to: SocketAddr, signed: &Signed, more: &str) -> Self {
        let port = free_port();
        let (certificate, key) = (signed.certificate.display(), signed.key.display());
        let listen = format!(
            "OPENSSL-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork,cert={certificate},key={key},{more}"
        );
        let child = Command::new("socat")
            .args([&listen, &format!("TCP:{to}")])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let socat = Self { child, port };
        wait_until("socat listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        socat
    }
}

impl Drop for Socat {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What a collector makes of a server with these options, and of a client with this certificate.
fn collector(socat: &Socat, authority: &Authority, client: Option<&Signed>) -> Collector {
    let client = client.map_or_else(String::new, |client| {
        let (certificate, key) = (client.certificate.display(), client.key.display());
        format!("certificate-file = \"{certificate}\"\nkey-file = \"{key}\"")
    });
    let more = format!(
        "[clickhouse.batch]\nmax-latency = \"50ms\"\n[clickhouse.retry]\ndelay = \"50ms\"\n\
         [clickhouse.tls]\nca-file = \"{}\"\n{client}",
        authority.file().display()
    );
    let endpoint = format!("https://127.0.0.1:{}", socat.port);
    let collector = Collector::start(&config_text(&endpoint, &more));
    let spec = Spec { flows: Some(ROWS), ..Spec::default() };
    let pace = Pace { flows_per_second: 20_000, duration: None };
    let (stop, totals) = (AtomicBool::new(false), Totals::default());
    traffic::run(&spec, collector.target, pace, &stop, &totals).unwrap();
    collector
}

#[test]
fn rows_are_stored_by_both_versions_of_tls_with_and_without_a_certificate_of_the_client() {
    if !has_program("socat") {
        return;
    }
    let authority = Authority::new("ours");
    let signed = authority.sign("server", LOOPBACK, Validity::Now);
    let client = authority.sign("client", "collector.example.net", Validity::Now);
    let strict = format!("verify=1,cafile={}", authority.file().display());
    let server = clickhouse();
    let mut stored = 0;
    for version in ["TLS1.2", "TLS1.3"] {
        let versions =
            format!("openssl-min-proto-version={version},openssl-max-proto-version={version}");
        for (options, client) in [("verify=0", None), (&*strict, Some(&client))] {
            let options = format!("{versions},{options}");
            let socat = Socat::start(server.http_address(), &signed, &options);
            let mut collector = collector(&socat, &authority, client);
            stored += ROWS;
            let rows = "SELECT ifNull(sum(total_rows), 0) FROM system.tables \
                        WHERE database = 'tidegate' AND name = 'flows'";
            wait_until("rows are stored", || query_number(&server, rows) == stored);
            collector.signal("TERM");
            assert_eq!(collector.wait().0, Some(0), "{options}");
        }
    }
}

#[test]
fn a_missing_certificate_of_the_client_is_said_and_nothing_is_stored() {
    if !has_program("socat") {
        return;
    }
    let authority = Authority::new("ours");
    let signed = authority.sign("server", LOOPBACK, Validity::Now);
    let server = clickhouse();
    let options = format!("verify=1,cafile={}", authority.file().display());
    let socat = Socat::start(server.http_address(), &signed, &options);
    let collector = collector(&socat, &authority, None);
    let said = "no connection: the server wants a certificate of the client";
    wait_until("it is said", || collector.log().contains(said));
    let scrape = Scrape::at(collector.management);
    assert_eq!(scrape.sum("tidegate_clickhouse_alarm", &["alarm=\"no_answer\""]), 1);
    let databases = "SELECT count() FROM system.databases WHERE name = 'tidegate'";
    assert_eq!(query_number(&server, databases), 0);
}

#[test]
fn curl_asks_the_management_server_as_prometheus_would() {
    if !has_program("curl") {
        return;
    }
    let (authority, other) = (Authority::new("ours"), Authority::new("theirs"));
    let signed = authority.sign("server", LOOPBACK, Validity::Now);
    let (certificate, key) = (signed.certificate.display(), signed.key.display());
    let tls =
        format!("[management.tls]\ncertificate-file = \"{certificate}\"\nkey-file = \"{key}\"");
    let listen = "[management]\nlisten = \"127.0.0.1:0\"\n";
    let text = config_text("http://127.0.0.1:1", &tls)
        .replace(listen, &format!("{listen}token = \"{TOKEN}\"\n"));
    let collector = Collector::start(&text);
    // Exit code of curl, and status.
    let curl = |authority: &Authority, path: &str, more: &[&str]| {
        let output = Command::new("curl")
            .args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--cacert"])
            .arg(authority.file())
            .args(more)
            .arg(format!("https://{}{path}", collector.management))
            .output()
            .unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let token = format!("Authorization: Bearer {TOKEN}");
    let answered = |status: &str| (0, status.to_owned());
    for version in [&["--tls-max", "1.2"][..], &["--tlsv1.3"], &["--http2"]] {
        let with_token = [version, &["--header", &token]].concat();
        assert_eq!(curl(&authority, "/metrics", &with_token), answered("200"), "{version:?}");
        assert_eq!(curl(&authority, "/metrics", version), answered("401"), "{version:?}");
        assert_eq!(curl(&authority, "/livez", version), answered("200"), "{version:?}");
    }
    // 60: it does not trust the certificate; 35: no handshake.
    assert_eq!(curl(&other, "/livez", &[]).0, 60);
    let old = ["--ciphers", "DEFAULT@SECLEVEL=0", "--tlsv1.0", "--tls-max", "1.1"];
    assert_eq!(curl(&authority, "/livez", &old).0, 35);
}
