//! The books of the sink: every row that readers hand over is stored, dropped for a reason, or still on
//! its way. Kept in one place so that they balance at any moment, shutdown included.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use metrics::{Counter, Gauge};

use crate::telemetry::{MetricName, Metrics};

/// Why rows are lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(usize)]
pub enum RowDropReason {
    /// The queue had no room.
    QueueFull,
    /// ClickHouse refused the batch for good, and its dead letters too.
    DeadLetterFailed,
    /// They could not be delivered, and the spool had no room.
    SpoolFull,
    /// Their file in the spool is damaged.
    SpoolDamaged,
    /// A materialized view failed though failing views were to be left out. The table may have the rows.
    ViewFailed,
    /// The insert of a datagram failed, without batching.
    DispatchError,
    /// Left when the grace period of the shutdown ended.
    Shutdown,
}

impl RowDropReason {
    /// Every reason.
    pub const ALL: [Self; 7] = [
        Self::QueueFull,
        Self::DeadLetterFailed,
        Self::SpoolFull,
        Self::SpoolDamaged,
        Self::ViewFailed,
        Self::DispatchError,
        Self::Shutdown,
    ];

    /// The metric label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::DeadLetterFailed => "dead_letter_failed",
            Self::SpoolFull => "spool_full",
            Self::SpoolDamaged => "spool_damaged",
            Self::ViewFailed => "view_failed",
            Self::DispatchError => "dispatch_error",
            Self::Shutdown => "shutdown",
        }
    }
}

/// Rows by what became of them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Books {
    /// Handed over by readers.
    pub received: u64,
    /// Found in the spool at the start.
    pub recovered: u64,
    /// Acknowledged by ClickHouse.
    pub stored: u64,
    /// In the spool.
    pub spooled: u64,
    /// Kept as dead letters.
    pub dead_lettered: u64,
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
        let known = self.stored + self.spooled + self.dead_lettered + self.dropped_total();
        self.received + self.recovered - known
    }
}

/// Keeps the books and the metrics that show them.
#[derive(Debug)]
pub struct Ledger {
    books: Mutex<Books>,
    received: Counter,
    stored: Counter,
    stored_batches: Counter,
    last_success: Gauge,
    dead_lettered: Counter,
    dead_letter_failed: Counter,
    dispatch_errors: Counter,
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
            stored_batches: metrics.counter(MetricName::BatchStored, &[]),
            last_success: metrics.gauge(MetricName::BatchLastSuccess, &[]),
            dead_lettered: metrics.counter(MetricName::DeadLetterRows, &[]),
            dead_letter_failed: metrics.counter(MetricName::DeadLetterFailedRows, &[]),
            dispatch_errors: metrics.counter(MetricName::DispatchErrors, &[]),
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

    /// ClickHouse acknowledged rows of one insert. After [`Ledger::close`] they were already counted as lost.
    pub fn store(&self, rows: usize) {
        let mut books = self.lock();
        let rows = books.pending().min(rows as u64);
        books.stored += rows;
        self.stored.increment(rows);
        self.stored_batches.increment(1);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.last_success.set(now.as_secs_f64());
    }

    /// Rows were found in the spool at the start.
    pub fn recover(&self, rows: usize) {
        let mut books = self.lock();
        books.recovered += rows as u64;
        books.spooled += rows as u64;
    }

    /// Rows are in the spool.
    pub fn spool(&self, rows: usize) {
        let mut books = self.lock();
        books.spooled += books.pending().min(rows as u64);
    }

    /// Rows of the spool are about to have their outcome.
    pub fn unspool(&self, rows: usize) {
        let mut books = self.lock();
        books.spooled = books.spooled.saturating_sub(rows as u64);
    }

    /// ClickHouse acknowledged rows as dead letters.
    pub fn keep(&self, rows: usize) {
        let mut books = self.lock();
        let rows = books.pending().min(rows as u64);
        books.dead_lettered += rows;
        self.dead_lettered.increment(rows);
    }

    /// Dead letters could not be written; with a spool they wait there.
    pub fn note_failed_letters(&self, rows: usize) {
        self.dead_letter_failed.increment(rows as u64);
    }

    /// Rows are lost.
    pub fn drop_rows(&self, rows: usize, reason: RowDropReason) {
        let mut books = self.lock();
        let rows = books.pending().min(rows as u64);
        books.dropped[reason as usize] += rows;
        self.dropped[reason as usize].increment(rows);
        if reason == RowDropReason::DispatchError {
            self.dispatch_errors.increment(rows);
        }
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
