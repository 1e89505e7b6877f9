//! Tallies of datagrams to metrics.

use metrics::Counter;

use crate::decode::{DropReason, DropScope, Protocol, Tally, Tunnel};
use crate::telemetry::{MetricName, Metrics};

/// The decode counters of every protocol, made before the first datagram so that they start at 0.
#[derive(Debug)]
pub struct DecodeMetrics {
    by_protocol: Vec<ProtocolMetrics>,
}

#[derive(Debug)]
struct ProtocolMetrics {
    datagrams: Counter,
    flows: Counter,
    options_records: Counter,
    lost_records: Counter,
    lost_datagrams: Counter,
    late_datagrams: Counter,
    restarts: Counter,
    templates_learned: Counter,
    counter_samples: Counter,
    drop_events: Counter,
    skipped_records: Counter,
    /// By [`Tunnel`].
    tunnels: [Counter; Tunnel::ALL.len()],
    /// Count and bytes, by [`DropReason`].
    dropped: Vec<(Counter, Counter)>,
}

/// The label of datagrams that are of no protocol.
const UNKNOWN: &str = "unknown";

impl DecodeMetrics {
    /// Registers the counters.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        let labels = Protocol::ALL.map(Protocol::label).into_iter().chain([UNKNOWN]);
        Self { by_protocol: labels.map(|label| ProtocolMetrics::new(metrics, label)).collect() }
    }

    /// Counts one datagram.
    pub fn count(&self, protocol: Option<Protocol>, tally: &Tally) {
        let index = protocol.map_or(Protocol::ALL.len(), |protocol| protocol as usize);
        self.by_protocol[index].datagrams.increment(1);
        self.by_protocol[index].count(tally);
    }

    /// Counts what became of earlier datagrams.
    pub fn count_more(&self, protocol: Protocol, tally: &Tally) {
        self.by_protocol[protocol as usize].count(tally);
    }
}

impl ProtocolMetrics {
    fn count(&self, tally: &Tally) {
        self.flows.increment(tally.flows);
        self.options_records.increment(tally.options_records);
        self.lost_records.increment(tally.lost_records);
        self.lost_datagrams.increment(tally.lost_datagrams);
        self.late_datagrams.increment(tally.late_datagrams);
        self.restarts.increment(tally.restarts);
        self.templates_learned.increment(tally.templates_learned);
        self.counter_samples.increment(tally.counter_samples);
        self.drop_events.increment(tally.drop_events);
        self.skipped_records.increment(tally.skipped_records);
        for (counter, flows) in self.tunnels.iter().zip(tally.tunnels) {
            counter.increment(flows);
        }
        for (reason, dropped) in tally.drops() {
            let (count, bytes) = &self.dropped[reason as usize];
            count.increment(dropped.count);
            bytes.increment(dropped.bytes);
        }
    }

    fn new(metrics: &Metrics, label: &'static str) -> Self {
        let counter = |name| metrics.counter(name, &[label]);
        let dropped = DropReason::ALL.iter().map(|reason| {
            let name = match reason.scope() {
                DropScope::Datagram => MetricName::DecodeDroppedDatagrams,
                DropScope::Set => MetricName::DecodeDroppedSets,
            };
            let labels = [label, reason.label()];
            (
                metrics.counter(name, &labels),
                metrics.counter(MetricName::DecodeDroppedBytes, &labels),
            )
        });
        Self {
            datagrams: counter(MetricName::DecodeDatagrams),
            flows: counter(MetricName::DecodeFlows),
            options_records: counter(MetricName::DecodeOptionsRecords),
            lost_records: counter(MetricName::DecodeLostRecords),
            lost_datagrams: counter(MetricName::DecodeLostDatagrams),
            late_datagrams: counter(MetricName::DecodeLateDatagrams),
            restarts: counter(MetricName::DecodeRestarts),
            templates_learned: counter(MetricName::DecodeTemplatesLearned),
            counter_samples: counter(MetricName::DecodeCounterSamples),
            drop_events: counter(MetricName::DecodeDropEvents),
            skipped_records: counter(MetricName::DecodeSkippedRecords),
            tunnels: Tunnel::ALL.map(|tunnel| {
                metrics.counter(MetricName::DecodeTunnelFlows, &[label, tunnel.label()])
            }),
            dropped: dropped.collect(),
        }
    }
}
