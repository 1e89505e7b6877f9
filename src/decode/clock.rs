//! From the exporter's clock to times in a row.

use std::time::Duration;

/// The year 2300, where ClickHouse's `DateTime64` ends.
const TIME_END_MS: i64 = 10_413_792_000_000;

/// The year 2000: no flow was older when the protocols came.
const TIME_BEGIN_MS: i64 = 946_684_800_000;

/// An uptime counts milliseconds in 32 bits.
const UPTIME_WRAP_MS: i64 = 1 << 32;

/// The times of one message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timing {
    /// What the column `timestamp` gets, milliseconds since 1970.
    pub timestamp_ms: i64,
    /// When the datagram was received, milliseconds since 1970.
    pub received_ms: i64,
    /// Milliseconds added to every time of the exporter because its clock is off.
    pub correction_ms: i64,
    /// The exporter's uptime at export time, for protocols that say it.
    pub uptime_ms: Option<u32>,
    /// The latest time that a flow of the message can have, milliseconds since 1970.
    latest_ms: i64,
    /// When the exporter started by its own clock, if it announced that (element 160).
    pub boot_ms: Option<i64>,
}

impl Timing {
    /// Times of a message exported at `export_ms` by the exporter's clock. One bad clock must not
    /// scatter a batch over a hundred partitions: beyond `skew_max` the receive time counts instead.
    #[must_use]
    pub fn new(
        export_ms: i64,
        received_ms: i64,
        uptime_ms: Option<u32>,
        skew_max: Duration,
    ) -> Self {
        let skew_ms = received_ms - export_ms;
        let off = u128::from(skew_ms.unsigned_abs()) > skew_max.as_millis();
        let correction_ms = if off { skew_ms } else { 0 };
        let timestamp_ms = export_ms + correction_ms;
        let skew_max_ms = i64::try_from(skew_max.as_millis()).unwrap_or(i64::MAX);
        let latest_ms = timestamp_ms.saturating_add(skew_max_ms).min(TIME_END_MS);
        Self { timestamp_ms, received_ms, correction_ms, uptime_ms, latest_ms, boot_ms: None }
    }

    /// The time of an event at `event_ms` of the exporter's uptime. The uptime wraps after 49.7 days;
    /// the nearer of the two readings is meant, so an event up to 24.8 days back is placed right. A number
    /// that is no uptime but a time since 1970 is taken for that.
    #[must_use]
    #[expect(
        clippy::cast_possible_wrap,
        reason = "the wrapped difference is read as signed on purpose"
    )]
    pub fn at_uptime(&self, event_ms: u64) -> i64 {
        match (self.uptime_ms, self.boot_ms) {
            _ if event_ms >= TIME_BEGIN_MS.unsigned_abs() => self.at_absolute(event_ms),
            (Some(now_ms), _) => {
                let since_ms = now_ms.wrapping_sub(low_bits(event_ms)) as i32;
                self.if_possible(self.timestamp_ms - i64::from(since_ms))
            }
            (None, Some(boot_ms)) => self.after_boot(boot_ms, event_ms),
            (None, None) => self.timestamp_ms,
        }
    }

    /// The time of an event so long after the exporter started; the uptime may have wrapped since.
    #[must_use]
    pub fn after_boot(&self, boot_ms: i64, event_ms: u64) -> i64 {
        let event_ms = i64::from(low_bits(event_ms));
        let first_ms = boot_ms.saturating_add(self.correction_ms + event_ms);
        let behind_ms =
            self.timestamp_ms.saturating_sub(first_ms).saturating_add(UPTIME_WRAP_MS / 2);
        self.if_possible(first_ms + behind_ms.div_euclid(UPTIME_WRAP_MS) * UPTIME_WRAP_MS)
    }

    /// A time of the exporter's clock.
    #[must_use]
    pub fn at_absolute(&self, event_ms: u64) -> i64 {
        let event_ms = i64::try_from(event_ms).unwrap_or(i64::MAX);
        self.if_possible(event_ms.saturating_add(self.correction_ms))
    }

    /// A time so long before the export, RFC 5102 section 5.9.9.
    #[must_use]
    pub fn before_export(&self, micros: u64) -> i64 {
        self.if_possible(self.timestamp_ms - i64::try_from(micros / 1_000).unwrap_or(0))
    }

    /// The export time instead of a time that no flow can have had: before the year 2000, which is what
    /// exporters without a clock or without a value send, or further in the future than clocks are apart.
    fn if_possible(&self, event_ms: i64) -> i64 {
        if self.is_possible(event_ms) { event_ms } else { self.timestamp_ms }
    }

    /// Whether a flow can have been then.
    #[must_use]
    pub fn is_possible(&self, event_ms: i64) -> bool {
        (TIME_BEGIN_MS..=self.latest_ms).contains(&event_ms)
    }
}

/// An uptime counts in 32 bits, whatever the field's length.
fn low_bits(uptime_ms: u64) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "the bits above have wrapped")]
    {
        uptime_ms as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    const NOW_MS: i64 = 1_700_000_000_000;

    #[test]
    fn an_event_before_the_uptime_wrapped_is_in_the_past() {
        let timing = Timing::new(NOW_MS, NOW_MS, Some(500), HOUR);
        assert_eq!(timing.at_uptime(u64::from(u32::MAX) - 499), NOW_MS - 1_000);
        assert_eq!(timing.at_uptime(700), NOW_MS + 200);
    }

    #[test]
    fn an_uptime_of_eight_bytes_may_be_one_or_a_time_since_1970() {
        let timing = Timing::new(NOW_MS, NOW_MS, Some(60_000), HOUR);
        assert_eq!(timing.at_uptime(50_000), NOW_MS - 10_000);
        assert_eq!(timing.at_uptime(5 << 32 | 50_000), NOW_MS - 10_000);
        assert_eq!(timing.at_uptime(1_699_999_999_000), NOW_MS - 1_000);
    }

    #[test]
    fn an_event_after_the_announced_start_is_placed_near_the_export() {
        let mut timing = Timing::new(NOW_MS, NOW_MS, None, HOUR);
        assert_eq!(timing.at_uptime(5), NOW_MS, "nobody said when the exporter started");
        timing.boot_ms = Some(NOW_MS - 60_000);
        assert_eq!(timing.at_uptime(50_000), NOW_MS - 10_000);
        timing.boot_ms = Some(NOW_MS - 60_000 - 3 * UPTIME_WRAP_MS);
        assert_eq!(timing.at_uptime(50_000), NOW_MS - 10_000, "three wraps later");
    }

    #[test]
    fn a_clock_beyond_the_threshold_is_corrected_and_said() {
        let timing = Timing::new(1_000, NOW_MS, None, HOUR);
        assert_eq!((timing.timestamp_ms, timing.correction_ms), (NOW_MS, NOW_MS - 1_000));
        assert_eq!(timing.at_absolute(400), NOW_MS - 600);
        let timing = Timing::new(NOW_MS - 3_600_000, NOW_MS, None, HOUR);
        assert_eq!((timing.timestamp_ms, timing.correction_ms), (NOW_MS - 3_600_000, 0));
    }

    #[test]
    fn times_that_cannot_be_are_the_export_time() {
        let timing = Timing::new(NOW_MS, NOW_MS, Some(60_000), HOUR);
        assert_eq!(timing.at_absolute(0), NOW_MS);
        assert_eq!(timing.at_absolute(5_000), NOW_MS, "1970");
        assert_eq!(timing.at_absolute(u64::from(u32::MAX) * 1_000), NOW_MS, "2106");
        assert_eq!(timing.at_absolute(u64::MAX), NOW_MS);
        assert_eq!(timing.at_absolute(NOW_MS.unsigned_abs() + 3_600_000), NOW_MS + 3_600_000);
        assert_eq!(timing.at_uptime(60_000 + 3_600_001), NOW_MS, "after the export");
    }
}
