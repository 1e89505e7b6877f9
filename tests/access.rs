//! Who may ask the management server: its token, its certificate, and those who have neither.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::authority::{Authority, LOOPBACK, Signed, Validity};
use common::{Scrape, config, config_text, tidegate};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use tidegate::app::App;
use tidegate::tls::{ClientTls, Trust, certificates};

/// Nobody answers there; the management server does not care.
const NO_CLICKHOUSE: &str = "http://127.0.0.1:1";

const TOKEN: &str = "a-token-of-27-characters.=/";

/// A handshake is given up within two seconds; the machine may be busy.
const SOON: Duration = Duration::from_secs(10);

fn text(token: &str, signed: Option<&Signed>) -> String {
    let tls = signed.map_or_else(String::new, |signed| {
        let (certificate, key) = (signed.certificate.display(), signed.key.display());
        format!("[management.tls]\ncertificate-file = \"{certificate}\"\nkey-file = \"{key}\"\n")
    });
    let batch = "[clickhouse.batch]\nmax-latency = \"10ms\"\nshutdown-grace-period = \"20ms\"\n";
    let listen = "[management]\nlisten = \"127.0.0.1:0\"\n";
    config_text(NO_CLICKHOUSE, &format!("{batch}{tls}"))
        .replace(listen, &format!("{listen}token = \"{token}\"\n"))
}

fn start(token: &str, signed: Option<&Signed>) -> App {
    App::start(&config(&text(token, signed))).unwrap()
}

/// Status line, headers and body.
fn ask(mut stream: impl Read + Write, path: &str, headers: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

/// With trust in this authority.
fn connect_tls(
    address: SocketAddr,
    authority: &Authority,
) -> StreamOwned<ClientConnection, TcpStream> {
    let trust = Trust::Authorities(certificates(&authority.file()).unwrap());
    let tls = ClientTls::new(trust, None, None).unwrap();
    let name = ServerName::try_from(LOOPBACK).unwrap();
    let connection = ClientConnection::new(Arc::clone(tls.config()), name).unwrap();
    StreamOwned::new(connection, connect(address))
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

fn refused(metrics: &str, reason: &str) -> u64 {
    let body = metrics.split_once("\r\n\r\n").unwrap().1;
    let label = format!("reason=\"{reason}\"");
    Scrape::parse(body).sum("tidegate_management_refused_requests_total", &[&label])
}

#[test]
fn without_the_token_only_probes_are_answered() {
    let app = start(TOKEN, None);
    let get = |path: &str, headers: &str| ask(connect(app.management_address()), path, headers);
    for path in ["/livez", "/readyz"] {
        assert!(get(path, "").starts_with("HTTP/1.1 200 "), "{path}");
    }
    let paths = ["/metrics", "/api/v1/status", "/api/v1/exporters", "/", "/livez/../metrics"];
    for path in paths {
        for headers in ["", &bearer("another-token-of-the-size"), "Authorization: Basic YTpi\r\n"] {
            let answer = get(path, headers);
            assert!(answer.starts_with("HTTP/1.1 401 "), "{path}: {answer}");
            assert!(answer.contains("www-authenticate: Bearer realm=\"tidegate\""), "{answer}");
            assert!(!answer.contains(TOKEN), "{answer}");
        }
    }
    assert!(get("/api/v1/status", &bearer(TOKEN)).starts_with("HTTP/1.1 200 "));
    let metrics = get("/metrics", &bearer(TOKEN));
    assert_eq!((refused(&metrics, "token"), refused(&metrics, "handshake")), (15, 0));
    app.stop();
}

#[test]
fn over_tls_the_token_is_asked_for_too() {
    let authority = Authority::new("ours");
    let app = start(TOKEN, Some(&authority.sign("server", LOOPBACK, Validity::Now)));
    let get = |path: &str, headers: &str| {
        ask(connect_tls(app.management_address(), &authority), path, headers)
    };
    assert!(get("/livez", "").starts_with("HTTP/1.1 200 "));
    assert!(get("/metrics", "").starts_with("HTTP/1.1 401 "));
    let metrics = get("/metrics", &bearer(TOKEN));
    assert_eq!((refused(&metrics, "token"), refused(&metrics, "handshake")), (1, 0));
    app.stop();
}

#[test]
fn http_without_tls_ends_quickly_and_is_counted() {
    let authority = Authority::new("ours");
    let app = start("", Some(&authority.sign("server", LOOPBACK, Validity::Now)));
    let address = app.management_address();
    let began = Instant::now();
    let mut plain = connect(address);
    plain.write_all(b"GET /livez HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // The end may be a reset: the rest of the request was not read.
    drop(plain.read_to_end(&mut answer));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(!answer.starts_with(b"HTTP"));
    let metrics = ask(connect_tls(address, &authority), "/metrics", "");
    assert_eq!(refused(&metrics, "handshake"), 1);
    app.stop();
}

#[test]
fn a_slow_handshake_keeps_nobody_out_and_is_ended() {
    let authority = Authority::new("ours");
    let app = start("", Some(&authority.sign("server", LOOPBACK, Validity::Now)));
    let address = app.management_address();
    let mut slow: Vec<_> = (0..20).map(|_| connect(address)).collect();
    for stream in &mut slow {
        // The head of a record of TLS, and not the record.
        stream.write_all(&[22, 3, 1, 2, 0]).unwrap();
    }
    let began = Instant::now();
    assert!(ask(connect_tls(address, &authority), "/livez", "").starts_with("HTTP/1.1 200 "));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    for stream in &mut slow {
        drop(stream.read_to_end(&mut Vec::new()));
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let metrics = ask(connect_tls(address, &authority), "/metrics", "");
    assert_eq!(refused(&metrics, "handshake"), 20);
    app.stop();
}

/// All places are taken by connections that say nothing; they are free again when the handshakes are given up.
#[test]
fn more_slow_handshakes_than_places_keep_others_out_for_seconds_only() {
    let authority = Authority::new("ours");
    let app = start("", Some(&authority.sign("server", LOOPBACK, Validity::Now)));
    let address = app.management_address();
    let slow: Vec<_> = (0..100).map(|_| connect(address)).collect();
    let began = Instant::now();
    assert!(ask(connect_tls(address, &authority), "/livez", "").starts_with("HTTP/1.1 200 "));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    drop(slow);
    app.stop();
}

/// What the server shows, to whom trusts this authority.
fn shown(app: &App, authority: &Authority) -> Option<Vec<u8>> {
    let mut stream = connect_tls(app.management_address(), authority);
    stream.flush().ok()?;
    stream.conn.complete_io(&mut stream.sock).ok()?;
    let chain = stream.conn.peer_certificates()?;
    Some(chain[0].to_vec())
}

#[test]
fn a_renewed_certificate_is_shown_after_a_reload_and_one_without_its_key_is_not() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let signed = ours.sign("server", LOOPBACK, Validity::Now);
    let app = start("", Some(&signed));
    let first = shown(&app, &ours).unwrap();
    assert!(!app.reload_certificate().unwrap());

    theirs.sign_into(&signed, LOOPBACK, Validity::Now);
    assert_eq!(shown(&app, &ours).unwrap(), first, "nobody has looked");
    assert!(app.reload_certificate().unwrap());
    assert!(shown(&app, &ours).is_none());
    let second = shown(&app, &theirs).unwrap();

    // Between the two writes of who renews them.
    let next = theirs.sign("next", LOOPBACK, Validity::Now);
    std::fs::copy(&next.certificate, &signed.certificate).unwrap();
    let error = app.reload_certificate().unwrap_err().to_string();
    assert!(error.contains("server.key: does not go with the certificate"), "{error}");
    assert_eq!(shown(&app, &theirs).unwrap(), second);
    std::fs::copy(&next.key, &signed.key).unwrap();
    assert!(app.reload_certificate().unwrap());
    assert_ne!(shown(&app, &theirs).unwrap(), second);
    std::fs::remove_file(&signed.key).unwrap();
    assert!(app.reload_certificate().unwrap_err().to_string().contains("cannot be read"));
    assert!(shown(&app, &theirs).is_some());
    app.stop();
}

#[test]
fn check_and_run_warn_when_others_can_ask_without_a_token() {
    // An address that no machine has: `run` ends behind its warning.
    let text =
        text("", None).replace("[management]\nlisten = \"127.", "[management]\nlisten = \"0.");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tidegate.toml");
    std::fs::write(&file, &text).unwrap();
    let said = "management.listen: 0.0.0.1:0 is not of loopback, and whoever reaches it can ask it: set \
                management.token";
    let check = tidegate(&["check", "-c", file.to_str().unwrap()]);
    let shown = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(check.status.success() && shown.contains(&format!("warning: {said}\n")), "{shown}");
    let run = tidegate(&["run", "-c", file.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&run.stderr).contains(&format!(" WARN {said}")), "{run:?}");
}

fn exporters(arguments: &[&str]) -> Output {
    tidegate(&[&["exporters"], arguments].concat())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_command_asks_with_the_token_and_over_tls() {
    let (authority, other) = (Authority::new("ours"), Authority::new("theirs"));
    let signed = authority.sign("server", LOOPBACK, Validity::Now);
    let directory = tempfile::tempdir().unwrap();
    let written = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let token_file = written("token", &format!("{TOKEN}\n"));
    let wrong_token_file = written("wrong", "another-token-of-the-size\n");
    let show = |path: &Path| path.display().to_string();
    let (ca_file, other_ca_file) = (show(&authority.file()), show(&other.file()));
    for tls in [None, Some(&signed)] {
        let app = start(TOKEN, tls);
        let address = app.management_address().to_string();
        let listens = |text: String| {
            text.replacen(
                "[management]\nlisten = \"127.0.0.1:0\"",
                &format!("[management]\nlisten = \"{address}\""),
                1,
            )
        };
        let right = written("tidegate.toml", &listens(text(TOKEN, tls)));
        let output = exporters(&["-c", &right]);
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).starts_with("EXPORTER "));

        let mut how = vec!["--management", &address];
        if tls.is_some() {
            let plain = exporters(&["--management", &address, "--token-file", &token_file]);
            assert!(!plain.status.success(), "{plain:?}");
            how.extend(["--ca-file", &ca_file]);
        }
        let with = |more: &[&str]| exporters(&[&how, more].concat());
        assert!(with(&["--token-file", &token_file]).status.success());
        for wrong in [&[][..], &["--token-file", &wrong_token_file]] {
            let output = with(wrong);
            assert!(
                !output.status.success() && said(&output).contains("wants a token"),
                "{output:?}"
            );
        }
        app.stop();
    }

    let app = start("", Some(&signed));
    let address = app.management_address().to_string();
    let untrusted = exporters(&["--management", &address, "--ca-file", &other_ca_file]);
    assert!(said(&untrusted).contains("certificate of the server is not trusted"), "{untrusted:?}");
    // The configuration has another certificate than the server.
    let others = other.sign("server", LOOPBACK, Validity::Now);
    let wrong = written("wrong.toml", &text("", Some(&others)));
    let pinned = exporters(&["-c", &wrong, "--management", &address]);
    assert!(said(&pinned).contains("it is not the one that is configured"), "{pinned:?}");
    app.stop();
    let plain = start("", None);
    let address = plain.management_address().to_string();
    let no_tls = exporters(&["--management", &address, "--ca-file", &ca_file]);
    assert!(said(&no_tls).contains("does not speak TLS"), "{no_tls:?}");
    plain.stop();
}
