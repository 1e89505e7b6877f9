//! How long to wait before a batch is sent again.

use std::time::Duration;

use crate::config::RetryConfig;

/// The first pause is at most this long; each further one may be twice as long, up to `retry.delay`.
const FIRST_PAUSE_MAX: Duration = Duration::from_millis(100);

/// The pauses of one batch, with full jitter: many collectors must not come back at the same moment.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    delay_max: Duration,
    pause_max: Duration,
}

impl Backoff {
    /// Pauses of at most `retry.delay`.
    #[must_use]
    pub(super) fn new(config: &RetryConfig) -> Self {
        Self { delay_max: config.delay, pause_max: FIRST_PAUSE_MAX.min(config.delay) }
    }

    /// The next pause; `random` is from 0 to 1.
    pub(super) fn next_pause(&mut self, random: f64) -> Duration {
        let pause = self.pause_max.mul_f64(random.clamp(0.0, 1.0));
        self.pause_max = self.pause_max.saturating_mul(2).min(self.delay_max);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_delay_and_are_spread_below_it() {
        let config = RetryConfig { delay: Duration::from_millis(350), max_attempts: 10 };
        let mut backoff = Backoff::new(&config);
        let longest: Vec<_> = (0..4).map(|_| backoff.next_pause(1.0).as_millis()).collect();
        assert_eq!(longest, [100, 200, 350, 350]);
        assert_eq!(backoff.next_pause(0.0), Duration::ZERO);
    }
}
