//! Durations (`"1500ms"`, `"2s"`), sizes (`"32MiB"`) and prefixes (`"192.0.2.0/24"`) as people write them.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

const DURATION_UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

const SIZE_UNITS: [(&str, u64); 4] =
    [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("B", 1)];

/// A whole number and a unit: ms, s, m, h or d.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    parse_with_unit(text, &DURATION_UNITS).map(Duration::from_millis)
}

/// A whole number and a unit: B, KiB, MiB or GiB.
pub fn parse_bytes(text: &str) -> Option<u64> {
    parse_with_unit(text, &SIZE_UNITS)
}

/// A duration in the largest unit that shows it exactly.
#[must_use]
pub fn show_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    show_with_unit(millis, &DURATION_UNITS)
}

/// A size in the largest unit that shows it exactly.
#[must_use]
pub fn show_bytes(bytes: u64) -> String {
    show_with_unit(bytes, &SIZE_UNITS)
}

/// A prefix, or an address, which is a prefix of its whole length. Bits behind the length must be 0: whoever
/// wrote them meant something else.
pub fn parse_prefix(text: &str) -> Option<IpNet> {
    match text.parse::<IpAddr>() {
        Ok(address) => Some(address.into()),
        Err(_) => text.parse::<IpNet>().ok().filter(|prefix| prefix.trunc() == *prefix),
    }
}

fn parse_with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn show_with_unit(value: u64, units: &[(&str, u64)]) -> String {
    let exact = units.iter().filter(|(_, factor)| value != 0 && value.is_multiple_of(*factor));
    let (name, factor) = exact.max_by_key(|(_, factor)| *factor).unwrap_or(&units[0]);
    format!("{}{name}", value / factor)
}

/// Whether a text can be a part of metric labels, table names and environment variables.
pub(super) fn is_short_name(text: &str) -> bool {
    let is_allowed = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-')
    };
    (1..=32).contains(&text.len()) && text.bytes().all(is_allowed)
}
