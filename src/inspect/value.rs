//! Values as text: by the type that their element has, else as bytes.
//!
//! Whatever was captured can be in a value. Text is escaped, so that it cannot steer a terminal, and what is
//! long is cut and said to be.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::elements::DataType;
use crate::flow::utc;

/// Bytes of a value that are shown.
const SHOWN_BYTES_MAX: usize = 64;

/// Characters of a text that are shown.
const SHOWN_CHARS_MAX: usize = 256;

/// Seconds from 1900, where NTP counts from, to 1970.
const NTP_TO_UNIX_SECONDS: i64 = 2_208_988_800;

/// A value of this type; bytes where it has none or they do not fit.
pub(super) fn show(bytes: &[u8], data_type: Option<DataType>) -> String {
    data_type.and_then(|data_type| typed(bytes, data_type)).unwrap_or_else(|| hex(bytes))
}

/// A number, if it can be one.
pub(super) fn show_number(bytes: &[u8]) -> String {
    unsigned(bytes).map_or_else(|| hex(bytes), |number| number.to_string())
}

fn typed(bytes: &[u8], data_type: DataType) -> Option<String> {
    let millis = |bytes, scale: i64| i64::try_from(unsigned(bytes)?).ok()?.checked_mul(scale);
    Some(match data_type {
        DataType::Unsigned8
        | DataType::Unsigned16
        | DataType::Unsigned32
        | DataType::Unsigned64 => unsigned(bytes)?.to_string(),
        DataType::Signed8 | DataType::Signed16 | DataType::Signed32 | DataType::Signed64 => {
            signed(bytes)?.to_string()
        }
        DataType::Float32 | DataType::Float64 => match *bytes {
            [a, b, c, d] => f32::from_be_bytes([a, b, c, d]).to_string(),
            _ => f64::from_be_bytes(bytes.try_into().ok()?).to_string(),
        },
        DataType::Boolean => match bytes {
            [1] => "true".to_owned(),
            [2] => "false".to_owned(),
            _ => return None,
        },
        DataType::MacAddress => {
            let [a, b, c, d, e, f] = *bytes.first_chunk::<6>().filter(|_| bytes.len() == 6)?;
            format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
        }
        DataType::String => text(bytes),
        DataType::DateTimeSeconds => utc(millis(bytes, 1_000)?),
        DataType::DateTimeMilliseconds => utc(millis(bytes, 1)?),
        DataType::DateTimeMicroseconds => ntp(bytes, 6)?,
        DataType::DateTimeNanoseconds => ntp(bytes, 9)?,
        DataType::Ipv4Address => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).to_string(),
        DataType::Ipv6Address => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string(),
        DataType::OctetArray
        | DataType::Unsigned256
        | DataType::BasicList
        | DataType::SubTemplateList
        | DataType::SubTemplateMultiList => return None,
    })
}

/// Big-endian, in as many bytes as were sent (RFC 7011 section 6.2).
fn unsigned(bytes: &[u8]) -> Option<u64> {
    let fits = (1..=8).contains(&bytes.len());
    fits.then(|| bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn signed(bytes: &[u8]) -> Option<i64> {
    let unused_bits = 64 - 8 * u32::try_from(bytes.len()).ok()?.min(8);
    Some(unsigned(bytes)?.checked_shl(unused_bits)?.cast_signed() >> unused_bits)
}

/// In quotes, escaped, without the zeros that fill it up.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let whole = String::from_utf8_lossy(&bytes[..end]);
    let shown: String = whole.chars().take(SHOWN_CHARS_MAX).collect();
    let cut = if shown.len() < whole.len() {
        format!("... ({} bytes)", bytes.len())
    } else {
        String::new()
    };
    format!("\"{}\"{cut}", shown.escape_debug())
}

/// Two digits a byte; `(empty)` without any.
pub(super) fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "(empty)".to_owned();
    }
    let mut text = "0x".to_owned();
    for byte in &bytes[..bytes.len().min(SHOWN_BYTES_MAX)] {
        // Writing to a string cannot fail.
        _ = write!(text, "{byte:02x}");
    }
    if bytes.len() > SHOWN_BYTES_MAX {
        _ = write!(text, "... ({} bytes)", bytes.len());
    }
    text
}

/// An NTP timestamp to so many digits of a second, RFC 7011 sections 6.1.9 and 6.1.10.
fn ntp(bytes: &[u8], digits: usize) -> Option<String> {
    let value = u64::from_be_bytes(bytes.try_into().ok()?);
    let (seconds, fraction) = ((value >> 32).cast_signed(), value & u64::from(u32::MAX));
    let nanos = (fraction * 1_000_000_000) >> 32;
    let whole = utc((seconds - NTP_TO_UNIX_SECONDS) * 1_000);
    let (whole, _) = whole.rsplit_once('.')?;
    let fraction: String = format!("{nanos:09}").chars().take(digits).collect();
    Some(format!("{whole}.{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_and_what_steers_terminals_is_escaped() {
        let shown = show(b"\x1b[2J\n\0\0", Some(DataType::String));
        assert_eq!(shown, r#""\u{1b}[2J\n""#);
        let shown = show(&[b'a'; 300], Some(DataType::String));
        assert!(shown.ends_with("aaa\"... (300 bytes)") && shown.len() < 300, "{shown}");
        let shown = show(&[0xab; 65], None);
        assert!(shown.starts_with("0xabab") && shown.ends_with("ab... (65 bytes)"), "{shown}");
        assert_eq!(show(&[], Some(DataType::String)), "\"\"");
        assert_eq!(show(&[], None), "(empty)");
    }

    #[test]
    fn numbers_of_any_length_are_read_and_others_are_bytes() {
        assert_eq!(show(&[1, 0, 0, 0, 0], Some(DataType::Unsigned64)), "4294967296");
        assert_eq!(show(&[0xff; 3], Some(DataType::Signed32)), "-1");
        assert_eq!(show(&[0xff; 8], Some(DataType::Signed64)), "-1");
        assert_eq!(show(&[0xff; 9], Some(DataType::Unsigned64)), "0xffffffffffffffffff");
        assert_eq!(show(&[1, 2, 3], Some(DataType::Ipv4Address)), "0x010203");
        assert_eq!(show(&[2], Some(DataType::Boolean)), "false");
        assert_eq!(show(&1.5f32.to_be_bytes(), Some(DataType::Float64)), "1.5");
    }

    #[test]
    fn ntp_timestamps_are_shown_in_utc() {
        let ntp = (u64::try_from(1_800_000_000 + NTP_TO_UNIX_SECONDS).unwrap() << 32) | 0x8000_0000;
        let shown = show(&ntp.to_be_bytes(), Some(DataType::DateTimeMicroseconds));
        assert_eq!(shown, "2027-01-15 08:00:00.500000");
    }
}
