//! The books of the sink: every row that readers hand over is stored, dropped for a reason, or still on
//! its way. Kept in one place so that they balance at any moment, shutdown included.

use std::sync::{Mutex, MutexGuard, PoisonError};

use metrics::Counter;

use crate::telemetry::{MetricName, Metrics};

/// Why rows are lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(usize)]
pub enum RowDropReason {
    /// The queue had no room.
    QueueFull,
    /// ClickHouse refused the batch for good.
    InsertFailed,
    /// Left when the grace period of the shutdown ended.
    Shutdown,
}

impl RowDropReason {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::QueueFull, Self::InsertFailed, Self::Shutdown];

    /// The metric label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::InsertFailed => "insert_failed",
            Self::Shutdown => "shutdown",
        }
    }
}

/// Rows by what became of them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Books {
    /// Handed over by readers.
    pub received: u64,
    /// Acknowledged by ClickHouse.
    pub stored: u64,
    /// Lost, by [`RowDropReason`].
    pub dropped: [u64; RowDropReason::ALL.len()],
}

impl Books {
    /// Lost rows of all reasons.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Rows on their way.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.received - self.stored - self.dropped_total()
    }
}

/// Keeps the books and the metrics that show them.
#[derive(Debug)]
pub struct Ledger {
    books: Mutex<Books>,
    received: Counter,
    stored: Counter,
    dropped: [Counter; RowDropReason::ALL.len()],
}

impl Ledger {
    /// Empty books.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        Self {
            books: Mutex::default(),
            received: metrics.counter(MetricName::BatchReceivedRows, &[]),
            stored: metrics.counter(MetricName::BatchStoredRows, &[]),
            dropped: RowDropReason::ALL
                .map(|reason| metrics.counter(MetricName::BatchDroppedRows, &[reason.label()])),
        }
    }

    /// The books as they are.
    #[must_use]
    pub fn books(&self) -> Books {
        *self.lock()
    }

    /// A reader hands rows over; counted before they can be stored.
    pub fn receive(&self, rows: usize) {
        self.lock().received += rows as u64;
        self.received.increment(rows as u64);
    }

    /// ClickHouse acknowledged rows. After [`Ledger::close`] they were already counted as lost.
    pub fn store(&self, rows: usize) {
        let mut books = self.lock();
        let rows = books.pending().min(rows as u64);
        books.stored += rows;
        self.stored.increment(rows);
    }

    /// Rows are lost.
    pub fn drop_rows(&self, rows: usize, reason: RowDropReason) {
        let mut books = self.lock();
        let rows = books.pending().min(rows as u64);
        books.dropped[reason as usize] += rows;
        self.dropped[reason as usize].increment(rows);
    }

    /// Ends the books: what is still on its way is lost to the shutdown.
    pub fn close(&self) -> Books {
        let left = usize::try_from(self.books().pending()).unwrap_or(usize::MAX);
        self.drop_rows(left, RowDropReason::Shutdown);
        self.books()
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
