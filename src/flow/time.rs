//! Times for people.

use super::DAY_MS;

/// A time as `2027-01-15 08:00:00.000`, UTC.
#[must_use]
pub fn utc(unix_ms: i64) -> String {
    let (days, ms) = (unix_ms.div_euclid(DAY_MS), unix_ms.rem_euclid(DAY_MS));
    let (year, month, day) = civil(days);
    let (hours, minutes) = (ms / 3_600_000, ms / 60_000 % 60);
    let (seconds, ms) = (ms / 1_000 % 60, ms % 1_000);
    format!("{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02}.{ms:03}")
}

/// The Gregorian date so many days after 1970-01-01. Years begin in March, so that a leap day ends one; 400
/// of them have 146,097 days.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468; // from 0000-03-01
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // from March
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + carry, month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_utc() {
        assert_eq!(utc(0), "1970-01-01 00:00:00.000");
        assert_eq!(utc(951_782_400_001), "2000-02-29 00:00:00.001");
        assert_eq!(utc(1_800_000_000_000), "2027-01-15 08:00:00.000");
        assert_eq!(utc(-1), "1969-12-31 23:59:59.999");
        drop(utc(i64::MAX));
        drop(utc(i64::MIN));
    }
}
