//! Flows as packets have them and as rows say them, and how they are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

pub const ICMP: u8 = 1;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ICMP_V6: u8 = 58;

/// What tells flows apart. Ports of ICMP are 0.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Key {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: u8,
    pub source_port: u16,
    pub destination_port: u16,
}

impl Key {
    /// The other direction.
    pub fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            ..self
        }
    }

    pub fn is_icmp(&self) -> bool {
        matches!(self.protocol, ICMP | ICMP_V6)
    }
}

/// A flow as the packets have it, or as rows say it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Flow {
    pub packets: u64,
    pub bytes: u64,
    pub tos: u8,
    pub tcp_flags: u16,
    pub icmp_type: u8,
    pub vlan: u16,
    pub macs: (u64, u64),
    pub first_ms: i64,
    pub last_ms: i64,
}

impl Flow {
    /// One flow of two rows or packets.
    pub fn join(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.tcp_flags |= other.tcp_flags;
        self.first_ms = self.first_ms.min(other.first_ms);
        self.last_ms = self.last_ms.max(other.last_ms);
    }
}

pub type Flows = BTreeMap<Key, Flow>;

/// Joins what belongs to one flow.
pub fn join<'a>(parts: impl IntoIterator<Item = (&'a Key, &'a Flow)>) -> Flows {
    let mut flows = Flows::new();
    for (key, part) in parts {
        flows.entry(*key).and_modify(|flow| flow.join(part)).or_insert_with(|| part.clone());
    }
    flows
}

/// Flows, bytes and packets.
pub type Sums = (u64, u64, u64);

pub fn sums(flows: &Flows) -> Sums {
    let sum = |of: fn(&Flow) -> u64| flows.values().map(of).sum();
    (flows.len() as u64, sum(|flow| flow.bytes), sum(|flow| flow.packets))
}

/// A flow of softflowd, which nfprobe was made from, is a conversation and has its times in both of its
/// records; of ICMP it takes the type for a port, so that question and answer are two.
pub fn with_times_of_conversations(flows: &Flows) -> Flows {
    let with_times = |(key, flow): (&Key, &Flow)| {
        let mut flow = flow.clone();
        let other = flows.get(&key.reversed()).filter(|_| !key.is_icmp());
        if let Some(other) = other {
            flow.first_ms = flow.first_ms.min(other.first_ms);
            flow.last_ms = flow.last_ms.max(other.last_ms);
        }
        (*key, flow)
    };
    flows.iter().map(with_times).collect()
}

/// Forgets what an exporter does not say.
pub fn without(mut flows: Flows, forget: impl Fn(&mut Flow)) -> Flows {
    flows.values_mut().for_each(forget);
    flows
}

/// Takes times for right that are off by a millisecond: NetFlow v5 has them as milliseconds of an uptime, and
/// nanoseconds in its header.
pub fn round_times(mut got: Flows, expected: &Flows) -> Flows {
    for (key, flow) in &mut got {
        let Some(expected) = expected.get(key) else { continue };
        for (got, expected) in
            [(&mut flow.first_ms, expected.first_ms), (&mut flow.last_ms, expected.last_ms)]
        {
            *got = if got.abs_diff(expected) <= 1 { expected } else { *got };
        }
    }
    got
}

/// Fails with the first few flows that differ.
pub fn assert_flows(got: &Flows, expected: &Flows, run: &str) {
    let keys: BTreeSet<_> = got.keys().chain(expected.keys()).collect();
    let different: Vec<_> = keys.into_iter().filter(|k| got.get(k) != expected.get(k)).collect();
    let mut text = String::new();
    for key in different.iter().take(5) {
        let (got, expected) = (got.get(key), expected.get(key));
        writeln!(text, "{key:?}\n     got {got:?}\nexpected {expected:?}").unwrap();
    }
    assert!(different.is_empty(), "{run}: {} flows differ:\n{text}", different.len());
}
