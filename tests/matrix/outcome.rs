//! What became of the rows of a case, in words that are the same in every run.

use crate::books::Books;
use crate::traffic::DURING;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    AllStored,
    /// So many, and all others stored.
    DeadLetters(u64),
    /// One batch, whose size is a matter of time, and all others stored.
    OneBatch,
    /// So many for this reason, and all others stored.
    Dropped(&'static str, u64),
    /// A part of them, that depends on the size of batches.
    SomeDropped(&'static str),
    /// Those that came after the fault began, until it was mended and the collector started again.
    Spooled,
    /// Nothing that the matrix has a word for.
    Other,
}

impl Outcome {
    /// Reads it off the final books; `letter_batches` have dead letters.
    pub fn of(books: &Books, was_spooled: u64, letter_batches: u64) -> Self {
        let Books { dead_letters, ref dropped, .. } = *books;
        match (dropped.as_slice(), dead_letters, was_spooled) {
            ([], 0, 0) => Self::AllStored,
            ([], 0, _) => Self::Spooled,
            ([], 1 | DURING, 0) => Self::DeadLetters(dead_letters),
            ([], _, 0) if letter_batches == 1 => Self::OneBatch,
            ([(reason, DURING)], 0, 0) => Self::Dropped(reason, DURING),
            ([(reason, 1..DURING)], 0, 0) => Self::SomeDropped(reason),
            _ => Self::Other,
        }
    }

    pub fn words(self) -> String {
        match self {
            Self::AllStored => "all stored".to_owned(),
            Self::DeadLetters(1) => "1 dead letter, others stored".to_owned(),
            Self::DeadLetters(rows) => format!("{} dead letters, others stored", grouped(rows)),
            Self::OneBatch => "its batch as dead letters, others stored".to_owned(),
            Self::Dropped(reason, rows) => {
                format!("{} dropped (`{reason}`), others stored", grouped(rows))
            }
            Self::SomeDropped(reason) => {
                format!("what has no room dropped (`{reason}`), others stored")
            }
            Self::Spooled => "spooled, delivered when mended".to_owned(),
            Self::Other => "something else".to_owned(),
        }
    }
}

fn grouped(rows: u64) -> String {
    match rows / 1_000 {
        0 => rows.to_string(),
        thousands => format!("{thousands},{:03}", rows % 1_000),
    }
}
