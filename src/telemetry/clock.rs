//! The wall clock, as the columns and the management API have it.

use std::time::SystemTime;

/// Milliseconds since 1970.
#[must_use]
pub fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
