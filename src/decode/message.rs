//! The walk over the sets of a message, which NetFlow v9 and IPFIX share.

use std::time::Instant;

use super::clock::Timing;
use super::decoder::{DecoderOptions, Domain, Peer};
use super::options::RateLookup;
use super::plan::{MessageContext, Output};
use super::sampling::Sampling;
use super::tally::{DropReason, Protocol};
use super::template_set::{Layout, TEMPLATE_ID_MIN, learn_set};
use super::wire::Wire;

/// Bytes of a set header: id and length, RFC 3954 section 5.2 and RFC 7011 section 3.3.2.
const SET_HEADER_BYTES: usize = 4;

/// Everything that decoding one datagram reads and writes.
#[derive(Debug)]
pub(super) struct MessageReader<'a> {
    pub(super) options: &'a DecoderOptions,
    pub(super) exporter_addr: &'a str,
    pub(super) received_ms: i64,
    pub(super) now: Instant,
    pub(super) peer: &'a mut Peer,
    pub(super) output: Output<'a>,
}

impl<'a> MessageReader<'a> {
    /// The times of a message by the exporter's clock.
    pub(super) fn timing(&self, export_ms: i64, uptime_ms: Option<u32>) -> Timing {
        Timing::new(export_ms, self.received_ms, uptime_ms, self.options.skew_max)
    }

    /// The context of a message, with the sampling rate that options records announced.
    pub(super) fn context(
        &self,
        protocol: Protocol,
        domain_id: u32,
        timing: Timing,
    ) -> MessageContext<'a> {
        let mut context = MessageContext {
            protocol,
            identity: &self.options.identity,
            exporter_addr: self.exporter_addr,
            domain_id,
            engine: (0, 0),
            timing,
            sampling: Sampling::ASSUMED,
            rates: RateLookup::default(),
            now: self.now,
        };
        context.use_rates(self.peer.rates().lookup(domain_id, self.received_ms));
        context
    }

    /// Decodes the sets of a message, which are the first `message_bytes` of `bytes`, and returns what
    /// lies behind them. A set that cannot be decoded is tallied and stepped over; one that the message
    /// cuts but the datagram holds is taken whole (there are exporters that count their padding only
    /// once). `layout_of` tells template sets by their id.
    pub(super) fn read_sets<'b>(
        &mut self,
        bytes: &'b [u8],
        message_bytes: usize,
        context: &mut MessageContext<'_>,
        layout_of: impl Fn(u16) -> Option<Layout>,
    ) -> &'b [u8] {
        let Self { peer, output, .. } = self;
        let domain = peer.domain(context.protocol, context.domain_id);
        let behind = bytes.len() - message_bytes;
        let mut wire = Wire(bytes);
        while wire.len() > behind {
            let rest = &wire.0[..wire.len() - behind];
            // Exporters fill messages with zeros, up to a fixed size or to a multiple of 4.
            if Wire(rest).is_all_zero() {
                return &bytes[message_bytes..];
            }
            let Some((id, body)) = next_set(&mut wire) else {
                output.tally.drop(DropReason::BadSetLength, rest.len());
                return &bytes[message_bytes..];
            };
            match layout_of(id) {
                Some(layout) => learn_set(body, layout, domain.as_ref(), output.tally),
                None if id < TEMPLATE_ID_MIN => {
                    output.tally.drop(DropReason::ReservedSet, body.len());
                }
                None => read_data_set(id, body, domain.as_ref(), context, output),
            }
        }
        wire.0
    }
}

fn next_set<'a>(wire: &mut Wire<'a>) -> Option<(u16, &'a [u8])> {
    let (id, length) = (wire.u16()?, usize::from(wire.u16()?));
    let body = wire.take(length.checked_sub(SET_HEADER_BYTES)?)?;
    Some((id, body))
}

fn read_data_set(
    id: u16,
    body: &[u8],
    domain: Option<&Domain<'_>>,
    context: &mut MessageContext<'_>,
    output: &mut Output<'_>,
) {
    let Some(domain) = domain else {
        return output.tally.drop(DropReason::ExporterLimit, body.len());
    };
    domain.templates.with(id, |template| {
        let Some(template) = template else {
            return output.tally.drop(DropReason::NoTemplate, body.len());
        };
        if body.len() < template.plan.record_bytes_min() {
            return output.tally.drop(DropReason::ShortSet, body.len());
        }
        if template.definition.is_options {
            let (domain_id, now_ms) = (context.domain_id, context.timing.received_ms);
            let has_room = template.plan.read_options(body, output, |records| {
                template.options.learn(records, domain.rates, domain_id, now_ms)
            });
            if !has_room {
                output.tally.drop(DropReason::OptionsLimit, body.len());
            }
            // Flows of the same message are counted by it already.
            context.use_rates(domain.rates.lookup(domain_id, now_ms));
        } else {
            template.plan.write_flows(body, context, output);
        }
    });
}
