//! Every field of every record, for `tidegate inspect`: what an exporter sends, whether a column takes it or not.
//!
//! Two decoders read each datagram. The crate `netflow_parser` gives the fields; tidegate's own decoder says
//! beside each set what becomes of it in a collector. Names and types are of the registry of elements.
//! Nothing here is on the way of a datagram to ClickHouse.

mod convert;
mod domain;
mod field;
mod fixed;
mod header;
mod library;
mod raw;
mod sets;
#[cfg(test)]
mod tests;
mod value;
mod verdict;
mod waiting;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::capture::Datagram as Captured;
use crate::decode::{Datagram, Decoder, DecoderOptions, DropReason, Exporters, Protocol};
use crate::flow::{CHUNK_ROWS_MAX, Chunk, ChunkWriter, Column, Kind, Row, utc};

pub use self::raw::{RawError, read_raw};
use self::sets::SetsWriter;

/// Reads datagrams in their order and writes what is in them.
#[derive(Debug)]
pub struct Inspector {
    decoder: Decoder,
    writer: ChunkWriter,
    sets: SetsWriter,
    only_templates: bool,
}

impl Inspector {
    /// One that knows no template yet. With `only_templates` it leaves out everything else.
    #[must_use]
    pub fn new(only_templates: bool) -> Self {
        let options = DecoderOptions {
            // The clock of the capturing machine proves nothing against the exporter's.
            skew_max: Duration::MAX,
            ..DecoderOptions::default()
        };
        let mut decoder = Decoder::new(options, Arc::new(Exporters::default()));
        decoder.watch_sets();
        let writer = ChunkWriter::new(CHUNK_ROWS_MAX);
        Self { decoder, writer, sets: SetsWriter::new(only_templates), only_templates }
    }

    /// Writes the datagram that is `number` in its file.
    ///
    /// # Errors
    ///
    /// When `out` fails.
    pub fn write(
        &mut self,
        number: u64,
        captured: &Captured,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let exporter = captured.source.ip().to_canonical();
        let payload = &captured.payload[..];
        let received_ms = captured.time_unix_ns.div_euclid(1_000_000);
        let source_port = captured.source.port();
        let datagram = Datagram { exporter, source_port, received_ms, payload };
        let (_, tally) = self.decoder.decode(&datagram, Instant::now(), &mut self.writer);
        let sets = self.decoder.take_sets();
        self.writer.close_all();
        let chunks: Vec<Chunk> = self.writer.take_closed().collect();
        if self.only_templates && !sets.iter().any(|set| set.tally.templates > 0) {
            return Ok(());
        }
        let time = utc(received_ms);
        write!(out, "datagram {number}: {time} {}, ", captured.source)?;
        match header::messages(payload).first() {
            Some(message) => writeln!(out, "{message}")?,
            None => writeln!(out, "{} of no known protocol", count(payload.len(), "byte"))?,
        }
        self.sets.write(number, captured, &sets, out)?;
        if !self.only_templates {
            match Protocol::of(payload) {
                Some(Protocol::NetflowV5 | Protocol::NetflowV7) => fixed::write(payload, out)?,
                Some(Protocol::NetflowV1 | Protocol::Sflow) => write_rows(&chunks, out)?,
                _ => {}
            }
        }
        for line in verdict::of_datagram(&tally, &sets) {
            writeln!(out, "  -> {line}")?;
        }
        Ok(())
    }

    /// Writes what never got its template.
    ///
    /// # Errors
    ///
    /// When `out` fails.
    pub fn finish(self, out: &mut impl Write) -> io::Result<()> {
        let mut sets = 0;
        self.decoder.end_waiting(|_, tally| sets += tally.dropped(DropReason::NoTemplate).count);
        if sets > 0 {
            writeln!(out, "data sets whose template never came: {sets}")?;
        }
        Ok(())
    }
}

/// What tidegate's own decoder makes of protocols that the crate does not read.
fn write_rows(chunks: &[Chunk], out: &mut impl Write) -> io::Result<()> {
    let rows = chunks.iter().flat_map(|chunk| (0..chunk.rows()).map(|row| Row::new(chunk, row)));
    for (number, row) in rows.enumerate() {
        writeln!(out, "  flow {}", number + 1)?;
        let values = serde_json::to_value(row)?;
        for &column in Column::ALL {
            let Some(value) = values.get(column.name()) else { continue };
            match (column.spec().kind, value.as_i64()) {
                (Kind::Time, Some(ms)) => writeln!(out, "    {} = {}", column.name(), utc(ms))?,
                _ => writeln!(out, "    {} = {value}", column.name())?,
            }
        }
    }
    Ok(())
}

/// `1 flow`, `12 flows`.
fn count(number: impl TryInto<u64>, noun: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
