//! fprobe reads a live interface: loopback, on which the test makes traffic of its own.

use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::bench::{Beside, collect, stop};
use crate::common::{clickhouse, may_as_root};
use crate::flows::{Flow, Flows, Key, UDP, assert_flows, sums, without};
use crate::{at_once, has_programs};

/// How long fprobe needs to listen, and to see all packets when they are sent.
const START_WAIT: Duration = Duration::from_millis(500);
const FLOWS_WAIT: Duration = Duration::from_millis(2_500);

#[test]
fn flows_of_fprobe_are_stored_as_it_exported_them() {
    if !has_programs(&["fprobe", "nfcapd", "nfdump"]) || !may_as_root("fprobe reads an interface") {
        return;
    }
    let server = clickhouse();
    at_once([("1", "NetflowV1"), ("5", "NetflowV5"), ("7", "NetflowV7")], |(version, protocol)| {
        let run = format!("fprobe_{version}");
        let mut expected = Flows::new();
        // nfdump 1.7.1 reads fewer records of version 1 than a datagram has.
        let beside = if version == "1" { Beside::Nobody } else { Beside::Nfdump };
        let collected = collect(&server, &run, protocol, beside, |port| {
            expected = export(version, port);
        });
        let timeless = |flow: &mut Flow| (flow.first_ms, flow.last_ms) = (0, 0);
        let flows = collected.flows();
        for (key, flow) in &flows {
            let sent = &expected[key];
            let is_sane = |ms: i64| (sent.first_ms - 1_000..=sent.last_ms + 1_000).contains(&ms);
            assert!(is_sane(flow.first_ms) && is_sane(flow.last_ms), "{run}: {flow:?} {sent:?}");
        }
        assert_flows(&without(flows, timeless), &without(expected.clone(), timeless), &run);
        assert_eq!(collected.sums(), sums(&expected), "{run}: a row is a flow");
        collected.assert_sampling(1, "assumed", &run);
        collected.assert_clock(&run);
        if beside == Beside::Nfdump {
            collected.assert_nfdump(&run);
        }
    });
}

/// Runs fprobe while there is traffic; returns the flows of it.
fn export(version: &str, port: u16) -> Flows {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let filter = format!("udp and port {}", server.local_addr().unwrap().port());
    // -q: with the default queue it loses packets. -l 2: stay in the foreground. It exports what it has at
    // its end.
    let mut child = Command::new("fprobe")
        .args(["-i", "lo", "-n", version, "-f", &filter, "-s", "1", "-d", "1", "-e", "60"])
        .args(["-q", "5000", "-l", "2:", &format!("127.0.0.1:{port}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    sleep(START_WAIT);
    let mut flows = Flows::new();
    for number in 0..30_usize {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..=number % 4 {
            send(&client, &server, 50 + number, &mut flows);
            send(&server, &client, 200, &mut flows);
        }
    }
    sleep(FLOWS_WAIT);
    stop(&mut child, "TERM");
    flows
}

/// Sends a datagram and adds it to its flow.
fn send(from: &UdpSocket, to: &UdpSocket, payload_bytes: usize, flows: &mut Flows) {
    const HEADERS_BYTES: usize = 28; // IPv4 and UDP
    from.send_to(&vec![0; payload_bytes], to.local_addr().unwrap()).unwrap();
    let mut buffer = [0; 1_000];
    let (received, _) = to.recv_from(&mut buffer).unwrap();
    let address = |socket: &UdpSocket| -> SocketAddr { socket.local_addr().unwrap() };
    let key = Key {
        source: address(from).ip(),
        destination: address(to).ip(),
        protocol: UDP,
        source_port: address(from).port(),
        destination_port: address(to).port(),
    };
    let now_ms = crate::traffic::now_ms();
    let flow = Flow {
        packets: 1,
        bytes: (received + HEADERS_BYTES) as u64,
        tos: 0,
        tcp_flags: 0,
        icmp_type: 0,
        vlan: 0,
        macs: (0, 0),
        first_ms: now_ms,
        last_ms: now_ms,
    };
    flows.entry(key).and_modify(|known| known.join(&flow)).or_insert(flow);
}
