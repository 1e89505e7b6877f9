//! Datagrams, and messages of connections, from the network to the queue.
//!
//! A UDP receiver has several sockets on one address (`SO_REUSEPORT`), and each socket a reader thread
//! that does everything up to the queue: batched receive, decode, enrich, count. What can be lost here: datagrams
//! that the kernel drops because a receive buffer is full, and chunks that the queue does not take. Both
//! are counted.
//!
//! A TCP receiver has one thread for its listener and its connections. It waits for the queue, so that
//! exporters do too.

mod backpressure;
mod connection;
mod decode_metrics;
mod intake;
mod reader;
mod settings;
mod socket;
mod stream;
mod sys;
mod tcp;

pub use decode_metrics::DecodeMetrics;
pub use intake::{Intake, Outlet};
pub use reader::Reader;
pub use settings::{ReceiverSettings, SharedSettings};
pub use socket::{BindError, Bound, Sharing, bind};
pub use tcp::TcpReader;
