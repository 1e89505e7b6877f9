//! Synthetic exporters, without a socket or a clock: the caller says what time it is and sends.

use fastrand::Rng;

use super::flows::{Flow, Population, STARTED_AGO_MS_MAX};
use super::message::{IpfixHeader, MessageBuilder, V9Header};
use super::wire::{low_u32, seconds};
use super::{ipfix, sflow, v5, v9};

/// Templates are repeated after this time over UDP. Exporters wait minutes (RFC 7011 section 8.4 asks for
/// some interval over UDP); a collector that starts during a test should not.
const TEMPLATES_EVERY_MS: u64 = 1_000;
/// Exporters started at most this long before the first datagram, and at least as long before it
/// as the oldest flow.
const UPTIME_MS_MAX: u64 = 30 * 24 * 3_600_000;
/// Every n-th exporter of those whose protocol has IPv6 addresses sends them.
const IPV6_EVERY: usize = 4;

/// What the exporters speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// NetFlow version 5.
    V5,
    /// NetFlow version 9, RFC 3954.
    V9,
    /// IPFIX, RFC 7011.
    Ipfix,
    /// sFlow version 5: packet samples.
    Sflow,
    /// The four in turn, one to an exporter.
    #[default]
    Mixed,
}

impl Protocol {
    /// The name on the command line and in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V5 => "v5",
            Self::V9 => "v9",
            Self::Ipfix => "ipfix",
            Self::Sflow => "sflow",
            Self::Mixed => "mixed",
        }
    }
}

/// How exports travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// Datagrams.
    #[default]
    Udp,
    /// A connection for each exporter, IPFIX only (RFC 7011 section 10.4). Templates are sent once.
    Tcp,
}

/// What to generate. Equal specifications and times give equal datagrams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// What the exporters speak.
    pub protocol: Protocol,
    /// How many there are; at least one.
    pub exporters: usize,
    /// Where chance begins.
    pub seed: u64,
    /// How many flows in all; without it there is no end.
    pub flows: Option<u64>,
    /// How they travel.
    pub transport: Transport,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            protocol: Protocol::Mixed,
            exporters: 10,
            seed: 0,
            flows: None,
            transport: Transport::Udp,
        }
    }
}

/// One datagram to send, and what is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Emission {
    /// Index of the exporter that sends it.
    pub exporter: usize,
    /// The UDP payload, or the message.
    pub payload: Vec<u8>,
    /// Flow records in it; 0 when it holds templates.
    pub flows: u64,
    /// Sum of their octets.
    pub bytes: u64,
    /// Sum of their packets.
    pub packets: u64,
}

/// The synthetic exporters; see [`Self::next`].
#[derive(Debug, Clone)]
pub struct Generator {
    exporters: Vec<Exporter>,
    population: Population,
    rng: Rng,
    /// Whose turn it is.
    turn: usize,
    /// Flows still to send.
    remaining: Option<u64>,
    /// Flows of the datagram being written, kept for its memory.
    flows: Vec<Flow>,
    emission: Emission,
}

impl Generator {
    /// Prepares the exporters.
    #[must_use]
    pub fn new(spec: &Spec) -> Self {
        let mut rng = Rng::with_seed(spec.seed);
        let mut not_v5 = 0;
        let exporters = (0..spec.exporters.max(1)).map(|index| {
            let dialect = match (spec.protocol, index % 4) {
                (Protocol::V5, _) | (Protocol::Mixed, 0) => Dialect::V5,
                (Protocol::V9, _) | (Protocol::Mixed, 1) => Dialect::V9,
                (Protocol::Ipfix, _) | (Protocol::Mixed, 2) => Dialect::Ipfix,
                (Protocol::Sflow | Protocol::Mixed, _) => Dialect::Sflow,
            };
            not_v5 += usize::from(dialect != Dialect::V5);
            let is_v6 = dialect != Dialect::V5 && not_v5 % IPV6_EVERY == 0;
            let uptime_ms = rng.u64(u64::from(STARTED_AGO_MS_MAX) + 1..UPTIME_MS_MAX);
            Exporter::new(index, dialect, spec.transport, is_v6, uptime_ms)
        });
        let exporters = exporters.collect();
        Self {
            exporters,
            population: Population::default(),
            rng,
            turn: 0,
            remaining: spec.flows,
            flows: Vec::with_capacity(v5::RECORDS_MAX),
            emission: Emission::default(),
        }
    }

    /// The next datagram, as of `now`; `None` once all flows are sent.
    ///
    /// Exporters take turns. One whose templates are due sends them in a datagram of their own
    /// before its data.
    pub fn next(&mut self, now_unix_ms: u64) -> Option<&Emission> {
        if self.remaining == Some(0) {
            return None;
        }
        let exporters = self.exporters.len();
        let exporter = &mut self.exporters[self.turn];
        self.flows.clear();
        if !exporter.are_templates_due(now_unix_ms) {
            let full = exporter.records_max() as u64;
            let count = self.remaining.map_or(full, |remaining| remaining.min(full));
            self.flows.extend((0..count).map(|_| self.population.draw(&mut self.rng)));
            self.remaining = self.remaining.map(|remaining| remaining - count);
            self.turn = (self.turn + 1) % exporters;
        }
        let emission = &mut self.emission;
        emission.payload =
            exporter.write(std::mem::take(&mut emission.payload), &self.flows, now_unix_ms);
        emission.exporter = exporter.index;
        emission.flows = self.flows.len() as u64;
        let is_sampled = exporter.dialect == Dialect::Sflow;
        let octets = |flow| if is_sampled { sflow::frame_bytes(flow) } else { flow.octets };
        let packets = |flow: &Flow| if is_sampled { 1 } else { flow.packets };
        emission.bytes = self.flows.iter().map(|flow| u64::from(octets(flow))).sum();
        emission.packets = self.flows.iter().map(|flow| u64::from(packets(flow))).sum();
        Some(emission)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    V5,
    V9,
    Ipfix,
    Sflow,
}

/// What one exporter remembers between datagrams.
#[derive(Debug, Clone)]
struct Exporter {
    index: usize,
    dialect: Dialect,
    transport: Transport,
    is_v6: bool,
    /// Uptime when it sent its first datagram.
    first_uptime_ms: u64,
    first_unix_ms: Option<u64>,
    templates_unix_ms: Option<u64>,
    /// v5: flows, v9 and sFlow: datagrams, IPFIX: data records.
    sequence: u32,
    /// sFlow: samples so far.
    samples: u32,
}

impl Exporter {
    fn new(
        index: usize,
        dialect: Dialect,
        transport: Transport,
        is_v6: bool,
        first_uptime_ms: u64,
    ) -> Self {
        Self {
            index,
            dialect,
            transport,
            is_v6,
            first_uptime_ms,
            first_unix_ms: None,
            templates_unix_ms: None,
            sequence: 0,
            samples: 0,
        }
    }

    fn records_max(&self) -> usize {
        match (self.dialect, self.is_v6) {
            (Dialect::V5, _) => v5::RECORDS_MAX,
            (Dialect::V9, false) => v9::RECORDS_V4_MAX,
            (Dialect::V9, true) => v9::RECORDS_V6_MAX,
            (Dialect::Ipfix, false) => ipfix::RECORDS_V4_MAX,
            (Dialect::Ipfix, true) => ipfix::RECORDS_V6_MAX,
            (Dialect::Sflow, _) => sflow::SAMPLES_MAX,
        }
    }

    /// Asks once: the answer yes is taken as sent.
    fn are_templates_due(&mut self, now_unix_ms: u64) -> bool {
        let is_due = matches!(self.dialect, Dialect::V9 | Dialect::Ipfix)
            && self.templates_unix_ms.is_none_or(|sent| {
                self.transport == Transport::Udp
                    && now_unix_ms.saturating_sub(sent) >= TEMPLATES_EVERY_MS
            });
        if is_due {
            self.templates_unix_ms = Some(now_unix_ms);
        }
        is_due
    }

    /// A datagram with these flows, or with the template when there are none.
    fn write(&mut self, mut buffer: Vec<u8>, flows: &[Flow], now_unix_ms: u64) -> Vec<u8> {
        let uptime_ms = self.uptime_ms(now_unix_ms);
        let records = u16::try_from(flows.len()).unwrap_or(u16::MAX);
        let domain = u32::try_from(self.index + 1).unwrap_or(u32::MAX);
        let sequence = self.sequence;
        let is_v6 = self.is_v6;
        match self.dialect {
            Dialect::V5 => {
                self.sequence = sequence.wrapping_add(u32::from(records));
                let [.., engine_id] = domain.to_be_bytes();
                let header =
                    v5::Header { uptime_ms, now_unix_ms, sequence, engine_id, sampling: 0 };
                v5::write(&mut buffer, &header, flows);
                buffer
            }
            Dialect::V9 => {
                // RFC 3954 section 5.1: export packets, templates among them.
                self.sequence = sequence.wrapping_add(1);
                let export_time_s = seconds(now_unix_ms);
                let header = V9Header { uptime_ms, export_time_s, sequence, source_id: domain };
                let message = MessageBuilder::v9_in(buffer, header);
                let (template, fields) = if is_v6 {
                    (v9::TEMPLATE_V6, &v9::FIELDS_V6)
                } else {
                    (v9::TEMPLATE_V4, &v9::FIELDS_V4)
                };
                if flows.is_empty() {
                    return message.template(template, fields).finish();
                }
                let write = |bytes: &mut Vec<u8>| {
                    flows.iter().for_each(|flow| v9::write_record(bytes, flow, uptime_ms, is_v6));
                };
                message.data_set_with(template, records, write).finish()
            }
            Dialect::Ipfix => {
                // RFC 7011 section 3.1: data records only.
                self.sequence = sequence.wrapping_add(u32::from(records));
                let export_time_s = seconds(now_unix_ms);
                let header = IpfixHeader { export_time_s, sequence, domain_id: domain };
                let message = MessageBuilder::ipfix_in(buffer, header);
                let (template, fields) = if is_v6 {
                    (ipfix::TEMPLATE_V6, &ipfix::FIELDS_V6)
                } else {
                    (ipfix::TEMPLATE_V4, &ipfix::FIELDS_V4)
                };
                if flows.is_empty() {
                    return message.template(template, fields).finish();
                }
                let write = |bytes: &mut Vec<u8>| {
                    for flow in flows {
                        ipfix::write_record(bytes, flow, now_unix_ms, is_v6);
                    }
                };
                message.data_set_with(template, records, write).finish()
            }
            Dialect::Sflow => {
                self.sequence = sequence.wrapping_add(1);
                let samples = self.samples;
                self.samples = samples.wrapping_add(u32::from(records));
                let header = sflow::Header { sub_agent: domain, sequence, samples, uptime_ms };
                sflow::write(&mut buffer, &header, flows, is_v6);
                buffer
            }
        }
    }

    /// Wraps after 49 days, as on a router.
    fn uptime_ms(&mut self, now_unix_ms: u64) -> u32 {
        let first = *self.first_unix_ms.get_or_insert(now_unix_ms);
        low_u32(self.first_uptime_ms + now_unix_ms.saturating_sub(first))
    }
}

#[cfg(test)]
mod tests;
