//! Records of NetFlow and IPFIX as tshark reads them.

use std::collections::{BTreeMap, BTreeSet};

use crate::pdml::{Field, number};
use crate::record::Expected;
use crate::time::{date_ms, seconds_ms};

/// Columns of numbers, and tshark's fields that fill them: the preferred one first, as in `docs/columns.md`.
const NUMBERS: &[(&str, &[&str])] = &[
    ("inputSnmp", &["cflow.inputint", "cflow.ingress_physical_interface"]),
    ("outputSnmp", &["cflow.outputint", "cflow.egress_physical_interface"]),
    ("srcAs", &["cflow.srcas"]),
    ("dstAs", &["cflow.dstas"]),
    ("srcMaskLen", &["cflow.srcmask", "cflow.srcmaskv6"]),
    ("dstMaskLen", &["cflow.dstmask", "cflow.dstmaskv6"]),
    ("srcPort", &["cflow.srcport"]),
    ("dstPort", &["cflow.dstport"]),
    (
        "bytes",
        &[
            "cflow.octets",
            "cflow.post_octets",
            "cflow.layer2_octet_delta_count",
            "cflow.permanent_octets",
            "cflow.initiator_octets",
        ],
    ),
    ("packets", &["cflow.packets", "cflow.post_packets", "cflow.permanent_packets"]),
    ("vlan", &["cflow.vlanid", "cflow.dot1q_vlan_id"]),
    ("postVlan", &["cflow.post_vlanid"]),
    ("ipProtocolVersion", &["cflow.ip_version"]),
    ("protocol", &["cflow.protocol"]),
    ("tcpFlags", &["cflow.tcpflags"]),
    ("tos", &["cflow.tos"]),
    ("srcMac", &["cflow.srcmac", "cflow.post_srcmac"]),
    ("dstMac", &["cflow.dstmac", "cflow.post_dstmac"]),
    ("flowEndReason", &["cflow.flow_end_reason"]),
    ("ipTtl", &["cflow.ip_ttl", "cflow.ttl_min"]),
    ("ipv6FlowLabel", &["cflow.ipv6flowlabel"]),
    ("ingressVrf", &["cflow.ingress_vrfid"]),
    ("egressVrf", &["cflow.egress_vrfid"]),
    ("postNatSrcPort", &["cflow.post_naptsource_transport_port"]),
    ("postNatDstPort", &["cflow.post_naptdestination_transport_port"]),
    ("firewallEvent", &["cflow.firewall_event"]),
    ("natEvent", &["cflow.nat_event"]),
    ("icmpType", &["cflow.icmp_ipv4_type", "cflow.icmp_ipv6_type"]),
    ("icmpCode", &["cflow.icmp_ipv4_code", "cflow.icmp_ipv6_code"]),
    ("engineId", &["cflow.engine_id"]),
    ("engineType", &["cflow.engine_type"]),
    ("reverseBytes", &["cflow.responder_octets"]),
];

/// Columns of addresses: of these fields the first in the record that is not zero.
const ADDRESSES: &[(&str, [&str; 2])] = &[
    ("srcAddr", ["cflow.srcaddr", "cflow.srcaddrv6"]),
    ("dstAddr", ["cflow.dstaddr", "cflow.dstaddrv6"]),
    ("nextHop", ["cflow.nexthop", "cflow.nexthopv6"]),
    ("bgpNextHop", ["cflow.bgpnexthop", "cflow.bgpnexthopv6"]),
    ("postNatSrcAddr", ["cflow.post_natsource_ipv4_address", "cflow.post_natsource_ipv6_address"]),
    (
        "postNatDstAddr",
        ["cflow.post_natdestination_ipv4_address", "cflow.post_natdestination_ipv6_address"],
    ),
];

/// What messages before this one said.
#[derive(Default)]
pub struct Exporters {
    /// Ids of options templates, by exporter and observation domain.
    options: BTreeMap<(String, u64), BTreeSet<u64>>,
    /// When the exporter started, milliseconds since 1970 (element 160).
    boot_ms: BTreeMap<(String, u64), i64>,
}

/// The header of a message.
struct Header<'a> {
    version: u64,
    export_ms: i64,
    uptime_ms: Option<i64>,
    boot_ms: Option<i64>,
    message: &'a Field,
}

impl Exporters {
    /// The records of a message that describe flows.
    pub fn records(&mut self, exporter: &str, message: &Field) -> Vec<Expected> {
        let mut records = self.records_of(exporter, message);
        let domain = message.number("cflow.od_id").or_else(|| message.number("cflow.source_id"));
        for record in &mut records {
            record.set_address("exporterAddr", exporter);
            domain.into_iter().for_each(|id| record.set_number("observationDomainId", id));
        }
        records
    }

    fn records_of(&mut self, exporter: &str, message: &Field) -> Vec<Expected> {
        let version = message.number("cflow.version").unwrap_or(0);
        let domain = message.number("cflow.od_id").or_else(|| message.number("cflow.source_id"));
        let key = (exporter.to_owned(), domain.unwrap_or(0) << 8 | version);
        let mut records = Vec::new();
        for set in &message.children {
            let header = self.header(&key, version, message);
            if set.show.starts_with("pdu ") {
                records.push(record(&header, set));
                continue;
            }
            let options = self.options.entry(key.clone()).or_default();
            let defines_options = set.show.contains("(Options Template)");
            for template in set.all().into_iter().filter(|f| f.name == "cflow.template_id") {
                match (number(&template.show), defines_options) {
                    (Some(id), true) => drop(options.insert(id)),
                    (Some(id), false) => drop(options.remove(&id)),
                    (None, _) => {}
                }
            }
            let id = set.number("cflow.flowset_id").unwrap_or(0);
            let is_options = options.contains(&id);
            for flow in set.children.iter().filter(|field| field.show.starts_with("Flow ")) {
                if let Some(boot) = flow.find("cflow.sys_init_time") {
                    self.boot_ms.insert(key.clone(), date_ms(&boot.show).unwrap());
                }
                if !is_options {
                    records.push(record(&self.header(&key, version, message), flow));
                }
            }
        }
        records
    }

    fn header<'a>(&self, key: &(String, u64), version: u64, message: &'a Field) -> Header<'a> {
        let seconds = message.number("cflow.unix_secs");
        let seconds = seconds.or_else(|| message.number("cflow.exporttime")).unwrap_or(0);
        let nanos = message.number("cflow.unix_nsecs").unwrap_or(0);
        let uptime = message.children.iter().find(|field| field.name == "cflow.sysuptime");
        Header {
            version,
            export_ms: i64::try_from(seconds * 1_000 + nanos / 1_000_000).unwrap(),
            uptime_ms: uptime.map(|uptime| seconds_ms(&uptime.show).unwrap()),
            boot_ms: self.boot_ms.get(key).copied(),
            message,
        }
    }
}

fn record(header: &Header<'_>, flow: &Field) -> Expected {
    let mut record = Expected { export_ms: header.export_ms, ..Expected::default() };
    record.set_time("timestamp", header.export_ms);
    let is_reverse = |field: &&Field| field.label.contains("(Reverse Type ");
    let (reverse, forward): (Vec<_>, Vec<_>) = flow.all().into_iter().partition(is_reverse);
    let first = |name: &&str| forward.iter().find(|field| field.name == **name).copied();
    if header.version < 9 {
        for (column, name) in [("engineId", "cflow.engine_id"), ("engineType", "cflow.engine_type")]
        {
            header.message.number(name).into_iter().for_each(|n| record.set_number(column, n));
        }
        if let Some(rate) = header.message.number("cflow.samplerate") {
            record.set_number("samplingInterval", rate.max(1));
        }
    }
    for (column, names) in NUMBERS {
        let value = names.iter().find_map(|name| number(&first(name)?.show));
        value.into_iter().for_each(|value| record.set_number(column, value));
    }
    for (column, names) in ADDRESSES {
        let mut found = forward.iter().filter(|field| names.contains(&field.name.as_str()));
        let is_known = |field: &&&Field| field.bytes.bytes().any(|digit| digit != b'0');
        let known = found.clone().find(is_known).or_else(|| found.next());
        known.into_iter().for_each(|field| record.set_address(column, &field.show));
    }
    for (column, names) in [
        ("reverseBytes", ["cflow.octets", "cflow.permanent_octets"]),
        ("reversePackets", ["cflow.packets", "cflow.permanent_packets"]),
    ] {
        let field = reverse.iter().find(|field| names.contains(&field.name.as_str()));
        field.and_then(|f| number(&f.show)).into_iter().for_each(|n| record.set_number(column, n));
    }
    for name in ["cflow.sampling_interval", "cflow.sampler_random_interval"] {
        match first(&name).and_then(|field| number(&field.show)) {
            None | Some(0) => {}
            Some(rate) => record.set_number("samplingInterval", rate),
        }
    }
    if let Some(direction) = first(&"cflow.direction") {
        let text = ["INGRESS", "EGRESS"].get(direction.show.parse::<usize>().unwrap());
        record.columns.insert("direction", text.map_or_else(String::new, ToString::to_string));
    }
    if let Some(icmp) = first(&"cflow.icmp_type_code_ipv4") {
        let value = u64::from_str_radix(&icmp.bytes, 16).unwrap();
        record.set_number("icmpType", value >> 8);
        record.set_number("icmpCode", value & 0xff);
    }
    if let Some(status) = first(&"cflow.forwarding_status") {
        let code = |field: &&&Field| {
            field.name.starts_with("cflow.forwarding_status_") && field.name.ends_with("_code")
        };
        let code = forward.iter().find(code).and_then(|field| number(&field.show)).unwrap_or(0);
        record.set_number("forwardingStatus", number(&status.show).unwrap() << 6 | code);
    }
    let application =
        first(&"cflow.appl_id.classification_engine_id").zip(first(&"cflow.appl_id.selector_id"));
    if let Some((engine, selector)) = application {
        let id = u64::from_str_radix(&format!("{}{}", engine.bytes, selector.bytes), 16);
        id.into_iter().for_each(|id| record.set_number("applicationId", id));
    }
    set_labels(&mut record, &forward);
    set_icmp_of_port(&mut record);
    if let Some(times) = times(&forward) {
        let end = |name| times.children.iter().find(|field: &&Field| field.name.ends_with(name));
        let [first, last] =
            ["timestart", "timeend"].map(|name| end(name).map(|f| time_ms(header, f)));
        // A flow that begins after it ends gets its end for both.
        let first = first.zip(last).map(|(first, last)| first.min(last));
        first.into_iter().for_each(|ms| record.set_time("firstSwitched", ms));
        last.into_iter().for_each(|ms| record.set_time("lastSwitched", ms));
    }
    record
}

/// The stack ends at the bottom-of-stack bit, or at a label that is all zero.
fn set_labels(record: &mut Expected, fields: &[&Field]) {
    let named = |name: &'static str| fields.iter().filter(move |field| field.name == name);
    let mut labels = Vec::new();
    for (label, bottom) in named("cflow.mpls_label").zip(named("cflow.mpls_bos")) {
        if label.bytes.bytes().all(|digit| digit == b'0') {
            break;
        }
        labels.push(label.show.as_str());
        if bottom.show != "0" && bottom.show != "False" {
            break;
        }
    }
    if named("cflow.mpls_label").next().is_some() {
        let is_empty = labels.is_empty();
        let text = if is_empty { String::new() } else { format!("[{}]", labels.join(",")) };
        record.columns.insert("mplsLabels", text);
    }
}

/// Where no field has the ICMP type and code they are the destination port.
fn set_icmp_of_port(record: &mut Expected) {
    let number = |column| record.columns.get(column).and_then(|text: &String| text.parse().ok());
    let is_icmp = matches!(number("protocol"), Some(1 | 58));
    let port = number("dstPort").filter(|_| is_icmp && !record.columns.contains_key("icmpType"));
    if let Some(port) = port {
        record.set_number("icmpType", port >> 8);
        record.set_number("icmpCode", port & 0xff);
    }
}

/// Of several pairs of start and end the one that is preferred, by what tshark calls them.
fn times<'a>(fields: &[&'a Field]) -> Option<&'a Field> {
    const PREFERRED: [&str; 4] =
        ["(milliseconds)", "(switched)", "(microseconds)", "(nanoseconds)"];
    let rank = |field: &&&Field| {
        let place = PREFERRED.iter().position(|kind| field.label.ends_with(kind));
        place.unwrap_or(PREFERRED.len())
    };
    fields.iter().filter(|field| field.name == "cflow.timedelta").min_by_key(rank).copied()
}

/// tshark shows an uptime as seconds since the start of the exporter, which the header or element 160 tells.
/// An uptime of 0 it shows as the year 1970.
fn time_ms(header: &Header<'_>, field: &Field) -> i64 {
    const WRAP_MS: i64 = 1 << 32;
    let absolute = date_ms(&field.show).filter(|_| field.bytes != "00000000");
    if let Some(ms) = absolute {
        return at_or_export(ms, header);
    }
    let event_ms = seconds_ms(&field.show).unwrap_or(0);
    match (header.uptime_ms, header.boot_ms) {
        (Some(uptime_ms), _) => {
            let before_ms = (uptime_ms - event_ms).rem_euclid(WRAP_MS);
            let before_ms = if before_ms < WRAP_MS / 2 { before_ms } else { before_ms - WRAP_MS };
            at_or_export(header.export_ms - before_ms, header)
        }
        (None, Some(boot_ms)) => {
            let first_ms = boot_ms + event_ms;
            let wraps = (header.export_ms - first_ms + WRAP_MS / 2).div_euclid(WRAP_MS);
            at_or_export(first_ms + wraps * WRAP_MS, header)
        }
        (None, None) => header.export_ms,
    }
}

/// A time before the year 2000 cannot be, and is taken for the export time.
fn at_or_export(ms: i64, header: &Header<'_>) -> i64 {
    const YEAR_2000_MS: i64 = 946_684_800_000;
    if ms < YEAR_2000_MS { header.export_ms } else { ms }
}
