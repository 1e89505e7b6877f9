//! The sets of NetFlow v9 and IPFIX as text.

use std::io::{self, Write};

use crate::capture::Datagram as Captured;
use crate::decode::SeenSet;

use super::header::{self, Message};
use super::library::{Contents, Key, Library, Template};
use super::waiting::Waiting;
use super::{count, value, verdict};

/// Bytes of a set header, RFC 3954 section 5.2 and RFC 7011 section 3.3.2.
const SET_HEADER_BYTES: usize = 4;

/// Writes sets, and remembers what the ones to come need.
#[derive(Debug)]
pub(super) struct SetsWriter {
    library: Library,
    waiting: Waiting,
    only_templates: bool,
}

impl SetsWriter {
    pub(super) fn new(only_templates: bool) -> Self {
        Self { library: Library::default(), waiting: Waiting::default(), only_templates }
    }

    /// Writes the sets of a datagram, each under the message that it is in.
    pub(super) fn write(
        &mut self,
        number: u64,
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
                let end = set.offset.saturating_add(set.length);
                let bytes = captured.payload.get(set.offset..end).unwrap_or_default();
                let exporter = captured.source.ip().to_canonical();
                let key = (exporter, message.protocol, message.domain_id);
                if verdict::waits(set) {
                    self.waiting.keep(key, set.id, number, bytes);
                }
                self.write_set(&key, message, set, bytes, out)?;
            }
        }
        Ok(())
    }

    fn write_set(
        &mut self,
        key: &Key,
        message: &Message<'_>,
        set: &SeenSet,
        bytes: &[u8],
        out: &mut impl Write,
    ) -> io::Result<()> {
        let contents = self.library.read(key.0, message, set, bytes);
        let is_shown = matches!(contents, Contents::Templates(_)) || set.tally.templates > 0;
        if self.only_templates && !is_shown {
            return Ok(());
        }
        let (length, verdict) = (count(set.length, "byte"), verdict::of_set(set));
        writeln!(out, "  set {}, {length}{} -> {verdict}", set.id, records_text(&contents))?;
        match contents {
            Contents::Templates(templates) => {
                write_templates(&templates, set, out)?;
                self.write_waiting(key, message, set, out)
            }
            contents => write_contents(&contents, bytes, out),
        }
    }

    /// The sets that waited for the templates of a set.
    fn write_waiting(
        &mut self,
        key: &Key,
        message: &Message<'_>,
        set: &SeenSet,
        out: &mut impl Write,
    ) -> io::Result<()> {
        for template in &set.learned {
            for waited in self.waiting.take(key, template.id) {
                let bytes = &waited.bytes;
                let contents = self.library.read_waited(key.0, message, template.id, bytes);
                if self.only_templates {
                    continue;
                }
                let (id, number) = (waited.template_id, waited.number);
                let records = records_text(&contents);
                writeln!(out, "  set {id} of datagram {number}, which waited{records}")?;
                write_contents(&contents, bytes, out)?;
            }
        }
        Ok(())
    }
}

fn records_text(contents: &Contents) -> String {
    match contents {
        Contents::Records { records, .. } => format!(", {}", count(records.len(), "record")),
        Contents::Templates(_) | Contents::Unread(_) => String::new(),
    }
}

/// The records of a set, and what lies behind them.
fn write_contents(contents: &Contents, set: &[u8], out: &mut impl Write) -> io::Result<()> {
    let body = set.get(SET_HEADER_BYTES..).unwrap_or_default();
    match contents {
        Contents::Templates(_) => Ok(()),
        Contents::Unread(why) => write_rest(why, body, out),
        Contents::Records { fields, records, read_by_library, rest_bytes } => {
            for (number, values) in records.iter().enumerate() {
                let by_whom =
                    if number < *read_by_library { "" } else { ", not read by netflow_parser" };
                writeln!(out, "    record {}{by_whom}", number + 1)?;
                for (field, value) in fields.iter().zip(values) {
                    writeln!(out, "      {field} = {}", field.show(value))?;
                }
            }
            let rest = &body[body.len().saturating_sub(*rest_bytes)..];
            write_rest("behind the last record", rest, out)
        }
    }
}

fn write_templates(templates: &[Template], set: &SeenSet, out: &mut impl Write) -> io::Result<()> {
    for template in templates {
        let kind = if template.is_options { "options template" } else { "template" };
        let verdict = verdict::of_template(template, set);
        let fields = count(template.fields.len(), "field");
        let by_whom = if template.is_of_library { "" } else { ", not read by netflow_parser" };
        writeln!(out, "    {kind} {}, {fields}, {verdict}{by_whom}", template.id)?;
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
