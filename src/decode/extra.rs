//! Elements without a column, as text, for receivers that keep them in `extra`.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::elements::{DataType, registry};
use crate::flow::{COLUMNS, Chunk, Column};

use super::interface_names::INTERFACE_NAMES;
use super::options::unsigned;
use super::records::{Place, Records};
use super::section;
use super::steps::read_text;
use super::template::Field;

/// Entries of one row. The widest template of the captures has 61 elements without a column; a queue of rows
/// with as many entries as a template has fields would have no bound in memory worth the name.
const ENTRIES_MAX: usize = 64;

/// Bytes of a value that are shown in hexadecimal. Structured data and vendors' octets can be far longer.
const HEX_BYTES_MAX: usize = 64;

/// paddingOctets, RFC 5102 section 5.12.1: nobody's value.
const PADDING: u16 = 210;

/// The elements of a template that no column takes.
#[derive(Debug)]
pub(super) struct Extra {
    entries: Vec<Entry>,
    /// Elements beyond [`ENTRIES_MAX`].
    left_out: u64,
}

#[derive(Debug)]
struct Entry {
    name: String,
    data_type: DataType,
    place: Place,
}

impl Extra {
    pub(super) fn of(fields: &[Field], places: &[Place]) -> Self {
        let unknown = fields.iter().zip(places).filter(|(field, _)| has_no_column(field));
        let mut entries: Vec<_> = unknown.map(|(field, place)| Entry::of(field, *place)).collect();
        let left_out = entries.len().saturating_sub(ENTRIES_MAX) as u64;
        entries.truncate(ENTRIES_MAX);
        Self { entries, left_out }
    }

    /// Writes what the records have; empty values are left out. Returns how many values had no room.
    pub(super) fn write(&self, records: &impl Records, chunk: &mut Chunk) -> u64 {
        if self.entries.is_empty() {
            return 0;
        }
        let keys = self.entries.iter().map(|entry| chunk.intern_key(Column::Extra, &entry.name));
        let keys: Vec<Option<u16>> = keys.collect();
        let without_key = keys.iter().filter(|key| key.is_none()).count() as u64;
        let mut text = String::new();
        chunk.put_maps(Column::Extra, records.count(), |record, map| {
            for (entry, key) in self.entries.iter().zip(&keys) {
                let Some(key) = *key else { continue };
                text.clear();
                entry.show(records.value(record, entry.place), &mut text);
                if !text.is_empty() {
                    map.put(key, &text);
                }
            }
        });
        (self.left_out + without_key) * records.count() as u64
    }
}

fn has_no_column(field: &Field) -> bool {
    let is_source = || {
        let mut sources = COLUMNS.iter().flat_map(|column| column.sources);
        sources.any(|source| (source.enterprise, source.id) == (field.enterprise, field.id))
    };
    let is_known = field.is_iana(&[PADDING]) || field.is_iana(&INTERFACE_NAMES);
    !is_known && !section::is_section(field) && !is_source()
}

impl Entry {
    /// What the registry does not know is called by its number, and its bytes are shown.
    fn of(field: &Field, place: Place) -> Self {
        let element = registry().find_source(field.enterprise, field.id);
        let number = || match field.enterprise {
            0 => field.id.to_string(),
            enterprise => format!("{enterprise}/{}", field.id),
        };
        Self {
            name: element.map_or_else(number, |element| element.name.to_string()),
            data_type: element.map_or(DataType::OctetArray, |element| element.data_type),
            place,
        }
    }

    fn show(&self, value: &[u8], text: &mut String) {
        let is_shown = self.show_typed(value, text);
        if is_shown.is_none() {
            show_hex(value, text);
        }
    }

    /// `None` for bytes that the element's type cannot have.
    fn show_typed(&self, value: &[u8], text: &mut String) -> Option<()> {
        use DataType::{
            Boolean, DateTimeMilliseconds, DateTimeSeconds, Float32, Float64, Ipv4Address,
            Ipv6Address, MacAddress, Signed8, Signed16, Signed32, Signed64, String, Unsigned8,
            Unsigned16, Unsigned32, Unsigned64,
        };
        let shown = match (self.data_type, value.len()) {
            (_, 0) => Ok(()),
            (
                Unsigned8 | Unsigned16 | Unsigned32 | Unsigned64 | Boolean | DateTimeSeconds
                | DateTimeMilliseconds,
                1..=8,
            ) => write!(text, "{}", unsigned(value)),
            (Signed8 | Signed16 | Signed32 | Signed64, 1..=8) => write!(text, "{}", signed(value)),
            (Float32 | Float64, 4) => {
                write!(text, "{}", f32::from_be_bytes(*value.first_chunk()?))
            }
            (Float64, 8) => write!(text, "{}", f64::from_be_bytes(*value.first_chunk()?)),
            (Ipv4Address, 4) => {
                write!(text, "{}", Ipv4Addr::from(*value.first_chunk::<4>()?))
            }
            (Ipv6Address, 16) => {
                write!(text, "{}", Ipv6Addr::from(*value.first_chunk::<16>()?))
            }
            (MacAddress, 6) => write_mac(value, text),
            (String, _) => {
                text.push_str(&read_text(value));
                Ok(())
            }
            _ => return None,
        };
        shown.ok()
    }
}

/// Two's complement of any length, RFC 7011 section 6.2.
#[expect(clippy::cast_possible_wrap, reason = "the bits are read as signed on purpose")]
fn signed(value: &[u8]) -> i64 {
    let unused_bits = 64 - 8 * value.len().clamp(1, 8);
    ((unsigned(value) << unused_bits) as i64) >> unused_bits
}

fn write_mac(value: &[u8], text: &mut String) -> std::fmt::Result {
    for (index, byte) in value.iter().enumerate() {
        let separator = if index == 0 { "" } else { ":" };
        write!(text, "{separator}{byte:02x}")?;
    }
    Ok(())
}

fn show_hex(value: &[u8], text: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.push_str("0x");
    for byte in value.iter().take(HEX_BYTES_MAX) {
        text.push(DIGITS[usize::from(byte >> 4)].into());
        text.push(DIGITS[usize::from(byte & 15)].into());
    }
    if value.len() > HEX_BYTES_MAX {
        text.push('\u{2026}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(data_type: DataType, value: &[u8]) -> String {
        let place = Place::Fixed { segment: 0, offset: 0, length: value.len() };
        let mut text = String::new();
        Entry { name: String::new(), data_type, place }.show(value, &mut text);
        text
    }

    #[test]
    fn values_are_shown_by_their_type_and_by_their_bytes_when_they_cannot_be_it() {
        assert_eq!(shown(DataType::Unsigned32, &[1, 0]), "256");
        assert_eq!(shown(DataType::Signed32, &[0xff, 0xfe]), "-2");
        assert_eq!(shown(DataType::Float64, &1.5_f64.to_be_bytes()), "1.5");
        assert_eq!(shown(DataType::Float64, &1.5_f32.to_be_bytes()), "1.5");
        assert_eq!(shown(DataType::Ipv4Address, &[192, 0, 2, 1]), "192.0.2.1");
        assert_eq!(shown(DataType::MacAddress, &[0, 1, 2, 3, 4, 0xff]), "00:01:02:03:04:ff");
        assert_eq!(shown(DataType::String, b"name\0\0"), "name");
        assert_eq!(shown(DataType::Ipv4Address, &[1, 2, 3]), "0x010203");
        assert_eq!(shown(DataType::OctetArray, &[]), "");
        let long = shown(DataType::OctetArray, &[0xab; 65]);
        assert_eq!(long, format!("0x{}\u{2026}", "ab".repeat(64)));
    }
}
