//! Several servers: which one is used.
//!
//! The first of the list is preferred. One that does not answer gives its place to the next; while another
//! than the first is in use, the first is asked now and then whether it is back.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use metrics::{Counter, Gauge};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use crate::config::ClickHouseConfig;
use crate::patience::Patience;
use crate::telemetry::{MetricName, Metrics, RateLimit};

use super::client::{Connection, runtime};
use super::errors::ClickHouseError;

/// How often the first endpoint is asked whether it is back. Less would hardly shorten an outage, and a server
/// that comes and goes would be changed to all the time.
const FIRST_ASKED_INTERVAL: Duration = Duration::from_secs(30);

/// Failures of an endpoint are logged at most so often: when none answers, every try changes it.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Connections to all endpoints, of which one is in use.
#[derive(Debug)]
pub struct Endpoints {
    /// In the order of the configuration.
    connections: Vec<Connection>,
    /// Of all connections, so that a ping goes on while an insert to another server is waited for.
    runtime: Arc<Runtime>,
    patience: Patience,
    choice: Choice,
    /// The ping of the first endpoint that is under way.
    ping: Option<JoinHandle<bool>>,
    shown: Arc<EndpointInUse>,
    /// Of the failures of each.
    logs: Vec<RateLimit>,
}

/// Which endpoint is in use, for everybody to see.
#[derive(Debug)]
pub struct EndpointInUse {
    urls: Vec<String>,
    index: AtomicUsize,
    gauges: Vec<Gauge>,
    failovers: Counter,
}

/// The choice among so many endpoints; it knows time only as it is told.
#[derive(Debug)]
struct Choice {
    count: usize,
    in_use: usize,
    /// When the first one last failed or was asked.
    first_asked: Option<Instant>,
}

impl Endpoints {
    /// The endpoints of the configuration, the first in use; nothing is sent yet. Requests end with
    /// `patience`.
    ///
    /// # Errors
    ///
    /// The system gives no epoll instance.
    pub fn new(
        config: &ClickHouseConfig,
        shown: Arc<EndpointInUse>,
        patience: &Patience,
    ) -> io::Result<Self> {
        let runtime = runtime()?;
        Ok(Self {
            connections: connect(config, &runtime, patience),
            patience: patience.clone(),
            choice: Choice::new(config.endpoints.len()),
            runtime,
            ping: None,
            shown,
            logs: config.endpoints.iter().map(|_| RateLimit::new(LOG_INTERVAL)).collect(),
        })
    }

    /// Connects anew, as another user.
    pub fn log_in(&mut self, config: &ClickHouseConfig) {
        self.connections = connect(config, &self.runtime, &self.patience);
        self.ping = None;
    }

    /// The one in use.
    #[must_use]
    pub fn in_use(&self) -> &Connection {
        &self.connections[self.choice.in_use]
    }

    /// The preferred one.
    #[must_use]
    pub fn first(&self) -> &Connection {
        &self.connections[0]
    }

    /// Whether the preferred one is in use.
    #[must_use]
    pub fn is_first_in_use(&self) -> bool {
        self.choice.in_use == 0
    }

    /// Whether there is no other.
    #[must_use]
    pub fn is_one(&self) -> bool {
        self.choice.count == 1
    }

    /// Chooses the next one after a failure that is of the server; `true` when another one is in use now.
    pub fn fail_over(&mut self, failure: &ClickHouseError, now: Instant) -> bool {
        let failed = self.choice.in_use;
        if !failure.is_of_server() || !self.choice.fail_over(now) {
            return false;
        }
        let from = self.shown.url();
        self.shown.set(self.choice.in_use);
        self.shown.failovers.increment(1);
        if let Some(held_back) = self.logs[failed].pass(now) {
            warn!(from, to = self.shown.url(), error = %failure, held_back,
                "ClickHouse endpoint failed, the next one is used.");
        }
        true
    }

    /// Whether another one than the first is in use and the first has answered. Waits for nothing: a ping is
    /// sent, and its answer told by a later call.
    pub fn first_answers(&mut self, now: Instant) -> bool {
        if self.is_first_in_use() {
            self.ping = None;
            return false;
        }
        if let Some(ping) = self.ping.take_if(|ping| ping.is_finished()) {
            return self.runtime.block_on(ping).unwrap_or(false);
        }
        if self.ping.is_none() && self.choice.is_first_due(now) {
            self.ping = Some(self.first().ping());
        }
        false
    }

    /// Goes back to the first.
    pub fn use_first(&mut self) {
        let from = self.shown.url();
        self.choice.in_use = 0;
        self.shown.set(0);
        info!(from, to = self.shown.url(), "The first ClickHouse endpoint is back and used again.");
    }
}

fn connect(
    config: &ClickHouseConfig,
    runtime: &Arc<Runtime>,
    patience: &Patience,
) -> Vec<Connection> {
    let connect = |endpoint: &String| Connection::to(config, endpoint, runtime, patience);
    config.endpoints.iter().map(connect).collect()
}

impl EndpointInUse {
    /// The endpoints of the configuration, the first in use.
    #[must_use]
    pub fn new(config: &ClickHouseConfig, metrics: &Metrics) -> Self {
        let gauge = |url: &String| metrics.gauge(MetricName::ClickHouseEndpointInUse, &[url]);
        let shown = Self {
            urls: config.endpoints.clone(),
            index: AtomicUsize::new(0),
            gauges: config.endpoints.iter().map(gauge).collect(),
            failovers: metrics.counter(MetricName::ClickHouseFailovers, &[]),
        };
        shown.set(0);
        shown
    }

    /// All of them.
    #[must_use]
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// The one in use.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.urls[self.index.load(Ordering::Relaxed)]
    }

    fn set(&self, in_use: usize) {
        self.index.store(in_use, Ordering::Relaxed);
        for (index, gauge) in self.gauges.iter().enumerate() {
            gauge.set(if index == in_use { 1.0 } else { 0.0 });
        }
    }
}

impl Choice {
    fn new(count: usize) -> Self {
        Self { count, in_use: 0, first_asked: None }
    }

    /// The one in use failed. `false` when there is no other.
    fn fail_over(&mut self, now: Instant) -> bool {
        if self.in_use == 0 {
            self.first_asked = Some(now);
        }
        let failed = self.in_use;
        self.in_use = (failed + 1) % self.count;
        self.in_use != failed
    }

    /// Whether the first is to be asked now, while another one is in use.
    fn is_first_due(&mut self, now: Instant) -> bool {
        let is_early = |asked| now.saturating_duration_since(asked) < FIRST_ASKED_INTERVAL;
        if self.in_use == 0 || self.first_asked.is_some_and(is_early) {
            return false;
        }
        self.first_asked = Some(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_failure_chooses_the_next_and_the_last_gives_way_to_the_first() {
        let mut choice = Choice::new(3);
        let now = Instant::now();
        let chosen: Vec<_> = (0..4)
            .map(|_| {
                assert!(choice.fail_over(now));
                choice.in_use
            })
            .collect();
        assert_eq!(chosen, [1, 2, 0, 1]);
    }

    #[test]
    fn one_endpoint_stays_in_use() {
        let mut choice = Choice::new(1);
        let now = Instant::now();
        assert!(!choice.fail_over(now));
        assert!(!choice.is_first_due(now + 100 * SECOND));
        assert_eq!(choice.in_use, 0);
    }

    #[test]
    fn the_first_is_asked_30_s_after_it_failed_and_then_every_30_s() {
        let mut choice = Choice::new(3);
        let start = Instant::now();
        choice.fail_over(start);
        choice.fail_over(start + 20 * SECOND); // from the second to the third
        let asked: Vec<_> =
            (0..100_u32).filter(|&second| choice.is_first_due(start + second * SECOND)).collect();
        assert_eq!(asked, [30, 60, 90]);
    }

    #[test]
    fn the_first_is_not_asked_while_it_is_in_use() {
        let mut choice = Choice::new(2);
        let start = Instant::now();
        assert!(!choice.is_first_due(start));
        choice.fail_over(start);
        choice.fail_over(start + SECOND);
        assert!(!choice.is_first_due(start + 100 * SECOND));
    }
}
