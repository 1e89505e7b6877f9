//! The read-only API.

use serde_json::{Map, Value, json};

use crate::decode::{Exporter, Exporters, Interface};
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
    json!({
        "address": exporter.address().to_string(),
        "lastSeenMs": exporter.last_seen_ms(),
        "datagrams": account.datagrams,
        "bytes": account.bytes,
        "flows": account.tally.flows,
        "optionsRecords": account.tally.options_records,
        "lostRecords": account.tally.lost_records,
        "lostDatagrams": account.tally.lost_datagrams,
        "lateDatagrams": account.tally.late_datagrams,
        "restarts": account.tally.restarts,
        "templates": exporter.template_count(),
        "counterSamples": account.tally.counter_samples,
        "dropEvents": account.tally.drop_events,
        "interfaces": exporter.interface_count(),
        "dropped": account.tally.drops_by_label(),
    })
}

/// `/api/v1/interfaces`: what sFlow agents last reported of each interface.
pub(super) fn interfaces(exporters: &Exporters) -> Value {
    let mut list = exporters.list();
    list.sort_by_key(|exporter| exporter.address());
    let all = list.iter().flat_map(|exporter| {
        let address = exporter.address().to_string();
        exporter.interfaces().into_iter().map(move |it| interface(&address, &it))
    });
    all.collect()
}

fn interface(exporter: &str, interface: &Interface) -> Value {
    let (key, counters) = (&interface.key, &interface.counters);
    json!({
        "exporter": exporter,
        "agent": key.agent.to_string(),
        "subAgent": key.sub_agent,
        "ifIndex": key.if_index,
        "receivedMs": interface.received_ms,
        "ifType": counters.if_type,
        "ifSpeed": known(counters.speed_bits),
        "ifDirection": counters.direction,
        "ifAdminUp": counters.status & 1 != 0,
        "ifOperUp": counters.status & 2 != 0,
        "ifInOctets": known(counters.in_octets),
        "ifInUcastPkts": known(counters.in_unicast_packets),
        "ifInMulticastPkts": known(counters.in_multicast_packets),
        "ifInBroadcastPkts": known(counters.in_broadcast_packets),
        "ifInDiscards": known(counters.in_discards),
        "ifInErrors": known(counters.in_errors),
        "ifInUnknownProtos": known(counters.in_unknown_protocols),
        "ifOutOctets": known(counters.out_octets),
        "ifOutUcastPkts": known(counters.out_unicast_packets),
        "ifOutMulticastPkts": known(counters.out_multicast_packets),
        "ifOutBroadcastPkts": known(counters.out_broadcast_packets),
        "ifOutDiscards": known(counters.out_discards),
        "ifOutErrors": known(counters.out_errors),
        "ifPromiscuousMode": known(counters.promiscuous_mode),
    })
}

/// A counter that the agent does not know, all bits 1, is null.
fn known<T: Into<u64> + std::ops::Not<Output = T> + Copy>(counter: T) -> Value {
    let is_unknown = (!counter).into() == 0;
    if is_unknown { Value::Null } else { counter.into().into() }
}
