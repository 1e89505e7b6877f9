//! Every field of every record, for `tidegate inspect`: what an exporter sends, whether a column takes it or not.
//!
//! Two decoders read each datagram. The crate `netflow_parser` gives the fields; tidegate's own decoder says
//! beside each set what becomes of it in a collector. Names and types are of the registry of elements.
//! Nothing here is on the way of a datagram to ClickHouse.

mod field;
mod fixed;
mod header;
mod library;
mod raw;
#[cfg(test)]
mod tests;
mod value;
mod verdict;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::capture::Datagram as Captured;
use crate::decode::{Datagram, Decoder, DecoderOptions, DropReason, Exporters, Protocol, SeenSet};
use crate::flow::{CHUNK_ROWS_MAX, Chunk, ChunkWriter, Column, Kind, Row};

use self::header::Message;
use self::library::{Contents, Library, Template};
pub use self::raw::{RawError, read_raw};

/// Bytes of a set header, RFC 3954 section 5.2 and RFC 7011 section 3.3.2.
const SET_HEADER_BYTES: usize = 4;

/// Reads datagrams in their order and writes what is in them.
#[derive(Debug)]
pub struct Inspector {
    decoder: Decoder,
    writer: ChunkWriter,
    library: Library,
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
        Self { decoder, writer, library: Library::default(), only_templates }
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
        let datagram = Datagram { exporter, received_ms, payload };
        let (_, tally) = self.decoder.decode(&datagram, Instant::now(), &mut self.writer);
        let sets = self.decoder.take_sets();
        self.writer.close_all();
        let chunks: Vec<Chunk> = self.writer.take_closed().collect();
        if self.only_templates && !sets.iter().any(|set| set.tally.templates > 0) {
            // The library learns from every set all the same.
            return self.write_sets(captured, &sets, &mut io::sink());
        }
        let time = value::utc(received_ms);
        write!(out, "datagram {number}: {time} {}, ", captured.source)?;
        match header::messages(payload).first() {
            Some(message) => writeln!(out, "{message}")?,
            None => writeln!(out, "{} of no known protocol", count(payload.len(), "byte"))?,
        }
        self.write_sets(captured, &sets, out)?;
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

    /// The sets of NetFlow v9 and IPFIX, under the message that they are in.
    fn write_sets(
        &mut self,
        captured: &Captured,
        sets: &[SeenSet],
        out: &mut impl Write,
    ) -> io::Result<()> {
        let messages = header::messages(&captured.payload);
        let mut sets = sets.iter().peekable();
        for (index, message) in messages.iter().enumerate() {
            if index > 0 {
                writeln!(out, "  message {}: {message}", index + 1)?;
            }
            let next = messages.get(index + 1).map_or(usize::MAX, |next| next.offset);
            while let Some(set) = sets.next_if(|set| set.offset < next) {
                self.write_set(captured, message, set, out)?;
            }
        }
        Ok(())
    }

    fn write_set(
        &mut self,
        captured: &Captured,
        message: &Message<'_>,
        set: &SeenSet,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let end = set.offset.saturating_add(set.length);
        let Some(bytes) = captured.payload.get(set.offset..end) else { return Ok(()) };
        let contents = self.library.read(captured.source.ip().to_canonical(), message, bytes);
        let is_shown = matches!(contents, Contents::Templates(_)) || set.tally.templates > 0;
        if self.only_templates && !is_shown {
            return Ok(());
        }
        let records = match &contents {
            Contents::Records { records, .. } => format!(", {}", count(records.len(), "record")),
            Contents::Templates(_) | Contents::Unread(_) => String::new(),
        };
        let length = count(set.length, "byte");
        let verdict = verdict::of_set(set);
        writeln!(out, "  set {}, {length}{records} -> {verdict}", set.id)?;
        let body = bytes.get(SET_HEADER_BYTES..).unwrap_or_default();
        match contents {
            Contents::Templates(templates) => write_templates(&templates, set, out),
            Contents::Records { fields, records, read_by_library, rest_bytes } => {
                for (number, values) in records.iter().enumerate() {
                    let by_whom =
                        if number < read_by_library { "" } else { ", not read by netflow_parser" };
                    writeln!(out, "    record {}{by_whom}", number + 1)?;
                    for (field, value) in fields.iter().zip(values) {
                        writeln!(out, "      {field} = {}", field.show(value))?;
                    }
                }
                let rest = &body[body.len().saturating_sub(rest_bytes)..];
                write_rest("behind the last record", rest, out)
            }
            Contents::Unread(why) => write_rest(&why, body, out),
        }
    }
}

fn write_templates(templates: &[Template], set: &SeenSet, out: &mut impl Write) -> io::Result<()> {
    for template in templates {
        let kind = if template.is_options { "options template" } else { "template" };
        let verdict = verdict::of_template(template, set);
        let fields = count(template.fields.len(), "field");
        writeln!(out, "    {kind} {}, {fields}, {verdict}", template.id)?;
        for field in template.fields.iter() {
            writeln!(out, "      {field}, {}", field.length_text())?;
        }
    }
    Ok(())
}

/// Bytes that are no record. Padding is not worth a line.
fn write_rest(what: &str, rest: &[u8], out: &mut impl Write) -> io::Result<()> {
    if rest.iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    writeln!(out, "    {what}: {}", value::hex(rest))
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
                (Kind::Time, Some(ms)) => {
                    writeln!(out, "    {} = {}", column.name(), value::utc(ms))?
                }
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
