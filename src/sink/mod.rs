//! Rows to ClickHouse: chunks are gathered into batches, and each batch is delivered exactly once.
//!
//! One flusher thread gathers and encodes, one delivery thread sends. A batch is in flight while the
//! next one waits; behind that rows wait in the queue, and what does not fit there is dropped and
//! counted. The rows of a batch that ClickHouse refuses for good become dead letters: all of them, or those
//! that it refuses one by one. The [`Ledger`] keeps the books of all rows.

mod alarms;
mod backlog;
mod batcher;
mod dead_letters;
mod delivery;
mod destination;
mod direct;
mod flusher;
mod ledger;
mod quarantine;
mod refusals;
mod retry;
mod tries;

#[cfg(test)]
mod tests;

pub use alarms::{Alarm, Alarms, Trouble};
pub use backlog::Backlog;
pub use batcher::BatchLimits;
pub use delivery::Delivery;
pub use destination::{Batch, ClickHouse, DeliveryError, Destination, Fatal, Target};
pub use direct::Direct;
pub use flusher::Flusher;
pub use ledger::{Books, Ledger, RowDropReason};
pub use tries::Tries;

/// Tells the tokens of this run of the collector from those of others.
fn run_name() -> String {
    format!("{:016x}", fastrand::u64(..))
}
