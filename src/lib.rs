//! tidegate: a flow collector that writes to ClickHouse and keeps its books balanced.

pub mod app;
pub mod capture;
pub mod cli;
pub mod clickhouse;
pub mod config;
pub mod decode;
pub mod devserver;
pub mod elements;
pub mod flow;
pub mod inspect;
pub mod manage;
pub mod patience;
pub mod queue;
pub mod receive;
pub mod schema;
pub mod sink;
pub mod snmp;
pub mod spool;
pub mod state;
pub mod telemetry;
pub mod traffic;
