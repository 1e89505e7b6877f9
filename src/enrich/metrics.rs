//! What enrichment counts.

use metrics::Counter;

use crate::telemetry::{MetricName, Metrics};

use super::facts::LookupCounts;

/// Counters of all readers.
#[derive(Clone, Debug)]
pub(super) struct EnrichMetrics {
    remembered: Counter,
    looked_up: Counter,
    failed: Counter,
}

impl EnrichMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let address = |result| metrics.counter(MetricName::EnrichAddresses, &[result]);
        Self {
            remembered: address("remembered"),
            looked_up: address("looked_up"),
            failed: metrics.counter(MetricName::EnrichLookupFailures, &["geoip"]),
        }
    }

    pub(super) fn count(&self, counts: &mut LookupCounts) {
        let LookupCounts { remembered, looked_up, failed } = std::mem::take(counts);
        self.remembered.increment(remembered);
        self.looked_up.increment(looked_up);
        self.failed.increment(failed);
    }
}
