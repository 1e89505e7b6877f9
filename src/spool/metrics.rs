//! What an operator sees of the spool.

use metrics::{Counter, Gauge};

use crate::telemetry::{MetricName, Metrics};

use super::AppendError;
use super::format::Why;

#[derive(Debug)]
pub(super) struct SpoolMetrics {
    pub(super) batches: Gauge,
    pub(super) rows: Gauge,
    pub(super) bytes: Gauge,
    pub(super) max_bytes: Gauge,
    pub(super) drained_rows: Counter,
    pub(super) damaged_rows: Counter,
    pub(super) damaged_batches: Counter,
    pub(super) errors: Counter,
    appended_outage: Counter,
    appended_refused: Counter,
    appended_shutdown: Counter,
    refused_max_size: Counter,
    refused_disk_full: Counter,
    refused_error: Counter,
}

impl SpoolMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let counter = |name| metrics.counter(name, &[]);
        let gauge = |name| metrics.gauge(name, &[]);
        let appended = |why| metrics.counter(MetricName::SpoolAppendedRows, &[why]);
        let refused = |why| metrics.counter(MetricName::SpoolRefusedRows, &[why]);
        Self {
            batches: gauge(MetricName::SpoolBatches),
            rows: gauge(MetricName::SpoolRows),
            bytes: gauge(MetricName::SpoolBytes),
            max_bytes: gauge(MetricName::SpoolMaxBytes),
            drained_rows: counter(MetricName::SpoolDrainedRows),
            damaged_rows: counter(MetricName::SpoolDamagedRows),
            damaged_batches: counter(MetricName::SpoolDamagedBatches),
            errors: counter(MetricName::SpoolErrors),
            appended_outage: appended("outage"),
            appended_refused: appended("refused"),
            appended_shutdown: appended("shutdown"),
            refused_max_size: refused("max_size"),
            refused_disk_full: refused("disk_full"),
            refused_error: refused("error"),
        }
    }

    pub(super) const fn appended_rows(&self, why: Why) -> &Counter {
        match why {
            Why::Outage => &self.appended_outage,
            Why::Refused { .. } => &self.appended_refused,
            Why::Shutdown => &self.appended_shutdown,
        }
    }

    pub(super) const fn refused_rows(&self, error: &AppendError) -> &Counter {
        match error {
            AppendError::MaxSize => &self.refused_max_size,
            AppendError::DiskFull(_) => &self.refused_disk_full,
            AppendError::Io(_) => &self.refused_error,
        }
    }
}
