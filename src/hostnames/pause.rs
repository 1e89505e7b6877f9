//! Until when nothing is asked, as readers see it: one atomic number.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The end of a pause.
#[derive(Debug)]
pub(super) struct Pause {
    start: Instant,
    /// Milliseconds since the start; 0 without a pause.
    until_ms: AtomicU64,
}

impl Pause {
    pub(super) fn new(start: Instant) -> Self {
        Self { start, until_ms: AtomicU64::new(0) }
    }

    pub(super) fn begin(&self, until: Instant) {
        self.until_ms.store(self.millis(until), Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.until_ms.store(0, Ordering::Relaxed);
    }

    pub(super) fn is_on(&self, now: Instant) -> bool {
        self.millis(now) < self.until_ms.load(Ordering::Relaxed)
    }

    fn millis(&self, time: Instant) -> u64 {
        let since = time.saturating_duration_since(self.start);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}
