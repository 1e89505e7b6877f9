//! The metrics of this stage.

use std::sync::{Arc, Weak};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};

use crate::telemetry::{MetricName, Metrics};

use super::answer::Answer;
use super::known::Known;

/// What is counted.
#[derive(Clone)]
pub(super) struct Counters {
    found: Counter,
    no_name: Counter,
    bad_answer: Counter,
    failed: Counter,
    no_answer: Counter,
    answer_seconds: Histogram,
    pub(super) queue_full: Counter,
    pub(super) paused: Counter,
    pub(super) is_paused: Gauge,
    entries: Gauge,
}

impl Counters {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let outcome = |label| metrics.counter(MetricName::HostNamesQuestions, &[label]);
        let dropped = |label| metrics.counter(MetricName::HostNamesDropped, &[label]);
        Self {
            found: outcome("found"),
            no_name: outcome("no_name"),
            bad_answer: outcome("bad_answer"),
            failed: outcome("failed"),
            no_answer: outcome("no_answer"),
            answer_seconds: metrics.histogram(MetricName::HostNamesAnswer, &[]),
            queue_full: dropped("queue_full"),
            paused: dropped("paused"),
            is_paused: metrics.gauge(MetricName::HostNamesPaused, &[]),
            entries: metrics.gauge(MetricName::HostNamesEntries, &[]),
        }
    }

    /// Shows how many addresses are known, as long as they are.
    pub(super) fn show_entries(&self, known: &Arc<Known>, metrics: &Metrics) {
        let (known, entries): (Weak<Known>, _) = (Arc::downgrade(known), self.entries.clone());
        metrics.on_render(move || {
            if let Some(known) = known.upgrade() {
                #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
                entries.set(known.len() as f64);
            }
        });
    }

    pub(super) fn count(&self, answer: &Answer, took: Duration) {
        let outcome = match answer {
            Answer::Found(..) => &self.found,
            Answer::NoName(_) => &self.no_name,
            Answer::Bad(_) => &self.bad_answer,
            Answer::Failed => &self.failed,
            Answer::Silent => return self.no_answer.increment(1),
        };
        outcome.increment(1);
        self.answer_seconds.record(took);
    }
}
