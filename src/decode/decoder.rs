//! Dispatch by version word, and what a reader remembers from one datagram to the next.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::flow::{ChunkWriter, Identity};

use super::account::Received;
use super::exporters::{EXPORTERS_MAX, Exporter, Exporters, SequenceKey};
use super::interfaces::Interfaces;
use super::message::MessageReader;
use super::options::Announced;
use super::plan::Output;
use super::records::Segment;
use super::sampling::Sampling;
use super::seen::{SeenSet, Watch};
use super::sequence::Observed;
use super::session::Session;
use super::tally::{DropReason, Protocol, Tally};
use super::template::Templates;
use super::waiting::WAITING_AGE_MAX_MS;
use super::{ipfix, netflow_fixed, netflow_v9, sflow};

/// One received UDP payload, or one message of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Where it came from; IPv4-mapped addresses are unmapped.
    pub exporter: IpAddr,
    /// The UDP port it came from, which tells apart the processes behind one address; 0 where there is none.
    pub source_port: u16,
    /// When it was received, milliseconds since 1970.
    pub received_ms: i64,
    /// The bytes.
    pub payload: &'a [u8],
}

/// How a receiver decodes.
#[derive(Clone, Debug)]
pub struct DecoderOptions {
    /// The identity columns.
    pub identity: Identity,
    /// Protocols that the receiver takes.
    pub protocols: Vec<Protocol>,
    /// Beyond this the receive time replaces the exporter's.
    pub skew_max: Duration,
    /// Elements without a column go to the column `extra`.
    pub keep_unknown_elements: bool,
    /// One packet in so many, for exporters that do not say it.
    pub fallback_rate: Option<f64>,
    /// Sampling rates of NetFlow v9 and IPFIX come with the least significant byte first.
    pub has_little_endian_rates: bool,
}

impl Default for DecoderOptions {
    /// No identity, every protocol, the default of `clock.skew-threshold`.
    fn default() -> Self {
        Self {
            identity: Identity::default(),
            protocols: Protocol::ALL.into(),
            skew_max: Duration::from_secs(1_800),
            keep_unknown_elements: false,
            fallback_rate: None,
            has_little_endian_rates: false,
        }
    }
}

impl DecoderOptions {
    /// The rate of exporters that say none.
    pub(super) fn fallback_sampling(&self) -> Sampling {
        self.fallback_rate.map_or(Sampling::ASSUMED, Sampling::from_fallback)
    }
}

/// Decodes the datagrams of one reader, or the messages of one connection.
#[derive(Debug)]
pub struct Decoder {
    options: DecoderOptions,
    scope: Scope,
    exporters: Arc<Exporters>,
    peers: HashMap<IpAddr, Peer>,
    segments: Vec<Segment>,
    sflow: sflow::Scratch,
    watch: Option<Watch>,
}

/// What templates and numbers hold for, RFC 7011 section 8.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Scope {
    /// All datagrams of an exporter, whichever reader gets them.
    Exporter,
    /// This decoder alone.
    Connection,
}

/// What this reader looked up for one exporter, so that the shared tables are asked once.
#[derive(Debug)]
pub(super) struct Peer {
    exporter: Arc<Exporter>,
    session: Arc<Session>,
    /// The session is a connection: what tells the exporter so.
    connection: Option<Arc<()>>,
    templates: HashMap<(Protocol, u32), Arc<Templates>>,
    /// Accounts for exporters beyond the limit: no templates are kept.
    is_shared: bool,
}

impl Decoder {
    /// A decoder that shares templates and accounts with others through `exporters`.
    #[must_use]
    pub fn new(options: DecoderOptions, exporters: Arc<Exporters>) -> Self {
        Self::with_scope(options, exporters, Scope::Exporter)
    }

    /// A decoder of the messages that come over one connection. Its templates are its own, and forgotten
    /// with it.
    #[must_use]
    pub fn of_connection(options: DecoderOptions, exporters: Arc<Exporters>) -> Self {
        Self::with_scope(options, exporters, Scope::Connection)
    }

    fn with_scope(options: DecoderOptions, exporters: Arc<Exporters>, scope: Scope) -> Self {
        Self {
            options,
            scope,
            exporters,
            peers: HashMap::new(),
            segments: Vec::new(),
            sflow: sflow::Scratch::default(),
            watch: None,
        }
    }

    /// Decodes so from now on.
    pub fn use_options(&mut self, options: DecoderOptions) {
        self.options = options;
    }

    /// From now on, notes what becomes of each set.
    pub fn watch_sets(&mut self) {
        self.watch = Some(Watch::default());
    }

    /// The sets of the datagrams decoded since the last call, of NetFlow v9 and IPFIX; none without
    /// [`Self::watch_sets`].
    pub fn take_sets(&mut self) -> Vec<SeenSet> {
        self.watch.as_mut().map(|watch| std::mem::take(&mut watch.sets)).unwrap_or_default()
    }

    /// Writes the flows of `datagram` and returns its protocol and what became of it.
    pub fn decode(
        &mut self,
        datagram: &Datagram<'_>,
        now: Instant,
        writer: &mut ChunkWriter,
    ) -> (Option<Protocol>, Tally) {
        let Self { options, scope, exporters, peers, segments, sflow, watch } = self;
        let watch = watch.as_mut().map(|watch| watch.of(datagram.payload));
        let mut shared = None;
        let (address, now_ms) = (datagram.exporter, datagram.received_ms);
        let peer = match exporters.get_cached(address, now_ms, peers, *scope) {
            Some(peer) => peer,
            None => shared.insert(Peer::shared(exporters.others())),
        };
        let exporter = Arc::clone(&peer.exporter);
        let exporter_addr = if peer.is_shared {
            Cow::Owned(datagram.exporter.to_string())
        } else {
            Cow::Borrowed(exporter.address_text())
        };
        let mut tally = Tally::default();
        let mut reader = MessageReader {
            options,
            source: datagram.exporter,
            source_port: datagram.source_port,
            exporter_addr: &exporter_addr,
            received_ms: datagram.received_ms,
            now,
            peer,
            output: Output { writer, tally: &mut tally, segments },
            records_are_known: true,
            domain: None,
            clock_skew_ms: None,
            sflow,
            watch,
        };
        let protocol = decode_payload(datagram.payload, &mut reader);
        let (domain, clock_skew_ms) = (reader.domain, reader.clock_skew_ms);
        exporter.note(&Received {
            received_ms: datagram.received_ms,
            bytes: datagram.payload.len(),
            protocol,
            domain,
            clock_skew_ms,
            tally: &tally,
        });
        (protocol, tally)
    }

    /// Drops sets that have waited too long for their template, and templates that were not seen for too
    /// long; tells `note` by protocol. Readers of the same exporters may all do so: nothing is dropped
    /// twice.
    pub fn expire(&self, now_ms: i64, mut note: impl FnMut(Protocol, &Tally)) {
        self.drop_waiting(now_ms - WAITING_AGE_MAX_MS, &mut note);
        self.exporters.expire_templates(now_ms, note);
    }

    /// Drops all sets that wait: no template will come any more, as at the stop or the end of a connection.
    pub fn end_waiting(&self, note: impl FnMut(Protocol, &Tally)) {
        self.drop_waiting(i64::MAX, note);
    }

    fn drop_waiting(&self, received_ms: i64, mut note: impl FnMut(Protocol, &Tally)) {
        for (protocol, tally) in self.exporters.take_forgotten() {
            note(protocol, &tally);
        }
        if self.exporters.waiting() == (0, 0) {
            return;
        }
        for peer in self.peers.values() {
            peer.session.expire_waiting(received_ms, |protocol, tally| {
                peer.exporter.note_more(tally);
                note(protocol, tally);
            });
        }
    }
}

impl Exporters {
    /// The reader's own entry for `address`, made on first sight.
    fn get_cached<'a>(
        &self,
        address: IpAddr,
        now_ms: i64,
        peers: &'a mut HashMap<IpAddr, Peer>,
        scope: Scope,
    ) -> Option<&'a mut Peer> {
        if peers.len() > EXPORTERS_MAX {
            peers.retain(|_, peer| !peer.is_forgotten());
        }
        Some(match peers.entry(address) {
            Entry::Occupied(known) if known.get().is_forgotten() => {
                let exporter = self.get(address, now_ms)?;
                let peer = known.into_mut();
                *peer = Peer::of(exporter, scope);
                peer
            }
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(Peer::of(self.get(address, now_ms)?, scope)),
        })
    }
}

impl Peer {
    fn of(exporter: Arc<Exporter>, scope: Scope) -> Self {
        let (session, connection) = match scope {
            Scope::Exporter => (Arc::clone(exporter.datagrams()), None),
            Scope::Connection => {
                let (session, connection) = exporter.connect();
                (session, Some(connection))
            }
        };
        Self { exporter, session, connection, templates: HashMap::new(), is_shared: false }
    }

    fn shared(exporter: Arc<Exporter>) -> Self {
        Self { is_shared: true, ..Self::of(exporter, Scope::Exporter) }
    }

    /// The exporter made room for another. A connection stays what it is: its templates come only once.
    fn is_forgotten(&self) -> bool {
        self.connection.is_none() && self.exporter.is_forgotten()
    }

    /// Its messages come over a connection.
    pub(super) fn is_connection(&self) -> bool {
        self.connection.is_some()
    }

    /// Notes the number of a message.
    pub(super) fn note_sequence(
        &self,
        key: SequenceKey,
        source_port: u16,
        number: u32,
        units: Option<u32>,
    ) -> Observed {
        if self.is_shared {
            return Observed::default();
        }
        self.session.note_sequence(key, source_port, number, units)
    }

    /// What the exporter announced.
    pub(super) fn announced(&self) -> &Announced {
        &self.exporter.announced
    }

    /// Where the exporter's interfaces are kept, if they are.
    pub(super) fn interfaces(&self) -> Option<&Interfaces> {
        (!self.is_shared).then(|| self.exporter.known_interfaces())
    }

    /// The templates of an observation domain that announced some.
    pub(super) fn templates(&mut self, protocol: Protocol, domain_id: u32) -> Option<&Templates> {
        match self.templates.entry((protocol, domain_id)) {
            Entry::Occupied(known) if known.get().is_forgotten() => {
                let found = self.session.known_templates(protocol, domain_id)?;
                let known = known.into_mut();
                *known = found;
                Some(known)
            }
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(vacant) => {
                Some(vacant.insert(self.session.known_templates(protocol, domain_id)?))
            }
        }
    }

    /// The same for a domain that is about to announce some, unless that is beyond a limit.
    pub(super) fn learn_templates(
        &mut self,
        protocol: Protocol,
        domain_id: u32,
    ) -> Option<Arc<Templates>> {
        if self.is_shared {
            return None;
        }
        Some(Arc::clone(match self.templates.entry((protocol, domain_id)) {
            Entry::Occupied(known) if known.get().is_forgotten() => {
                let new = self.session.new_templates(protocol, domain_id)?;
                let known = known.into_mut();
                *known = new;
                known
            }
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => {
                vacant.insert(self.session.new_templates(protocol, domain_id)?)
            }
        }))
    }
}

fn decode_payload(payload: &[u8], reader: &mut MessageReader<'_>) -> Option<Protocol> {
    let protocol = Protocol::of(payload);
    match protocol {
        None if payload.len() < 2 => {
            reader.output.tally.drop(DropReason::Truncated, payload.len());
        }
        None => reader.output.tally.drop(DropReason::UnknownVersion, payload.len()),
        Some(protocol) if !reader.options.protocols.contains(&protocol) => {
            reader.output.tally.drop(DropReason::ProtocolRefused, payload.len());
        }
        Some(Protocol::NetflowV1) => netflow_fixed::decode_v1(payload, reader),
        Some(Protocol::NetflowV5) => netflow_fixed::decode_v5(payload, reader),
        Some(Protocol::NetflowV7) => netflow_fixed::decode_v7(payload, reader),
        Some(Protocol::NetflowV9) => netflow_v9::decode(payload, reader),
        Some(Protocol::Ipfix) => ipfix::decode(payload, reader),
        Some(Protocol::Sflow) => sflow::decode(payload, reader),
    }
    protocol
}

#[cfg(test)]
mod tests;
