//! Texts of agents, which may hold anything.

/// Of a `DisplayString`, RFC 2579; ifAlias is shorter.
const TEXT_BYTES_MAX: usize = 255;

/// A text as it is kept: of what is no UTF-8 something is shown, control characters (agents of C end texts
/// with NUL) are left out, and what is too long is cut.
pub(super) fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let shown: String = text.chars().filter(|c| !c.is_control()).collect();
    let mut kept = shown.trim().to_owned();
    kept.truncate(kept.floor_char_boundary(TEXT_BYTES_MAX));
    kept
}
