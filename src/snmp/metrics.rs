//! What the walker counts.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};

use crate::telemetry::{MetricName, Metrics, unix_ms};

use super::failure::Outcome;
use super::known::Known;
use super::schedule::Schedule;

/// Handles, made once.
pub(super) struct SnmpMetrics {
    walks: [Counter; Outcome::ALL.len()],
    walk_seconds: Histogram,
    exporters: Gauge,
    failing_exporters: Gauge,
    interfaces: Gauge,
    bytes: Gauge,
    last_success: Gauge,
    write_failures: Counter,
}

impl SnmpMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let walks = |outcome: Outcome| metrics.counter(MetricName::SnmpWalks, &[outcome.label()]);
        Self {
            walks: Outcome::ALL.map(walks),
            walk_seconds: metrics.histogram(MetricName::SnmpWalkSeconds, &[]),
            exporters: metrics.gauge(MetricName::SnmpExporters, &[]),
            failing_exporters: metrics.gauge(MetricName::SnmpFailingExporters, &[]),
            interfaces: metrics.gauge(MetricName::SnmpInterfaces, &[]),
            bytes: metrics.gauge(MetricName::SnmpBytes, &[]),
            last_success: metrics.gauge(MetricName::SnmpLastSuccess, &[]),
            write_failures: metrics.counter(MetricName::SnmpWriteFailures, &[]),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds are far below 2^53")]
    pub(super) fn note_walk(&self, outcome: Outcome, took: Duration) {
        self.walks[outcome as usize].increment(1);
        self.walk_seconds.record(took);
        if outcome == Outcome::Ok {
            self.last_success.set((unix_ms() / 1_000) as f64);
        }
    }

    pub(super) fn note_write_failure(&self) {
        self.write_failures.increment(1);
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub(super) fn show(&self, schedule: &Schedule, known: &Known) {
        self.exporters.set(schedule.count() as f64);
        self.failing_exporters.set(schedule.failing_count() as f64);
        self.interfaces.set(known.interface_count() as f64);
        self.bytes.set(known.bytes() as f64);
    }
}
