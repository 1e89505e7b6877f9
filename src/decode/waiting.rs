//! Data sets that came before their template.
//!
//! After a start of tidegate or of an exporter, flows come for minutes before the next template does. Their
//! sets wait here, each with the times of its own message, and are decoded when the template comes. What
//! finds no room or waits too long is a drop like any set without template.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::clock::Timing;
use super::message::SET_HEADER_BYTES;
use super::tally::{DropReason, Tally};
use super::template::Template;

/// Bytes that wait for one exporter: half a minute of a busy router's flows at 1 Mbit/s.
pub(super) const WAITING_BYTES_OF_EXPORTER_MAX: usize = 4 << 20;

/// Bytes that wait for all exporters, so that spoofers cost no more.
const WAITING_BYTES_IN_ALL_MAX: usize = 64 << 20;

/// Bytes that each exporter has for itself when the others have all of these: ten full datagrams. All 16,384
/// exporters could have 256 MiB so.
const WAITING_BYTES_SHARE: usize = 16 << 10;

/// Exporters announce their templates every few minutes, most of them within ten.
pub(super) const WAITING_AGE_MAX_MS: i64 = 600_000;

/// Memory of a set beside its bytes, when it is the only one of its template: what is said of it, its place in
/// the map, what an allocation takes. Keeps millions of empty sets out.
const SET_OVERHEAD_BYTES: usize = 192;

/// A set as it came, without its header.
#[derive(Debug)]
pub(super) struct WaitingSet {
    pub(super) body: Box<[u8]>,
    /// The times of its message: sysUptime and export time of a later one would be wrong.
    pub(super) timing: Timing,
}

/// Counts against the limits, and for the metrics.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingCounts {
    pub(super) bytes_of_exporter: Arc<AtomicUsize>,
    pub(super) bytes_in_all: Arc<AtomicUsize>,
    pub(super) sets_in_all: Arc<AtomicUsize>,
}

/// The waiting sets of one observation domain.
#[derive(Debug)]
pub(super) struct Waiting {
    by_template: Mutex<HashMap<u16, Vec<WaitingSet>>>,
    counts: WaitingCounts,
}

/// What became of a set that has no template.
#[derive(Debug)]
pub(super) enum Outcome {
    Waits,
    NoRoom,
    /// Another reader has learned the template meanwhile: this one.
    TemplateCame(Arc<Template>),
}

impl Waiting {
    pub(super) fn new(counts: WaitingCounts) -> Self {
        Self { by_template: Mutex::default(), counts }
    }

    /// Keeps a set. `template` is asked with the lock held that [`Self::take`] needs, so that no set
    /// comes between the template and those who take what waited for it.
    pub(super) fn keep(
        &self,
        template_id: u16,
        set: WaitingSet,
        template: impl FnOnce() -> Option<Arc<Template>>,
    ) -> Outcome {
        let mut by_template = self.lock();
        if let Some(template) = template() {
            return Outcome::TemplateCame(template);
        }
        if !self.counts.have_room(cost(&set)) {
            return Outcome::NoRoom;
        }
        self.counts.add(&set);
        // Not room for four, as a list begins with else.
        by_template.entry(template_id).or_insert_with(|| Vec::with_capacity(1)).push(set);
        Outcome::Waits
    }

    /// Whether no set waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Takes what waited for a template.
    pub(super) fn take(&self, template_id: u16) -> Vec<WaitingSet> {
        let mut by_template = self.lock();
        let sets = by_template.remove(&template_id).unwrap_or_default();
        give_back(&mut by_template);
        drop(by_template);
        sets.iter().for_each(|set| self.counts.remove(set));
        sets
    }

    /// Drops the sets that were received before `received_ms`.
    pub(super) fn expire(&self, received_ms: i64, tally: &mut Tally) {
        let mut by_template = self.lock();
        by_template.retain(|_, sets| {
            sets.retain(|set| {
                let is_kept = set.timing.received_ms >= received_ms;
                if !is_kept {
                    self.counts.remove(set);
                    tally.drop(DropReason::NoTemplate, SET_HEADER_BYTES + set.body.len());
                }
                is_kept
            });
            !sets.is_empty()
        });
        give_back(&mut by_template);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u16, Vec<WaitingSet>>> {
        self.by_template.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let by_template = self.by_template.get_mut().unwrap_or_else(PoisonError::into_inner);
        by_template.values().flatten().for_each(|set| self.counts.remove(set));
    }
}

impl WaitingCounts {
    /// Counts of one more exporter.
    pub(super) fn of_new_exporter(&self) -> Self {
        Self { bytes_of_exporter: Arc::default(), ..self.clone() }
    }

    fn have_room(&self, bytes: usize) -> bool {
        let is_below = |count: &AtomicUsize, max| count.load(Ordering::Relaxed) + bytes <= max;
        is_below(&self.bytes_of_exporter, WAITING_BYTES_OF_EXPORTER_MAX)
            && (is_below(&self.bytes_of_exporter, WAITING_BYTES_SHARE)
                || is_below(&self.bytes_in_all, WAITING_BYTES_IN_ALL_MAX))
    }

    fn add(&self, set: &WaitingSet) {
        self.bytes_of_exporter.fetch_add(cost(set), Ordering::Relaxed);
        self.bytes_in_all.fetch_add(cost(set), Ordering::Relaxed);
        self.sets_in_all.fetch_add(1, Ordering::Relaxed);
    }

    fn remove(&self, set: &WaitingSet) {
        self.bytes_of_exporter.fetch_sub(cost(set), Ordering::Relaxed);
        self.bytes_in_all.fetch_sub(cost(set), Ordering::Relaxed);
        self.sets_in_all.fetch_sub(1, Ordering::Relaxed);
    }
}

fn cost(set: &WaitingSet) -> usize {
    set.body.len() + SET_OVERHEAD_BYTES
}

/// A map keeps room for the most that it ever had. With a thousand domains of each exporter that were full
/// once, that is more than any limit counts.
pub(super) fn give_back<T>(map: &mut HashMap<u16, T>) {
    if map.capacity() > 64 && map.len() < map.capacity() / 8 {
        map.shrink_to(map.len() * 2);
    }
}
