//! Flow samples of sFlow as tshark reads them.

use crate::pdml::{Field, number};
use crate::record::Expected;

/// Columns and the fields of headers in the sampled packet: the first in the packet counts.
const HEADERS: &[(&str, &[&str])] = &[
    ("srcMac", &["eth.src"]),
    ("dstMac", &["eth.dst"]),
    ("ipProtocolVersion", &["ip.version", "ipv6.version"]),
    ("tos", &["ip.dsfield", "ipv6.tclass"]),
    ("ipTtl", &["ip.ttl", "ipv6.hlim"]),
    ("ipv6FlowLabel", &["ipv6.flow"]),
    ("vlan", &["vlan.id"]),
];

/// Of compact samples interfaces from here on are none: a discarded packet, several interfaces, the device
/// itself (sFlow version 5, section 5).
const INTERFACES_END: u64 = 0x3fff_ffff;

/// VLANs from here on are unknown.
const VLANS_END: u64 = 0xffff;

/// The flow samples of a datagram.
pub fn records(datagram: &Field) -> Vec<Expected> {
    let is_sample = |field: &&Field| {
        field.show.starts_with("Flow sample") || field.show.starts_with("Expanded flow sample")
    };
    let agent = datagram.find("sflow_245.agent").or_else(|| datagram.find("sflow_245.agent.v6"));
    let mut records: Vec<_> = datagram.children.iter().filter(is_sample).map(record).collect();
    for record in &mut records {
        record.set_address("exporterAddr", &agent.unwrap().show);
        record
            .set_number("observationDomainId", datagram.number("sflow_245.sub_agent_id").unwrap());
    }
    records
}

fn record(sample: &Field) -> Expected {
    let mut record = Expected::default();
    if let Some(header) = sample.find("sflow_245.header") {
        packet(header, &mut record);
    }
    let part = |text: &str| sample.children.iter().find(|field| field.show == text);
    let mut set = |column, value: Option<u64>| {
        value.into_iter().for_each(|value| record.set_number(column, value));
    };
    set("samplingInterval", sample.number("sflow.flow_sample.sampling_rate"));
    set("bytes", sample.number("sflow_245.header.frame_length"));
    set("packets", Some(1));
    for (column, name) in [("inputSnmp", "input_interface"), ("outputSnmp", "output_interface")] {
        set(column, interface(sample, &format!("sflow.flow_sample.{name}")));
    }
    let known = |vlan: u64| if vlan < VLANS_END { vlan } else { 0 };
    set("vlan", sample.number("sflow_245.vlan.in").map(known).filter(|vlan| *vlan > 0));
    set("postVlan", sample.number("sflow_245.vlan.out").map(known));
    if let Some(gateway) = part("Extended gateway data") {
        set("srcAs", gateway.number("sflow_245.srcAS"));
        let path = gateway.find("sflow.as_type").map_or_else(Vec::new, Field::all);
        let last = path.into_iter().rfind(|field| field.name == "sflow_245.dstAS");
        set("dstAs", last.and_then(|field| number(&field.show)));
    }
    if let Some(router) = part("Extended router data") {
        set("srcMaskLen", router.number("sflow_245.nexthop.src_mask"));
        set("dstMaskLen", router.number("sflow_245.nexthop.dst_mask"));
    }
    for (column, text) in
        [("nextHop", "Extended router data"), ("bgpNextHop", "Extended gateway data")]
    {
        let hop = part(text).and_then(|part| part.find("sflow_245.nexthop"));
        hop.into_iter().for_each(|hop| record.set_address(column, &hop.show));
    }
    record
}

/// A compact sample has format and value of an interface in one number, an expanded one in two.
fn interface(sample: &Field, name: &str) -> Option<u64> {
    let field = |end: &str| sample.number(&format!("{name}{end}"));
    let format = field("_format").or_else(|| field(".format"));
    let is_one = match sample.show.starts_with("Expanded") {
        true => |_: &u64| true,
        false => |index: &u64| *index < INTERFACES_END,
    };
    let index = field("").or_else(|| field("_value"))?;
    Some(Some(index).filter(|index| format.unwrap_or(0) == 0 && is_one(index)).unwrap_or(0))
}

fn packet(header: &Field, record: &mut Expected) {
    let fields = header.all();
    let first = |names: &[&str]| fields.iter().find(|field| names.contains(&field.name.as_str()));
    for (column, names) in HEADERS {
        let value = first(names).and_then(|field| number(&field.show));
        value.into_iter().for_each(|value| record.set_number(column, value));
    }
    for (column, names) in
        [("srcAddr", ["ip.src", "ipv6.src"]), ("dstAddr", ["ip.dst", "ipv6.dst"])]
    {
        first(&names).into_iter().for_each(|field| record.set_address(column, &field.show));
    }
    let Some(ip) = header.children.iter().find(|f| f.name == "ip" || f.name == "ipv6") else {
        return;
    };
    // Behind the extension headers of IPv6 comes what the last of them names.
    let next =
        ip.all().into_iter().rfind(|f| f.name.starts_with("ipv6") && f.name.ends_with(".nxt"));
    let protocol = ip.number("ip.proto").or_else(|| number(&next?.show));
    protocol.into_iter().for_each(|value| record.set_number("protocol", value));
    let next = header
        .children
        .iter()
        .find(|f| matches!(f.name.as_str(), "tcp" | "udp" | "icmp" | "icmpv6"));
    let Some(next) = next else { return };
    let numbers: &[(&str, &str)] = match (next.name.as_str(), protocol) {
        ("tcp", Some(6)) => {
            &[("srcPort", "tcp.srcport"), ("dstPort", "tcp.dstport"), ("tcpFlags", "tcp.flags")]
        }
        ("udp", Some(17)) => &[("srcPort", "udp.srcport"), ("dstPort", "udp.dstport")],
        ("icmp", Some(1)) => &[("icmpType", "icmp.type"), ("icmpCode", "icmp.code")],
        ("icmpv6", Some(58)) => &[("icmpType", "icmpv6.type"), ("icmpCode", "icmpv6.code")],
        _ => &[],
    };
    for (column, name) in numbers {
        next.number(name).into_iter().for_each(|value| record.set_number(column, value));
    }
}
