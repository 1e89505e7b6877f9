//! The read-only API.

use serde_json::{Map, Value, json};

use crate::decode::{Exporter, Exporters};
use crate::sink::RowDropReason;

use super::routes::{Phase, View};

/// `/api/v1/status`.
pub(super) fn status(view: &View) -> Value {
    let books = view.ledger.books();
    let dropped: Map<String, Value> = RowDropReason::ALL
        .iter()
        .map(|&reason| (reason.label().to_owned(), books.dropped[reason as usize].into()))
        .collect();
    let receivers: Map<String, Value> = view
        .receivers
        .iter()
        .map(|(name, listen)| (name.clone(), listen.as_str().into()))
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "ready": view.phase() == Phase::Ready,
        "receivers": receivers,
        "rows": {
            "received": books.received,
            "stored": books.stored,
            "pending": books.pending(),
            "dropped": dropped,
        },
    })
}

/// `/api/v1/exporters`, the one that sent most first.
pub(super) fn exporters(exporters: &Exporters) -> Value {
    let mut list: Vec<_> =
        exporters.list().iter().map(|e| (e.account().datagrams, exporter(e))).collect();
    list.sort_by_key(|(datagrams, _)| std::cmp::Reverse(*datagrams));
    list.into_iter().map(|(_, exporter)| exporter).collect()
}

fn exporter(exporter: &Exporter) -> Value {
    let account = exporter.account();
    let dropped: Map<String, Value> = account
        .tally
        .drops()
        .map(|(reason, dropped)| {
            (reason.label().to_owned(), json!({"count": dropped.count, "bytes": dropped.bytes}))
        })
        .collect();
    json!({
        "address": exporter.address().to_string(),
        "lastSeenMs": exporter.last_seen_ms(),
        "datagrams": account.datagrams,
        "bytes": account.bytes,
        "flows": account.tally.flows,
        "optionsRecords": account.tally.options_records,
        "templates": exporter.template_count(),
        "dropped": dropped,
    })
}
