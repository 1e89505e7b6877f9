//! Flow exports to send: synthetic exporters ([`Generator`], [`run`]) and captures ([`replay`]).
//!
//! It exists to try a collector without a router at hand, to measure one, and to test this one:
//! the generator keeps exact totals, so that what arrives in the database can be compared with what
//! was sent. [`MessageBuilder`] writes any NetFlow v9 or IPFIX message, right or wrong, for tests.

pub mod flows;
mod generator;
pub mod ipfix;
mod message;
pub mod replay;
mod sender;
pub mod sflow;
mod source;
pub mod v5;
pub mod v9;
mod wire;

pub use self::generator::{Emission, Generator, Protocol, Spec, Transport};
pub use self::message::{Field, IpfixHeader, MessageBuilder, V9Header, variable_length};
pub use self::sender::{Pace, Sent, Totals, TrafficError, loopback_address, run};
