//! sFlow version 5 of the synthetic exporters: flow samples of the first 128 octets of a frame
//! (sflow_version_5.txt section 5). Of each flow one packet is sampled.

use std::net::Ipv6Addr;

use super::flows::{Flow, Host};

/// Samples of a datagram: 7 of 192 octets fit an MTU of 1500.
pub const SAMPLES_MAX: usize = 7;
/// One packet in this many is sampled.
pub const SAMPLING_RATE: u32 = 1_000;
/// Octets of a frame in a sample, the default of agents.
const HEADER_BYTES: u8 = 128;
/// The frame check sequence, which the length counts and the header leaves out.
const FCS_BYTES: u32 = 4;
/// Destination, source and type.
const ETHERNET_BYTES: u32 = 14;

/// What a datagram says of itself and its agent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Header {
    /// Also makes the agent's address.
    pub sub_agent: u32,
    /// Datagrams before this one.
    pub sequence: u32,
    /// Samples before this datagram.
    pub samples: u32,
    /// Milliseconds since the agent started.
    pub uptime_ms: u32,
}

/// Octets of the sampled frame, FCS included: a packet of the flow's mean size, and never less than a
/// whole header.
#[must_use]
pub fn frame_bytes(flow: &Flow) -> u32 {
    let packet = (flow.octets / flow.packets.max(1)).clamp(114, 1_500);
    packet + ETHERNET_BYTES + FCS_BYTES
}

/// Writes a datagram with as many samples as there are flows, into an emptied buffer.
pub fn write(bytes: &mut Vec<u8>, header: &Header, flows: &[Flow], is_v6: bool) {
    bytes.clear();
    put(bytes, &[5]);
    if is_v6 {
        put(bytes, &[2]);
        let network = Ipv6Addr::new(0x2001, 0xdb8, 3, 0, 0, 0, 0, 0).to_bits();
        bytes.extend_from_slice(&(network | u128::from(header.sub_agent)).to_be_bytes());
    } else {
        // 172.16.0.0/12, RFC 1918.
        put(bytes, &[1, 0xac10_0000 | header.sub_agent & 0x000f_ffff]);
    }
    let count = u32::try_from(flows.len()).unwrap_or(u32::MAX);
    put(bytes, &[header.sub_agent, header.sequence, header.uptime_ms, count]);
    for (sample, flow) in (header.samples..).zip(flows) {
        write_sample(bytes, sample, flow, is_v6);
    }
}

/// Format and length, the head of the sample, and one raw header with its own format and length.
fn write_sample(bytes: &mut Vec<u8>, sequence: u32, flow: &Flow, is_v6: bool) {
    let record_bytes = 16 + u32::from(HEADER_BYTES);
    let sample_bytes = 32 + 8 + record_bytes;
    let (input, output) = (u32::from(flow.input), u32::from(flow.output));
    let pool = sequence.wrapping_mul(SAMPLING_RATE);
    put(bytes, &[1, sample_bytes, sequence, input, SAMPLING_RATE, pool, 0, input, output, 1]);
    put(bytes, &[1, record_bytes, 1, frame_bytes(flow), FCS_BYTES, u32::from(HEADER_BYTES)]);
    let start = bytes.len();
    write_frame(bytes, flow, is_v6);
    bytes.resize(start + usize::from(HEADER_BYTES), 0);
}

fn write_frame(bytes: &mut Vec<u8>, flow: &Flow, is_v6: bool) {
    mac(bytes, flow.destination);
    mac(bytes, flow.source);
    let packet_bytes = frame_bytes(flow) - FCS_BYTES - ETHERNET_BYTES;
    let [.., high, low] = packet_bytes.to_be_bytes();
    if is_v6 {
        // RFC 8200 section 3; the payload length leaves the header out.
        let payload = u16::from_be_bytes([high, low]).saturating_sub(40).to_be_bytes();
        bytes.extend_from_slice(&[0x86, 0xdd, 0x60 | flow.tos >> 4, flow.tos << 4, 0, 0]);
        bytes.extend_from_slice(&payload);
        bytes.extend_from_slice(&[flow.protocol, 64]);
        bytes.extend_from_slice(&flow.source.v6().octets());
        bytes.extend_from_slice(&flow.destination.v6().octets());
    } else {
        // RFC 791 section 3.1; the checksum is left 0.
        bytes.extend_from_slice(&[8, 0, 0x45, flow.tos, high, low, 0, 0, 0x40, 0]);
        bytes.extend_from_slice(&[64, flow.protocol, 0, 0]);
        bytes.extend_from_slice(&flow.source.v4().octets());
        bytes.extend_from_slice(&flow.destination.v4().octets());
    }
    bytes.extend_from_slice(&flow.source_port.to_be_bytes());
    bytes.extend_from_slice(&flow.destination_port.to_be_bytes());
    if flow.protocol == 6 {
        // RFC 9293 section 3.1.
        bytes.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0x50, flow.tcp_flags]);
    }
}

/// A locally administered address, made of the host's IPv4 address.
fn mac(bytes: &mut Vec<u8>, host: Host) {
    bytes.extend_from_slice(&[2, 0]);
    bytes.extend_from_slice(&host.v4().octets());
}

fn put(bytes: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|word| bytes.extend_from_slice(&word.to_be_bytes()));
}
