//! The queue from the readers to the flusher: bounded in rows, never blocks, drops the newest.
//!
//! When ClickHouse cannot keep up the loss happens here, where it is counted, and not in a socket buffer
//! where nobody sees it. Dropping the newest keeps what was accepted: a row in the queue is only lost if
//! the process is killed. Readers of TCP try again instead, since their exporters can wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use crate::config::OnRowError;
use crate::flow::Chunk;

/// Small chunks may wait up to this number. Behind it the flusher is busy anyway, and readers go on
/// filling theirs: so the memory of the queue follows its rows, not the number of its chunks.
const SMALL_CHUNKS_MAX: usize = 64;

/// The readers' end.
#[derive(Clone, Debug)]
pub struct ChunkSender {
    sender: Sender<Handover>,
    depth: QueueDepth,
    on_row_error: OnRowError,
}

/// Rows, and what their receiver wants to become of them when ClickHouse refuses some.
#[derive(Debug)]
pub struct Handover {
    /// The rows.
    pub chunk: Chunk,
    /// Of the receiver.
    pub on_row_error: OnRowError,
}

/// The flusher's end.
#[derive(Debug)]
pub struct ChunkReceiver {
    receiver: Receiver<Handover>,
    depth: QueueDepth,
}

/// How many rows wait, and how many may.
#[derive(Clone, Debug)]
pub struct QueueDepth(Arc<Depth>);

#[derive(Debug)]
struct Depth {
    rows: AtomicUsize,
    capacity_rows: AtomicUsize,
}

/// A queue for at most `capacity_rows` rows.
#[must_use]
pub fn bounded(capacity_rows: usize) -> (ChunkSender, ChunkReceiver) {
    let (sender, receiver) = crossbeam_channel::unbounded(); // bounded by its rows, below
    let (rows, capacity_rows) = (AtomicUsize::new(0), AtomicUsize::new(capacity_rows));
    let depth = QueueDepth(Arc::new(Depth { rows, capacity_rows }));
    let on_row_error = OnRowError::default();
    let sender = ChunkSender { sender, depth: depth.clone(), on_row_error };
    (sender, ChunkReceiver { receiver, depth })
}

impl ChunkSender {
    /// The same for the rows of a receiver that wants this.
    #[must_use]
    pub fn with(&self, on_row_error: OnRowError) -> Self {
        Self { on_row_error, ..self.clone() }
    }

    /// Hands a chunk over, or gives it back when its rows do not fit or nobody receives any more.
    ///
    /// # Errors
    ///
    /// The chunk, to be counted as dropped.
    pub fn try_push(&self, chunk: Chunk) -> Result<(), Chunk> {
        let rows = chunk.rows();
        let capacity_rows = self.depth.capacity_rows();
        let reserve = |depth: usize| {
            let wanted = depth.checked_add(rows)?;
            (wanted <= capacity_rows).then_some(wanted)
        };
        if self.depth.0.rows.fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve).is_err() {
            return Err(chunk);
        }
        let handover = Handover { chunk, on_row_error: self.on_row_error };
        self.sender.send(handover).map_err(|refused| {
            self.depth.0.rows.fetch_sub(rows, Ordering::Relaxed);
            refused.0.chunk
        })
    }

    /// Whether a chunk that is not full is worth handing over now.
    #[must_use]
    pub fn takes_small_chunks(&self) -> bool {
        self.sender.len() < SMALL_CHUNKS_MAX
    }

    /// How many rows wait.
    #[must_use]
    pub fn depth(&self) -> QueueDepth {
        self.depth.clone()
    }
}

impl ChunkReceiver {
    /// The next chunk, waiting at most `timeout`.
    ///
    /// # Errors
    ///
    /// The time is over, or every sender is gone and the queue is empty.
    pub fn pop(&self, timeout: Duration) -> Result<Handover, RecvTimeoutError> {
        let handover = self.receiver.recv_timeout(timeout)?;
        self.depth.0.rows.fetch_sub(handover.chunk.rows(), Ordering::Relaxed);
        Ok(handover)
    }

    /// How many rows wait, and how many may.
    #[must_use]
    pub fn depth(&self) -> &QueueDepth {
        &self.depth
    }

    /// Whether no chunk waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.receiver.is_empty()
    }
}

impl QueueDepth {
    /// Rows in the queue.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.0.rows.load(Ordering::Relaxed)
    }

    /// How many rows it takes.
    #[must_use]
    pub fn capacity_rows(&self) -> usize {
        self.0.capacity_rows.load(Ordering::Relaxed)
    }

    /// Lets it take so many rows. Those that wait go on waiting when there are more.
    pub fn set_capacity_rows(&self, rows: usize) {
        self.0.capacity_rows.store(rows, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(rows: usize) -> Chunk {
        let mut chunk = Chunk::default();
        chunk.finish(rows);
        chunk
    }

    #[test]
    fn a_full_queue_gives_the_newest_chunk_back() {
        let (sender, receiver) = bounded(10);
        assert!(sender.try_push(chunk(6)).is_ok());
        assert_eq!(sender.try_push(chunk(5)).map_err(|refused| refused.rows()), Err(5));
        assert!(sender.try_push(chunk(4)).is_ok());
        assert_eq!(sender.depth().rows(), 10);
        assert_eq!(receiver.pop(Duration::ZERO).map(|handover| handover.chunk.rows()), Ok(6));
        assert_eq!(sender.depth().rows(), 4);
    }

    #[test]
    fn a_queue_without_receiver_takes_nothing() {
        let (sender, receiver) = bounded(10);
        drop(receiver);
        assert!(sender.try_push(chunk(1)).is_err());
        assert_eq!(sender.depth().rows(), 0);
    }
}
