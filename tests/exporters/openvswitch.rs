//! Open vSwitch with a switch in user space that has no real interface: frames are put into a port over
//! the control socket. It exports NetFlow v5, sFlow and IPFIX of the same frames.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use crate::bench::{Beside, Collected, collect};
use crate::common::{clickhouse, may_as_root, wait_until};
use crate::flows::{Flow, Key, assert_flows, join, without};
use crate::traffic::{ETHERNET_BYTES, Packet, Traffic, now_ms};
use crate::{at_once, has_programs, text};

/// Where Debian has the schema of the database.
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// Numbers of the ports on which clients and servers are.
const CLIENTS_PORT: u32 = 1;
const SERVERS_PORT: u32 = 2;

/// A port forgets what is beyond its queue of 100 frames.
const FRAMES_AT_ONCE: usize = 20;
const FRAMES_PAUSE: Duration = Duration::from_millis(10);

/// More than the second after which flows are exported.
const FLOWS_WAIT: Duration = Duration::from_millis(2_500);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Netflow,
    Sflow,
    Ipfix,
}

const KINDS: [Kind; 3] = [Kind::Netflow, Kind::Sflow, Kind::Ipfix];

#[test]
fn flows_of_open_vswitch_are_stored_as_it_exported_them() {
    let programs = ["ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl"];
    if !has_programs(&programs)
        || !has_programs(&["nfcapd", "nfdump", "tshark"])
        || !may_as_root("Open vSwitch makes a switch")
    {
        return;
    }
    let server = clickhouse();
    let traffic = Traffic::part(4);
    let begin_ms = now_ms();
    let switch = Switch::start();
    // All three have their port before the first frame, and stay until the last flow is exported.
    let (ready, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    at_once(KINDS, |kind| {
        let (protocol, beside) = match kind {
            Kind::Netflow => ("NetflowV5", Beside::Nfdump),
            Kind::Sflow => ("SFLOW", Beside::Nobody),
            Kind::Ipfix => ("IPFIX", Beside::Nobody),
        };
        let run = format!("ovs_{kind:?}").to_lowercase();
        let collected = collect(&server, &run, protocol, beside, |port| {
            switch.export(kind, port);
            if ready.fetch_add(1, Ordering::AcqRel) + 1 == KINDS.len() {
                switch.inject(&traffic);
                sleep(FLOWS_WAIT);
                switch.export_nothing();
                is_over.store(true, Ordering::Release);
            }
            wait_until("Open vSwitch has exported", || is_over.load(Ordering::Acquire));
        });
        collected.assert_clock(&run);
        let times = begin_ms - 1_000..=now_ms();
        let is_sane = |flow: &Flow| times.contains(&flow.first_ms) && times.contains(&flow.last_ms);
        assert!(collected.flows().values().all(is_sane), "{run}");
        match kind {
            Kind::Netflow => assert_netflow(&collected, &traffic),
            Kind::Sflow => assert_sflow(&collected, &traffic),
            Kind::Ipfix => assert_ipfix(&collected, &traffic),
        }
    });
}

/// Bytes of NetFlow v5 are those of whole frames. Packets of a flow that came before a timeout and after it
/// are in two rows.
fn assert_netflow(collected: &Collected, traffic: &Traffic) {
    let mut expected = traffic.ipv4_flows();
    for flow in expected.values_mut() {
        let tag_bytes = if flow.vlan == 0 { 0 } else { 4 };
        flow.bytes += (ETHERNET_BYTES + tag_bytes) * flow.packets;
    }
    let forget = |flow: &mut Flow| {
        (flow.vlan, flow.macs) = (0, (0, 0));
        forget_times(flow);
    };
    assert_flows(&without(collected.flows(), forget), &without(expected, forget), "NetFlow v5");
    for row in &collected.rows {
        let (from, to) = (port_of(&row.key()), port_of(&row.key().reversed()));
        assert_eq!((row.input_snmp, row.output_snmp), (from, to), "{row:?}");
    }
    collected.assert_nfdump("NetFlow v5");
    collected.assert_sampling(1, "assumed", "NetFlow v5");
}

/// Every frame is a sample.
fn assert_sflow(collected: &Collected, traffic: &Traffic) {
    let samples: Vec<_> = traffic.packets.iter().map(Packet::sample).collect();
    let expected = join(samples.iter().map(|(key, flow)| (key, flow)));
    assert_flows(
        &without(collected.flows(), forget_times),
        &without(expected, forget_times),
        "sFlow",
    );
    assert_eq!(collected.rows.len(), samples.len());
    assert_eq!(collected.sums(), collected.tshark_sflow());
    collected.assert_sampling(1, "record", "sFlow");
}

/// Every flow is exported where it comes in and where it goes out. TCP flags are in counters of their own.
fn assert_ipfix(collected: &Collected, traffic: &Traffic) {
    for direction in ["INGRESS", "EGRESS"] {
        let forget = |flow: &mut Flow| {
            flow.tcp_flags = 0;
            forget_times(flow);
        };
        let flows = collected.flows_of(|row| row.direction == direction);
        assert_flows(&without(flows, forget), &without(traffic.flows(), forget), direction);
    }
    collected.assert_sampling(1, "assumed", "IPFIX");
}

fn forget_times(flow: &mut Flow) {
    (flow.first_ms, flow.last_ms) = (0, 0);
}

/// The port of the sender. Servers are not in 10.0.0.0/8, and have the well-known ports.
fn port_of(key: &Key) -> u32 {
    let is_client = match key.source {
        IpAddr::V4(source) => source.octets()[0] == 10,
        IpAddr::V6(source) => matches!(source.segments()[2], 1 | 3 | 4),
    };
    if is_client { CLIENTS_PORT } else { SERVERS_PORT }
}

/// A running switch with two ports.
struct Switch {
    folder: tempfile::TempDir,
}

impl Switch {
    fn start() -> Self {
        let switch = Self { folder: tempfile::tempdir().unwrap() };
        let path = |name: &str| switch.path(name).to_str().unwrap().to_owned();
        run("ovsdb-tool", &["create", &path("conf.db"), SCHEMA], &switch);
        let remote = format!("--remote=punix:{}", path("db.sock"));
        switch.daemon("ovsdb-server", &[&path("conf.db"), &remote]);
        switch.vsctl("--no-wait init");
        let database = format!("unix:{}", path("db.sock"));
        let dummy = ["--enable-dummy=override", "--disable-system", "--disable-system-route"];
        switch.daemon("ovs-vswitchd", &[&dummy[..], &[&database]].concat());
        switch.vsctl(
            "add-br br0 -- set bridge br0 datapath_type=dummy fail-mode=secure \
             -- add-port br0 p1 -- set interface p1 type=dummy ofport_request=1 \
             -- add-port br0 p2 -- set interface p2 type=dummy ofport_request=2",
        );
        let bridge = format!("unix:{}", path("br0.mgmt"));
        for (from, to) in [(CLIENTS_PORT, SERVERS_PORT), (SERVERS_PORT, CLIENTS_PORT)] {
            let rule = format!("in_port={from},actions=output:{to}");
            run("ovs-ofctl", &["add-flow", &bridge, &rule], &switch);
        }
        switch
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a program that goes to the background when it is ready.
    fn daemon(&self, program: &str, arguments: &[&str]) {
        let option = |name: &str, file: &str| {
            format!("--{name}={}/{program}.{file}", text(self.folder.path()))
        };
        let own = [option("pidfile", "pid"), option("log-file", "log"), option("unixctl", "ctl")];
        let own = own.iter().map(String::as_str).chain(["--detach", "--no-chdir"]);
        let arguments: Vec<_> = arguments.iter().copied().chain(own).collect();
        run(program, &arguments, self);
    }

    /// `arguments` are separated by spaces.
    fn vsctl(&self, arguments: &str) {
        let database = format!("--db=unix:{}", text(&self.path("db.sock")));
        let arguments: Vec<_> = [&*database].into_iter().chain(arguments.split(' ')).collect();
        run("ovs-vsctl", &arguments, self);
    }

    /// Exports to this port from now on. Flows of NetFlow and IPFIX end after a second.
    fn export(&self, kind: Kind, port: u16) {
        let target = format!("\"127.0.0.1:{port}\"");
        self.vsctl(&match kind {
            Kind::Netflow => format!(
                "-- set Bridge br0 netflow=@n \
                 -- --id=@n create NetFlow targets={target} active-timeout=1"
            ),
            Kind::Sflow => format!(
                "-- --id=@s create sFlow agent=127.0.0.1 target={target} header=128 sampling=1 \
                 polling=1 -- set Bridge br0 sflow=@s"
            ),
            Kind::Ipfix => format!(
                "-- set Bridge br0 ipfix=@i -- --id=@i create IPFIX targets={target} \
                 obs_domain_id=123 obs_point_id=456 cache_active_timeout=1 cache_max_flows=1000 \
                 sampling=1"
            ),
        });
    }

    fn export_nothing(&self) {
        self.vsctl("clear bridge br0 netflow sflow ipfix");
    }

    /// Puts every frame into the port of its sender, each by a call of the control protocol (RFC 7047 section 4).
    fn inject(&self, traffic: &Traffic) {
        let mut control = UnixStream::connect(self.path("ovs-vswitchd.ctl")).unwrap();
        for (number, packet) in traffic.packets.iter().enumerate() {
            if number.is_multiple_of(FRAMES_AT_ONCE) {
                sleep(FRAMES_PAUSE);
            }
            let hex: String = packet.frame.iter().map(|byte| format!("{byte:02x}")).collect();
            let call = serde_json::json!({
                "id": number, "method": "netdev-dummy/receive", "params": [format!("p{}", port_of(&packet.key)), hex],
            });
            control.write_all(call.to_string().as_bytes()).unwrap();
            let mut answer = Vec::new();
            while serde_json::from_slice::<serde_json::Value>(&answer).is_err() {
                let mut buffer = [0; 4_096];
                let bytes = control.read(&mut buffer).unwrap();
                answer.extend(&buffer[..bytes]);
            }
            let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
            assert!(answer["error"].is_null(), "{answer}");
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        for program in ["ovs-vswitchd", "ovsdb-server"] {
            if let Ok(pid) = std::fs::read_to_string(self.path(&format!("{program}.pid"))) {
                drop(Command::new("kill").arg(pid.trim()).status());
            }
        }
    }
}

fn run(program: &str, arguments: &[&str], switch: &Switch) {
    let output = Command::new(program)
        .args(arguments)
        .env("OVS_RUNDIR", switch.folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}
