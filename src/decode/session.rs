//! Transport sessions: within one a template has its meaning and messages have their numbers, RFC 7011
//! sections 3.1 and 8.
//!
//! All datagrams of an exporter are one session, whatever their ports and receivers: it lasts as long as the
//! exporter is known, and is kept over a restart. Each TCP connection is a session of its own that ends
//! with it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::exporters::SequenceKey;
use super::limit::Limit;
use super::sequence::Observed;
use super::streams::Streams;
use super::tally::{Protocol, Tally};
use super::template::Templates;
use super::template_counts::TemplateCounts;
use super::waiting::WaitingCounts;

/// Observation domains of a session: a chassis has one per line card or VRF. Of all sessions, about 40 MiB
/// without their templates: 10,000 exporters with ten each.
const DOMAINS_MAX: Limit = Limit { of_one: 1_024, in_all: 131_072 };

/// Sequences that are watched. Each takes 200 bytes, and up to 3 KiB while there are gaps.
const SEQUENCES_MAX: Limit = Limit { of_one: 1_024, in_all: 65_536 };

/// What one session announced and how far it is.
#[derive(Debug)]
pub(super) struct Session {
    counts: SessionCounts,
    domains: RwLock<HashMap<(Protocol, u32), Arc<Templates>>>,
    sequences: Mutex<HashMap<SequenceKey, Watched>>,
    messages: AtomicU64,
}

/// The sequences of one domain.
#[derive(Debug, Default)]
struct Watched {
    streams: Streams,
    /// Messages of the session before its last one.
    heard: u64,
}

/// What a session counts against the limits of its exporter, and of all.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionCounts {
    pub(super) templates: TemplateCounts,
    pub(super) waiting: WaitingCounts,
    /// Against [`DOMAINS_MAX`].
    pub(super) domains_in_all: Arc<AtomicUsize>,
    /// Against [`SEQUENCES_MAX`].
    pub(super) sequences_in_all: Arc<AtomicUsize>,
}

impl Session {
    pub(super) fn new(counts: SessionCounts) -> Self {
        Self {
            counts,
            domains: RwLock::default(),
            sequences: Mutex::default(),
            messages: AtomicU64::new(0),
        }
    }

    /// Notes the number of a message. With too many sequences the oldest is not watched any more, and with too
    /// many in all the new one.
    pub(super) fn note_sequence(
        &self,
        key: SequenceKey,
        source_port: u16,
        number: u32,
        units: Option<u32>,
    ) -> Observed {
        let mut sequences = self.sequences.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = self.messages.fetch_add(1, Ordering::Relaxed);
        if let Some(watched) = sequences.get_mut(&key) {
            let new = watched.streams.count_new(source_port);
            if !self.has_room_for(new) {
                return Observed::default();
            }
            watched.heard = heard;
            return watched.streams.note(source_port, number, units);
        }
        if sequences.len() >= SEQUENCES_MAX.of_one {
            self.forget_oldest(&mut sequences);
        }
        if !self.has_room_for(1) {
            return Observed::default();
        }
        let watched = sequences.entry(key).or_default();
        watched.heard = heard;
        watched.streams.note(source_port, number, units)
    }

    /// Counts new sequences, unless they are too many in all.
    fn has_room_for(&self, new: usize) -> bool {
        let in_all = &self.counts.sequences_in_all;
        if new > 0 && in_all.load(Ordering::Relaxed) + new > SEQUENCES_MAX.in_all {
            return false;
        }
        in_all.fetch_add(new, Ordering::Relaxed);
        true
    }

    /// Makes room for one more sequence: that of the domain that was silent for longest goes.
    fn forget_oldest(&self, sequences: &mut HashMap<SequenceKey, Watched>) {
        let oldest = sequences.iter().min_by_key(|(_, watched)| watched.heard).map(|(key, _)| *key);
        if let Some(watched) = oldest.and_then(|key| sequences.remove(&key)) {
            let count = watched.streams.count();
            self.counts.sequences_in_all.fetch_sub(count, Ordering::Relaxed);
        }
    }

    /// Drops waiting sets that were received before `received_ms`, and tells `note` by protocol.
    pub(super) fn expire_waiting(&self, received_ms: i64, mut note: impl FnMut(Protocol, &Tally)) {
        let domains = self.domains.read().unwrap_or_else(PoisonError::into_inner);
        for ((protocol, _), templates) in &*domains {
            let mut tally = Tally::default();
            templates.waiting.expire(received_ms, &mut tally);
            if tally != Tally::default() {
                note(*protocol, &tally);
            }
        }
    }

    /// Forgets domains that have had nothing for a while: there are exporters that take another id at every
    /// start, and stray datagrams of any.
    pub(super) fn forget_empty(&self) {
        let mut known = self.domains.write().unwrap_or_else(PoisonError::into_inner);
        let before = known.len();
        known.retain(|_, templates| !templates.forget_if_empty());
        self.counts.domains_in_all.fetch_sub(before - known.len(), Ordering::Relaxed);
    }

    /// The templates of every observation domain.
    pub(super) fn domains(&self) -> Vec<((Protocol, u32), Arc<Templates>)> {
        let known = self.domains.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(key, templates)| (*key, Arc::clone(templates))).collect()
    }

    /// The templates of an observation domain that announced some.
    pub(super) fn known_templates(
        &self,
        protocol: Protocol,
        domain_id: u32,
    ) -> Option<Arc<Templates>> {
        let known = self.domains.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&(protocol, domain_id)).map(Arc::clone)
    }

    /// The templates of an observation domain, made if it has none yet; `None` when the session has too
    /// many domains, or all sessions have.
    pub(super) fn new_templates(
        &self,
        protocol: Protocol,
        domain_id: u32,
    ) -> Option<Arc<Templates>> {
        let key = (protocol, domain_id);
        let mut known = self.domains.write().unwrap_or_else(PoisonError::into_inner);
        let in_all = &self.counts.domains_in_all;
        if !known.contains_key(&key) && !DOMAINS_MAX.add_one(known.len(), in_all) {
            return None;
        }
        let SessionCounts { templates, waiting, .. } = &self.counts;
        let new = || Arc::new(Templates::new(templates.clone(), waiting.clone()));
        Some(Arc::clone(known.entry(key).or_insert_with(new)))
    }
}

/// A session that ends takes its domains and sequences with it.
impl Drop for Session {
    fn drop(&mut self) {
        let domains = self.domains.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.counts.domains_in_all.fetch_sub(domains.len(), Ordering::Relaxed);
        let sequences = self.sequences.get_mut().unwrap_or_else(PoisonError::into_inner);
        let watched = sequences.values().map(|watched| watched.streams.count()).sum();
        self.counts.sequences_in_all.fetch_sub(watched, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_and_sequences_of_all_sessions_are_limited_and_end_with_their_session() {
        let counts = SessionCounts::default();
        let sessions: Vec<_> = (0..130).map(|_| Session::new(counts.clone())).collect();
        let key = |domain_id| SequenceKey { protocol: Protocol::Ipfix, domain_id, agent: None };
        let mut made = 0;
        for (session, domain_id) in sessions.iter().flat_map(|s| (0..1_100).map(move |d| (s, d))) {
            made += usize::from(session.new_templates(Protocol::Ipfix, domain_id).is_some());
            session.note_sequence(key(domain_id), 0, 1, Some(1));
        }
        assert_eq!(made, DOMAINS_MAX.in_all);
        assert_eq!(counts.sequences_in_all.load(Ordering::Relaxed), SEQUENCES_MAX.in_all);
        assert!(sessions[129].new_templates(Protocol::Ipfix, 1).is_none());
        assert!(sessions[0].new_templates(Protocol::Ipfix, 1).is_some(), "known");
        // A domain without templates is forgotten at the second look, and makes room.
        sessions[0].forget_empty();
        assert!(sessions[0].new_templates(Protocol::Ipfix, 5_000).is_none());
        sessions[0].forget_empty();
        assert!(sessions[0].new_templates(Protocol::Ipfix, 5_000).is_some());
        drop(sessions);
        assert_eq!(counts.domains_in_all.load(Ordering::Relaxed), 0);
        assert_eq!(counts.sequences_in_all.load(Ordering::Relaxed), 0);
    }
}
