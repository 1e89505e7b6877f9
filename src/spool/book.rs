//! What waits in the spool, in order, and when it may be tried: no file is touched here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::directory::BatchId;

/// What is known in memory of a batch that waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Waiting {
    pub(super) rows: usize,
    /// On disk.
    pub(super) bytes: u64,
    /// When it is to be tried again, if it is to be left alone before.
    not_before: Option<Instant>,
}

/// The batches that wait.
#[derive(Debug, Default)]
pub(super) struct Book {
    waiting: BTreeMap<BatchId, Waiting>,
    /// Those that may be tried now.
    ready: BTreeSet<BatchId>,
    /// The others, by the time at which they may be.
    deferred: BTreeSet<(Instant, BatchId)>,
    rows: usize,
    bytes: u64,
}

impl Book {
    /// A batch of `rows` that takes `bytes` on disk, to be tried at once.
    pub(super) fn add(&mut self, id: BatchId, rows: usize, bytes: u64) {
        self.remove(id);
        self.waiting.insert(id, Waiting { rows, bytes, not_before: None });
        self.ready.insert(id);
        self.rows += rows;
        self.bytes += bytes;
    }

    pub(super) fn remove(&mut self, id: BatchId) -> Option<Waiting> {
        let removed = self.waiting.remove(&id)?;
        match removed.not_before {
            None => self.ready.remove(&id),
            Some(until) => self.deferred.remove(&(until, id)),
        };
        self.rows -= removed.rows;
        self.bytes -= removed.bytes;
        Some(removed)
    }

    pub(super) fn get(&self, id: BatchId) -> Option<Waiting> {
        self.waiting.get(&id).copied()
    }

    /// Leaves a batch alone until then.
    pub(super) fn defer(&mut self, id: BatchId, until: Instant) {
        let Some(waiting) = self.waiting.get_mut(&id) else { return };
        match waiting.not_before.replace(until) {
            None => self.ready.remove(&id),
            Some(before) => self.deferred.remove(&(before, id)),
        };
        self.deferred.insert((until, id));
    }

    /// The oldest batch that may be tried now.
    pub(super) fn next(&mut self, now: Instant) -> Option<BatchId> {
        while let Some(&(until, id)) = self.deferred.first()
            && until <= now
        {
            self.deferred.pop_first();
            self.ready.insert(id);
            if let Some(waiting) = self.waiting.get_mut(&id) {
                waiting.not_before = None;
            }
        }
        self.ready.first().copied()
    }

    /// When there is something to try; `None` without batches.
    pub(super) fn next_at(&self, now: Instant) -> Option<Instant> {
        let deferred = self.deferred.first().map(|&(until, _)| until);
        if self.ready.is_empty() { deferred } else { Some(now) }
    }

    pub(super) fn batches(&self) -> usize {
        self.waiting.len()
    }

    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_batch_that_is_left_alone_blocks_no_younger_one_and_is_the_oldest_again_in_time() {
        let now = Instant::now();
        let minute = Duration::from_secs(60);
        let first = BatchId::NONE.next().unwrap();
        let second = first.next().unwrap();
        let mut book = Book::default();
        assert_eq!((book.next(now), book.next_at(now)), (None, None));
        book.add(first, 10, 4_096);
        book.add(second, 20, 8_192);
        assert_eq!(book.next(now), Some(first));
        book.defer(first, now + minute);
        assert_eq!((book.next(now), book.next_at(now)), (Some(second), Some(now)));
        book.defer(second, now + 2 * minute);
        assert_eq!((book.next(now), book.next_at(now)), (None, Some(now + minute)));
        assert_eq!(book.next(now + minute), Some(first));
        book.defer(first, now + 3 * minute);
        book.defer(first, now + 4 * minute);
        assert_eq!(book.next(now + 3 * minute), Some(second));
        assert_eq!((book.batches(), book.rows(), book.bytes()), (2, 30, 12_288));
        book.remove(second);
        book.remove(second);
        assert_eq!(book.next(now + 3 * minute), None);
        assert_eq!(book.next_at(now), Some(now + 4 * minute));
        book.remove(first);
        assert_eq!((book.next_at(now), book.rows(), book.bytes()), (None, 0, 0));
    }
}
