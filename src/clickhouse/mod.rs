//! Talking to ClickHouse: the Native encoding, one insert call, and what errors mean.

mod block;
mod client;
mod codes;
mod connector;
mod dead_letters;
mod endpoints;
mod errors;
mod frames;
mod insert;
mod login;
mod native;

#[cfg(test)]
mod tests;

pub use block::{Block, Damaged};
pub use client::Connection;
pub use codes::{CODES, Code};
pub use dead_letters::{DeadLetters, Unit, units};
pub use endpoints::{EndpointInUse, Endpoints};
pub use errors::{CITED_VALUES, Class, ClickHouseError};
pub use frames::Method;
pub use insert::{Insert, InsertSettings, Views, encode_batch, encode_body};
pub use login::{Login, SharedLogin};

/// What was encoded as the body of an insert.
#[cfg(test)]
pub(crate) fn plain(body: &[u8]) -> Vec<u8> {
    frames::decode(body).unwrap()
}
