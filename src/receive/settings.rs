//! What a receiver's readers work by, and how it changes while they run.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::config::OnRowError;
use crate::decode::DecoderOptions;
use crate::enrich::Tables;

/// One set of settings. A row is decoded and enriched by one of them: before a reader takes another, it hands over
/// what it has.
#[derive(Debug)]
pub struct ReceiverSettings {
    /// How datagrams are decoded.
    pub options: DecoderOptions,
    /// What rows are enriched from.
    pub tables: Arc<Tables>,
    /// What becomes of batches with its rows that ClickHouse refuses.
    pub on_row_error: OnRowError,
    /// Rows of one chunk, at most.
    pub chunk_rows_max: usize,
}

/// The settings of a receiver, for its readers and for whoever changes them.
pub type SharedSettings = Arc<ArcSwap<ReceiverSettings>>;
