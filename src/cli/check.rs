//! `tidegate check`: the configuration, without running it.

use std::io::{Write, stdout};
use std::process::ExitCode;

use anyhow::Result;

use crate::config::{
    ClickHouseConfig, Config, SchemaConfig, SnmpConfig, Transport, show_bytes, show_duration,
};
use crate::decode::Protocol;

use super::ConfigFile;

/// Check a configuration file and show what follows from it
///
/// Says every mistake at once, with file, line and key. Exit code 78 when there is one.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigFile,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        let config = match self.config.load() {
            Ok(config) => config,
            Err(exit_code) => return Ok(exit_code),
        };
        writeln!(stdout().lock(), "{}: ok\n{}", self.config, summary(&config))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The settings as they are, defaults included; no password.
fn summary(config: &Config) -> String {
    let mut lines = Vec::new();
    for receiver in &config.receivers {
        let protocols: Vec<_> = receiver.protocols.iter().map(|&p| Protocol::label(p)).collect();
        let (on_row_error, source) = config.on_row_error(receiver);
        let on_row_error = on_row_error.label();
        lines.push(format!(
            "receiver {}: {} {}, {}, {}, on-row-error {on_row_error} {source}",
            receiver.name,
            receiver.transport.label(),
            receiver.listen,
            transport(&receiver.transport),
            protocols.join(" "),
        ));
    }
    let clickhouse = &config.clickhouse;
    lines.push(format!(
        "clickhouse: {} database {} as {}, schema {}",
        clickhouse.endpoints.join(", else "),
        clickhouse.database,
        clickhouse.username,
        if clickhouse.manage_schema { "managed" } else { "checked" },
    ));
    lines.push(schema(&clickhouse.schema));
    lines.push(batching(clickhouse));
    lines.push(snmp(&config.snmp));
    lines.push(format!("management: http://{}", config.management.listen));
    lines.join("\n")
}

fn schema(schema: &SchemaConfig) -> String {
    let rollups: Vec<_> = schema.rollups.iter().map(|rollup| rollup.name.as_str()).collect();
    let rollups = if rollups.is_empty() { "none".to_owned() } else { rollups.join(" ") };
    let warning =
        schema.warning().map_or_else(String::new, |warning| format!("; warning: {warning}"));
    format!(
        "schema: flows {} days, rollups {} days: {rollups}{warning}",
        schema.ttl_days, schema.rollup_ttl_days
    )
}

fn batching(clickhouse: &ClickHouseConfig) -> String {
    let batch = &clickhouse.batch;
    let grace_period = show_duration(batch.shutdown_grace_period);
    if batch.enabled {
        return format!(
            "batch: {} rows or {}, queue {} rows, {grace_period} to stop",
            batch.max_rows,
            show_duration(batch.max_latency),
            batch.queue_capacity_rows,
        );
    }
    let (gathers, why) = clickhouse.gathers_inserts();
    let gathers = if gathers { "gathered" } else { "not gathered" };
    format!("batch: off, inserts {gathers} by ClickHouse ({why}), {grace_period} to stop")
}

fn snmp(snmp: &SnmpConfig) -> String {
    if snmp.agents.is_empty() {
        return "snmp: off".to_owned();
    }
    let agents: Vec<_> = snmp.agents.iter().map(ToString::to_string).collect();
    format!(
        "snmp: {}, every {}, {} at a time, {} for each of {} tries",
        agents.join("; "),
        show_duration(snmp.interval),
        snmp.concurrency,
        show_duration(snmp.timeout),
        snmp.retries + 1,
    )
}

fn transport(transport: &Transport) -> String {
    match transport {
        Transport::Udp(udp) => {
            format!("{} sockets of {}", udp.workers, show_bytes(udp.receive_buffer_bytes))
        }
        Transport::Tcp(tcp) => format!(
            "{} connections, idle for {} at most",
            tcp.connections_max,
            show_duration(tcp.idle_timeout)
        ),
    }
}
