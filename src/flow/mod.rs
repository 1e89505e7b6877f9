//! The normalised flow: the table of columns, the chunk that carries them, and a view of one row.
//!
//! Flows travel as columns from the decoder to ClickHouse: no struct per row is ever built. The
//! [table](table::COLUMNS) is the one place that knows a column's name, type, unit and sources; the
//! DDL, the encoder, the JSON output and `docs/columns.md` are derived from it.

mod chunk;
mod identity;
mod row;
mod table;
mod time;
mod writer;

pub(crate) use chunk::put_length;
pub use chunk::{CHUNK_ROWS_MAX, Chunk};
pub use identity::Identity;
pub use row::{Row, TextRow};
pub use table::{COLUMNS, Column, ColumnSpec, Kind, Read, Source};
pub use time::utc;
pub use writer::{ChunkWriter, DAY_MS};
