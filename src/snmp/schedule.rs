//! Which exporter is walked when. Decides only; time and addresses come from outside.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use crate::config::{SnmpAgentConfig, SnmpConfig};

use super::failure::{Failure, pause_after};

/// An exporter that sent no flow for so many intervals is not asked any more.
const SILENT_INTERVALS: u32 = 3;

/// A start finds all exporters within a moment; their first walks begin within this time, or within half an
/// interval if that is less.
const FIRST_WALK_SPREAD: Duration = Duration::from_secs(5);

/// Each interval and pause differs from the configured one by up to this part of it, so that exporters that were
/// found together do not stay together.
const JITTER: f64 = 0.1;

/// A moment, by the clock that only goes on and by the one on the wall.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) instant: Instant,
    /// Milliseconds since 1970.
    pub(super) unix_ms: i64,
}

/// The exporters that are watched.
#[derive(Debug)]
pub(super) struct Schedule {
    interval: Duration,
    watched: HashMap<IpAddr, Watched>,
}

#[derive(Debug)]
struct Watched {
    agent: SnmpAgentConfig,
    /// The next walk, or with `is_walking` when this one was due.
    due: Instant,
    is_walking: bool,
    /// The credentials changed while it was walked with those of before.
    is_changed: bool,
    /// In a row.
    failures: u32,
    last_success_ms: Option<i64>,
    last_error: Option<String>,
}

/// An exporter that is watched, for people.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WatchedExporter {
    /// Where it is asked.
    pub target: SocketAddr,
    /// How it is asked, without secrets: `192.0.2.0/24 v2c`.
    pub agent: String,
    /// When it last answered, milliseconds since 1970.
    pub last_success_ms: Option<i64>,
    /// What was wrong with the last walk, if something was.
    pub last_error: Option<String>,
    /// Walks that failed since the last one that did not.
    pub failures: u32,
    /// Interfaces that are known of it.
    pub interfaces: usize,
    /// When it is asked again, milliseconds since 1970; `None` while it is asked.
    pub next_walk_ms: Option<i64>,
}

impl Schedule {
    pub(super) fn new(config: &SnmpConfig) -> Self {
        Self { interval: config.interval, watched: HashMap::new() }
    }

    /// Takes note of the exporters there are, each with the time of its last datagram. One whose interfaces
    /// `confirmed` knows from before is asked when those are an interval old.
    pub(super) fn look(
        &mut self,
        exporters: impl IntoIterator<Item = (IpAddr, i64)>,
        config: &SnmpConfig,
        confirmed: impl Fn(IpAddr) -> Option<i64>,
        now: Now,
    ) {
        let silent_ms = millis(self.interval * SILENT_INTERVALS);
        let is_silent = |last_seen_ms| now.unix_ms.saturating_sub(last_seen_ms) > silent_ms;
        let mut sending = HashMap::new();
        for (exporter, last_seen_ms) in exporters {
            if !exporter.is_unspecified() && !is_silent(last_seen_ms) {
                sending.insert(exporter, last_seen_ms);
            }
        }
        self.watched.retain(|exporter, it| it.is_walking || sending.contains_key(exporter));
        for exporter in sending.into_keys() {
            if self.watched.contains_key(&exporter) {
                continue;
            }
            if let Some(agent) = config.agent_of(exporter) {
                let last_success_ms = confirmed(exporter);
                let due = self.first_walk(last_success_ms, now);
                self.watched.insert(exporter, Watched::new(agent.clone(), due, last_success_ms));
            }
        }
    }

    /// Exporters that are to be walked now, the longest due first; `room` at most. Each is walked until
    /// [`Self::note`] has its result.
    pub(super) fn start_due(
        &mut self,
        room: usize,
        now: Instant,
    ) -> Vec<(IpAddr, SnmpAgentConfig)> {
        let waiting = self.watched.iter().filter(|(_, it)| !it.is_walking && it.due <= now);
        let mut due: Vec<_> = waiting.map(|(&exporter, it)| (it.due, exporter)).collect();
        due.sort_unstable();
        due.truncate(room);
        let start = |(_, exporter)| {
            let it = self.watched.get_mut(&exporter)?;
            it.is_walking = true;
            Some((exporter, it.agent.clone()))
        };
        due.into_iter().filter_map(start).collect()
    }

    /// Takes the result of a walk; `is_known` says whether its interfaces were taken. Returns whether the
    /// exporter answered before, so that its failure is news.
    pub(super) fn note(
        &mut self,
        exporter: IpAddr,
        is_known: bool,
        failure: Option<&Failure>,
        now: Now,
    ) -> bool {
        let interval = self.interval;
        let Some(it) = self.watched.get_mut(&exporter) else { return false };
        let was_well = it.failures == 0;
        it.is_walking = false;
        it.last_error = failure.map(ToString::to_string);
        if is_known {
            it.failures = 0;
            it.last_success_ms = Some(now.unix_ms);
            it.due = now.instant + jittered(interval);
        } else {
            it.failures += 1;
            it.due = now.instant + jittered(pause_after(it.failures));
        }
        if std::mem::take(&mut it.is_changed) {
            it.failures = 0;
            it.due = now.instant;
        }
        was_well
    }

    /// Whether an exporter is watched, and was not changed since its walk began.
    pub(super) fn wants_result(&self, exporter: IpAddr) -> bool {
        self.watched.get(&exporter).is_some_and(|it| !it.is_changed)
    }

    /// Goes on with another configuration: who is in no range any more is forgotten, who is asked in another
    /// way is asked soon.
    pub(super) fn reconfigure(&mut self, config: &SnmpConfig, now: Now) {
        self.interval = config.interval;
        let latest = |interval| now.instant + jittered(interval);
        self.watched.retain(|&exporter, it| {
            let Some(agent) = config.agent_of(exporter) else { return false };
            if it.agent.access != agent.access || it.agent.port != agent.port {
                it.failures = 0;
                it.is_changed = it.is_walking;
                it.due = now.instant + spread(config.interval);
            } else {
                it.due = it.due.min(latest(config.interval));
            }
            it.agent = agent.clone();
            true
        });
    }

    pub(super) fn count(&self) -> usize {
        self.watched.len()
    }

    /// Exporters whose last walk failed.
    pub(super) fn failing_count(&self) -> usize {
        self.watched.values().filter(|it| it.failures > 0).count()
    }

    /// For people, by address.
    pub(super) fn list(
        &self,
        interfaces: impl Fn(IpAddr) -> usize,
        now: Now,
    ) -> Vec<WatchedExporter> {
        let show = |(&exporter, it): (&IpAddr, &Watched)| WatchedExporter {
            target: (exporter, it.agent.port).into(),
            agent: it.agent.to_string(),
            last_success_ms: it.last_success_ms,
            last_error: it.last_error.clone(),
            failures: it.failures,
            interfaces: interfaces(exporter),
            next_walk_ms: (!it.is_walking)
                .then(|| now.unix_ms + millis(it.due.saturating_duration_since(now.instant))),
        };
        let mut list: Vec<_> = self.watched.iter().map(show).collect();
        list.sort_unstable_by_key(|it| it.target);
        list
    }

    fn first_walk(&self, last_success_ms: Option<i64>, now: Now) -> Instant {
        let soon = now.instant + spread(self.interval);
        let Some(last_success_ms) = last_success_ms else { return soon };
        let age_ms = u64::try_from(now.unix_ms - last_success_ms).unwrap_or_default();
        let rest = jittered(self.interval).saturating_sub(Duration::from_millis(age_ms));
        soon.max(now.instant + rest)
    }
}

impl Watched {
    const fn new(agent: SnmpAgentConfig, due: Instant, last_success_ms: Option<i64>) -> Self {
        Self {
            agent,
            due,
            is_walking: false,
            is_changed: false,
            failures: 0,
            last_success_ms,
            last_error: None,
        }
    }
}

fn spread(interval: Duration) -> Duration {
    FIRST_WALK_SPREAD.min(interval / 2).mul_f64(fastrand::f64())
}

fn jittered(duration: Duration) -> Duration {
    duration.mul_f64(1.0 - JITTER + 2.0 * JITTER * fastrand::f64())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
