//! Rows to ClickHouse: chunks are gathered into batches, and each batch is delivered exactly once.
//!
//! One flusher thread gathers and encodes, one delivery thread sends. A batch is in flight while the
//! next one waits; behind that rows wait in the queue, and what does not fit there is dropped and
//! counted. A batch that ClickHouse refuses for good is dropped and counted too. The [`Ledger`] keeps
//! the books of all rows.

mod batcher;
mod delivery;
mod destination;
mod flusher;
mod ledger;
mod retry;

#[cfg(test)]
mod tests;

pub use delivery::{Abandoned, Delivery};
pub use destination::{Batch, ClickHouse, DeliveryError, Destination, Fatal};
pub use flusher::Flusher;
pub use ledger::{Books, Ledger, RowDropReason};
