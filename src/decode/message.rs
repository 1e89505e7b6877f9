//! The walk over the sets of a message, which NetFlow v9 and IPFIX share.

use std::net::IpAddr;
use std::time::Instant;

use super::clock::Timing;
use super::decoder::{DecoderOptions, Peer};
use super::exporters::SequenceKey;
use super::names::NameLookup;
use super::plan::{MessageContext, Output};
use super::rates::RateLookup;
use super::seen::Watch;
use super::sflow;
use super::tally::{DropReason, Protocol};
use super::template::Template;
use super::template_set::{Layout, Source, TEMPLATE_ID_MIN, learn_set};
use super::waiting::{Outcome, WaitingSet};
use super::wire::Wire;

/// Bytes of a set header: id and length, RFC 3954 section 5.2 and RFC 7011 section 3.3.2.
pub(super) const SET_HEADER_BYTES: usize = 4;

/// The shortest message header, that of IPFIX, RFC 7011 section 3.1.
const MESSAGE_HEADER_BYTES_MIN: usize = 16;

/// Everything that decoding one datagram reads and writes.
#[derive(Debug)]
pub(super) struct MessageReader<'a> {
    pub(super) options: &'a DecoderOptions,
    /// Where the datagram came from.
    pub(super) source: IpAddr,
    pub(super) source_port: u16,
    pub(super) exporter_addr: &'a str,
    pub(super) received_ms: i64,
    pub(super) now: Instant,
    pub(super) peer: &'a mut Peer,
    pub(super) output: Output<'a>,
    /// Of the last message.
    pub(super) domain: Option<(Protocol, u32)>,
    /// How far the exporter's clock is behind, milliseconds, by the last message that tells it.
    pub(super) clock_skew_ms: Option<i64>,
    /// Every record of the message was decoded, and no other.
    pub(super) records_are_known: bool,
    pub(super) sflow: &'a mut sflow::Scratch,
    /// Looks on, if somebody wants to know what becomes of each set.
    pub(super) watch: Option<&'a mut Watch>,
}

impl<'a> MessageReader<'a> {
    /// The times of a message by the exporter's clock.
    pub(super) fn timing(&mut self, export_ms: i64, uptime_ms: Option<u32>) -> Timing {
        self.clock_skew_ms = Some(self.received_ms - export_ms);
        Timing::new(export_ms, self.received_ms, uptime_ms, self.options.skew_max)
    }

    /// The context of a message, with what options records announced.
    pub(super) fn context(
        &mut self,
        protocol: Protocol,
        domain_id: u32,
        timing: Timing,
    ) -> MessageContext<'a> {
        self.domain = Some((protocol, domain_id));
        let mut context = MessageContext {
            protocol,
            exporter_addr: self.exporter_addr,
            domain_id,
            engine: (0, 0),
            timing,
            sampling: self.options.fallback_sampling(),
            sampling_unnamed: self.options.fallback_sampling(),
            rates: RateLookup::default(),
            options: self.options,
            names: NameLookup::default(),
            now: self.now,
        };
        context.use_announced(self.peer.announced(), self.received_ms);
        context
    }

    /// Notes the number of a message, and how many units of what is numbered it had, if that is known.
    pub(super) fn note_sequence(&mut self, key: SequenceKey, number: u32, units: Option<u32>) {
        let observed = self.peer.note_sequence(key, self.source_port, number, units);
        self.output.tally.note_sequence(key.protocol, observed);
    }

    /// Decodes the sets of a message, which are the first `message_bytes` of `bytes`, and returns what
    /// lies behind them. A set that cannot be decoded is tallied and stepped over. `layout_of` tells
    /// template sets by their id.
    pub(super) fn read_sets<'b>(
        &mut self,
        bytes: &'b [u8],
        message_bytes: usize,
        context: &mut MessageContext<'_>,
        layout_of: impl Fn(u16) -> Option<Layout>,
    ) -> &'b [u8] {
        // There are exporters that count the padding of the last set in its length only. What lies
        // behind the message is too short to be another one then.
        let behind = bytes.len() - message_bytes;
        let is_last = behind < MESSAGE_HEADER_BYTES_MIN;
        let whole = if is_last { bytes } else { &bytes[..message_bytes] };
        let (mut wire, mut read_bytes) = (Wire(whole), message_bytes);
        let end = if is_last { behind } else { 0 };
        while wire.len() > end {
            // Exporters fill messages with zeros, up to a fixed size or to a multiple of 4.
            if wire.skip_zeros() {
                continue;
            }
            let rest = wire.len() - end;
            let Some((id, body)) = next_set(&mut wire) else {
                self.records_are_known = false;
                self.output.tally.drop(DropReason::BadSetLength, rest);
                break;
            };
            read_bytes = read_bytes.max(whole.len() - wire.len());
            let bytes_behind = wire.len() + if is_last { 0 } else { behind };
            if let Some(watch) = &mut self.watch {
                watch.begin(id, body.len(), bytes_behind, self.output.tally);
            }
            self.read_set(id, body, context, layout_of(id));
            if let Some(watch) = &mut self.watch {
                watch.end(self.output.tally);
            }
        }
        &bytes[read_bytes..]
    }

    fn read_set(
        &mut self,
        id: u16,
        body: &[u8],
        context: &mut MessageContext<'_>,
        layout: Option<Layout>,
    ) {
        match layout {
            Some(layout) => self.read_template_set(body, context, layout),
            None if id < TEMPLATE_ID_MIN => self.drop_set(DropReason::ReservedSet, body),
            None => self.read_data_set(id, body, context),
        }
    }

    /// Learns templates, and decodes the sets that waited for them.
    fn read_template_set(&mut self, body: &[u8], context: &mut MessageContext<'_>, layout: Layout) {
        let (protocol, domain_id) = (context.protocol, context.domain_id);
        let Some(templates) = self.peer.learn_templates(protocol, domain_id) else {
            return self.drop_set(DropReason::ExporterLimit, body);
        };
        let received_ms = self.received_ms;
        let source = Source { received_ms, is_connection: self.peer.is_connection() };
        for template in learn_set(body, layout, &templates, source, self.output.tally) {
            if let Some(watch) = &mut self.watch {
                watch.note_learned(protocol, domain_id, &template);
            }
            let waited = templates.waiting.take(template.definition.id);
            let is_news = template.definition.is_options && !waited.is_empty();
            if is_news {
                // A table that is looked at is copied for a change.
                (context.names, context.rates) = (NameLookup::default(), RateLookup::default());
            }
            for set in waited {
                self.records_are_known = false;
                let mut context = self.context(protocol, domain_id, set.timing);
                self.decode_set(&template, &set.body, &mut context);
            }
            if is_news {
                context.use_announced(self.peer.announced(), self.received_ms);
            }
        }
    }

    fn read_data_set(&mut self, id: u16, body: &[u8], context: &mut MessageContext<'_>) {
        let templates = self.peer.templates(context.protocol, context.domain_id);
        match templates.and_then(|templates| templates.get(id)) {
            Some(template) => {
                template.note_seen(self.received_ms);
                self.decode_set(&template, body, context);
            }
            None => self.keep_set(id, body, context),
        }
    }

    /// Keeps a set without template until that comes.
    fn keep_set(&mut self, id: u16, body: &[u8], context: &mut MessageContext<'_>) {
        let templates = self.peer.learn_templates(context.protocol, context.domain_id);
        let Some(templates) = templates else {
            return self.drop_set(DropReason::ExporterLimit, body);
        };
        let set = WaitingSet { body: body.into(), timing: context.timing };
        match templates.waiting.keep(id, set, || templates.get(id)) {
            Outcome::Waits => self.records_are_known = false,
            Outcome::NoRoom => self.drop_set(DropReason::NoTemplate, body),
            Outcome::TemplateCame(template) => self.decode_set(&template, body, context),
        }
    }

    fn decode_set(&mut self, template: &Template, body: &[u8], context: &mut MessageContext<'_>) {
        if body.len() < template.plan.record_bytes_min() {
            return self.drop_set(DropReason::ShortSet, body);
        }
        if !template.definition.is_options {
            let bad_before = self.bad_records();
            template.plan.write_flows(body, context, &mut self.output);
            self.records_are_known &= self.bad_records() == bad_before;
            return;
        }
        let (domain_id, now_ms) = (context.domain_id, context.timing.received_ms);
        let bad_before = self.bad_records();
        let announced = self.peer.announced();
        // A table that is looked at is copied for a change.
        (context.names, context.rates) = (NameLookup::default(), RateLookup::default());
        let has_room = template.plan.read_options(body, &mut self.output, |records| {
            let is_little_endian = self.options.has_little_endian_rates;
            template.options.learn(records, announced, domain_id, now_ms, is_little_endian)
        });
        self.records_are_known &= self.bad_records() == bad_before;
        // What they say holds for the flows of the same message too.
        context.use_announced(announced, now_ms);
        if !has_room {
            self.drop_set(DropReason::OptionsLimit, body);
        }
    }

    /// Sets that end in a record that is not whole: how many records follow it is not known.
    fn bad_records(&self) -> u64 {
        self.output.tally.dropped(DropReason::BadRecord).count
    }

    fn drop_set(&mut self, reason: DropReason, body: &[u8]) {
        self.records_are_known = false;
        self.output.tally.drop(reason, SET_HEADER_BYTES + body.len());
    }
}

/// The next set; `None` when its length is shorter than its header or reaches beyond the bytes.
fn next_set<'a>(wire: &mut Wire<'a>) -> Option<(u16, &'a [u8])> {
    let (id, length) = (wire.u16()?, usize::from(wire.u16()?));
    let body = wire.take(length.checked_sub(SET_HEADER_BYTES)?)?;
    Some((id, body))
}
