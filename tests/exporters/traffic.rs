//! The traffic that exporters are shown, and what is true of it: conversations of TCP, UDP and ICMP over
//! IPv4 and IPv6, some of them in VLANs, within a few seconds that have just passed.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use etherparse::{
    IpHeaders, Ipv4Header, Ipv6Header, PacketBuilder, PacketBuilderStep, TcpHeader, VlanId,
};

use crate::flows::{Flow, Flows, ICMP, ICMP_V6, Key, TCP, UDP, join};
use crate::pcap::{LINK_ETHERNET, write_pcap};

const MAC_CLIENTS: [u8; 6] = [2, 0, 0, 0, 0, 1];
const MAC_SERVERS: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Bytes of an Ethernet header without a VLAN tag.
pub const ETHERNET_BYTES: u64 = 14;

/// Bytes of the frame check sequence, which sFlow counts with the frame.
const FCS_BYTES: u64 = 4;

/// How long before now the traffic begins: it must be over, and no exporter may call it old.
const BEGINS_BEFORE_NOW_MS: i64 = 20_000;

const FIN: u16 = 1;
const SYN: u16 = 2;
const PSH: u16 = 8;
const ACK: u16 = 16;

/// One packet, as a flow of its own.
#[derive(Clone, Debug)]
pub struct Packet {
    pub key: Key,
    pub flow: Flow,
    pub frame: Vec<u8>,
}

impl Packet {
    /// As a sample of sFlow has it: with the length of the frame.
    pub fn sample(&self) -> (Key, Flow) {
        (self.key, Flow { bytes: self.frame.len() as u64 + FCS_BYTES, ..self.flow.clone() })
    }
}

/// All packets, in the order of their times.
pub struct Traffic {
    pub packets: Vec<Packet>,
}

/// What the packets of one direction have in common.
#[derive(Clone, Copy)]
struct Side {
    key: Key,
    tos: u8,
    vlan: u16,
    icmp_type: u8,
    macs: ([u8; 6], [u8; 6]),
}

impl Traffic {
    pub fn new() -> Self {
        let begin_ms = now_ms() - BEGINS_BEFORE_NOW_MS;
        let mut traffic = Self { packets: Vec::new() };
        for number in 0..40_u8 {
            // Servers answer without the type of service that clients ask for.
            let tos = if number % 2 == 0 { 0x28 } else { 0 };
            let client = Ipv4Addr::new(10, 1, number, 10);
            let server = Ipv4Addr::new(192, 0, 2, 1 + number);
            let key = key(client, server, TCP, 40_000 + u16::from(number), 443);
            traffic.tcp(begin_ms + i64::from(number) * 50, key, tos, number);
        }
        for number in 0..20_u8 {
            let client = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, u16::from(number));
            let server = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, u16::from(number));
            let key = key(client, server, TCP, 41_000 + u16::from(number), 80);
            traffic.tcp(begin_ms + 20 + i64::from(number) * 50, key, 0, number);
        }
        for number in 0..20_u8 {
            let at_ms = begin_ms + 1_000 + i64::from(number) * 30;
            let port = 50_000 + u16::from(number);
            let client = Ipv4Addr::new(10, 2, 0, number);
            let asked = Side::of(key(client, Ipv4Addr::new(198, 51, 100, 53), UDP, port, 53));
            traffic.exchange(at_ms, asked, asked.answer(), 40 + usize::from(number));
            let client = Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 0, u16::from(number));
            let server = Ipv6Addr::new(0x2001, 0xdb8, 0x53, 0, 0, 0, 0, 0x53);
            let asked = Side::of(key(client, server, UDP, port, 53));
            traffic.exchange(at_ms + 3, asked, asked.answer(), 50 + usize::from(number));
        }
        for number in 0..5_u8 {
            let client = Ipv4Addr::new(10, 3, 0, number);
            let asked = Side::of(key(client, Ipv4Addr::new(203, 0, 113, 9), ICMP, 0, 0));
            let asked = Side { icmp_type: 8, ..asked };
            let answered = Side { icmp_type: 0, ..asked.answer() };
            let client = Ipv6Addr::new(0x2001, 0xdb8, 4, 0, 0, 0, 0, u16::from(number));
            let server = Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, 1);
            let asked_v6 = Side::of(key(client, server, ICMP_V6, 0, 0));
            let asked_v6 = Side { icmp_type: 128, ..asked_v6 };
            let answered_v6 = Side { icmp_type: 129, ..asked_v6.answer() };
            for round in 0..3 {
                let at_ms = begin_ms + 2_000 + i64::from(number) * 100 + round * 10;
                traffic.exchange(at_ms, asked, answered, 56);
                traffic.exchange(at_ms + 1, asked_v6, answered_v6, 56);
            }
        }
        for number in 0..4_u8 {
            let sender = Ipv4Addr::new(10, 4, 0, number);
            let side = Side::of(key(sender, Ipv4Addr::new(192, 0, 2, 200), UDP, 43_000, 8_080));
            let side = Side { vlan: 100 + u16::from(number), ..side };
            for round in 0..4 {
                traffic.push(begin_ms + 2_500 + i64::from(number) * 100 + round * 10, side, 0, 300);
            }
        }
        traffic.packets.sort_by_key(|packet| packet.flow.first_ms);
        traffic
    }

    /// One of every `step` conversations, for exporters that send everything at once: a receive buffer of the
    /// default size holds 90 long datagrams, or about 200 short ones.
    pub fn part(step: usize) -> Self {
        let mut traffic = Self::new();
        let conversation = |packet: &Packet| packet.key.min(packet.key.reversed());
        let all: BTreeSet<_> = traffic.packets.iter().map(conversation).collect();
        let kept: BTreeSet<_> = all.into_iter().step_by(step).collect();
        traffic.packets.retain(|packet| kept.contains(&conversation(packet)));
        traffic
    }

    /// A connection: handshake, a few requests and answers, both ends close.
    fn tcp(&mut self, at_ms: i64, key: Key, tos: u8, number: u8) {
        let client = Side { tos, ..Side::of(key) };
        let server = Side { tos: 0, ..client.answer() };
        self.push(at_ms, client, SYN, 0);
        self.push(at_ms + 10, server, SYN | ACK, 0);
        self.push(at_ms + 20, client, ACK, 0);
        for round in 0..=number % 7 {
            let at_ms = at_ms + 30 + i64::from(round) * 10;
            self.push(at_ms, client, PSH | ACK, 100 + usize::from(number));
            self.push(at_ms + 5, server, PSH | ACK, 1_000 + usize::from(number));
        }
        self.push(at_ms + 200, client, FIN | ACK, 0);
        self.push(at_ms + 210, server, FIN | ACK, 0);
        self.push(at_ms + 220, client, ACK, 0);
    }

    /// A question and its answer.
    fn exchange(&mut self, at_ms: i64, asked: Side, answered: Side, payload_bytes: usize) {
        self.push(at_ms, asked, 0, payload_bytes);
        self.push(at_ms + 5, answered, 0, payload_bytes);
    }

    fn push(&mut self, at_ms: i64, side: Side, tcp_flags: u16, payload_bytes: usize) {
        let frame = side.frame(tcp_flags, payload_bytes);
        let tag_bytes = if side.vlan == 0 { 0 } else { 4 };
        let flow = Flow {
            packets: 1,
            bytes: frame.len() as u64 - ETHERNET_BYTES - tag_bytes,
            tos: side.tos,
            tcp_flags,
            icmp_type: side.icmp_type,
            vlan: side.vlan,
            macs: (number(side.macs.0), number(side.macs.1)),
            first_ms: at_ms,
            last_ms: at_ms,
        };
        self.packets.push(Packet { key: side.key, flow, frame });
    }

    /// The flows of all packets.
    pub fn flows(&self) -> Flows {
        self.flows_of(|packets| packets.iter().collect())
    }

    /// The flows of IPv4.
    pub fn ipv4_flows(&self) -> Flows {
        let mut flows = self.flows();
        flows.retain(|key, _| key.source.is_ipv4());
        flows
    }

    /// The flows of some packets.
    pub fn flows_of<'a>(&'a self, choose: impl Fn(&'a [Packet]) -> Vec<&'a Packet>) -> Flows {
        let packets = choose(&self.packets);
        join(packets.into_iter().map(|packet| (&packet.key, &packet.flow)))
    }

    /// Writes a pcap file.
    pub fn write(&self, path: &Path) {
        let frames = self.packets.iter().map(|packet| (packet.flow.first_ms, &packet.frame[..]));
        write_pcap(path, LINK_ETHERNET, frames);
    }
}

fn key(
    source: impl Into<IpAddr>,
    destination: impl Into<IpAddr>,
    protocol: u8,
    source_port: u16,
    destination_port: u16,
) -> Key {
    Key {
        source: source.into(),
        destination: destination.into(),
        protocol,
        source_port,
        destination_port,
    }
}

/// A MAC as its column has it.
fn number(mac: [u8; 6]) -> u64 {
    mac.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl Side {
    fn of(key: Key) -> Self {
        Self { key, tos: 0, vlan: 0, icmp_type: 0, macs: (MAC_CLIENTS, MAC_SERVERS) }
    }

    fn answer(self) -> Self {
        let (source, destination) = self.macs;
        Self { key: self.key.reversed(), macs: (destination, source), ..self }
    }

    fn frame(self, tcp_flags: u16, payload_bytes: usize) -> Vec<u8> {
        let link = PacketBuilder::ethernet2(self.macs.0, self.macs.1);
        let step = match self.vlan {
            0 => link.ip(self.ip()),
            id => link.single_vlan(VlanId::try_new(id).unwrap()).ip(self.ip()),
        };
        self.write(step, tcp_flags, &vec![0; payload_bytes])
    }

    fn ip(self) -> IpHeaders {
        match (self.key.source, self.key.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut header = Ipv4Header { time_to_live: 64, ..Ipv4Header::default() };
                header.dscp = (self.tos >> 2).try_into().unwrap();
                header.source = source.octets();
                header.destination = destination.octets();
                IpHeaders::Ipv4(header, etherparse::Ipv4Extensions::default())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = Ipv6Header {
                    traffic_class: self.tos,
                    hop_limit: 64,
                    source: source.octets(),
                    destination: destination.octets(),
                    ..Ipv6Header::default()
                };
                IpHeaders::Ipv6(header, etherparse::Ipv6Extensions::default())
            }
            (source, destination) => panic!("{source} cannot send to {destination}"),
        }
    }

    fn write(self, step: PacketBuilderStep<IpHeaders>, tcp_flags: u16, payload: &[u8]) -> Vec<u8> {
        let (from, to) = (self.key.source_port, self.key.destination_port);
        let mut frame = Vec::new();
        match (self.key.protocol, self.icmp_type) {
            (TCP, _) => {
                let mut header = TcpHeader::new(from, to, 1_000, 8_192);
                header.fin = tcp_flags & FIN != 0;
                header.syn = tcp_flags & SYN != 0;
                header.psh = tcp_flags & PSH != 0;
                header.ack = tcp_flags & ACK != 0;
                step.tcp_header(header).write(&mut frame, payload)
            }
            (UDP, _) => step.udp(from, to).write(&mut frame, payload),
            (ICMP, 8) => step.icmpv4_echo_request(1, 1).write(&mut frame, payload),
            (ICMP, _) => step.icmpv4_echo_reply(1, 1).write(&mut frame, payload),
            (_, 128) => step.icmpv6_echo_request(1, 1).write(&mut frame, payload),
            _ => step.icmpv6_echo_reply(1, 1).write(&mut frame, payload),
        }
        .unwrap();
        frame
    }
}

/// Milliseconds since 1970.
pub fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}
