//! pmacctd of pmacct reads a capture; its plugins nfprobe and sfprobe export NetFlow, IPFIX and sFlow.

use std::path::Path;
use std::process::Command;

use crate::bench::{Beside, Collected, collect};
use crate::common::clickhouse;
use crate::flows::{
    Flow, assert_flows, join, round_times, sums, with_times_of_conversations, without,
};
use crate::traffic::{Packet, Traffic};
use crate::{at_once, has_programs, text};

/// Runs pmacctd on a capture. It ends some seconds after the capture has; its exit code tells only which of
/// its processes was the first to end.
fn pmacctd(capture: &Path, plugin: &str) {
    let config = tempfile::NamedTempFile::new().unwrap();
    let settings = format!("daemonize: false\npcap_savefile: {}\n{plugin}\n", text(capture));
    std::fs::write(config.path(), settings).unwrap();
    let output = Command::new("pmacctd").args(["-f", text(config.path())]).output().unwrap();
    let has_ended =
        String::from_utf8_lossy(&output.stderr).contains("Shutting down on user request");
    assert!(has_ended, "{output:?}");
}

/// The plugin nfprobe: NetFlow or IPFIX. Flows end after a second of silence.
fn nfprobe(port: u16, version: &str, sampling_rate: u64) -> String {
    format!(
        "plugins: nfprobe[a]\n\
         aggregate[a]: src_host, dst_host, src_port, dst_port, proto, tos, tcpflags, in_iface, \
         out_iface, vlan, src_mac, dst_mac\n\
         nfprobe_receiver: 127.0.0.1:{port}\nnfprobe_source_ip: 127.0.0.1\n\
         nfprobe_version: {version}\n\
         nfprobe_timeouts: tcp=1:tcp.rst=1:tcp.fin=1:udp=1:icmp=1:general=1:maxlife=60:expint=1\n\
         {}",
        sampling(sampling_rate)
    )
}

/// The plugin sfprobe: sFlow.
fn sfprobe(port: u16, sampling_rate: u64) -> String {
    format!(
        "plugins: sfprobe[a]\nsampling_rate: {sampling_rate}\n\
         sfprobe_receiver: 127.0.0.1:{port}\nsfprobe_agentip: 127.0.0.1\nsfprobe_agentsubid: 7"
    )
}

/// A rate of 1 is not announced.
fn sampling(rate: u64) -> String {
    if rate == 1 { String::new() } else { format!("sampling_rate: {rate}") }
}

/// Every flow of a sample was in the traffic, and no packet of it is counted twice.
fn assert_sample(collected: &Collected, traffic: &Traffic, run: &str) {
    let all = traffic.flows();
    for (key, flow) in collected.flows() {
        let whole = &all[&key];
        assert!(flow.packets <= whole.packets && flow.bytes <= whole.bytes, "{run}: {key:?}");
        assert_eq!(flow.tcp_flags & !whole.tcp_flags, 0, "{run}: {key:?}");
    }
}

#[test]
fn flows_of_nfprobe_are_stored_as_it_exported_them() {
    if !has_programs(&["pmacctd", "nfcapd", "nfdump"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("traffic.pcap");
    let traffic = Traffic::new();
    traffic.write(&capture);
    let server = clickhouse();
    let runs = [("5", "NetflowV5"), ("9", "NetflowV9"), ("10", "IPFIX")];
    let runs = runs.into_iter().flat_map(|run| [(run, 1), (run, 4)]);
    at_once(runs, |((version, protocol), rate)| {
        let run = format!("nfprobe_{version}_{rate}");
        let export = |port| pmacctd(&capture, &nfprobe(port, version, rate));
        let collected = collect(&server, &run, protocol, Beside::Nfdump, export);
        let is_fixed = version == "5";
        collected.assert_nfdump(&run);
        let provenance = match rate {
            1 => "assumed",
            _ if is_fixed => "header",
            _ => "options",
        };
        collected.assert_sampling(rate, provenance, &run);
        collected.assert_clock(&run);
        if rate > 1 {
            assert_sample(&collected, &traffic, &run);
            return;
        }
        let flows = if is_fixed { traffic.ipv4_flows() } else { traffic.flows() };
        let expected = without(with_times_of_conversations(&flows), |flow| {
            if is_fixed {
                (flow.vlan, flow.macs) = (0, (0, 0));
            }
        });
        assert_flows(&round_times(collected.flows(), &expected), &expected, &run);
        assert_eq!(collected.sums(), sums(&expected), "{run}: a row is a flow");
    });
}

#[test]
fn packets_that_sfprobe_samples_are_rows() {
    if !has_programs(&["pmacctd", "tshark"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("traffic.pcap");
    let traffic = Traffic::part(2);
    traffic.write(&capture);
    let server = clickhouse();
    at_once([1, 10], |rate| {
        let run = format!("sfprobe_{rate}");
        let export = |port| pmacctd(&capture, &sfprobe(port, rate));
        let collected = collect(&server, &run, "SFLOW", Beside::Nobody, export);
        assert_eq!(collected.sums(), collected.tshark_sflow(), "{run}");
        collected.assert_sampling(rate, "record", &run);
        collected.assert_clock(&run);
        if rate > 1 {
            return;
        }
        // At its end sfprobe forgets the samples of the datagram that it was filling.
        let sent = &traffic.packets[..collected.rows.len()];
        assert!(
            sent.len() + 10 > traffic.packets.len(),
            "{} of {}",
            sent.len(),
            traffic.packets.len()
        );
        let samples: Vec<_> = sent.iter().map(Packet::sample).collect();
        let expected = join(samples.iter().map(|(key, flow)| (key, flow)));
        let timeless = |flow: &mut Flow| (flow.first_ms, flow.last_ms) = (0, 0);
        assert_flows(&without(collected.flows(), timeless), &without(expected, timeless), &run);
    });
}
