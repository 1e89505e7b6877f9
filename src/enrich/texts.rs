//! Texts of the tables by number, so that rows are filled without hashing any.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::flow::{Chunk, Column};

/// A text of a [`TextBook`]; the default is the empty one.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct TextId(u32);

impl TextId {
    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }

    pub(super) fn or(self, other: Self) -> Self {
        if self.is_empty() { other } else { self }
    }
}

/// The texts that a reader has met in the tables.
#[derive(Debug, Default)]
pub(super) struct TextBook {
    /// Number 1 first.
    texts: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, TextId, RandomState>,
}

impl TextBook {
    /// The number of a text.
    pub(super) fn id(&mut self, text: &Arc<str>) -> TextId {
        if text.is_empty() {
            return TextId::default();
        }
        let next = TextId(u32::try_from(self.texts.len() + 1).unwrap_or(u32::MAX));
        let id = *self.ids.entry(Arc::clone(text)).or_insert(next);
        if id == next {
            self.texts.push(Arc::clone(text));
        }
        id
    }

    fn get(&self, id: TextId) -> &Arc<str> {
        &self.texts[id.0 as usize - 1]
    }
}

/// Where texts of a book are in the dictionary of one column of one chunk after another.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// By number of the text: in which column it was last put, and where.
    places: Vec<(u32, [u8; 2])>,
    column: u32,
}

impl Places {
    /// Begins another column.
    pub(super) fn begin(&mut self, book: &TextBook) {
        if self.column == u32::MAX {
            self.places.clear();
            self.column = 0;
        }
        self.column += 1;
        self.places.resize(book.texts.len() + 1, (0, [0; 2]));
    }

    /// Where a text is in the column, as the column has it.
    pub(super) fn of(
        &mut self,
        id: TextId,
        book: &TextBook,
        column: Column,
        chunk: &mut Chunk,
    ) -> [u8; 2] {
        if id.is_empty() {
            return [0; 2];
        }
        let (last, place) = &mut self.places[id.0 as usize];
        if *last != self.column {
            *last = self.column;
            *place = chunk.add_text(column, book.get(id)).to_le_bytes();
        }
        *place
    }
}
