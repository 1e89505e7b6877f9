//! What is known of addresses, in bounded memory.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quick_cache::sync::Cache;

use crate::config::HostNamesConfig;

use super::answer::Answer;

/// An expired name is told for so long while it is asked for again, or while no server answers: names hardly change, and
/// flows without them are worse.
const STALE_MAX: Duration = Duration::from_secs(3_600);

/// After a question that failed the next one for the same address has time.
const FAILED_REST: Duration = Duration::from_secs(30);

/// A question whose end never came is asked again: its answer may have gone under another one's.
const PENDING_MAX: Duration = Duration::from_secs(300);

/// A negative answer without SOA is not to be kept (RFC 2308 section 5). A minute is kept all the same, since the next
/// flow would ask again.
const WITHOUT_SOA: Duration = Duration::from_secs(60);

/// Addresses and their names.
pub(super) type Known = Cache<Ipv6Addr, Entry>;

/// What is known of an address.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// None while the first question is under way, and for an address without name.
    name: Option<Arc<str>>,
    /// The name is not told later.
    tell_until: Instant,
    /// It is not asked for earlier.
    ask_after: Instant,
}

/// How long answers are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    min: Duration,
    max: Duration,
    negative_max: Duration,
}

impl Limits {
    pub(super) const fn new(config: &HostNamesConfig) -> Self {
        Self { min: config.min_ttl, max: config.max_ttl, negative_max: config.negative_ttl }
    }
}

impl Entry {
    /// A question is put; what was known before is told meanwhile.
    pub(super) fn pending(before: Option<&Self>, now: Instant) -> Self {
        let (name, tell_until) = told(before, now);
        Self { name, tell_until, ask_after: now + PENDING_MAX }
    }

    /// A question has ended.
    pub(super) fn after(
        answer: Answer,
        before: Option<&Self>,
        limits: Limits,
        now: Instant,
    ) -> Self {
        let negative = |ttl: Duration| ttl.clamp(limits.min, limits.negative_max);
        let (name, rest) = match answer {
            Answer::Found(name, ttl) => (Some(name), ttl.clamp(limits.min, limits.max)),
            Answer::NoName(ttl) => (None, negative(ttl.unwrap_or(WITHOUT_SOA))),
            Answer::Bad(ttl) => (None, negative(ttl)),
            Answer::Failed | Answer::Silent => {
                let (name, tell_until) = told(before, now);
                return Self { name, tell_until, ask_after: now + FAILED_REST };
            }
        };
        let ask_after = now + rest;
        Self { name, tell_until: ask_after + STALE_MAX, ask_after }
    }

    /// It is to be asked for, for the first time or again.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.ask_after
    }

    /// The name, if it has one that is not too old.
    pub(super) fn name(self, now: Instant) -> Option<Arc<str>> {
        self.name.filter(|_| now < self.tell_until)
    }
}

fn told(before: Option<&Entry>, now: Instant) -> (Option<Arc<str>>, Instant) {
    before.map_or((None, now), |entry| (entry.name.clone(), entry.tell_until))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        min: Duration::from_secs(10),
        max: Duration::from_secs(100),
        negative_max: Duration::from_secs(50),
    };

    fn rest(answer: Answer) -> Duration {
        let now = Instant::now();
        Entry::after(answer, None, LIMITS, now).ask_after - now
    }

    #[test]
    fn an_answer_is_kept_for_its_ttl_within_limits() {
        let seconds = Duration::from_secs;
        for (ttl, positive, negative) in [(0, 10, 10), (30, 30, 30), (70, 70, 50), (900, 100, 50)] {
            assert_eq!(rest(Answer::Found("a".into(), seconds(ttl))), seconds(positive));
            assert_eq!(rest(Answer::NoName(Some(seconds(ttl)))), seconds(negative));
            assert_eq!(rest(Answer::Bad(seconds(ttl))), seconds(negative));
        }
        assert_eq!(rest(Answer::NoName(None)), seconds(50));
        assert_eq!(rest(Answer::Silent), FAILED_REST);
    }

    #[test]
    fn an_expired_name_is_told_while_nobody_answers_but_not_for_ever() {
        let start = Instant::now();
        let found = Entry::after(Answer::Found("a".into(), Duration::ZERO), None, LIMITS, start);
        let expired = start + LIMITS.min;
        assert!(!found.is_due(start) && found.is_due(expired));
        let pending = Entry::pending(Some(&found), expired);
        assert!(!pending.is_due(expired));
        let failed = Entry::after(Answer::Silent, Some(&pending), LIMITS, expired);
        assert!(!failed.is_due(expired) && failed.is_due(expired + FAILED_REST));
        assert_eq!(failed.clone().name(expired).as_deref(), Some("a"));
        assert_eq!(failed.clone().name(expired + STALE_MAX), None);
        let gone = Entry::after(Answer::NoName(None), Some(&failed), LIMITS, expired);
        assert_eq!(gone.name(expired), None);
    }
}
