//! The read-only API.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::decode::{
    Account, AnnouncedRate, Exporter, Exporters, Interface, NETFLOW_V9_SCOPE, Protocol,
    TemplateInfo, VARIABLE_LENGTH,
};
use crate::elements::registry;
use crate::enrich::FileState;
use crate::sink::{Alarm, Alarms, RowDropReason, Trouble};
use crate::snmp::{Watched, WatchedExporter};

use super::reloads::ReloadState;
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
        .load()
        .iter()
        .map(|(name, listen)| (name.clone(), listen.to_string().into()))
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "ready": view.phase() == Phase::Ready,
        "receivers": receivers,
        "clickhouse": {
            "endpoints": view.endpoint.urls(),
            "endpointInUse": view.endpoint.url(),
            "alarms": alarms(&view.alarms),
        },
        "rows": {
            "received": books.received,
            "recovered": books.recovered,
            "stored": books.stored,
            "spooled": books.spooled,
            "deadLettered": books.dead_lettered,
            "pending": books.pending(),
            "dropped": dropped,
        },
        "configuration": configuration(&view.reloads.state()),
    })
}

/// What became of the last configuration, and of the files that it names.
fn configuration(state: &ReloadState) -> Value {
    let file = |file: &FileState| {
        json!({
            "table": file.table,
            "path": file.path,
            "entries": file.entries,
            "loadedMs": file.loaded_ms,
            "error": file.error,
        })
    };
    json!({
        "appliedMs": state.applied_ms,
        "refusedMs": state.refused_ms,
        "mistakes": state.mistakes,
        "needsRestart": state.needs_restart,
        "files": state.files.iter().map(file).collect::<Value>(),
    })
}

/// What keeps rows from ClickHouse, or from a view, now.
fn alarms(alarms: &Alarms) -> Value {
    let alarm = |(trouble, alarm): (Trouble, Alarm)| {
        json!({
            "alarm": trouble.label(),
            "table": trouble.table(),
            "sinceMs": alarm.since_ms,
            "error": alarm.error,
        })
    };
    alarms.raised().into_iter().map(alarm).collect()
}

/// `/api/v1/exporters`, the one that sent most first.
pub(super) fn exporters(exporters: &Exporters, now_ms: i64) -> Value {
    let all = exporters.list();
    let mut list: Vec<_> = all.iter().map(|exporter| (exporter, exporter.account())).collect();
    list.sort_by_key(|(_, account)| std::cmp::Reverse(account.datagrams));
    list.iter().map(|(it, account)| exporter(it, account, now_ms)).collect()
}

fn exporter(exporter: &Exporter, account: &Account, now_ms: i64) -> Value {
    let protocols: Map<String, Value> = Protocol::ALL
        .iter()
        .map(|&protocol| (protocol, account.by_protocol[protocol as usize]))
        .filter(|(_, datagrams)| *datagrams > 0)
        .map(|(protocol, datagrams)| (protocol.label().to_owned(), datagrams.into()))
        .collect();
    let rates = account.per_second(now_ms);
    json!({
        "address": exporter.address().to_string(),
        "firstSeenMs": account.first_seen_ms,
        "lastSeenMs": exporter.last_seen_ms(),
        "protocols": protocols,
        "domains": domains(account),
        "datagrams": account.datagrams,
        "datagramsPerSecond": rates.datagrams,
        "bytes": account.bytes,
        "bytesPerSecond": rates.bytes,
        "flows": account.tally.flows,
        "flowsPerSecond": rates.flows,
        "optionsRecords": account.tally.options_records,
        "lostRecords": account.tally.lost_records,
        "lostDatagrams": account.tally.lost_datagrams,
        "lateDatagrams": account.tally.late_datagrams,
        "duplicateDatagrams": account.tally.duplicate_datagrams,
        "restarts": account.tally.restarts,
        "clockSkewMs": account.clock_skew_ms,
        "templates": exporter.template_count(),
        "sampling": sampling(exporter, now_ms),
        "statistics": statistics(exporter, now_ms),
        "reversedFlows": account.tally.reversed_flows,
        "oddLengthValues": account.tally.odd_length_values,
        "listValues": account.tally.list_values,
        "leftOutValues": account.tally.left_out_values,
        "counterSamples": account.tally.counter_samples,
        "dropEvents": account.tally.drop_events,
        "interfaces": exporter.interface_count(),
        "dropped": account.tally.drops_by_label(),
    })
}

/// Observation domains, source ids and sub-agents.
fn domains(account: &Account) -> Value {
    let domain =
        |&(protocol, id): &(Protocol, u32)| json!({"protocol": protocol.label(), "id": id});
    account.domains.iter().map(domain).collect()
}

/// The rates that it announced in options records.
fn sampling(exporter: &Exporter, now_ms: i64) -> Value {
    let rate = |rate: AnnouncedRate| {
        json!({
            "domain": rate.domain_id,
            "sampler": rate.sampler_id,
            "interval": rate.interval,
            "algorithm": rate.algorithm,
        })
    };
    exporter.announced_rates(now_ms).into_iter().map(rate).collect()
}

/// What it says of itself in options records, by observation domain.
fn statistics(exporter: &Exporter, now_ms: i64) -> Value {
    let mut by_domain = BTreeMap::<u32, Map<String, Value>>::new();
    for (domain_id, name, value) in exporter.statistics(now_ms) {
        let domain = by_domain.entry(domain_id).or_default();
        domain.insert("domain".to_owned(), domain_id.into());
        domain.insert(name.to_owned(), value.into());
    }
    by_domain.into_values().map(Value::Object).collect()
}

/// `/api/v1/templates`: those of one exporter.
pub(super) fn templates(exporter: &Exporter) -> Value {
    exporter.templates().iter().map(template).collect()
}

fn template(template: &TemplateInfo) -> Value {
    let field = |&(enterprise, id, length): &(u32, u16, u16)| {
        let is_scope = enterprise == NETFLOW_V9_SCOPE;
        let element = registry().find_source(enterprise, id).filter(|_| !is_scope);
        json!({
            "enterprise": (!is_scope).then_some(enterprise),
            "id": id,
            "name": element.map(|element| &*element.name),
            "length": (length != VARIABLE_LENGTH).then_some(length),
        })
    };
    json!({
        "protocol": template.protocol.label(),
        "domain": template.domain_id,
        "id": template.id,
        "isOptions": template.is_options,
        "lastSeenMs": template.seen_ms,
        "fields": template.fields.iter().map(field).collect::<Value>(),
    })
}

/// `/api/v1/snmp`: the exporters that are asked for their interfaces.
pub(super) fn snmp(watched: &Watched) -> Value {
    let exporter = |it: WatchedExporter| {
        json!({
            "exporter": it.target.ip().to_string(),
            "port": it.target.port(),
            "agent": it.agent,
            "lastSuccessMs": it.last_success_ms,
            "lastError": it.last_error,
            "failures": it.failures,
            "interfaces": it.interfaces,
            "nextWalkMs": it.next_walk_ms,
        })
    };
    watched.list().into_iter().map(exporter).collect()
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
