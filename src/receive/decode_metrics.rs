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
    /// By the order of [`COUNTS`].
    counts: Vec<Counter>,
    /// By [`Tunnel`].
    tunnels: [Counter; Tunnel::ALL.len()],
    /// Count and bytes, by [`DropReason`].
    dropped: Vec<(Counter, Counter)>,
}

/// A metric, and the number of a tally that it counts.
type Count = (MetricName, fn(&Tally) -> u64);

const COUNTS: [Count; 18] = [
    (MetricName::DecodeFlows, |tally| tally.flows),
    (MetricName::DecodeOptionsRecords, |tally| tally.options_records),
    (MetricName::DecodeLostRecords, |tally| tally.lost_records),
    (MetricName::DecodeLostDatagrams, |tally| tally.lost_datagrams),
    (MetricName::DecodeLateDatagrams, |tally| tally.late_datagrams),
    (MetricName::DecodeDuplicateDatagrams, |tally| tally.duplicate_datagrams),
    (MetricName::DecodeRestarts, |tally| tally.restarts),
    (MetricName::DecodeTemplatesLearned, |tally| tally.templates_learned),
    (MetricName::DecodeWithdrawals, |tally| tally.withdrawals),
    (MetricName::DecodeIgnoredWithdrawals, |tally| tally.ignored_withdrawals),
    (MetricName::DecodeCounterSamples, |tally| tally.counter_samples),
    (MetricName::DecodeDropEvents, |tally| tally.drop_events),
    (MetricName::DecodeSkippedRecords, |tally| tally.skipped_records),
    (MetricName::DecodeReversedFlows, |tally| tally.reversed_flows),
    (MetricName::DecodeOddLengthValues, |tally| tally.odd_length_values),
    (MetricName::DecodeListValues, |tally| tally.list_values),
    (MetricName::DecodeLeftOutValues, |tally| tally.left_out_values),
    (MetricName::DecodeTemplatesExpired, |tally| tally.templates_expired),
];

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
        for (counter, (_, count)) in self.counts.iter().zip(COUNTS) {
            counter.increment(count(tally));
        }
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
            counts: COUNTS.iter().map(|(name, _)| counter(*name)).collect(),
            tunnels: Tunnel::ALL.map(|tunnel| {
                metrics.counter(MetricName::DecodeTunnelFlows, &[label, tunnel.label()])
            }),
            dropped: dropped.collect(),
        }
    }
}
