//! A real exporter: what softflowd exports is what ClickHouse has and what nfdump counts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::Write;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{clickhouse, has_program, start, stored_sums, target, wait_until};
use etherparse::PacketBuilder;

/// Flows, bytes (IP length) and packets.
type Sums = (u64, u64, u64);

/// Reads the capture as if it were an interface, exports all flows and ends. `-c none`: with a control
/// socket softflowd may wait for ever. Returns how many records it says that it exported.
fn softflowd(capture: &Path, port: u16, version: &str) -> u64 {
    let mut command = Command::new("softflowd");
    command.args([
        "-a",
        "-d",
        "-c",
        "none",
        "-v",
        version,
        "-n",
        &format!("127.0.0.1:{port}"),
        "-r",
    ]);
    command.arg(capture).arg("-p").arg(capture.with_extension("pid"));
    let output = command.output().unwrap();
    let log = String::from_utf8_lossy(&output.stdout).into_owned();
    let exported = log.lines().find_map(|line| line.strip_prefix("Flows exported: ")).unwrap();
    let (_, records) = exported.split_once('(').unwrap();
    records.split(' ').next().unwrap().parse().unwrap()
}

/// nfcapd, stopped when dropped.
struct Nfcapd(Child);

impl Drop for Nfcapd {
    fn drop(&mut self) {
        drop(Command::new("kill").arg(self.0.id().to_string()).status());
        drop(self.0.wait());
    }
}

/// What nfdump counts of softflowd's export.
fn nfdump(capture: &Path, version: &str) -> Sums {
    let folder = tempfile::tempdir().unwrap();
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nfcapd = Command::new("nfcapd")
        .args(["-b", "127.0.0.1", "-p", &port.to_string(), "-t", "3600", "-l"])
        .arg(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let nfcapd = Nfcapd(nfcapd);
    wait_until("nfcapd has the port", || UdpSocket::bind(("127.0.0.1", port)).is_err());
    softflowd(capture, port, version);
    std::thread::sleep(std::time::Duration::from_millis(300)); // nfcapd tells nobody when it has read
    drop(nfcapd);
    let output = Command::new("nfdump").args(["-I", "-R"]).arg(folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let count = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("nfdump has no {name}: {text}")).trim().parse().unwrap()
    };
    (count("Flows:"), count("Bytes:"), count("Packets:"))
}

#[test]
fn flows_of_softflowd_are_stored_as_it_exported_them() {
    if !["softflowd", "nfcapd", "nfdump"].into_iter().all(has_program) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("traffic.pcap");
    let (ipv4, ipv6) = write_capture(&capture);
    let both = (ipv4.0 + ipv6.0, ipv4.1 + ipv6.1, ipv4.2 + ipv6.2);
    let server = clickhouse();
    // NetFlow v1 and v5 have no IPv6.
    for (version, expected) in [("1", ipv4), ("5", ipv4), ("9", both), ("10", both)] {
        let app = start(&server.http_url(), "");
        let exported = softflowd(&capture, target(&app).port(), version);
        wait_until("all is received", || app.view().ledger.books().received == exported);
        assert_eq!(app.stop().books.stored, exported);
        assert_eq!(exported, expected.0, "version {version}");
        assert_eq!(stored_sums(&server), expected, "version {version}");
        // nfdump 1.7.1 reads fewer records of version 1 than a datagram has.
        if version != "1" {
            assert_eq!(nfdump(&capture, version), expected, "version {version}");
        }
        server.query("TRUNCATE TABLE tidegate.flows").unwrap();
    }
}

/// A capture of TCP and UDP flows over IPv4 and IPv6; returns the sums of each family.
fn write_capture(path: &Path) -> (Sums, Sums) {
    let mut file = std::fs::File::create(path).unwrap();
    // pcap, little-endian, microseconds, Ethernet.
    let header = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1];
    header.iter().for_each(|word| file.write_all(&word.to_le_bytes()).unwrap());
    let (mut ipv4, mut ipv6) = ((0, 0, 0), (0, 0, 0));
    for flow in 0..150_u8 {
        let is_ipv6 = flow % 3 == 0;
        let sums = if is_ipv6 { &mut ipv6 } else { &mut ipv4 };
        sums.0 += 1;
        for packet in 0..=flow % 7 {
            let bytes = packet_of(flow, is_ipv6, usize::from(flow) + usize::from(packet) * 100);
            sums.1 += bytes.len() as u64 - 14; // without the Ethernet header
            sums.2 += 1;
            let length = u32::try_from(bytes.len()).unwrap();
            let seconds = 1_700_000_000 + u32::from(packet);
            let record = [seconds, u32::from(flow) * 1_000, length, length];
            record.iter().for_each(|word| file.write_all(&word.to_le_bytes()).unwrap());
            file.write_all(&bytes).unwrap();
        }
    }
    (ipv4, ipv6)
}

fn packet_of(flow: u8, is_ipv6: bool, payload_bytes: usize) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let ip = if is_ipv6 {
        let address = |last| [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
        ethernet.ipv6(address(flow), address(255), 64)
    } else {
        ethernet.ipv4([10, 0, 0, flow], [10, 0, 1, 255], 64)
    };
    let payload = vec![0; payload_bytes];
    let mut bytes = Vec::new();
    if flow.is_multiple_of(2) {
        ip.tcp(30_000 + u16::from(flow), 443, 1, 1_000).write(&mut bytes, &payload).unwrap();
    } else {
        ip.udp(30_000 + u16::from(flow), 53).write(&mut bytes, &payload).unwrap();
    }
    bytes
}
