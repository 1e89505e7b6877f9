//! Talking to ClickHouse: the Native encoding, one insert call, the schema, and what errors mean.

mod block;
mod client;
mod codes;
mod errors;
mod frames;
mod insert;
mod native;
mod schema;

#[cfg(test)]
mod tests;

pub use block::{Block, Damaged};
pub use client::Connection;
pub use codes::{CODES, Code};
pub use errors::{Class, ClickHouseError};
pub use frames::Method;
pub use insert::{Insert, InsertSettings, Views, encode_batch};
pub use schema::{SchemaError, create_table_sql, ensure};
