//! Metrics by name from the table, rendered for Prometheus.
//!
//! A collector owns its registry: nothing is global, so tests run several side by side. Handles are
//! made once, when a stage starts; counting is then one atomic addition.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};

use super::names::{METRICS, MetricKind, MetricName};

type Refresh = Box<dyn Fn() + Send>;

/// The metrics of one collector.
pub struct Metrics {
    recorder: PrometheusRecorder,
    /// Set gauges that are read rather than kept.
    refreshers: Mutex<Vec<Refresh>>,
}

const METADATA: Metadata<'static> = Metadata::new("tidegate", Level::INFO, None);

impl Default for Metrics {
    fn default() -> Self {
        let mut builder = PrometheusBuilder::new();
        for spec in METRICS {
            if let MetricKind::Histogram(buckets) = spec.kind {
                let matcher = Matcher::Full(spec.name.to_owned());
                // Fails only on an empty list of buckets, and the table has none.
                builder = builder.set_buckets_for_metric(matcher, buckets).unwrap_or_default();
            }
        }
        let recorder = builder.build_recorder();
        for spec in METRICS {
            let name = spec.name.into();
            match spec.kind {
                MetricKind::Counter => recorder.describe_counter(name, None, spec.help.into()),
                MetricKind::Gauge => recorder.describe_gauge(name, None, spec.help.into()),
                MetricKind::Histogram(_) => {
                    recorder.describe_histogram(name, None, spec.help.into())
                }
            }
        }
        let metrics = Self { recorder, refreshers: Mutex::default() };
        metrics.gauge(MetricName::BuildInfo, &[env!("CARGO_PKG_VERSION")]).set(1.0);
        metrics
    }
}

impl Metrics {
    /// The counter `name` with the values of its labels.
    pub fn counter(&self, name: MetricName, labels: &[&str]) -> Counter {
        self.recorder.register_counter(&key(name, labels), &METADATA)
    }

    /// The gauge `name` with the values of its labels.
    pub fn gauge(&self, name: MetricName, labels: &[&str]) -> Gauge {
        self.recorder.register_gauge(&key(name, labels), &METADATA)
    }

    /// The histogram `name` with the values of its labels.
    pub fn histogram(&self, name: MetricName, labels: &[&str]) -> Histogram {
        self.recorder.register_histogram(&key(name, labels), &METADATA)
    }

    /// Runs `refresh` before every rendering. It must not wait for anything.
    pub fn on_render(&self, refresh: impl Fn() + Send + 'static) {
        self.refreshers.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(refresh));
    }

    /// Puts samples of histograms into their buckets.
    pub fn keep_up(&self) {
        self.recorder.handle().run_upkeep();
    }

    /// The text for Prometheus.
    #[must_use]
    pub fn render(&self) -> String {
        for refresh in &*self.refreshers.lock().unwrap_or_else(PoisonError::into_inner) {
            refresh();
        }
        let handle = self.recorder.handle();
        handle.run_upkeep();
        handle.render()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

fn key(name: MetricName, values: &[&str]) -> Key {
    let spec = name.spec();
    debug_assert_eq!(spec.labels.len(), values.len(), "labels of {}", spec.name);
    let labels =
        spec.labels.iter().zip(values).map(|(name, value)| Label::new(*name, (*value).to_owned()));
    Key::from_parts(spec.name, labels.collect::<Vec<_>>())
}
