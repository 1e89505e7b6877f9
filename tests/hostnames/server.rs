//! NSD with the zones of the tests, and a relay before it that counts questions and can be silent.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{free_port, wait_until};

/// Seconds that negative answers may be kept, by the SOA records.
pub const NEGATIVE_TTL: u64 = 3;

/// NSD of one test.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Server {
    pub fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_str().unwrap().to_owned();
        let port = free_port();
        let zones = [
            ("2.0.192.in-addr.arpa", v4()),
            ("8.b.d.0.1.0.0.2.ip6.arpa", v6()),
            ("10.in-addr.arpa", wide()),
        ];
        let mut config = format!(
            "server:\n ip-address: 127.0.0.1@{port}\n server-count: 1\n rrl-ratelimit: 0\n username: \"\"\n chroot: \"\"\n \
             zonesdir: \"{path}\"\n database: \"\"\n pidfile: \"{path}/pid\"\n xfrdfile: \"{path}/xfrd\"\n \
             zonelistfile: \"{path}/zones\"\n xfrdir: \"{path}\"\nremote-control:\n control-enable: no\n"
        );
        for (name, records) in zones {
            let head = format!(
                "$ORIGIN {name}.\n$TTL 1\n@ 60 SOA ns.example. root.example. 1 60 60 60 {NEGATIVE_TTL}\n@ NS ns.example.\n"
            );
            std::fs::write(directory.path().join(name), head + &records).unwrap();
            writeln!(config, "zone:\n name: {name}\n zonefile: {name}").unwrap();
        }
        let file = directory.path().join("nsd.conf");
        std::fs::write(&file, config).unwrap();
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
        let child = Command::new("nsd")
            .env("PATH", path)
            .args(["-d", "-c"])
            .arg(&file)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let server = Self { child, address, _directory: directory };
        wait_until("NSD answers", || ask(address, QUESTION).is_some());
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(Command::new("kill").arg(self.child.id().to_string()).status());
        drop(self.child.wait());
    }
}

/// A question for the SOA record of 10.in-addr.arpa (RFC 1035 section 4.1).
const QUESTION: &[u8] =
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x0210\x07in-addr\x04arpa\x00\x00\x06\x00\x01";

fn v4() -> String {
    let label = "x".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}.", "y".repeat(61));
    let mut text = format!(
        "1 PTR Host-1.Example.NET.\n2 60 PTR kept.example.\n3 60 PTR \\000\\001\\200.example.\n\
         4 60 PTR a\\.b.example.\n5 60 PTR {longest}\n6 CNAME 6.0-7\n6.0-7 60 PTR alias.example.\n"
    );
    // Together far beyond the 512 bytes of a datagram (RFC 1035 section 4.2.1).
    (0..60)
        .for_each(|number| writeln!(text, "7 60 PTR one-of-many-names-{number}.example.").unwrap());
    text
}

fn v6() -> String {
    format!("1.{}0.0 60 PTR six.example.\n", "0.".repeat(21))
}

/// Each address has a name.
fn wide() -> String {
    "* 60 PTR any.example.\n".to_owned()
}

/// Sends a question; the answer, if one comes.
fn ask(server: SocketAddr, question: &[u8]) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    socket.send_to(question, server).ok()?;
    let mut answer = vec![0; 4_096];
    let length = socket.recv(&mut answer).ok()?;
    answer.truncate(length);
    Some(answer)
}

/// A relay before a server.
#[derive(Clone)]
pub struct Relay {
    pub address: SocketAddr,
    counts: Arc<Mutex<HashMap<String, usize>>>,
    is_silent: Arc<AtomicBool>,
}

impl Relay {
    /// Works until the process ends.
    pub fn start(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let relay = Self { address, counts: Arc::default(), is_silent: Arc::default() };
        let copy = relay.clone();
        std::thread::spawn(move || {
            let mut question = [0; 4_096];
            loop {
                let (length, from) = socket.recv_from(&mut question).unwrap();
                let question = &question[..length];
                *copy.counts.lock().unwrap().entry(name_in(question)).or_default() += 1;
                if copy.is_silent.load(Ordering::Relaxed) {
                    continue;
                }
                if let Some(answer) = ask(server, question) {
                    socket.send_to(&answer, from).unwrap();
                }
            }
        });
        relay
    }

    pub fn be_silent(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::Relaxed);
    }

    /// Datagrams that asked for a name.
    pub fn count(&self, name: &str) -> usize {
        self.counts.lock().unwrap().get(name).copied().unwrap_or_default()
    }
}

/// The name that is asked for.
fn name_in(question: &[u8]) -> String {
    let mut labels = Vec::new();
    let mut rest = &question[12..];
    while let Some((&length @ 1.., behind)) = rest.split_first() {
        let (label, behind) = behind.split_at(length.into());
        labels.push(String::from_utf8_lossy(label).to_lowercase());
        rest = behind;
    }
    labels.join(".")
}
