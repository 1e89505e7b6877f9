//! Names, descriptions and speeds of interfaces, asked of exporters by SNMP.
//!
//! Exporters that send flows and are in a range of `[[snmp.agents]]` are walked again and again, by one thread
//! of its own ([`Walker`]). What they answer is one immutable table ([`Interfaces`]), which is swapped whole:
//! who reads it loads a pointer, and nothing here ever delays a flow. With `state.directory` the table
//! outlives a restart.
//!
//! What may be lost here is names: an exporter that does not answer keeps those of before until they are too old.

mod cache;
mod client;
mod failure;
mod interfaces;
mod known;
mod metrics;
mod schedule;
mod text;
mod walk;
mod walker;

pub use interfaces::{Interface, InterfaceTable, Interfaces, Tables};
pub use schedule::WatchedExporter;
pub use walker::{Walker, Watched};

#[cfg(test)]
mod tests;
