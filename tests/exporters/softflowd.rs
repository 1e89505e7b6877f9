//! softflowd reads a capture as if it were an interface, exports all flows and ends.

use std::path::Path;
use std::process::Command;

use tidegate::devserver::DevServer;

use crate::bench::{Beside, Collected, collect};
use crate::common::clickhouse;
use crate::flows::{
    Flow, Flows, Key, assert_flows, join, round_times, sums, with_times_of_conversations, without,
};
use crate::traffic::{Packet, Traffic};
use crate::{has_programs, text};

#[test]
fn flows_of_softflowd_are_stored_as_it_exported_them() {
    if !has_programs(&["softflowd", "nfcapd", "nfdump"]) {
        return;
    }
    let bench = Softflowd::new();
    let runs: [(&str, &str, &[&str]); 8] = [
        ("v1", "NetflowV1", &["-v", "1"]),
        ("v5", "NetflowV5", &["-v", "5"]),
        ("v9", "NetflowV9", &["-v", "9"]),
        ("v10", "IPFIX", &["-v", "10"]),
        ("v10_ether", "IPFIX", &["-v", "10", "-A", "milli", "-T", "ether"]),
        ("v5_sampled", "NetflowV5", &["-v", "5", "-s", "10"]),
        ("v9_sampled", "NetflowV9", &["-v", "9", "-s", "10"]),
        ("v10_sampled", "IPFIX", &["-v", "10", "-s", "10"]),
    ];
    for (run, protocol, options) in runs {
        bench.run(run, protocol, options);
    }
}

/// RFC 5103: the row of a conversation has the other direction in columns of its own.
#[test]
fn biflows_of_softflowd_have_both_directions() {
    if !has_programs(&["softflowd"]) {
        return;
    }
    let bench = Softflowd::new();
    let options = ["-v", "10", "-b", "-A", "milli"];
    let collected = bench.collect("biflow", "IPFIX", Beside::Nobody, &options);
    // Of two addresses the lower one is softflowd's forward direction, also when it sent nothing.
    let forward = collected.rows.iter().map(|row| (row.key(), row.flow()));
    let reverse = collected.rows.iter().map(|row| {
        let (packets, bytes) = (row.reverse_packets, row.reverse_bytes);
        (row.key().reversed(), Flow { packets, bytes, ..row.flow() })
    });
    let sent: Vec<_> = forward.chain(reverse).filter(|(_, flow)| flow.packets > 0).collect();
    let flows = join(sent.iter().map(|(key, flow)| (key, flow)));
    let expected = with_times_of_conversations(&bench.traffic.flows());
    let has_answer = |key: &&Key| !key.is_icmp() && expected.contains_key(&key.reversed());
    let answered = expected.keys().filter(has_answer).count();
    assert_eq!(collected.rows.len(), expected.len() - answered / 2);
    // Flags, type of service and ICMP type of the other direction have no column.
    let forget = |flow: &mut Flow| {
        (flow.tos, flow.tcp_flags, flow.icmp_type) = (0, 0, 0);
        forget_ether(flow);
    };
    assert_flows(&without(flows, forget), &without(expected, forget), "biflow");
}

/// RFC 5476: a record has the beginning of a packet, and nothing else.
#[test]
fn packets_that_softflowd_reports_are_rows() {
    // softflowd pads every section to the longest one and sends them all at once; a receive buffer of the
    // default size holds 90.
    const INTERVAL: usize = 20;
    if !has_programs(&["softflowd"]) {
        return;
    }
    let bench = Softflowd::new();
    let options = ["-v", "psamp", "-s", &INTERVAL.to_string()];
    let collected = bench.collect("psamp", "IPFIX", Beside::Nobody, &options);
    assert_eq!(collected.rows.len(), bench.traffic.packets.len().div_ceil(INTERVAL));
    let expected = bench.traffic.flows_of(|packets| sampled(packets, INTERVAL, true));
    assert_flows(&collected.flows(), &expected, "psamp");
}

/// What the tests share.
struct Softflowd {
    traffic: Traffic,
    folder: tempfile::TempDir,
    server: DevServer,
}

impl Softflowd {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let traffic = Traffic::new();
        traffic.write(&folder.path().join("traffic.pcap"));
        Self { traffic, folder, server: clickhouse() }
    }

    /// Exports flows and compares them with the packets, and with what nfdump counts.
    fn run(&self, run: &str, protocol: &str, options: &[&str]) {
        let has_ipv6 = !matches!(protocol, "NetflowV1" | "NetflowV5");
        let interval = if options.contains(&"-s") { 10 } else { 1 };
        // nfdump 1.7.1 reads fewer records of version 1 than a datagram has.
        let beside = if run == "v1" { Beside::Nobody } else { Beside::Nfdump };
        let collected = self.collect(run, protocol, beside, options);
        let mut flows = collected.flows();
        let expected = self.traffic.flows_of(|packets| sampled(packets, interval, has_ipv6));
        let mut expected = with_times_of_conversations(&expected);
        if !options.contains(&"ether") {
            expected = without(expected, forget_ether);
        }
        if interval > 1 {
            // softflowd loses the type of service of a client whose server was sampled first.
            flows.values_mut().chain(expected.values_mut()).for_each(|flow| flow.tos = 0);
        }
        if protocol == "NetflowV9" {
            shift_by_less_than_a_second(&mut expected, &flows);
        }
        assert_flows(&round_times(flows, &expected), &expected, run);
        assert_eq!(collected.sums(), sums(&expected), "{run}: a row is a flow");
        let provenance = match protocol {
            "NetflowV9" | "IPFIX" => "options",
            _ if interval > 1 => "header",
            _ => "assumed",
        };
        collected.assert_sampling(interval as u64, provenance, run);
        collected.assert_clock(run);
        if beside == Beside::Nfdump {
            collected.assert_nfdump(run);
        }
    }

    fn collect(&self, run: &str, protocol: &str, beside: Beside, options: &[&str]) -> Collected {
        let capture = self.folder.path().join("traffic.pcap");
        let export = |port| softflowd(&capture, port, options);
        collect(&self.server, &format!("softflowd_{run}"), protocol, beside, export)
    }
}

/// Exports `capture` with these options more. `-a`: the clock is the capture's. `-c none`: with a control
/// socket softflowd may wait for ever.
fn softflowd(capture: &Path, port: u16, options: &[&str]) {
    let pid = tempfile::tempdir().unwrap();
    let output = Command::new("softflowd")
        .args(["-a", "-d", "-c", "none", "-n", &format!("127.0.0.1:{port}")])
        .args(["-r", text(capture), "-p", text(&pid.path().join("pid"))])
        .args(options)
        .output()
        .unwrap();
    assert!(output.status.success(), "softflowd {options:?}: {output:?}");
}

/// What softflowd says with `-T ether` only.
fn forget_ether(flow: &mut Flow) {
    (flow.vlan, flow.macs) = (0, (0, 0));
}

/// Chooses the first of every `interval` packets. One that the version cannot export is not counted where
/// one is due, so that the next packet is taken.
fn sampled(packets: &[Packet], interval: usize, has_ipv6: bool) -> Vec<&Packet> {
    let mut counted = 0_usize;
    let mut taken = Vec::new();
    for packet in packets {
        let is_due = counted.is_multiple_of(interval);
        let is_exported = has_ipv6 || packet.key.source.is_ipv4();
        if is_due && is_exported {
            taken.push(packet);
        }
        counted += usize::from(!is_due || is_exported);
    }
    taken
}

/// The header of NetFlow v9 has the time in whole seconds (RFC 3954 section 5.1), so that all times of an
/// export are early by the same part of a second.
fn shift_by_less_than_a_second(expected: &mut Flows, got: &Flows) {
    let (key, flow) = expected.first_key_value().unwrap();
    let shift_ms = got[key].first_ms - flow.first_ms;
    assert!((-999..=0).contains(&shift_ms), "{shift_ms}");
    for flow in expected.values_mut() {
        flow.first_ms += shift_ms;
        flow.last_ms += shift_ms;
    }
}
