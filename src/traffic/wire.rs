//! Numbers cut to the width that they have on the wire, or that a table look-up needs.

/// Whole seconds of an export header, which has 32 bits until 2106.
pub(super) fn seconds(unix_ms: u64) -> u32 {
    low_u32(unix_ms / 1_000)
}

#[expect(clippy::cast_possible_truncation, reason = "counters on the wire wrap at 32 bits")]
pub(super) fn low_u32(value: u64) -> u32 {
    value as u32
}

#[expect(clippy::cast_possible_truncation, reason = "takes the low bits of a random word")]
pub(super) fn low_u16(word: u64) -> u16 {
    word as u16
}
