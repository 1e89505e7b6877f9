//! At most one log line an interval for what repeats.

use std::time::{Duration, Instant};

/// Passes one event an interval and counts the others.
#[derive(Debug)]
pub struct RateLimit {
    interval: Duration,
    last: Option<Instant>,
    held_back: u64,
}

impl RateLimit {
    /// One event each `interval`.
    #[must_use]
    pub const fn new(interval: Duration) -> Self {
        Self { interval, last: None, held_back: 0 }
    }

    /// `Some` when an event may be logged now, with the number of events since the last one that was.
    pub fn pass(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < self.interval) {
            self.held_back += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_within_the_interval_are_counted_and_told_with_the_next() {
        let mut limit = RateLimit::new(Duration::from_secs(10));
        let start = Instant::now();
        assert_eq!(limit.pass(start), Some(0));
        assert_eq!(limit.pass(start + Duration::from_secs(1)), None);
        assert_eq!(limit.pass(start + Duration::from_secs(9)), None);
        assert_eq!(limit.pass(start + Duration::from_secs(10)), Some(2));
    }
}
