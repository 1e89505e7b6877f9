//! What users of flow collectors complained about in public, each as a test: the packets are built by hand
//! from the description. The names in the comments are project and number of the thread.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod layout;
mod nat;
mod sampling;
mod sflow;
mod templates;
mod times;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tidegate::decode::{Datagram, Decoder, DecoderOptions, Exporters, Tally};
use tidegate::flow::{ChunkWriter, Row};
use tidegate::traffic::{IpfixHeader, MessageBuilder, V9Header};

const NOW_S: u32 = 1_800_000_000;
const NOW_MS: i64 = NOW_S as i64 * 1_000;
const UPTIME_MS: u32 = 3_600_000;
const ROUTER: [u8; 4] = [192, 0, 2, 1];

/// A collector without socket and ClickHouse.
struct Collector {
    decoder: Decoder,
    exporters: Arc<Exporters>,
    rows: Vec<Value>,
    /// Days of the chunks that the rows came in.
    chunks: usize,
    tally: Tally,
}

impl Collector {
    fn new() -> Self {
        Self::with(DecoderOptions::default())
    }

    fn with(options: DecoderOptions) -> Self {
        let exporters = Arc::new(Exporters::default());
        let decoder = Decoder::new(options, Arc::clone(&exporters));
        Self { decoder, exporters, rows: Vec::new(), chunks: 0, tally: Tally::default() }
    }

    /// One that is sent to over a connection.
    fn of_connection() -> Self {
        let mut collector = Self::new();
        let exporters = Arc::clone(&collector.exporters);
        collector.decoder = Decoder::of_connection(DecoderOptions::default(), exporters);
        collector
    }

    fn receive(&mut self, payload: &[u8]) -> &mut Self {
        self.receive_from(ROUTER, payload)
    }

    fn receive_from(&mut self, exporter: impl Into<IpAddr>, payload: &[u8]) -> &mut Self {
        let datagram =
            Datagram { exporter: exporter.into(), source_port: 0, received_ms: NOW_MS, payload };
        let mut writer = ChunkWriter::new(1_000);
        let (_, tally) = self.decoder.decode(&datagram, Instant::now(), &mut writer);
        self.tally.add(&tally);
        writer.close_all();
        for chunk in writer.take_closed() {
            self.chunks += 1;
            let rows = (0..chunk.rows()).map(|row| Row::new(&chunk, row));
            self.rows.extend(rows.map(|row| serde_json::to_value(row).unwrap()));
        }
        self
    }

    /// A column of every row; 0 where it is not known.
    fn numbers(&self, column: &str) -> Vec<f64> {
        let number = |row: &Value| row[column].as_f64().unwrap_or(0.0);
        self.rows.iter().map(number).collect()
    }

    /// The same of a column of text.
    fn texts(&self, column: &str) -> Vec<&str> {
        self.rows.iter().map(|row| row[column].as_str().unwrap_or_default()).collect()
    }

    /// Reasons and counts of what was not decoded.
    fn drops(&self) -> Vec<(&'static str, u64)> {
        self.tally.drops().map(|(reason, dropped)| (reason.label(), dropped.count)).collect()
    }
}

fn v9() -> MessageBuilder {
    v9_of(1)
}

fn v9_of(source_id: u32) -> MessageBuilder {
    let header = V9Header { uptime_ms: UPTIME_MS, export_time_s: NOW_S, sequence: 0, source_id };
    MessageBuilder::v9(header)
}

fn ipfix() -> MessageBuilder {
    ipfix_of(1)
}

fn ipfix_of(domain_id: u32) -> MessageBuilder {
    MessageBuilder::ipfix(IpfixHeader { export_time_s: NOW_S, sequence: 0, domain_id })
}
