//! How fast spooled batches go beside live ones: a database that was away has enough to do with the traffic
//! of now.

use std::time::{Duration, Instant};

/// Spaces batches so that their rows keep a rate.
#[derive(Debug)]
pub struct Pace {
    rows_per_second: usize,
    /// When the rows of the last batch have had their time.
    free_at: Option<Instant>,
}

impl Pace {
    /// So many rows a second, whatever the size of the batches.
    #[must_use]
    pub const fn new(rows_per_second: usize) -> Self {
        Self { rows_per_second, free_at: None }
    }

    /// When the next batch may go.
    #[must_use]
    pub fn next_at(&self, now: Instant) -> Instant {
        self.free_at.map_or(now, |free_at| free_at.max(now))
    }

    /// Notes that a batch goes now. Time that was not used is not saved up: a burst is what is to be avoided.
    pub fn note(&mut self, rows: usize, now: Instant) {
        let micros = (rows as u64).saturating_mul(1_000_000) / self.rows_per_second.max(1) as u64;
        self.free_at = Some(self.next_at(now) + Duration::from_micros(micros));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_any_size_keep_the_rate() {
        let start = Instant::now();
        let mut pace = Pace::new(1_000);
        let mut now = start;
        for rows in [500, 1, 499, 3_000] {
            assert_eq!(pace.next_at(now), now);
            pace.note(rows, now);
            now = pace.next_at(now);
        }
        assert_eq!(now - start, Duration::from_secs(4));
        let later = now + Duration::from_secs(60);
        pace.note(1_000, later);
        assert_eq!(pace.next_at(later), later + Duration::from_secs(1));
    }
}
