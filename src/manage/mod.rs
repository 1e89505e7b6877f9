//! The management server.
//!
//! | path | answer |
//! |---|---|
//! | `/livez` | 200 while the process works |
//! | `/readyz` | 200 when every configured receiver is bound, else 503. ClickHouse is left out on purpose: datagrams do not go elsewhere when a collector is not ready, so that would only move the loss |
//! | `/metrics` | metrics for Prometheus |
//! | `/api/v1/status` | version, receivers, alarms, the books, and what became of the last reload, JSON |
//! | `/api/v1/exporters` | what each exporter is, sent and announced, and what of it could not be decoded, JSON |
//! | `/api/v1/templates?exporter=ADDRESS` | the templates of one exporter with their fields, JSON |
//! | `/api/v1/snmp` | the exporters that are asked for their interfaces by SNMP, and what was wrong, JSON |
//! | `/api/v1/interfaces` | what sFlow agents last reported of each interface, JSON |
//!
//! With a token everything but the first two is for those who have it (`access.rs`); with a certificate it
//! speaks TLS (`handshake.rs`).
//!
//! It runs on a thread of its own and takes no lock that the pipeline holds for longer than a copy.

mod access;
mod api;
mod handshake;
mod reloads;
mod routes;
mod server;

pub use reloads::{ReloadState, Reloads};
pub use routes::{Phase, View};
pub use server::{ManagementServer, StartError};
