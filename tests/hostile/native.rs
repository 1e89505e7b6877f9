//! Reads a block of ClickHouse's Native format as far as its lengths, and fails where they do not fit.

use std::collections::BTreeMap;

/// What one block holds.
#[derive(Debug, Default)]
pub struct Block {
    pub rows: usize,
    /// Bytes of the values of each column, by name; of texts the dictionary and the indices.
    pub columns: BTreeMap<String, Vec<u8>>,
}

/// Bytes of a frame before its data: checksum, method, two lengths.
const FRAME_HEAD_BYTES: usize = 16 + 1 + 4 + 4;

/// What the dictionary of a column begins with.
const KEYS_VERSION: u64 = 1;

/// Takes frames that are not compressed apart and reads the block in them.
pub fn read(frames: &[u8]) -> Block {
    let mut plain = Vec::new();
    let mut rest = frames;
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[21..25].try_into().unwrap()) as usize;
        plain.extend_from_slice(&rest[FRAME_HEAD_BYTES..FRAME_HEAD_BYTES + length]);
        rest = &rest[FRAME_HEAD_BYTES + length..];
    }
    let mut cursor = Cursor(&plain);
    let (columns, rows) = (cursor.length(), cursor.length());
    let mut block = Block { rows, ..Block::default() };
    for _ in 0..columns {
        let (name, kind) = (cursor.text(), cursor.text());
        let values = cursor.0;
        match kind.as_str() {
            "LowCardinality(String)" => {
                assert_eq!(cursor.u64(), KEYS_VERSION);
                cursor.low_cardinality(rows);
            }
            "Map(LowCardinality(String), String)" => {
                assert_eq!(cursor.u64(), KEYS_VERSION);
                let ends = cursor.take(8 * rows);
                let pairs = ends.last_chunk().map_or(0, |end| u64::from_le_bytes(*end));
                if pairs > 0 {
                    cursor.low_cardinality(usize::try_from(pairs).unwrap());
                }
                (0..pairs).for_each(|_| drop(cursor.text()));
            }
            "Array(UInt32)" => {
                let ends = cursor.take(8 * rows);
                let items = ends.last_chunk().map_or(0, |end| u64::from_le_bytes(*end));
                cursor.take(4 * usize::try_from(items).unwrap());
            }
            fixed => drop(cursor.take(width(fixed) * rows)),
        }
        let bytes = values[..values.len() - cursor.0.len()].to_vec();
        assert!(block.columns.insert(name, bytes).is_none(), "a column twice");
    }
    assert!(cursor.0.is_empty(), "bytes behind the last column");
    block
}

fn width(kind: &str) -> usize {
    match kind {
        "UInt8" => 1,
        "UInt16" => 2,
        "UInt32" => 4,
        "UInt64" | "Int64" | "Float64" | "DateTime64(3, 'UTC')" => 8,
        "IPv6" => 16,
        other => panic!("no column has the type {other}"),
    }
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(length);
        self.0 = rest;
        head
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }

    /// LEB128.
    fn length(&mut self) -> usize {
        let mut length = 0;
        for shift in (0..).step_by(7) {
            let byte = self.take(1)[0];
            length |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        length
    }

    fn text(&mut self) -> String {
        let length = self.length();
        String::from_utf8(self.take(length).to_vec()).unwrap()
    }

    /// Flags with the width of the indices, the dictionary, and an index for each row.
    fn low_cardinality(&mut self, rows: usize) {
        let index_bytes = 1 << (self.u64() & 0xff);
        let texts = self.u64();
        (0..texts).for_each(|_| drop(self.text()));
        assert_eq!(self.u64(), rows as u64);
        for index in self.take(rows * index_bytes).chunks_exact(index_bytes) {
            let mut wide = [0; 8];
            wide[..index_bytes].copy_from_slice(index);
            assert!(u64::from_le_bytes(wide) < texts, "an index beyond the dictionary");
        }
    }
}
