//! How long to wait before a batch is sent again.

use std::time::Duration;

/// A pause of at most `delay`, with full jitter: many collectors must not come back at the same moment.
/// `random` is from 0 to 1.
pub(super) fn pause(delay: Duration, random: f64) -> Duration {
    delay.mul_f64(random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_spread_below_the_delay() {
        let delay = Duration::from_secs(5);
        assert_eq!(pause(delay, 0.0), Duration::ZERO);
        assert_eq!(pause(delay, 0.5), delay / 2);
        assert_eq!(pause(delay, 1.0), delay);
    }
}
