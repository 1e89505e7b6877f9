//! What keeps rows from where they should be, now: shown until it has passed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clickhouse::Views;
use crate::telemetry::{MetricName, Metrics, unix_ms};

use super::destination::Target;

/// Views that have an alarm of their own, in one run of the collector; more of them have the log.
const VIEWS_MAX: usize = 64;

/// What is wrong.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Trouble {
    /// ClickHouse does not answer; rows wait for it.
    NoAnswer,
    /// ClickHouse takes no rows for this table now, and may later.
    Refusal(Target),
    /// ClickHouse takes no rows for this table before an operator changes something.
    Configuration(Target),
    /// A materialized view fails. Batches are stored without it.
    BrokenView(String),
}

/// Since when, and how it shows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Alarm {
    /// When it was first met, milliseconds since 1970.
    pub since_ms: i64,
    /// What ClickHouse or the network said last.
    pub error: String,
}

/// The alarms of everything that delivers.
#[derive(Debug)]
pub struct Alarms {
    state: Mutex<State>,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct State {
    raised: BTreeMap<Trouble, Alarm>,
    /// Every view that ever had one: a metric does not go away.
    views: BTreeSet<String>,
}

impl Trouble {
    /// The metric label.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::NoAnswer => "no_answer",
            Self::Refusal(_) => "refusal",
            Self::Configuration(_) => "configuration",
            Self::BrokenView(_) => "broken_view",
        }
    }

    /// The table or view that it is about, or nothing.
    #[must_use]
    pub fn table(&self) -> &str {
        match self {
            Self::NoAnswer => "",
            Self::Refusal(target) | Self::Configuration(target) => target.label(),
            Self::BrokenView(view) => view,
        }
    }

    /// Whether it is over when a batch was stored in a table.
    fn ends_with(&self, stored: Target, views: Views) -> bool {
        match self {
            Self::NoAnswer => true,
            Self::Refusal(target) | Self::Configuration(target) => *target == stored,
            Self::BrokenView(_) => stored == Target::Flows && views == Views::Required,
        }
    }
}

impl Alarms {
    /// None yet.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Self {
        let alarms = Self { state: Mutex::default(), metrics };
        alarms.show(&Trouble::NoAnswer, false);
        for target in Target::ALL {
            alarms.show(&Trouble::Refusal(target), false);
            alarms.show(&Trouble::Configuration(target), false);
        }
        alarms
    }

    /// Those that have not passed.
    #[must_use]
    pub fn raised(&self) -> BTreeMap<Trouble, Alarm> {
        self.lock().raised.clone()
    }

    /// Whether a view is known to fail.
    pub(super) fn is_broken(&self, view: &str) -> bool {
        self.lock().raised.contains_key(&Trouble::BrokenView(view.to_owned()))
    }

    /// It was met again, or for the first time.
    pub(super) fn raise(&self, trouble: Trouble, error: &str) {
        let mut state = self.lock();
        if let Some(alarm) = state.raised.get_mut(&trouble) {
            error.clone_into(&mut alarm.error);
            return;
        }
        if let Trouble::BrokenView(view) = &trouble
            && !state.views.contains(view)
        {
            if state.views.len() >= VIEWS_MAX {
                return;
            }
            state.views.insert(view.clone());
        }
        self.show(&trouble, true);
        state.raised.insert(trouble, Alarm { since_ms: unix_ms(), error: error.to_owned() });
    }

    /// A batch was stored.
    pub(super) fn pass(&self, stored: Target, views: Views) {
        self.lock().raised.retain(|trouble, _| {
            let is_over = trouble.ends_with(stored, views);
            if is_over {
                self.show(trouble, false);
            }
            !is_over
        });
    }

    fn show(&self, trouble: &Trouble, is_raised: bool) {
        let labels = [trouble.label(), trouble.table()];
        let gauge = self.metrics.gauge(MetricName::ClickHouseAlarm, &labels);
        gauge.set(if is_raised { 1.0 } else { 0.0 });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_stay_until_what_they_are_about_works() {
        let metrics = Arc::new(Metrics::default());
        let alarms = Alarms::new(Arc::clone(&metrics));
        let view = || Trouble::BrokenView("db.v".to_owned());
        let letters = || Trouble::Configuration(Target::DeadLetters);
        for trouble in [Trouble::NoAnswer, letters(), view(), view()] {
            alarms.raise(trouble, "why");
        }
        let raised = || alarms.raised().into_keys().collect::<Vec<_>>();
        alarms.pass(Target::Flows, Views::Optional);
        assert_eq!(raised(), [letters(), view()]);
        let shown = |value| {
            let series = "tidegate_clickhouse_alarm{alarm=\"broken_view\",table=\"db.v\"}";
            metrics.render().contains(&format!("{series} {value}"))
        };
        assert!(shown(1) && alarms.is_broken("db.v"));
        alarms.pass(Target::DeadLetters, Views::Required);
        assert_eq!(raised(), [view()]);
        alarms.pass(Target::Flows, Views::Required);
        assert!(raised().is_empty() && shown(0));
    }
}
