//! What an exporter says about itself in records of options templates: its sampling rates (`rates.rs`),
//! when it started, its names (`names.rs`) and what it counts of itself (`statistics.rs`).
//!
//! Kept per exporter and shared by all readers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::limit::Limit;
use super::names::{Names, NamesReader};
use super::rates::{Rate, RateKey, SamplingRates};
use super::records::{Place, Records, Shape};
use super::sampling::SamplingFields;
use super::statistics::{Statistics, StatisticsReader};
use super::template::{Field, TEMPLATE_AGE_MAX_MS};

/// Observation domains whose start is kept; as many as may have templates. Those of all exporters take about
/// 8 MiB.
const BOOTS_MAX: Limit = Limit { of_one: 1_024, in_all: 131_072 };

/// What is announced unchanged is written down again after this, so that most refreshes copy nothing.
pub(super) const REFRESH_MS: i64 = 60_000;

/// A start counts for this long after it was announced. Some exporters announce it at their start alone.
const BOOT_AGE_MAX_MS: i64 = TEMPLATE_AGE_MAX_MS;

/// Domains that are asked for a start that the own one has not.
const OTHERS_MAX: usize = 16;

/// When an exporter started, as it announced it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Boot {
    pub(super) boot_ms: i64,
    pub(super) seen_ms: i64,
}

/// What one exporter announced.
#[derive(Debug, Default)]
pub(super) struct Announced {
    pub(super) rates: SamplingRates,
    pub(super) boots: BootTimes,
    pub(super) names: Names,
    pub(super) statistics: Statistics,
}

/// When the exporter started, by observation domain: systemInitTimeMilliseconds (160).
#[derive(Debug, Default)]
pub(super) struct BootTimes {
    boots: RwLock<HashMap<u32, Boot>>,
    changes: Arc<AtomicU64>,
    /// Starts of all exporters, against [`BOOTS_MAX`].
    in_all: Arc<AtomicUsize>,
}

/// What all exporters together announced, against limits that spoofers cannot raise.
#[derive(Debug, Default)]
pub(super) struct AnnouncedInAll {
    /// What was announced newly, changed or withdrawn; grows.
    pub(super) changes: Arc<AtomicU64>,
    rates: Arc<AtomicUsize>,
    boots: Arc<AtomicUsize>,
    /// Bytes.
    names: Arc<AtomicUsize>,
    statistics: Arc<AtomicUsize>,
}

impl Announced {
    /// Nothing announced; what will be is counted in `in_all`.
    pub(super) fn new(in_all: &AnnouncedInAll) -> Self {
        let changes = || Arc::clone(&in_all.changes);
        Self {
            rates: SamplingRates::new(changes(), Arc::clone(&in_all.rates)),
            boots: BootTimes::new(changes(), Arc::clone(&in_all.boots)),
            names: Names::new(Arc::clone(&in_all.names)),
            statistics: Statistics::new(Arc::clone(&in_all.statistics)),
        }
    }
}

impl BootTimes {
    fn new(changes: Arc<AtomicU64>, in_all: Arc<AtomicUsize>) -> Self {
        Self { boots: RwLock::default(), changes, in_all }
    }

    /// The start that a domain announced, else that of others if they agree (there are devices that send
    /// options under another source id than flows).
    pub(super) fn of_domain(&self, domain_id: u32, now_ms: i64) -> Option<i64> {
        let boots = self.boots.read().unwrap_or_else(PoisonError::into_inner);
        let is_current = |boot: &&Boot| now_ms - boot.seen_ms < BOOT_AGE_MAX_MS;
        if let Some(own) = boots.get(&domain_id).filter(is_current) {
            return Some(own.boot_ms);
        }
        let mut others = boots.values().take(OTHERS_MAX).filter(is_current).map(|it| it.boot_ms);
        let first = others.next()?;
        others.all(|boot_ms| boot_ms == first).then_some(first)
    }

    /// Every start that is known, by domain.
    pub(super) fn list(&self) -> Vec<(u32, Boot)> {
        let boots = self.boots.read().unwrap_or_else(PoisonError::into_inner);
        boots.iter().map(|(domain_id, boot)| (*domain_id, *boot)).collect()
    }

    fn get(&self, domain_id: u32) -> Option<Boot> {
        self.boots.read().unwrap_or_else(PoisonError::into_inner).get(&domain_id).copied()
    }

    /// Notes a start; returns whether there was room.
    pub(super) fn learn(&self, domain_id: u32, boot_ms: u64, now_ms: i64) -> bool {
        let boot = Boot { boot_ms: i64::try_from(boot_ms).unwrap_or(0), seen_ms: now_ms };
        let same = self.get(domain_id).filter(|known| known.boot_ms == boot.boot_ms);
        if same.is_some_and(|known| now_ms - known.seen_ms < REFRESH_MS) {
            return true;
        }
        let mut boots = self.boots.write().unwrap_or_else(PoisonError::into_inner);
        let has_room =
            boots.contains_key(&domain_id) || BOOTS_MAX.add_one(boots.len(), &self.in_all);
        if has_room {
            boots.insert(domain_id, boot);
        }
        if has_room && same.is_none() {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }
}

/// An exporter that makes room for another takes its starts with it.
impl Drop for BootTimes {
    fn drop(&mut self) {
        let boots = self.boots.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.in_all.fetch_sub(boots.len(), Ordering::Relaxed);
    }
}

/// Reads the records of one options template.
#[derive(Debug, Default)]
pub(super) struct OptionsReader {
    sampling: SamplingFields,
    /// systemInitTimeMilliseconds (160).
    boot: Option<Place>,
    names: NamesReader,
    statistics: StatisticsReader,
}

impl OptionsReader {
    /// Finds the elements in a template.
    pub(super) fn compile(fields: &[Field]) -> Self {
        let (_, places) = Shape::of(fields);
        Self {
            sampling: SamplingFields::of(fields, &places),
            boot: boot_place(fields, &places),
            names: NamesReader::compile(fields, &places),
            statistics: StatisticsReader::compile(fields, &places),
        }
    }

    /// Learns what `records` announce. Returns whether there was room for all.
    pub(super) fn learn(
        &self,
        records: &dyn Records,
        announced: &Announced,
        domain_id: u32,
        now_ms: i64,
        has_little_endian_rates: bool,
    ) -> bool {
        let mut has_room = self.names.learn(records, &announced.names, domain_id, now_ms);
        has_room &= self.statistics.learn(records, &announced.statistics, domain_id, now_ms);
        if let Some(boot) = self.boot {
            for record in 0..records.count() {
                let boot_ms = unsigned(records.value(record, boot));
                has_room &= announced.boots.learn(domain_id, boot_ms, now_ms);
            }
        }
        if self.sampling.is_empty() {
            return has_room;
        }
        for record in 0..records.count() {
            let (sampler_id, interval, algorithm) =
                self.sampling.read(records, record, has_little_endian_rates);
            if let Some(interval) = interval {
                let rate = Rate { interval, algorithm, seen_ms: now_ms };
                has_room &= announced.rates.learn(RateKey { domain_id, sampler_id }, rate);
            }
        }
        has_room
    }
}

/// The place of systemInitTimeMilliseconds (160) in a record.
pub(super) fn boot_place(fields: &[Field], places: &[Place]) -> Option<Place> {
    let is_boot = |field: &Field| field.enterprise == 0 && field.id == 160 && field.length == 8;
    fields.iter().position(is_boot).map(|index| places[index])
}

/// Big-endian, up to 8 bytes.
pub(super) fn unsigned(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_limited_for_one_exporter_and_for_all_and_end_with_theirs() {
        let in_all = Arc::default();
        let new = |_| BootTimes::new(Arc::default(), Arc::clone(&in_all));
        let exporters: Vec<_> = (0..130).map(new).collect();
        let learn = |it: &BootTimes| (0..1_030).filter(|&domain| it.learn(domain, 1, 0)).count();
        let learned: Vec<_> = exporters.iter().map(learn).collect();
        assert_eq!(learned[0], BOOTS_MAX.of_one);
        assert_eq!(learned.iter().sum::<usize>(), BOOTS_MAX.in_all);
        assert!(exporters[0].learn(0, 2, 0), "known");
        drop(exporters);
        assert_eq!(in_all.load(Ordering::Relaxed), 0);
    }
}
