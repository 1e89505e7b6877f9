//! The insert contract: one batch is one block of one partition, all or nothing, and exactly once.
//!
//! Sent with every try, whatever the server's profile says. Without them a refused insert may leave a
//! part of the batch behind (a different one in each rollup), and a second try may double it.

use bytes::Bytes;

use crate::flow::Chunk;

use super::client::Connection;
use super::errors::ClickHouseError;
use super::frames::{self, Method};
use super::native;

/// Settings that are always sent.
const SETTINGS: [(&str, &str); 11] = [
    // Errors must reach the client: a coalesced insert is acknowledged before it is checked.
    ("async_insert", "0"),
    // Any batch stays one block.
    ("max_insert_block_size", "1099511627776"),
    ("min_insert_block_size_rows", "1099511627776"),
    ("min_insert_block_size_bytes", "1125899906842624"),
    ("max_insert_threads", "1"),
    ("input_format_parallel_parsing", "0"),
    // A second try of the same token changes nothing, in the rollups neither.
    DEDUPLICATED,
    ("deduplicate_blocks_in_dependent_materialized_views", "1"),
    ("parallel_view_processing", "0"),
    // A column that the table does not have is an error, not silence.
    ("input_format_skip_unknown_fields", "0"),
    // The body is framed, see `frames`.
    ("decompress", "1"),
];

const DEDUPLICATED: (&str, &str) = ("insert_deduplicate", "1");

/// For inserts that the server gathers, each tried once.
const GATHERED_SETTINGS: [(&str, &str); 5] = [
    ("async_insert", "1"),
    ("wait_for_async_insert", "0"),
    ("async_insert_deduplicate", "0"),
    ("insert_deduplicate", "0"),
    ("deduplicate_blocks_in_dependent_materialized_views", "0"),
];

/// Settings of newer servers, needed there for the same reason; older ones refuse unknown settings.
const NEWER_SETTINGS: [(&str, &str); 3] = [
    ("max_insert_block_size_bytes", "0"),
    ("use_strict_insert_block_limits", "0"),
    // Overrules insert_deduplicate.
    ("deduplicate_insert", "enable"),
];

/// What happens to an insert when a materialized view fails on it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Views {
    /// The insert fails; the table may have the rows already.
    Required,
    /// The failing view is left out.
    Optional,
}

impl Views {
    pub(super) fn setting(self) -> (&'static str, &'static str) {
        let ignore = match self {
            Self::Required => "0",
            Self::Optional => "1",
        };
        ("materialized_views_ignore_errors", ignore)
    }
}

/// One insert as it is sent, on every try.
#[derive(Debug)]
pub struct Insert<'a> {
    /// The statement.
    pub sql: &'a str,
    /// The settings of the server.
    pub settings: &'a InsertSettings,
    /// The token: a server stores what comes with it once.
    pub token: &'a str,
    /// The frames.
    pub body: &'a Bytes,
    /// Whether views may fail.
    pub views: Views,
}

/// The settings for inserts into one server.
#[derive(Clone, Debug)]
pub struct InsertSettings(Vec<(&'static str, &'static str)>);

impl InsertSettings {
    /// Asks the server which of the newer settings it knows.
    ///
    /// # Errors
    ///
    /// ClickHouse refused or does not answer.
    pub fn probe(connection: &Connection) -> Result<Self, ClickHouseError> {
        let names = NEWER_SETTINGS.map(|(name, _)| format!("'{name}'")).join(", ");
        let known = connection
            .query(&format!("SELECT name FROM system.settings WHERE name IN ({names})"))?;
        let newer =
            NEWER_SETTINGS.into_iter().filter(|(name, _)| known.lines().any(|k| k == *name));
        Ok(Self(SETTINGS.into_iter().chain(newer).collect()))
    }

    /// The same for inserts that the server gathers: they are acknowledged when they arrive, and have no tokens,
    /// by which the server would tell them apart and gather none.
    #[must_use]
    pub fn gathered(self) -> Self {
        let is_kept = |name: &str| !GATHERED_SETTINGS.iter().any(|(other, _)| *other == name);
        let kept = self.0.into_iter().filter(|(name, _)| is_kept(name));
        Self(kept.chain(GATHERED_SETTINGS).collect())
    }

    /// Whether a token tells an insert that was sent before.
    pub(super) fn has_tokens(&self) -> bool {
        self.0.contains(&DEDUPLICATED)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().copied()
    }
}

/// Encodes the rows of `chunks`, all of one partition, as the body of one insert.
#[must_use]
pub fn encode_batch(chunks: &[Chunk], method: Method) -> Bytes {
    let bytes: usize = chunks.iter().map(Chunk::bytes).sum();
    let mut block = Vec::with_capacity(bytes + bytes / 8);
    native::encode(chunks, &mut block);
    frames::encode(&block, method).into()
}

/// Encodes rows that are text, one a line, as the body of one insert.
#[must_use]
pub fn encode_body(plain: &[u8], method: Method) -> Bytes {
    frames::encode(plain, method).into()
}
