//! Datagrams from the network to the queue.
//!
//! Each receiver has several sockets on one address (`SO_REUSEPORT`), and each socket a reader thread
//! that does everything up to the queue: batched receive, decode, count. What can be lost here: datagrams
//! that the kernel drops because a receive buffer is full, and chunks that the queue does not take. Both
//! are counted.

mod decode_metrics;
mod reader;
mod socket;
mod sys;

pub use decode_metrics::DecodeMetrics;
pub use reader::Reader;
pub use socket::{BindError, bind};
