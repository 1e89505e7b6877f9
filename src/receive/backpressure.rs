//! What a reader of connections does while the queue is full: it waits, so that TCP slows exporters down
//! and nothing is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use metrics::Counter;
use tracing::warn;

use crate::sink::RowDropReason;
use crate::telemetry::RateLimit;

/// Between two looks whether the queue has room. Short beside the time in which a batch is stored.
const PAUSE: Duration = Duration::from_millis(5);

/// How often waiting is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Waits for the queue.
#[derive(Debug)]
pub(super) struct Backpressure {
    receiver: String,
    /// At a stop rows wait no longer than this; they are lost to it then.
    stop_wait: Duration,
    stop_seen: Option<Instant>,
    paused: Duration,
    paused_ms: Counter,
    log: RateLimit,
}

impl Backpressure {
    pub(super) fn new(receiver: &str, stop_wait: Duration, paused_ms: Counter) -> Self {
        Self {
            receiver: receiver.to_owned(),
            stop_wait,
            stop_seen: None,
            paused: Duration::ZERO,
            paused_ms,
            log: RateLimit::new(LOG_INTERVAL),
        }
    }

    /// Pauses for rows that the queue has no room for; `Some` when they are to be given up.
    pub(super) fn wait(&mut self, stop: &AtomicBool) -> Option<RowDropReason> {
        let start = Instant::now();
        if stop.load(Ordering::Relaxed)
            && start - *self.stop_seen.get_or_insert(start) >= self.stop_wait
        {
            return Some(RowDropReason::Shutdown);
        }
        if let Some(held_back) = self.log.pass(start) {
            warn!(
                receiver = self.receiver,
                held_back,
                "Queue is full, exporters over TCP have to wait: ClickHouse does not keep up."
            );
        }
        std::thread::sleep(PAUSE);
        self.paused += start.elapsed();
        self.paused_ms.absolute(u64::try_from(self.paused.as_millis()).unwrap_or(u64::MAX));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_wait_without_end_until_a_stop_and_then_for_a_limited_time() {
        let stop = AtomicBool::new(false);
        let mut backpressure = Backpressure::new("test", 3 * PAUSE, Counter::noop());
        for _ in 0..5 {
            assert_eq!(backpressure.wait(&stop), None);
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(backpressure.wait(&stop), None);
        std::thread::sleep(3 * PAUSE);
        assert_eq!(backpressure.wait(&stop), Some(RowDropReason::Shutdown));
    }
}
