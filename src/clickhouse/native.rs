//! Chunks to one block of ClickHouse's Native format.
//!
//! A block is the number of columns and rows, then for each column its name, its type and its values;
//! numbers are little-endian, lengths are LEB128. Columns that no chunk has written are left out: the
//! server fills them with their default. Text goes as a dictionary and indices into it, as
//! `LowCardinality` is stored, so that neither side hashes every row.

use std::collections::HashMap;

use foldhash::quality::RandomState;

use crate::flow::{Chunk, Column, Kind, put_length};

/// `SharedDictionariesWithAdditionalKeys`, the version of the keys' serialisation.
pub(super) const KEYS_VERSION: u64 = 1;

/// The block brings its own dictionary: `HasAdditionalKeys` and `NeedUpdateDictionary`.
pub(super) const KEYS_FLAGS: u64 = 1 << 9 | 1 << 10;

/// Appends one block of all rows of `chunks` to `out`.
pub(super) fn encode(chunks: &[Chunk], out: &mut Vec<u8>) {
    let rows: usize = chunks.iter().map(Chunk::rows).sum();
    let is_written = |column: Column| chunks.iter().any(|chunk| !chunk.column(column).is_empty());
    let columns: Vec<Column> = Column::ALL.iter().copied().filter(|&c| is_written(c)).collect();
    put_length(columns.len(), out);
    put_length(rows, out);
    for column in columns {
        put_text(column.name(), out);
        put_text(column.spec().kind.sql(), out);
        match column.spec().kind {
            Kind::Text => {
                put_keys_version(out);
                put_low_cardinality(column, chunks, Chunk::column, Chunk::rows, out);
            }
            Kind::UInt32List => put_lists(column, chunks, out),
            Kind::TextMap => put_maps(column, chunks, out),
            _ => put_fixed(column, chunks, out),
        }
    }
}

fn put_fixed(column: Column, chunks: &[Chunk], out: &mut Vec<u8>) {
    for chunk in chunks {
        let end = out.len() + chunk.rows() * column.width_bytes();
        out.extend_from_slice(chunk.column(column));
        out.resize(end, 0);
    }
}

/// Where the list of each row ends, then the elements of all.
fn put_lists(column: Column, chunks: &[Chunk], out: &mut Vec<u8>) {
    put_ends(column, chunks, out);
    chunks.iter().for_each(|chunk| out.extend_from_slice(chunk.items(column)));
}

/// As an array of pairs: where the map of each row ends, then all keys, then all values. What the keys'
/// dictionary begins with comes before everything else of the column.
fn put_maps(column: Column, chunks: &[Chunk], out: &mut Vec<u8>) {
    put_keys_version(out);
    put_ends(column, chunks, out);
    let keys = |chunk: &Chunk| chunk.items(column).len() / 2;
    // Of no keys there is no dictionary either: the server takes one for what comes behind the column.
    if chunks.iter().any(|chunk| keys(chunk) > 0) {
        put_low_cardinality(column, chunks, Chunk::items, keys, out);
    }
    chunks.iter().for_each(|chunk| out.extend_from_slice(chunk.values(column)));
}

fn put_ends(column: Column, chunks: &[Chunk], out: &mut Vec<u8>) {
    let mut end = 0;
    for chunk in chunks {
        for row in 0..chunk.rows() {
            end += u64::from(u16::from_le_bytes(chunk.value(column, row)));
            out.extend_from_slice(&end.to_le_bytes());
        }
    }
}

fn put_keys_version(out: &mut Vec<u8>) {
    out.extend_from_slice(&KEYS_VERSION.to_le_bytes());
}

/// The dictionaries of all chunks as one, then an index into it for each value. `indices` are those of a
/// chunk into its own dictionary, of which it has `count`; missing ones are 0, the empty text.
fn put_low_cardinality(
    column: Column,
    chunks: &[Chunk],
    indices: impl Fn(&Chunk, Column) -> &[u8],
    count: impl Fn(&Chunk) -> usize,
    out: &mut Vec<u8>,
) {
    let mut dictionary = HashMap::with_hasher(RandomState::default());
    dictionary.insert("", 0);
    let mut texts = vec![""];
    // Index in the block's dictionary of each text of each chunk's.
    let mut translations: Vec<Vec<u32>> = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let translation = chunk.texts(column).map(|text| {
            *dictionary.entry(text).or_insert_with(|| {
                texts.push(text);
                u32::try_from(texts.len() - 1).unwrap_or(u32::MAX)
            })
        });
        translations.push(translation.collect());
    }
    let (index_type, index_bytes) = match texts.len() {
        0..=0x100 => (0, 1),
        0x101..=0x1_0000 => (1, 2),
        _ => (2, 4),
    };
    out.extend_from_slice(&(KEYS_FLAGS | index_type).to_le_bytes());
    out.extend_from_slice(&(texts.len() as u64).to_le_bytes());
    for text in texts {
        put_text(text, out);
    }
    out.extend_from_slice(&(chunks.iter().map(&count).sum::<usize>() as u64).to_le_bytes());
    for (chunk, translation) in chunks.iter().zip(&translations) {
        let end = out.len() + count(chunk) * index_bytes;
        let (indices, _) = indices(chunk, column).as_chunks::<2>();
        let indices =
            indices.iter().map(|&index| translation[usize::from(u16::from_le_bytes(index))]);
        match index_bytes {
            1 => out.extend(indices.map(|index| index.to_le_bytes()[0])),
            2 => indices.for_each(|index| out.extend_from_slice(&index.to_le_bytes()[..2])),
            _ => indices.for_each(|index| out.extend_from_slice(&index.to_le_bytes())),
        }
        out.resize(end, 0);
    }
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    put_length(text.len(), out);
    out.extend_from_slice(text.as_bytes());
}
