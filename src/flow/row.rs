//! One flow of a chunk as a JSON object, for `decode`, dead letters and tests.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::time::utc;
use super::{Chunk, Column, Kind};

/// A row of a chunk. Serialises as a map from column name to value; columns at their default are left
/// out, addresses are text (IPv4 unmapped), times are milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    chunk: &'a Chunk,
    row: usize,
}

/// A row whose values are all text, as ClickHouse reads them back into any type of column: numbers in
/// quotes, times in UTC, addresses of IPv4 mapped.
#[derive(Clone, Copy, Debug)]
pub struct TextRow<'a>(pub Row<'a>);

/// The value of one column.
enum Value<'a> {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Time(i64),
    Address(Ipv6Addr),
    Text(&'a str),
    List(Vec<u32>),
    Map(BTreeMap<&'a str, Cow<'a, str>>),
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
            Kind::UInt8 => self.bytes::<1>(column)[0].into(),
            Kind::UInt16 => u16::from_le_bytes(self.bytes(column)).into(),
            Kind::UInt32 => u32::from_le_bytes(self.bytes(column)).into(),
            Kind::UInt64 => u64::from_le_bytes(self.bytes(column)),
            _ => 0,
        }
    }

    /// A text; empty for other kinds.
    #[must_use]
    pub fn text(&self, column: Column) -> &'a str {
        if column.spec().kind == Kind::Text { self.chunk.text(column, self.row) } else { "" }
    }

    /// The columns that are not at their default.
    fn values(self) -> impl Iterator<Item = (&'static str, Value<'a>)> {
        let known = move |&column: &Column| Some((column.name(), self.value(column)?));
        Column::ALL.iter().filter_map(known)
    }

    fn value(&self, column: Column) -> Option<Value<'a>> {
        Some(match column.spec().kind {
            Kind::UInt8 | Kind::UInt16 | Kind::UInt32 | Kind::UInt64 => {
                Value::Unsigned(Some(self.unsigned(column)).filter(|&value| value != 0)?)
            }
            Kind::Int64 => Value::Signed(self.signed(column)?),
            Kind::Time => Value::Time(self.signed(column)?),
            Kind::Float64 => {
                let value = f64::from_le_bytes(self.bytes(column));
                Value::Float(Some(value).filter(|&value| value != 0.0)?)
            }
            Kind::Address => {
                let address = Ipv6Addr::from(self.bytes::<16>(column));
                Value::Address(Some(address).filter(|address| !address.is_unspecified())?)
            }
            Kind::Text => Value::Text(Some(self.text(column)).filter(|text| !text.is_empty())?),
            Kind::UInt32List => {
                let list: Vec<u32> = self.chunk.list(column, self.row).collect();
                Value::List(Some(list).filter(|list| !list.is_empty())?)
            }
            Kind::TextMap => {
                let map: BTreeMap<_, _> = self.chunk.map(column, self.row).collect();
                Value::Map(Some(map).filter(|map| !map.is_empty())?)
            }
        })
    }

    fn signed(&self, column: Column) -> Option<i64> {
        Some(i64::from_le_bytes(self.bytes(column))).filter(|&value| value != 0)
    }

    fn bytes<const N: usize>(&self, column: Column) -> [u8; N] {
        self.chunk.value(column, self.row)
    }
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.values() {
            match value {
                Value::Unsigned(value) => map.serialize_entry(name, &value),
                Value::Signed(value) | Value::Time(value) => map.serialize_entry(name, &value),
                Value::Float(value) => map.serialize_entry(name, &value),
                Value::Address(address) => map.serialize_entry(name, &address.to_canonical()),
                Value::Text(text) => map.serialize_entry(name, text),
                Value::List(list) => map.serialize_entry(name, &list),
                Value::Map(entries) => map.serialize_entry(name, &entries),
            }?;
        }
        map.end()
    }
}

impl Serialize for TextRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.0.values() {
            match value {
                Value::Unsigned(value) => map.serialize_entry(name, &value.to_string()),
                Value::Signed(value) => map.serialize_entry(name, &value.to_string()),
                Value::Time(unix_ms) => map.serialize_entry(name, &utc(unix_ms)),
                Value::Float(value) => map.serialize_entry(name, &value.to_string()),
                Value::Address(address) => map.serialize_entry(name, &address),
                Value::Text(text) => map.serialize_entry(name, text),
                Value::List(list) => {
                    let list: Vec<String> = list.iter().map(u32::to_string).collect();
                    map.serialize_entry(name, &list)
                }
                Value::Map(entries) => map.serialize_entry(name, &entries),
            }?;
        }
        map.end()
    }
}
