//! `tidegate decode`: the flows of a capture, without ClickHouse.

use std::io::{BufWriter, Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::capture::{Capture, Datagram as Captured};
use crate::decode::{Datagram, Decoder, DecoderOptions, DropReason, Exporters, Tally};
use crate::flow::{CHUNK_ROWS_MAX, Chunk, ChunkWriter, Column, Row};

/// Print the flows of a pcap or pcapng file as JSON, one object a line
///
/// Keys are the columns of the table flows; a column at its default (0, empty) is left out. Addresses
/// are text, times are milliseconds since 1970 by the exporter's clock.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The capture
    file: PathBuf,

    /// Print one object with totals instead: datagrams, flows, bytes, packets, optionsRecords,
    /// templates, counterSamples and dropEvents (sFlow), undecodedSets (data sets without template),
    /// errors by reason
    #[arg(long)]
    summary: bool,

    /// Show elements without a column too, by name under the key extra
    #[arg(long)]
    extra: bool,
}

/// Totals over all flows and datagrams.
#[derive(Default)]
struct Summary {
    datagrams: u64,
    bytes: u64,
    packets: u64,
    tally: Tally,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        let mut out = BufWriter::new(stdout().lock());
        let mut print = |chunk: &Chunk| -> Result<()> {
            for row in (0..chunk.rows()).filter(|_| !self.summary) {
                serde_json::to_writer(&mut out, &Row::new(chunk, row))?;
                out.write_all(b"\n")?;
            }
            Ok(())
        };
        let (summary, damage) = decode_file(&self, &mut print)?;
        if self.summary {
            writeln!(out, "{}", summary.to_json())?;
        }
        out.flush()?;
        // What came before the damage was printed; the exit code still says that it is not all.
        damage.map_or(Ok(ExitCode::SUCCESS), Err)
    }
}

/// Decodes a capture as one reader would that received it. Gives the flows to `take`, and returns the
/// totals and what ended the file early, if something did.
fn decode_file(
    args: &Args,
    take: &mut impl FnMut(&Chunk) -> Result<()>,
) -> Result<(Summary, Option<anyhow::Error>)> {
    let options = DecoderOptions {
        // The clock of the capturing machine proves nothing against the exporter's.
        skew_max: Duration::MAX,
        keep_unknown_elements: args.extra,
        ..DecoderOptions::default()
    };
    let mut decoder = Decoder::new(options, Arc::new(Exporters::default()));
    let mut writer = ChunkWriter::new(CHUNK_ROWS_MAX);
    let mut summary = Summary::default();
    let now = Instant::now();
    let mut damage = None;
    for captured in Capture::open(&args.file)? {
        let captured = match captured {
            Ok(captured) => captured,
            Err(error) => {
                damage = Some(anyhow::Error::new(error).context(args.file.display().to_string()));
                break;
            }
        };
        let (_, tally) = decoder.decode(&datagram_of(&captured), now, &mut writer);
        summary.datagrams += 1;
        summary.tally.add(&tally);
        for chunk in writer.take_closed() {
            summary.add(&chunk);
            take(&chunk)?;
        }
    }
    decoder.end_waiting(|_, tally| summary.tally.add(tally));
    writer.close_all();
    for chunk in writer.take_closed() {
        summary.add(&chunk);
        take(&chunk).context("cannot print")?;
    }
    Ok((summary, damage))
}

fn datagram_of(captured: &Captured) -> Datagram<'_> {
    Datagram {
        exporter: captured.source.ip().to_canonical(),
        source_port: captured.source.port(),
        received_ms: captured.time_unix_ns.div_euclid(1_000_000),
        payload: &captured.payload,
    }
}

impl Summary {
    fn add(&mut self, chunk: &Chunk) {
        for row in (0..chunk.rows()).map(|row| Row::new(chunk, row)) {
            self.bytes = self.bytes.saturating_add(row.unsigned(Column::Bytes));
            self.packets = self.packets.saturating_add(row.unsigned(Column::Packets));
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "datagrams": self.datagrams,
            "flows": self.tally.flows,
            "bytes": self.bytes,
            "packets": self.packets,
            "optionsRecords": self.tally.options_records,
            "templates": self.tally.templates,
            "lostRecords": self.tally.lost_records,
            "lostDatagrams": self.tally.lost_datagrams,
            "lateDatagrams": self.tally.late_datagrams,
            "duplicateDatagrams": self.tally.duplicate_datagrams,
            "restarts": self.tally.restarts,
            "counterSamples": self.tally.counter_samples,
            "dropEvents": self.tally.drop_events,
            "undecodedSets": self.tally.dropped(DropReason::NoTemplate).count,
            "errors": self.tally.drops_by_label(),
        })
    }
}
