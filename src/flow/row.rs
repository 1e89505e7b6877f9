//! One flow of a chunk as a JSON object, for `decode`, dead letters and tests.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{Chunk, Column, Kind};

/// A row of a chunk. Serialises as a map from column name to value; columns at their default are left
/// out, addresses are text (IPv4 unmapped), times are milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    chunk: &'a Chunk,
    row: usize,
}

impl<'a> Row<'a> {
    /// The row number `row` of `chunk`.
    #[must_use]
    pub fn new(chunk: &'a Chunk, row: usize) -> Self {
        Self { chunk, row }
    }

    /// An unsigned value of up to 8 bytes; 0 for other kinds.
    #[must_use]
    pub fn unsigned(&self, column: Column) -> u64 {
        match column.spec().kind {
            Kind::UInt8 => self.value::<1>(column)[0].into(),
            Kind::UInt16 => u16::from_le_bytes(self.value(column)).into(),
            Kind::UInt32 => u32::from_le_bytes(self.value(column)).into(),
            Kind::UInt64 => u64::from_le_bytes(self.value(column)),
            _ => 0,
        }
    }

    fn value<const N: usize>(&self, column: Column) -> [u8; N] {
        self.chunk.value(column, self.row)
    }
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for &column in Column::ALL {
            let name = column.name();
            match column.spec().kind {
                Kind::UInt8 | Kind::UInt16 | Kind::UInt32 | Kind::UInt64 => {
                    let value = self.unsigned(column);
                    if value != 0 {
                        map.serialize_entry(name, &value)?;
                    }
                }
                Kind::Int64 | Kind::Time => {
                    let value = i64::from_le_bytes(self.value(column));
                    if value != 0 {
                        map.serialize_entry(name, &value)?;
                    }
                }
                Kind::Float64 => {
                    let value = f64::from_le_bytes(self.value(column));
                    if value != 0.0 {
                        map.serialize_entry(name, &value)?;
                    }
                }
                Kind::Address => {
                    let address = Ipv6Addr::from(self.value::<16>(column));
                    if !address.is_unspecified() {
                        map.serialize_entry(name, &address.to_canonical())?;
                    }
                }
                Kind::Text => {
                    let text = self.chunk.text(column, self.row);
                    if !text.is_empty() {
                        map.serialize_entry(name, text)?;
                    }
                }
                Kind::UInt32List => {
                    let list: Vec<u32> = self.chunk.list(column, self.row).collect();
                    if !list.is_empty() {
                        map.serialize_entry(name, &list)?;
                    }
                }
                Kind::TextMap => {
                    let entries: BTreeMap<_, _> = self.chunk.map(column, self.row).collect();
                    if !entries.is_empty() {
                        map.serialize_entry(name, &entries)?;
                    }
                }
            }
        }
        map.end()
    }
}
