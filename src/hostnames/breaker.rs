//! Whether the DNS servers are there at all. While they are not, every question would take its whole timeout for
//! nothing.

use std::time::{Duration, Instant};

/// Questions in a row without an answer, from which on the servers count as away: so many are neither lost datagrams nor
/// zones whose own servers are away.
const SILENT_MAX: u32 = 10;

/// The first pause; each one after it is twice as long. A server that restarts is back by then.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest pause: names come back within a minute after their server.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Opens when nobody answers. When its pause is over one question is tried, and its outcome decides.
#[derive(Debug)]
pub(super) struct Breaker {
    silent: u32,
    pause: Duration,
    /// When the pause ends; it is over for good with an answer only.
    until: Option<Instant>,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { silent: 0, pause: PAUSE_MIN, until: None }
    }
}

impl Breaker {
    /// Nothing is to be asked now.
    pub(super) fn is_paused(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// The next question is the one that decides, so it goes alone.
    pub(super) const fn is_on_trial(&self) -> bool {
        self.until.is_some()
    }

    /// An answer came, of whatever kind; `true` when none came before.
    pub(super) fn answered(&mut self) -> bool {
        std::mem::take(self).until.is_some()
    }

    /// No answer came; the pause that begins with it, if one does. Questions that were on their way when it began do
    /// not make it longer.
    pub(super) fn silent(&mut self, now: Instant) -> Option<Duration> {
        if self.is_paused(now) {
            return None;
        }
        self.silent += 1;
        if self.silent < SILENT_MAX && !self.is_on_trial() {
            return None;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE_MAX);
        self.until = Some(now + pause);
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_an_answer_comes() {
        let mut breaker = Breaker::default();
        let mut now = Instant::now();
        for _ in 1..SILENT_MAX {
            assert_eq!(breaker.silent(now), None);
        }
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(breaker.silent(now), Some(Duration::from_secs(seconds)));
            assert_eq!(breaker.silent(now), None, "was on its way");
            assert!(breaker.is_paused(now));
            now += Duration::from_secs(seconds);
            assert!(!breaker.is_paused(now) && breaker.is_on_trial());
        }
        assert!(breaker.answered());
        assert!(!breaker.is_on_trial() && !breaker.answered());
        assert_eq!(breaker.silent(now), None);
    }

    #[test]
    fn one_answer_between_silent_questions_is_enough() {
        let mut breaker = Breaker::default();
        let now = Instant::now();
        for count in 1..10 * SILENT_MAX {
            assert_eq!(breaker.silent(now), None);
            if count % (SILENT_MAX - 1) == 0 {
                assert!(!breaker.answered());
            }
        }
    }
}
