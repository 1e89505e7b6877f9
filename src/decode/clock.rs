//! From the exporter's clock to times in a row.

use std::time::Duration;

/// The year 2300, where ClickHouse's `DateTime64` ends.
const TIME_END_MS: i64 = 10_413_792_000_000;

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
        Self { timestamp_ms, received_ms, correction_ms, uptime_ms, boot_ms: None }
    }

    /// The time of an event at `event_ms` of the exporter's uptime. The uptime wraps after 49.7 days;
    /// the nearer of the two readings is meant, so an event up to 24.8 days back is placed right.
    #[must_use]
    #[expect(
        clippy::cast_possible_wrap,
        reason = "the wrapped difference is read as signed on purpose"
    )]
    pub fn at_uptime(&self, event_ms: u32) -> i64 {
        match (self.uptime_ms, self.boot_ms) {
            (Some(now_ms), _) => {
                self.timestamp_ms - i64::from(now_ms.wrapping_sub(event_ms) as i32)
            }
            (None, Some(boot_ms)) => self.after_boot(boot_ms, event_ms),
            (None, None) => self.timestamp_ms,
        }
    }

    /// The time of an event so long after the exporter started; the uptime may have wrapped since.
    #[must_use]
    pub fn after_boot(&self, boot_ms: i64, event_ms: u32) -> i64 {
        let first_ms = boot_ms.saturating_add(self.correction_ms + i64::from(event_ms));
        let behind_ms =
            self.timestamp_ms.saturating_sub(first_ms).saturating_add(UPTIME_WRAP_MS / 2);
        first_ms + behind_ms.div_euclid(UPTIME_WRAP_MS) * UPTIME_WRAP_MS
    }

    /// A time of the exporter's clock; one that cannot be, or 0, is taken to be the export time.
    #[must_use]
    pub fn at_absolute(&self, event_ms: u64) -> i64 {
        match i64::try_from(event_ms) {
            Ok(event_ms @ 1..TIME_END_MS) => event_ms + self.correction_ms,
            _ => self.timestamp_ms,
        }
    }

    /// A time so long before the export, RFC 5102 section 5.9.9.
    #[must_use]
    pub fn before_export(&self, micros: u64) -> i64 {
        self.timestamp_ms - i64::try_from(micros / 1_000).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn an_event_before_the_uptime_wrapped_is_in_the_past() {
        let timing = Timing::new(1_000_000, 1_000_000, Some(500), HOUR);
        assert_eq!(timing.at_uptime(u32::MAX - 499), 1_000_000 - 1_000);
        assert_eq!(timing.at_uptime(700), 1_000_200);
    }

    #[test]
    fn an_event_after_the_announced_start_is_placed_near_the_export() {
        let export_ms = 1_700_000_000_000;
        let mut timing = Timing::new(export_ms, export_ms, None, HOUR);
        assert_eq!(timing.at_uptime(5), export_ms, "nobody said when the exporter started");
        timing.boot_ms = Some(export_ms - 60_000);
        assert_eq!(timing.at_uptime(50_000), export_ms - 10_000);
        timing.boot_ms = Some(export_ms - 60_000 - 3 * UPTIME_WRAP_MS);
        assert_eq!(timing.at_uptime(50_000), export_ms - 10_000, "three wraps later");
    }

    #[test]
    fn a_clock_beyond_the_threshold_is_corrected_and_said() {
        let timing = Timing::new(1_000, 3_601_001, None, HOUR);
        assert_eq!((timing.timestamp_ms, timing.correction_ms), (3_601_001, 3_600_001));
        assert_eq!(timing.at_absolute(400), 3_600_401);
        let timing = Timing::new(1_000, 3_601_000, None, HOUR);
        assert_eq!((timing.timestamp_ms, timing.correction_ms), (1_000, 0));
    }
}
