//! Datagram to columns: NetFlow v5, NetFlow v9, IPFIX and sFlow.
//!
//! This stage touches no socket, clock or metric: it takes bytes and times, writes flows into a
//! [`ChunkWriter`](crate::flow::ChunkWriter) and returns a [`Tally`] of what it did and what it could
//! not do. A bad set or sample costs itself, not the datagram; everything that is not decoded is tallied under
//! a [`DropReason`], and added to the exporter's own account in [`Exporters`].

mod account;
mod clock;
mod decoder;
mod derived;
mod exporters;
mod extra;
mod interface_names;
mod interfaces;
mod ipfix;
mod labels;
mod limit;
mod message;
mod names;
mod netflow_fixed;
mod netflow_v9;
mod options;
mod packet;
mod plan;
mod rates;
mod records;
mod sampling;
mod section;
mod seen;
mod sequence;
mod session;
mod sflow;
mod state;
mod statistics;
mod steps;
mod streams;
mod tally;
mod template;
mod template_counts;
mod template_set;
mod waiting;
mod wire;

pub use account::{Account, PerSecond};
pub use clock::Timing;
pub use decoder::{Datagram, Decoder, DecoderOptions};
pub use exporters::{Exporter, Exporters};
pub use interfaces::{Interface, InterfaceCounters, InterfaceKey};
pub use packet::Tunnel;
pub use rates::AnnouncedRate;
pub use seen::SeenSet;
pub use state::{RestoreError, Restored, STATE_BYTES_MAX, Snapshot};
pub use tally::{DropReason, DropScope, Protocol, Tally};
pub use template::{NETFLOW_V9_SCOPE, TemplateInfo, VARIABLE_LENGTH};
