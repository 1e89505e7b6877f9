//! Synthetic flows that resemble those of a network: few hosts and services carry most of them,
//! most flows are short, and a few carry most of the bytes.
//!
//! Everything that needs care is computed once into tables; a flow costs a few random words and
//! look-ups, because the generator must outrun the collector that it measures.

use std::net::{Ipv4Addr, Ipv6Addr};

use fastrand::Rng;

use super::wire::{low_u16, low_u32};

/// Hosts of the network that the exporters belong to, 10.0.0.0/8 and 2001:db8:1::/48.
const LOCAL_HOSTS: u16 = 2_000;
/// Hosts elsewhere: 198.18.0.0/15 (RFC 2544) and 2001:db8:2::/48 (RFC 3849), nobody's addresses.
const REMOTE_HOSTS: u16 = 6_000;
/// Slots of a table to draw hosts from; a host has as many as its share is large.
const SLOTS: usize = 16_384;
/// Interfaces of an exporter: 1 leads to other networks, the others to local hosts.
const UPLINK: u16 = 1;
const LOCAL_INTERFACES: u32 = 6;
/// Private use, RFC 6996 section 5.
const LOCAL_AS: u16 = 64_512;
/// Documentation, RFC 5398.
const REMOTE_AS_FIRST: u16 = 64_496;
const REMOTE_AS_COUNT: u32 = 15;
/// Largest power of two in a flow's packet count, before it is doubled at most.
const PACKETS_EXPONENT_MAX: u32 = 14;
/// Flows are reported within this time after their end.
const END_AGO_MS_MAX: u32 = 1_000;

/// What a flow record says, before a protocol writes it. Which addresses are written depends on
/// the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "names of information elements, in the units of v9")]
pub struct Flow {
    pub source: Host,
    pub destination: Host,
    pub next_hop: Host,
    pub input: u16,
    pub output: u16,
    pub packets: u32,
    pub octets: u32,
    /// Milliseconds before now when the flow began and ended.
    pub started_ago_ms: u32,
    pub ended_ago_ms: u32,
    pub source_port: u16,
    pub destination_port: u16,
    pub tcp_flags: u8,
    pub protocol: u8,
    pub tos: u8,
    pub source_as: u16,
    pub destination_as: u16,
    /// 0 is ingress, 1 egress.
    pub direction: u8,
    pub source_mask: u8,
    pub destination_mask: u8,
}

/// A host by its number in the population.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    number: u16,
    is_local: bool,
}

impl Host {
    /// Its IPv4 address.
    #[must_use]
    pub fn v4(self) -> Ipv4Addr {
        // The last octet is never 0; there are fewer hosts than 255 times 256.
        let [high, low] = self.number.to_be_bytes();
        let last = high.saturating_add(1);
        if self.is_local {
            Ipv4Addr::new(10, low % 16, low, last)
        } else {
            Ipv4Addr::new(198, 18 | (low & 1), low, last)
        }
    }

    /// Its IPv6 address.
    #[must_use]
    pub fn v6(self) -> Ipv6Addr {
        let network = if self.is_local { 1 } else { 2 };
        Ipv6Addr::new(0x2001, 0xdb8, network, self.number % 16, 0, 0, 0, self.number)
    }
}

/// A service and how its flows look.
#[derive(Debug, Clone, Copy)]
struct Service {
    protocol: u8,
    port: u16,
    /// Of 256 flows; the last service takes the rest.
    share: u16,
    /// Largest exponent of the packet count: keeps look-ups short and lets downloads grow.
    packets_exponent_max: u32,
    /// Octets of a packet, at least.
    packet_octets: u32,
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ESP: u8 = 50;
/// All of SYN, ACK, PSH and FIN seen, a connection from beginning to end.
const TCP_COMPLETE: u8 = 0x1b;
const TCP_SYN: u8 = 0x02;

const fn service(protocol: u8, port: u16, share: u16, exponent: u32, octets: u32) -> Service {
    Service { protocol, port, share, packets_exponent_max: exponent, packet_octets: octets }
}

const SERVICES: [Service; 14] = [
    service(TCP, 443, 96, PACKETS_EXPONENT_MAX, 60),
    service(UDP, 443, 48, PACKETS_EXPONENT_MAX, 80),
    service(UDP, 53, 46, 1, 62),
    service(TCP, 80, 14, PACKETS_EXPONENT_MAX, 60),
    service(UDP, 123, 6, 0, 76),
    service(ICMP, 0, 6, 4, 84),
    service(TCP, 22, 5, 12, 76),
    service(TCP, 993, 4, 9, 60),
    service(TCP, 25, 4, 9, 60),
    service(TCP, 3389, 3, 12, 60),
    service(TCP, 5432, 3, 12, 60),
    service(TCP, 445, 3, PACKETS_EXPONENT_MAX, 60),
    service(ESP, 0, 2, PACKETS_EXPONENT_MAX, 120),
    service(UDP, 51_820, 16, PACKETS_EXPONENT_MAX, 128),
];

/// The tables that flows are drawn from.
#[derive(Debug, Clone)]
pub struct Population {
    local: Vec<u16>,
    remote: Vec<u16>,
    services: Vec<Service>,
}

impl Default for Population {
    fn default() -> Self {
        let services = SERVICES
            .iter()
            .flat_map(|service| std::iter::repeat_n(*service, usize::from(service.share)));
        Self { local: zipf(LOCAL_HOSTS), remote: zipf(REMOTE_HOSTS), services: services.collect() }
    }
}

impl Population {
    /// Draws a flow. Deterministic in the state of `rng`.
    pub fn draw(&self, rng: &mut Rng) -> Flow {
        let word = rng.u64(..);
        let local = Host { number: pick(&self.local, word), is_local: true };
        let remote = Host { number: pick(&self.remote, word >> 14), is_local: false };
        let service = self.services[usize::from(low_u16(word >> 28) & 0xff) % self.services.len()];
        // Two of three flows carry what a local client asked for; the others are its requests.
        let is_inbound = !low_u16(word >> 36).is_multiple_of(3);

        let shape = rng.u64(..);
        let exponent = low_u32(shape).trailing_zeros().min(service.packets_exponent_max);
        let within = (1 << exponent) - 1;
        let packets = (1 << exponent) + (low_u32(shape >> 16) & within);
        let octets_mean = if is_inbound { 110 } else { 12 } * exponent;
        let spread = low_u32(shape >> 40) & 0x3f;
        let packet_octets = (service.packet_octets + octets_mean + spread).min(1500);
        let ended_ago_ms = low_u32(shape >> 48) % END_AGO_MS_MAX;
        let duration_ms = packets.saturating_mul(7 + spread).min(60_000) * u32::from(packets > 1);

        let client_port = 32_768 + (low_u16(word >> 40) & 0x6fff);
        let (client_port, tcp_flags) = match service.protocol {
            TCP if packets == 1 => (client_port, TCP_SYN),
            TCP => (client_port, TCP_COMPLETE),
            UDP => (client_port, 0),
            // RFC 7270 and common practice: no ports, or ICMP type and code in the destination's.
            _ => (0, 0),
        };
        let local_interface =
            UPLINK + 1 + low_u16(u64::from(local.number) % u64::from(LOCAL_INTERFACES));
        let remote_as =
            REMOTE_AS_FIRST + low_u16(u64::from(u32::from(remote.number) % REMOTE_AS_COUNT));
        let tos = if service.port == 22 { 0x48 } else { 0 };
        let (local_mask, remote_mask) = (24, 16);
        let common = Flow {
            source: local,
            destination: remote,
            next_hop: Host { number: 1, is_local: !is_inbound },
            input: local_interface,
            output: UPLINK,
            packets,
            octets: packets * packet_octets,
            started_ago_ms: ended_ago_ms + duration_ms,
            ended_ago_ms,
            source_port: client_port,
            destination_port: service.port,
            tcp_flags,
            protocol: service.protocol,
            tos,
            source_as: LOCAL_AS,
            destination_as: remote_as,
            direction: 1,
            source_mask: local_mask,
            destination_mask: remote_mask,
        };
        if !is_inbound {
            return common;
        }
        Flow {
            source: remote,
            destination: local,
            input: UPLINK,
            output: local_interface,
            source_port: service.port,
            destination_port: client_port,
            source_as: remote_as,
            destination_as: LOCAL_AS,
            direction: 0,
            source_mask: remote_mask,
            destination_mask: local_mask,
            ..common
        }
    }
}

/// Flows began at most this long before they are reported.
pub const STARTED_AGO_MS_MAX: u32 = 60_000 + END_AGO_MS_MAX;

/// A table in which host `n` (from 1) takes a share of slots in proportion to 1/n, Zipf's law.
fn zipf(hosts: u16) -> Vec<u16> {
    let total: f64 = (1..=hosts).map(|rank| 1.0 / f64::from(rank)).sum();
    let mut slots = Vec::with_capacity(SLOTS);
    let (mut rank, mut reached) = (1, 1.0 / total);
    for slot in 0..SLOTS {
        let position = (slot as f64 + 0.5) / SLOTS as f64;
        while reached < position && rank < hosts {
            rank += 1;
            reached += 1.0 / f64::from(rank) / total;
        }
        slots.push(rank);
    }
    slots
}

fn pick(table: &[u16], word: u64) -> u16 {
    table[usize::from(low_u16(word)) % table.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_skewed_and_plausible() {
        let population = Population::default();
        let mut rng = Rng::with_seed(1);
        let flows: Vec<Flow> = (0..100_000).map(|_| population.draw(&mut rng)).collect();
        let mut octets: Vec<u64> = flows.iter().map(|flow| u64::from(flow.octets)).collect();
        octets.sort_unstable_by(|left, right| right.cmp(left));
        let total: u64 = octets.iter().sum();
        let elephants: u64 = octets.iter().take(1_000).sum();
        assert!(elephants * 2 > total, "a hundredth of the flows carries most octets");
        assert!(octets[50_000] < 500, "half of the flows are small: {}", octets[50_000]);
        for flow in &flows {
            assert!(flow.packets > 0 && flow.octets >= flow.packets * 40);
            assert!(flow.octets <= flow.packets * 1500);
            assert!(flow.ended_ago_ms <= flow.started_ago_ms);
            assert!(flow.started_ago_ms <= STARTED_AGO_MS_MAX);
            assert_ne!(flow.source.is_local, flow.destination.is_local);
        }
        let mut hosts: Vec<_> = flows.iter().map(|flow| flow.source.v4()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        assert!((2_000..8_000).contains(&hosts.len()), "{} sources", hosts.len());
        assert_eq!(SERVICES.iter().map(|service| service.share).sum::<u16>(), 256);
    }

    #[test]
    fn hosts_have_addresses_of_their_own() {
        for is_local in [true, false] {
            let hosts = (1..=8_000).map(|number| Host { number, is_local });
            let v4: std::collections::HashSet<_> = hosts.clone().map(Host::v4).collect();
            let v6: std::collections::HashSet<_> = hosts.map(Host::v6).collect();
            assert_eq!((v4.len(), v6.len()), (8_000, 8_000));
        }
    }
}
