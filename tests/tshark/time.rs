//! Times as tshark shows them.

/// Milliseconds of `6.330000000`.
pub fn seconds_ms(text: &str) -> Option<i64> {
    let (seconds, fraction) = text.split_once('.')?;
    let millis: i64 = fraction.get(..3)?.parse().ok()?;
    Some(seconds.parse::<i64>().ok()? * 1_000 + millis)
}

/// Milliseconds since 1970 of `Nov 14, 2023 22:13:26.000000000 UTC`.
pub fn date_ms(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_whitespace().collect();
    let [month, day, year, time, "UTC"] = words[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)?;
    let day: i64 = day.strip_suffix(',')?.parse().ok()?;
    let year: i64 = year.parse().ok().filter(|year| (1_900..10_000).contains(year))?;
    let (clock, fraction) = time.split_once('.')?;
    let mut seconds = 0;
    for part in clock.split(':') {
        seconds = seconds * 60 + part.parse::<i64>().ok()?;
    }
    let millis: i64 = fraction.get(..3)?.parse().ok()?;
    Some((days_before(year, month) + day - 1) * 86_400_000 + seconds * 1_000 + millis)
}

/// Days from 1970 to the first of a month; the first month is 0.
fn days_before(year: i64, month: usize) -> i64 {
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let years: i64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    let months: i64 = days[..month].iter().sum();
    years + months + i64::from(month > 1 && is_leap(year))
}
