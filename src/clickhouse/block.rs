//! An encoded batch back to rows: for dead letters, for the search for a row that ClickHouse refuses, and
//! for batches that come from disk.
//!
//! Reads what `native.rs` and `frames.rs` write, nothing else.

use std::ops::Range;

use crate::flow::{CHUNK_ROWS_MAX, Chunk, Column, Kind};

use super::{frames, native};

/// Rows of a chunk when the batch has more keys of maps than a chunk has indices: a row has up to 64 entries.
const ROWS_OF_MANY_KEYS_MAX: usize = u16::MAX as usize / 64;

/// The rows of a batch.
#[derive(Debug)]
pub struct Block {
    rows: usize,
    columns: Vec<(Column, Values)>,
}

/// The bytes are not those of a batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the batch is damaged")]
pub struct Damaged;

/// The values of one column.
#[derive(Debug)]
enum Values {
    /// Of the column's width each.
    Fixed(Vec<u8>),
    Texts(Texts),
    /// Where the list of each row ends, and the elements of all.
    Lists {
        ends: Vec<usize>,
        items: Vec<u32>,
    },
    /// Where the map of each row ends, the keys and the values of all.
    Maps {
        ends: Vec<usize>,
        keys: Texts,
        values: Vec<String>,
    },
}

/// Texts as indices into a dictionary.
#[derive(Debug)]
struct Texts {
    dictionary: Vec<String>,
    indices: Vec<usize>,
}

impl Block {
    /// Reads the body of an insert.
    ///
    /// # Errors
    ///
    /// It is damaged.
    pub fn decode(body: &[u8]) -> Result<Self, Damaged> {
        let plain = frames::decode(body).ok_or(Damaged)?;
        let mut reader = Reader(&plain);
        let block = read_block(&mut reader).ok_or(Damaged)?;
        if reader.0.is_empty() { Ok(block) } else { Err(Damaged) }
    }

    /// Its rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Some of its rows, as chunks in their order.
    #[must_use]
    pub fn chunks(&self, rows: Range<usize>) -> Vec<Chunk> {
        let rows_max = if self.has_many_keys() { ROWS_OF_MANY_KEYS_MAX } else { CHUNK_ROWS_MAX };
        let starts = rows.clone().step_by(rows_max);
        starts.map(|start| self.chunk(start..rows.end.min(start + rows_max))).collect()
    }

    fn has_many_keys(&self) -> bool {
        let keys = |(_, values): &(Column, Values)| match values {
            Values::Maps { keys, .. } => keys.dictionary.len(),
            _ => 0,
        };
        self.columns.iter().map(keys).any(|keys| keys > usize::from(u16::MAX))
    }

    fn chunk(&self, rows: Range<usize>) -> Chunk {
        let mut chunk = Chunk::default();
        for (column, values) in &self.columns {
            values.write(*column, rows.clone(), &mut chunk);
        }
        chunk.finish(rows.len());
        chunk
    }
}

impl Values {
    fn write(&self, column: Column, rows: Range<usize>, chunk: &mut Chunk) {
        let count = rows.len();
        match self {
            Self::Fixed(bytes) => {
                let width = column.width_bytes();
                let bytes = &bytes[rows.start * width..rows.end * width];
                chunk.extend(column, count).copy_from_slice(bytes);
            }
            Self::Texts(texts) => {
                for (row, text) in texts.slice(rows).enumerate() {
                    let index = chunk.intern(column, text);
                    chunk.set(column, count, row, index.to_le_bytes());
                }
            }
            Self::Lists { ends, items } => {
                let lists: Vec<_> = rows.map(|row| &items[span(ends, row)]).collect();
                chunk.put_lists(column, lists.into_iter());
            }
            Self::Maps { ends, keys, values } => {
                let spans = rows.clone().map(|row| span(ends, row));
                let entries = spans.flat_map(|span| keys.slice(span));
                let indices: Vec<_> = entries.map(|key| chunk.intern_key(column, key)).collect();
                let first = span(ends, rows.start).start;
                chunk.put_maps(column, count, |row, map| {
                    for entry in span(ends, rows.start + row) {
                        // No decoder writes a row with so many entries that a key has no index.
                        if let Some(key) = indices[entry - first] {
                            map.put(key, &values[entry]);
                        }
                    }
                });
            }
        }
    }
}

impl Texts {
    fn slice(&self, range: Range<usize>) -> impl Iterator<Item = &str> {
        self.indices[range].iter().map(|&index| self.dictionary[index].as_str())
    }
}

/// Where the elements of a row are.
fn span(ends: &[usize], row: usize) -> Range<usize> {
    let start = row.checked_sub(1).map_or(0, |before| ends[before]);
    start..ends[row]
}

/// The bytes that are not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// LEB128, up to 63 bits.
    fn length(&mut self) -> Option<usize> {
        let mut length = 0;
        for shift in (0..63).step_by(7) {
            let [byte] = *self.take(1)?.first_chunk()?;
            length |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(length);
            }
        }
        None
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.length()?;
        str::from_utf8(self.take(length)?).ok()
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(*self.take(8)?.first_chunk()?))
    }

    /// So many texts. Memory grows with what is read, not with the number said.
    fn texts(&mut self, count: usize) -> Option<Vec<String>> {
        (0..count).map(|_| Some(self.text()?.to_owned())).collect()
    }

    /// Where each row ends in what all have together, never falling.
    fn ends(&mut self, rows: usize) -> Option<Vec<usize>> {
        let bytes = self.take(rows.checked_mul(8)?)?;
        let (numbers, _) = bytes.as_chunks::<8>();
        let ends = numbers.iter().map(|number| usize::try_from(u64::from_le_bytes(*number)).ok());
        ends.collect::<Option<Vec<_>>>().filter(|ends| ends.is_sorted())
    }
}

fn read_block(reader: &mut Reader<'_>) -> Option<Block> {
    let (count, rows) = (reader.length()?, reader.length()?);
    let mut columns = Vec::new();
    for _ in 0..count {
        let (name, sql) = (reader.text()?, reader.text()?);
        let is_meant = |column: &&Column| column.name() == name && column.spec().kind.sql() == sql;
        let column = *Column::ALL.iter().find(is_meant)?;
        columns.push((column, read_values(column, rows, reader)?));
    }
    Some(Block { rows, columns })
}

fn read_values(column: Column, rows: usize, reader: &mut Reader<'_>) -> Option<Values> {
    Some(match column.spec().kind {
        Kind::Text => {
            read_keys_version(reader)?;
            Values::Texts(read_dictionary(rows, reader)?)
        }
        Kind::UInt32List => {
            let ends = reader.ends(rows)?;
            let count = ends.last().copied().unwrap_or(0);
            let (items, _) = reader.take(count.checked_mul(4)?)?.as_chunks::<4>();
            Values::Lists { ends, items: items.iter().map(|it| u32::from_le_bytes(*it)).collect() }
        }
        Kind::TextMap => {
            read_keys_version(reader)?;
            let ends = reader.ends(rows)?;
            let count = ends.last().copied().unwrap_or(0);
            let none = Texts { dictionary: Vec::new(), indices: Vec::new() };
            let keys = if count == 0 { none } else { read_dictionary(count, reader)? };
            Values::Maps { ends, keys, values: reader.texts(count)? }
        }
        _ => Values::Fixed(reader.take(rows.checked_mul(column.width_bytes())?)?.to_vec()),
    })
}

fn read_keys_version(reader: &mut Reader<'_>) -> Option<()> {
    (reader.number()? == native::KEYS_VERSION).then_some(())
}

fn read_dictionary(rows: usize, reader: &mut Reader<'_>) -> Option<Texts> {
    let index_bytes = match reader.number()?.checked_sub(native::KEYS_FLAGS)? {
        0 => 1,
        1 => 2,
        2 => 4,
        _ => return None,
    };
    let texts = usize::try_from(reader.number()?).ok()?;
    let dictionary = reader.texts(texts)?;
    if reader.number()? != rows as u64 {
        return None;
    }
    let bytes = reader.take(rows.checked_mul(index_bytes)?)?;
    let index = |bytes: &[u8]| {
        let index = bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
        (index < dictionary.len()).then_some(index)
    };
    let indices = bytes.chunks_exact(index_bytes).map(index).collect::<Option<_>>()?;
    Some(Texts { dictionary, indices })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clickhouse::{Method, encode_batch};
    use crate::flow::Row;

    /// Rows with every kind of column; every third row has defaults only.
    fn chunk(rows: usize, first: usize) -> Chunk {
        let mut chunk = Chunk::default();
        for row in 0..rows {
            let number = first + row;
            if number.is_multiple_of(3) {
                continue;
            }
            let texts = [format!("10.0.{}.1", number % 300), format!("if{}", number % 7)];
            for (column, text) in [Column::ExporterAddr, Column::InputSnmpIfName].iter().zip(texts)
            {
                let index = chunk.intern(*column, &text);
                chunk.set(*column, rows, row, index.to_le_bytes());
            }
            chunk.set(Column::Bytes, rows, row, (number as u64).to_le_bytes());
            chunk.set(Column::SrcAddr, rows, row, [u8::try_from(number % 251).unwrap(); 16]);
            chunk.set(Column::SamplingInterval, rows, row, 2.5_f64.to_le_bytes());
        }
        let lists: Vec<Vec<u32>> =
            (0..rows).map(|row| (0..u32::try_from(row % 4).unwrap()).collect()).collect();
        chunk.put_lists(Column::MplsLabels, lists.iter().map(Vec::as_slice));
        let keys =
            ["userName", "999999/7"].map(|key| chunk.intern_key(Column::Extra, key).unwrap());
        chunk.put_maps(Column::Extra, rows, |row, map| {
            for key in keys.iter().take(row % 3) {
                map.put(*key, &format!("value {row}"));
            }
        });
        chunk.finish(rows);
        chunk
    }

    fn json(chunks: &[Chunk]) -> Vec<serde_json::Value> {
        let rows =
            chunks.iter().flat_map(|chunk| (0..chunk.rows()).map(|row| Row::new(chunk, row)));
        rows.map(|row| serde_json::to_value(row).unwrap()).collect()
    }

    #[test]
    fn what_was_encoded_comes_back_row_by_row() {
        let chunks = [chunk(1_000, 0), Chunk::default(), chunk(8_192, 1_000), chunk(9, 2)];
        let expected = json(&chunks);
        for method in [Method::Lz4, Method::None] {
            let block = Block::decode(&encode_batch(&chunks, method)).unwrap();
            assert_eq!(block.rows(), expected.len());
            assert_eq!(json(&block.chunks(0..block.rows())), expected);
            for range in [0..1, 5..17, 990..1_010, 9_200..9_201, 500..9_000] {
                assert_eq!(json(&block.chunks(range.clone())), expected[range]);
            }
        }
    }

    #[test]
    fn a_batch_in_which_every_map_is_empty_comes_back() {
        let mut empty = Chunk::default();
        empty.put_maps(Column::Extra, 2, |_, _| {});
        empty.set(Column::Bytes, 2, 1, 7_u64.to_le_bytes());
        empty.finish(2);
        let block = Block::decode(&encode_batch(&[empty], Method::None)).unwrap();
        assert_eq!(json(&block.chunks(0..2))[1]["bytes"], 7);
    }

    /// Each chunk has as many keys as it may, and all of one differ from those of the other.
    #[test]
    fn a_batch_with_more_keys_than_a_chunk_has_comes_back() {
        let chunks = [0, 70_000].map(|first| {
            let mut chunk = Chunk::default();
            let keys = (first..first + 64 * 1_000).map(|number: u32| number.to_string());
            let keys = keys.map(|key| chunk.intern_key(Column::Extra, &key).unwrap());
            let keys: Vec<u16> = keys.collect();
            chunk.put_maps(Column::Extra, 1_000, |row, map| {
                keys[64 * row..][..64].iter().for_each(|key| map.put(*key, "value"));
            });
            chunk.finish(1_000);
            chunk
        });
        let block = Block::decode(&encode_batch(&chunks, Method::None)).unwrap();
        assert_eq!(json(&block.chunks(0..2_000)), json(&chunks));
    }

    #[test]
    fn a_damaged_batch_is_found_out() {
        let bytes = encode_batch(&[chunk(50, 0)], Method::Lz4);
        for length in 0..bytes.len() {
            assert!(Block::decode(&bytes[..length]).is_err(), "{length}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Block::decode(&flipped).is_err(), "{bit}");
        }
    }
}
