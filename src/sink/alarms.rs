//! What keeps rows from where they should be, now: shown until it has passed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::telemetry::{MetricName, Metrics, unix_ms};

/// Views that are remembered to fail. Somebody with more has the first ones in the log.
const VIEWS_MAX: usize = 64;

/// What is wrong.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Trouble {
    /// ClickHouse does not answer; rows wait for it.
    NoAnswer,
    /// ClickHouse answers that it takes no rows before an operator changes something.
    Configuration,
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
    raised: Mutex<BTreeMap<Trouble, Alarm>>,
    metrics: Arc<Metrics>,
}

impl Trouble {
    /// The metric label.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::NoAnswer => "no_answer",
            Self::Configuration => "configuration",
            Self::BrokenView(_) => "broken_view",
        }
    }

    /// The view, if it is about one.
    #[must_use]
    pub fn view(&self) -> &str {
        match self {
            Self::BrokenView(view) => view,
            _ => "",
        }
    }
}

impl Alarms {
    /// None yet.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Self {
        let alarms = Self { raised: Mutex::default(), metrics };
        alarms.show(&Trouble::NoAnswer, false);
        alarms.show(&Trouble::Configuration, false);
        alarms
    }

    /// Those that have not passed.
    #[must_use]
    pub fn raised(&self) -> BTreeMap<Trouble, Alarm> {
        self.lock().clone()
    }

    /// It was met again, or for the first time.
    pub(super) fn raise(&self, trouble: Trouble, error: &str) {
        let mut raised = self.lock();
        if let Some(alarm) = raised.get_mut(&trouble) {
            error.clone_into(&mut alarm.error);
        } else if raised.len() < VIEWS_MAX {
            self.show(&trouble, true);
            raised.insert(trouble, Alarm { since_ms: unix_ms(), error: error.to_owned() });
        }
    }

    /// Rows were stored, in all views or without those that fail.
    pub(super) fn pass(&self, in_all_views: bool) {
        self.lock().retain(|trouble, _| {
            let stays = !in_all_views && matches!(trouble, Trouble::BrokenView(_));
            if !stays {
                self.show(trouble, false);
            }
            stays
        });
    }

    fn show(&self, trouble: &Trouble, is_raised: bool) {
        let gauge =
            self.metrics.gauge(MetricName::ClickHouseAlarm, &[trouble.label(), trouble.view()]);
        gauge.set(if is_raised { 1.0 } else { 0.0 });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Trouble, Alarm>> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner)
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
        for trouble in [Trouble::NoAnswer, view(), view()] {
            alarms.raise(trouble, "why");
        }
        assert_eq!(alarms.raised().len(), 2);
        alarms.pass(false);
        assert_eq!(alarms.raised().into_keys().collect::<Vec<_>>(), [view()]);
        let shown = |value| {
            let series = "tidegate_clickhouse_alarm{alarm=\"broken_view\",view=\"db.v\"}";
            metrics.render().contains(&format!("{series} {value}"))
        };
        assert!(shown(1));
        alarms.pass(true);
        assert!(alarms.raised().is_empty() && shown(0));
    }
}
