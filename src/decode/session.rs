//! Transport sessions: within one a template has its meaning and messages have their numbers, RFC 7011
//! sections 3.1 and 8.
//!
//! All datagrams of an exporter are one session, whatever their ports and receivers: it lasts as long as the
//! exporter is known, and is kept over a restart. Each TCP connection is a session of its own that ends
//! with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::exporters::SequenceKey;
use super::sequence::{Observed, Sequence};
use super::tally::{Protocol, Tally};
use super::template::{TemplateCounts, Templates};
use super::waiting::WaitingCounts;

/// Observation domains of one session. A chassis has one per line card or VRF.
const DOMAINS_PER_SESSION_MAX: usize = 1_024;

/// What one session announced and how far it is.
#[derive(Debug)]
pub(super) struct Session {
    /// Of the exporter: all its sessions count against its limits.
    template_counts: TemplateCounts,
    waiting_counts: WaitingCounts,
    domains: RwLock<HashMap<(Protocol, u32), Arc<Templates>>>,
    sequences: Mutex<HashMap<SequenceKey, Sequence>>,
}

impl Session {
    pub(super) fn new(template_counts: TemplateCounts, waiting_counts: WaitingCounts) -> Self {
        Self {
            template_counts,
            waiting_counts,
            domains: RwLock::default(),
            sequences: Mutex::default(),
        }
    }

    /// Notes the number of a message; with too many sequences the ones beyond are not watched.
    pub(super) fn note_sequence(
        &self,
        key: SequenceKey,
        number: u32,
        units: Option<u32>,
    ) -> Observed {
        let mut sequences = self.sequences.lock().unwrap_or_else(PoisonError::into_inner);
        if sequences.len() >= DOMAINS_PER_SESSION_MAX && !sequences.contains_key(&key) {
            return Observed::default();
        }
        sequences.entry(key).or_default().note(number, units)
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
    /// many domains.
    pub(super) fn new_templates(
        &self,
        protocol: Protocol,
        domain_id: u32,
    ) -> Option<Arc<Templates>> {
        let key = (protocol, domain_id);
        let mut known = self.domains.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= DOMAINS_PER_SESSION_MAX && !known.contains_key(&key) {
            return None;
        }
        let new =
            || Arc::new(Templates::new(self.template_counts.clone(), self.waiting_counts.clone()));
        Some(Arc::clone(known.entry(key).or_insert_with(new)))
    }
}
