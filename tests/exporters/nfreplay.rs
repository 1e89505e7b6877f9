//! nfreplay of nfdump sends flows that nfpcapd made of a capture.

use std::process::Command;

use crate::bench::{Beside, collect};
use crate::common::clickhouse;
use crate::flows::{Flow, assert_flows, without};
use crate::traffic::Traffic;
use crate::{at_once, has_programs, text};

#[test]
fn flows_of_nfreplay_are_stored_as_it_exported_them() {
    if !has_programs(&["nfpcapd", "nfreplay", "nfcapd", "nfdump"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("traffic.pcap");
    let traffic = Traffic::new();
    traffic.write(&capture);
    let flows = folder.path().join("flows");
    std::fs::create_dir(&flows).unwrap();
    let made = Command::new("nfpcapd")
        .args(["-r", text(&capture), "-w", text(&flows), "-t", "3600"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let server = clickhouse();
    at_once([("5", "NetflowV5"), ("9", "NetflowV9")], |(version, protocol)| {
        let run = format!("nfreplay_{version}");
        let export = |port: u16| {
            for file in std::fs::read_dir(&flows).unwrap() {
                let output = Command::new("nfreplay")
                    .args(["-r", text(&file.unwrap().path()), "-v", version])
                    .args(["-H", "127.0.0.1", "-p", &port.to_string()])
                    .output()
                    .unwrap();
                assert!(output.status.success(), "{output:?}");
            }
        };
        // The clock of nfreplay is a day before the first flow (version 9) or an hour behind it.
        let collected = collect(&server, &run, protocol, Beside::Nfdump, export);
        collected.assert_nfdump(&run);
        let expected = if version == "5" { traffic.ipv4_flows() } else { traffic.flows() };
        // nfpcapd loses the type of service where a client closes its connection.
        let forget = |flow: &mut Flow| {
            (flow.tos, flow.vlan, flow.macs) = (0, 0, (0, 0));
            if version == "9" {
                // A day later than the export cannot be, so that all of them are the export time.
                (flow.first_ms, flow.last_ms) = (0, 0);
            }
        };
        assert_flows(&without(collected.flows(), forget), &without(expected, forget), &run);
        collected.assert_sampling(1, "assumed", &run);
    });
}
