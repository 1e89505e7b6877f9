//! An exporter, a collector that stores what it sends, and nfcapd that gets the same datagrams.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use etherparse::PacketBuilder;
use tidegate::devserver::DevServer;

use crate::common::{Scrape, start, target, wait_until};
use crate::flows::{Flows, Sums, join};
use crate::nfdump::Nfcapd;
use crate::pcap::{LINK_RAW, write_pcap};
use crate::row::{Row, rows};

/// How long the fork waits for a datagram before it looks whether the exporter has ended.
const FORK_WAIT: Duration = Duration::from_millis(20);

/// What came of an export.
pub struct Collected {
    pub rows: Vec<Row>,
    pub datagrams: Vec<Vec<u8>>,
    /// What nfdump counts, if it was asked.
    pub nfdump: Option<Sums>,
}

impl Collected {
    /// The rows as flows; what an exporter split is one again.
    pub fn flows(&self) -> Flows {
        self.flows_of(|_| true)
    }

    /// The same of some rows.
    pub fn flows_of(&self, is_meant: impl Fn(&Row) -> bool) -> Flows {
        let rows = self.rows.iter().filter(|row| is_meant(row));
        let parts: Vec<_> = rows.map(|row| (row.key(), row.flow())).collect();
        join(parts.iter().map(|(key, flow)| (key, flow)))
    }

    /// Rows, bytes and packets.
    pub fn sums(&self) -> Sums {
        let sum = |of: fn(&Row) -> u64| self.rows.iter().map(of).sum();
        (self.rows.len() as u64, sum(|row| row.bytes), sum(|row| row.packets))
    }

    /// Rows by sampling interval and where it came from.
    pub fn sampling(&self) -> BTreeMap<(u64, &str), usize> {
        let mut found = BTreeMap::new();
        for row in &self.rows {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "is whole")]
            let interval = row.sampling_interval as u64;
            *found.entry((interval, row.sampling_provenance.as_str())).or_insert(0) += 1;
        }
        found
    }

    /// nfdump counts the same. It scales what the header of version 5 says is a sample.
    pub fn assert_nfdump(&self, run: &str) {
        let scale = match self.rows.iter().all(|row| row.sampling_provenance == "header") {
            true => self.sampling().into_keys().next().unwrap().0,
            false => 1,
        };
        let (rows, bytes, packets) = self.sums();
        assert_eq!(self.nfdump, Some((rows, bytes * scale, packets * scale)), "{run}");
    }

    /// The exporter's clock was taken for right.
    pub fn assert_clock(&self, run: &str) {
        assert!(self.rows.iter().all(|row| row.clock_correction == 0), "{run}");
    }

    /// All rows have this interval, from there.
    pub fn assert_sampling(&self, interval: u64, provenance: &str, run: &str) {
        let expected = BTreeMap::from([((interval, provenance), self.rows.len())]);
        assert_eq!(self.sampling(), expected, "{run}");
    }
}

impl Collected {
    /// Samples, bytes of their frames and packets that tshark finds in the datagrams.
    pub fn tshark_sflow(&self) -> Sums {
        const PORT: u16 = 6343;
        let file = tempfile::NamedTempFile::new().unwrap();
        let frames: Vec<_> =
            self.datagrams.iter().map(|datagram| udp_frame(datagram, PORT)).collect();
        write_pcap(file.path(), LINK_RAW, frames.iter().map(|frame| (0, &frame[..])));
        let output = Command::new("tshark")
            .args(["-n", "-d", &format!("udp.port=={PORT},sflow"), "-T", "fields"])
            .args(["-e", "sflow_245.header.frame_length", "-r"])
            .arg(file.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let lengths = text.split([',', '\n']).filter(|length| !length.is_empty());
        let lengths: Vec<u64> = lengths.map(|length| length.parse().unwrap()).collect();
        (lengths.len() as u64, lengths.iter().sum(), lengths.len() as u64)
    }
}

/// An IPv4 packet with a datagram for `port`.
fn udp_frame(datagram: &[u8], port: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    let step = PacketBuilder::ipv4([127, 0, 0, 1], [127, 0, 0, 1], 64).udp(40_000, port);
    step.write(&mut frame, datagram).unwrap();
    frame
}

/// Who reads the datagrams beside the collector.
#[derive(Clone, Copy, PartialEq)]
pub enum Beside {
    Nfdump,
    Nobody,
}

/// Runs an exporter that sends to the given port and ends; `protocol` is how its rows are named.
pub fn collect(
    server: &DevServer,
    database: &str,
    protocol: &str,
    beside: Beside,
    export: impl FnOnce(u16),
) -> Collected {
    let app = start(&server.http_url(), &format!("database = \"{database}\""));
    let nfcapd = (beside == Beside::Nfdump).then(Nfcapd::start);
    let nfcapd_port = nfcapd.as_ref().map(|nfcapd| nfcapd.port);
    let targets = nfcapd_port.into_iter().chain([target(&app).port()]).collect();
    let datagrams = fork(targets, export);
    wait_until(&format!("{database}: all is received"), || {
        let received = Scrape::of(&app).sum("tidegate_receive_datagrams_total", &[]);
        received == datagrams.len() as u64
    });
    let scrape = Scrape::of(&app);
    for metric in ["datagrams", "sets", "bytes"] {
        let dropped = scrape.sum(&format!("tidegate_decode_dropped_{metric}_total"), &[]);
        assert_eq!(dropped, 0, "{database}: dropped {metric}");
    }
    let books = app.stop().books;
    let rows = rows(server, database);
    assert_eq!(rows.len() as u64, books.stored, "{database}");
    assert!(rows.iter().all(|row| row.flow_protocol == protocol), "{database}");
    Collected { rows, datagrams, nfdump: nfcapd.map(Nfcapd::sums) }
}

/// Says that an exporter has ended, also when it failed its test.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Gives every datagram of the exporter to all targets and returns them when it has ended.
fn fork(targets: Vec<u16>, export: impl FnOnce(u16)) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(FORK_WAIT)).unwrap();
    let out = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let fork = scope.spawn(|| {
            let mut datagrams = Vec::new();
            let mut buffer = vec![0; 65_535];
            loop {
                let had_ended = has_ended.load(Ordering::Acquire);
                match socket.recv(&mut buffer) {
                    Ok(bytes) => {
                        for target in &targets {
                            out.send_to(&buffer[..bytes], ("127.0.0.1", *target)).unwrap();
                        }
                        datagrams.push(buffer[..bytes].to_vec());
                    }
                    Err(_) if had_ended => return datagrams,
                    Err(_) => {}
                }
            }
        });
        let ended = Ended(&has_ended);
        export(port);
        drop(ended);
        fork.join().unwrap()
    })
}

/// Sends a signal to a program that still runs, and waits for its end.
pub fn stop(child: &mut Child, signal: &str) {
    if child.try_wait().unwrap().is_none() {
        let signal = format!("-{signal}");
        assert!(
            Command::new("kill")
                .args([&signal, &child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        child.wait().unwrap();
    }
}
