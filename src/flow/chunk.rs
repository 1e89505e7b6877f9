//! A chunk: up to 8,192 flows of one reader and one partition, as columns.
//!
//! Every column is little-endian bytes, the layout of ClickHouse's Native format, so encoding is mostly
//! a copy. A column that was never written costs nothing: its rows hold the default, and rows before
//! the first written one are filled with it when needed. Text columns hold an index into the column's
//! dictionary, whose entry 0 is the empty string.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::quality::RandomState;

use super::{COLUMNS, Column, Kind};

/// Rows of one chunk. Large enough that work per chunk does not count, small enough that the columns in
/// use stay in the second-level cache; indices into a chunk's dictionary fit 16 bits.
pub const CHUNK_ROWS_MAX: usize = 8_192;

/// Up to [`CHUNK_ROWS_MAX`] flows as columns.
#[derive(Debug)]
pub struct Chunk {
    rows: usize,
    columns: Vec<ColumnData>,
}

#[derive(Debug, Default)]
struct ColumnData {
    bytes: Vec<u8>,
    /// Elements of the lists of a list column, or indices of the keys of a map column: row after row,
    /// little-endian.
    items: Vec<u8>,
    /// Values of a map column, as [`Chunk::values`] gives them.
    values: Vec<u8>,
    dictionary: Option<Box<Dictionary>>,
}

#[derive(Debug, Default)]
struct Dictionary {
    texts: Vec<Arc<str>>,
    indices: HashMap<Arc<str>, u16, RandomState>,
    text_bytes: usize,
    last: u16,
}

impl Default for Chunk {
    fn default() -> Self {
        Self { rows: 0, columns: COLUMNS.iter().map(|_| ColumnData::default()).collect() }
    }
}

impl Chunk {
    /// Finished rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes that the columns hold, their texts and lists included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let bytes = |column: &ColumnData| {
            let text_bytes = column.dictionary.as_ref().map_or(0, |d| d.text_bytes);
            column.bytes.len() + column.items.len() + column.values.len() + text_bytes
        };
        self.columns.iter().map(bytes).sum()
    }

    /// The written part of a column: at most `rows * width` bytes; the rows behind it hold the default.
    #[must_use]
    pub fn column(&self, column: Column) -> &[u8] {
        &self.columns[column as usize].bytes
    }

    /// The elements of a list column, or the keys of a map column as 16-bit indices into its dictionary:
    /// those of all rows one after another. [`column`](Self::column) has how many each row has, as 16 bits.
    #[must_use]
    pub fn items(&self, column: Column) -> &[u8] {
        &self.columns[column as usize].items
    }

    /// The list of a list column in one row.
    pub fn list(&self, column: Column, row: usize) -> impl Iterator<Item = u32> {
        let (counts, _) = self.column(column).as_chunks::<2>();
        let count = |row: &[u8; 2]| usize::from(u16::from_le_bytes(*row));
        let start = counts.iter().take(row).map(count).sum();
        let length = counts.get(row).map_or(0, count);
        let (items, _) = self.items(column).as_chunks::<4>();
        items.iter().skip(start).take(length).map(|item| u32::from_le_bytes(*item))
    }

    /// The values of a map column, one for each key, as ClickHouse's Native format has texts: the length in
    /// LEB128, and the bytes.
    #[must_use]
    pub fn values(&self, column: Column) -> &[u8] {
        &self.columns[column as usize].values
    }

    /// The dictionary of a text or map column; index 0 is the empty string.
    pub fn texts(&self, column: Column) -> impl Iterator<Item = &str> {
        let dictionary = self.columns[column as usize].dictionary.as_ref();
        let texts = dictionary.into_iter().flat_map(|dictionary| &dictionary.texts);
        std::iter::once("").chain(texts.map(|text| &**text))
    }

    /// The map of a map column in one row.
    pub fn map(&self, column: Column, row: usize) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        let (counts, _) = self.column(column).as_chunks::<2>();
        let count = |row: &[u8; 2]| usize::from(u16::from_le_bytes(*row));
        let start = counts.iter().take(row).map(count).sum();
        let length = counts.get(row).map_or(0, count);
        let texts: Vec<&str> = self.texts(column).collect();
        let (keys, _) = self.items(column).as_chunks::<2>();
        let keys = keys.iter().map(move |key| texts.get(count(key)).copied().unwrap_or_default());
        keys.zip(Texts(self.values(column))).skip(start).take(length)
    }

    /// The value of a text column in one row.
    #[must_use]
    pub fn text(&self, column: Column, row: usize) -> &str {
        debug_assert_eq!(column.spec().kind, Kind::Text);
        let index = u16::from_le_bytes(self.value(column, row));
        self.texts(column).nth(index.into()).unwrap_or_default()
    }

    /// The bytes of one value; the default when the row was not written.
    #[must_use]
    pub fn value<const N: usize>(&self, column: Column, row: usize) -> [u8; N] {
        let (values, _) = self.column(column).as_chunks::<N>();
        values.get(row).copied().unwrap_or([0; N])
    }

    /// Room for `count` more values behind the finished rows, zeroed unless written before.
    pub(crate) fn extend(&mut self, column: Column, count: usize) -> &mut [u8] {
        let width = column.width_bytes();
        let start = self.rows * width;
        let bytes = &mut self.columns[column as usize].bytes;
        bytes.resize(start + count * width, 0);
        &mut bytes[start..]
    }

    /// A column of all finished rows, to be written over.
    pub(crate) fn finished(&mut self, column: Column) -> &mut [u8] {
        let bytes = &mut self.columns[column as usize].bytes;
        bytes.resize(self.rows * column.width_bytes(), 0);
        bytes
    }

    /// Whether any finished row has been written.
    pub(crate) fn is_written(&self, column: Column) -> bool {
        !self.columns[column as usize].bytes.is_empty()
    }

    /// Writes one value into row `row` of the next `count`.
    pub(crate) fn set<const N: usize>(
        &mut self,
        column: Column,
        count: usize,
        row: usize,
        value: [u8; N],
    ) {
        debug_assert_eq!(column.width_bytes(), N);
        self.extend(column, count).as_chunks_mut::<N>().0[row] = value;
    }

    /// Writes one value into the next `count` rows.
    pub(crate) fn fill<const N: usize>(&mut self, column: Column, count: usize, value: [u8; N]) {
        debug_assert_eq!(column.width_bytes(), N);
        self.extend(column, count).as_chunks_mut::<N>().0.fill(value);
    }

    /// Copies the next `count` rows of the column `from` to the column `to` of the same width.
    pub(crate) fn copy(&mut self, from: Column, to: Column, count: usize) {
        self.extend(from, count);
        let start = self.rows * from.width_bytes();
        let source = std::mem::take(&mut self.columns[from as usize].bytes);
        self.extend(to, count).copy_from_slice(&source[start..]);
        self.columns[from as usize].bytes = source;
    }

    /// Writes one text into the next `count` rows; the empty text is the default and costs nothing.
    pub(crate) fn fill_text(&mut self, column: Column, count: usize, text: &str) {
        if !text.is_empty() {
            let index = self.intern(column, text);
            self.fill(column, count, index.to_le_bytes());
        }
    }

    /// Writes one list into each of the next rows. Lists go behind each other, so a column is written
    /// once for the rows that are finished next.
    pub(crate) fn put_lists<'a>(
        &mut self,
        column: Column,
        lists: impl ExactSizeIterator<Item = &'a [u32]>,
    ) {
        let (rows, count) = (self.rows, lists.len());
        self.extend(column, count);
        let ColumnData { bytes, items, .. } = &mut self.columns[column as usize];
        let (counts, _) = bytes.as_chunks_mut::<2>();
        for (out, list) in counts[rows..].iter_mut().zip(lists) {
            let length = u16::try_from(list.len()).unwrap_or(u16::MAX);
            *out = length.to_le_bytes();
            let list = list.iter().take(length.into());
            list.for_each(|item| items.extend_from_slice(&item.to_le_bytes()));
        }
    }

    /// Writes one map into each of the next `count` rows; `fill` puts the entries of one row, whose keys are
    /// in the dictionary of the column. A column is written once for the rows that are finished next.
    pub(crate) fn put_maps(
        &mut self,
        column: Column,
        count: usize,
        mut fill: impl FnMut(usize, &mut MapWriter<'_>),
    ) {
        self.extend(column, count);
        let start = self.rows;
        let ColumnData { bytes, items, values, .. } = &mut self.columns[column as usize];
        let (counts, _) = bytes.as_chunks_mut::<2>();
        for (row, out) in counts[start..].iter_mut().enumerate() {
            let mut map = MapWriter { keys: items, values, entries: 0 };
            fill(row, &mut map);
            *out = map.entries.to_le_bytes();
        }
    }

    /// The index of `text` in the dictionary of a text column. A chunk has eight times as many indices as rows,
    /// and a row adds a text or two, so there is always room.
    pub(crate) fn intern(&mut self, column: Column, text: &str) -> u16 {
        self.dictionary(column).intern(text, || text.into()).unwrap_or(0)
    }

    /// The same for a text that is kept elsewhere too: thousands of chunks share its bytes.
    pub(crate) fn intern_shared(&mut self, column: Column, text: &Arc<str>) -> u16 {
        self.dictionary(column).intern(text, || Arc::clone(text)).unwrap_or(0)
    }

    /// Adds a text that is not in the dictionary of a column yet, of a caller that knows so: nothing is hashed, and
    /// the column has no other writer.
    pub(crate) fn add_text(&mut self, column: Column, text: &Arc<str>) -> u16 {
        let dictionary = self.dictionary(column);
        dictionary.text_bytes += text.len();
        dictionary.texts.push(Arc::clone(text));
        u16::try_from(dictionary.texts.len()).unwrap_or(0)
    }

    /// The index of a key in the dictionary of a map column; `None` when there are too many. A row may have
    /// many keys that no other has, since enterprises number their elements as they like.
    pub(crate) fn intern_key(&mut self, column: Column, key: &str) -> Option<u16> {
        self.dictionary(column).intern(key, || key.into())
    }

    fn dictionary(&mut self, column: Column) -> &mut Dictionary {
        self.columns[column as usize].dictionary.get_or_insert_default()
    }

    /// Ends `count` rows: what the columns hold for them now counts.
    pub(crate) fn finish(&mut self, count: usize) {
        self.rows += count;
    }
}

/// Takes the entries of one row of a map column.
#[derive(Debug)]
pub(crate) struct MapWriter<'a> {
    keys: &'a mut Vec<u8>,
    values: &'a mut Vec<u8>,
    entries: u16,
}

impl MapWriter<'_> {
    /// Adds an entry; `key` is an index into the dictionary of the column.
    pub(crate) fn put(&mut self, key: u16, value: &str) {
        self.keys.extend_from_slice(&key.to_le_bytes());
        put_length(value.len(), self.values);
        self.values.extend_from_slice(value.as_bytes());
        self.entries += 1;
    }
}

/// Appends a length as ClickHouse's Native format has it: LEB128.
pub(crate) fn put_length(mut length: usize, out: &mut Vec<u8>) {
    while length >= 0x80 {
        out.push(length.to_le_bytes()[0] | 0x80);
        length >>= 7;
    }
    out.push(length.to_le_bytes()[0]);
}

/// Texts that [`MapWriter`] has put behind each other.
struct Texts<'a>(&'a [u8]);

impl<'a> Iterator for Texts<'a> {
    type Item = Cow<'a, str>;

    fn next(&mut self) -> Option<Cow<'a, str>> {
        let digits = self.0.iter().position(|byte| byte & 0x80 == 0)? + 1;
        let (length, rest) = self.0.split_at(digits);
        let length = length.iter().rev().fold(0, |sum, byte| sum << 7 | usize::from(byte & 0x7f));
        let (text, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(String::from_utf8_lossy(text))
    }
}

impl Dictionary {
    /// `None` for a new text when all indices are taken.
    fn intern(&mut self, text: &str, to_shared: impl FnOnce() -> Arc<str>) -> Option<u16> {
        if text.is_empty() {
            return Some(0);
        }
        // Whole sets share their texts: compare with the last one before hashing.
        let last = usize::from(self.last).checked_sub(1).and_then(|index| self.texts.get(index));
        if last.is_some_and(|last| **last == *text) {
            return Some(self.last);
        }
        let index = self.indices.get(text).copied().or_else(|| self.add(to_shared()))?;
        self.last = index;
        Some(index)
    }

    fn add(&mut self, text: Arc<str>) -> Option<u16> {
        let index = u16::try_from(self.texts.len() + 1).ok()?;
        self.text_bytes += text.len();
        self.texts.push(Arc::clone(&text));
        self.indices.insert(text, index);
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_beyond_the_indices_becomes_another() {
        let mut chunk = Chunk::default();
        for number in 1..=u16::MAX {
            assert_eq!(chunk.intern_key(Column::Extra, &number.to_string()), Some(number));
        }
        assert_eq!(chunk.intern_key(Column::Extra, "0"), None);
        assert_eq!(chunk.intern_key(Column::Extra, "7"), Some(7), "a known one");
        assert_eq!(chunk.intern_key(Column::Extra, "0"), None);
        assert_eq!(chunk.intern_key(Column::Extra, ""), Some(0));
    }
}
