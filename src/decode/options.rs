//! What an exporter says about itself in records of options templates: its sampling rates, when it started,
//! and its names (`names.rs`).
//!
//! Kept per exporter and shared by all readers; a message looks at the rates as they were when it came,
//! and a change copies them. An entry that is not announced any more expires, so that a rate that was switched
//! off does not scale traffic for ever.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::names::{Names, NamesReader};
use super::records::{Place, Records, Shape};
use super::template::Field;

/// Rates of one exporter. A chassis announces one for each sampler and line card.
const RATES_MAX: usize = 512;

/// Observation domains of one exporter whose start is kept; as many as may have templates.
const DOMAINS_MAX: usize = 1_024;

/// A rate counts for this long after it was announced. Devices announce at least every 30 minutes.
const AGE_MAX_MS: i64 = 3_600_000;

/// An unchanged rate is written down again after this, so that most refreshes copy nothing.
const REFRESH_MS: i64 = 60_000;

/// Which packets a rate is for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct RateKey {
    pub(super) domain_id: u32,
    /// samplerId (48) or selectorId (302); 0 when the options record names none.
    pub(super) sampler_id: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    pub(super) interval: f64,
    pub(super) seen_ms: i64,
}

/// When an exporter started, as it announced it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Boot {
    pub(super) boot_ms: i64,
    pub(super) seen_ms: i64,
}

type Rates = HashMap<RateKey, Rate>;

/// What one exporter announced.
#[derive(Debug, Default)]
pub(super) struct Announced {
    pub(super) rates: SamplingRates,
    pub(super) boots: BootTimes,
    pub(super) names: Names,
}

/// The sampling rates of one exporter.
#[derive(Debug, Default)]
pub(super) struct SamplingRates {
    rates: RwLock<Arc<Rates>>,
    changes: Arc<AtomicU64>,
}

/// When the exporter started, by observation domain: systemInitTimeMilliseconds (160).
#[derive(Debug, Default)]
pub(super) struct BootTimes {
    boots: RwLock<HashMap<u32, Boot>>,
    changes: Arc<AtomicU64>,
}

impl Announced {
    /// Nothing announced; what will be is counted in `changes`, and the bytes of names in `name_bytes`.
    pub(super) fn new(changes: &Arc<AtomicU64>, name_bytes: &Arc<AtomicUsize>) -> Self {
        let changes = || Arc::clone(changes);
        Self {
            rates: SamplingRates { changes: changes(), ..SamplingRates::default() },
            boots: BootTimes { changes: changes(), ..BootTimes::default() },
            names: Names::new(Arc::clone(name_bytes)),
        }
    }
}

impl BootTimes {
    pub(super) fn of_domain(&self, domain_id: u32) -> Option<i64> {
        self.get(domain_id).map(|boot| boot.boot_ms)
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
        let has_room = boots.len() < DOMAINS_MAX || boots.contains_key(&domain_id);
        if has_room {
            boots.insert(domain_id, boot);
        }
        if has_room && same.is_none() {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }
}

/// The rates at one moment, for the records of one message.
#[derive(Debug, Default)]
pub(super) struct RateLookup {
    rates: Arc<Rates>,
    domain_id: u32,
    now_ms: i64,
}

impl SamplingRates {
    pub(super) fn lookup(&self, domain_id: u32, now_ms: i64) -> RateLookup {
        RateLookup { rates: self.current(), domain_id, now_ms }
    }

    /// Every rate that still counts.
    pub(super) fn list(&self, now_ms: i64) -> Vec<(RateKey, Rate)> {
        let rates = self.current();
        let current = rates.iter().filter(|(_, rate)| rate.is_current(now_ms));
        current.map(|(key, rate)| (*key, *rate)).collect()
    }

    fn current(&self) -> Arc<Rates> {
        Arc::clone(&self.rates.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes a rate. An interval of 0 takes it back. Returns whether there was room.
    pub(super) fn learn(&self, key: RateKey, interval: f64, now_ms: i64) -> bool {
        let known = self.current().get(&key).copied();
        let is_fresh = |rate: Rate| rate.interval == interval && now_ms - rate.seen_ms < REFRESH_MS;
        if known.is_some_and(is_fresh) || known.is_none() && interval == 0.0 {
            return true;
        }
        let is_change = known.is_none_or(|rate| rate.interval != interval);
        let mut shared = self.rates.write().unwrap_or_else(PoisonError::into_inner);
        let rates = Arc::make_mut(&mut shared);
        if interval == 0.0 {
            rates.remove(&key);
            self.changes.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        if rates.len() >= RATES_MAX {
            rates.retain(|_, rate| rate.is_current(now_ms));
        }
        let has_room = rates.len() < RATES_MAX || rates.contains_key(&key);
        if has_room {
            rates.insert(key, Rate { interval, seen_ms: now_ms });
        }
        if has_room && is_change {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }
}

impl RateLookup {
    pub(super) fn is_empty(&self) -> bool {
        self.rates.is_empty()
    }

    /// The rate of a sampler: of this domain, else of another one if all that have the sampler agree
    /// (there are devices that send options under another source id than flows).
    pub(super) fn of_sampler(&self, sampler_id: u64) -> Option<f64> {
        let key = RateKey { domain_id: self.domain_id, sampler_id };
        let in_domain = self.rates.get(&key).filter(|rate| self.is_current(rate));
        in_domain
            .map(|rate| rate.interval)
            .or_else(|| self.the_only(|key| key.sampler_id == sampler_id))
    }

    /// The rate of records that name no sampler: what the domain announced without one, else the only
    /// rate of the domain, else the only rate of the exporter.
    pub(super) fn of_domain(&self) -> Option<f64> {
        if self.rates.is_empty() {
            return None;
        }
        let key = RateKey { domain_id: self.domain_id, sampler_id: 0 };
        let unnamed = self.rates.get(&key).filter(|rate| self.is_current(rate));
        unnamed
            .map(|rate| rate.interval)
            .or_else(|| self.the_only(|key| key.domain_id == self.domain_id))
            .or_else(|| self.the_only(|_| true))
    }

    /// The rate that all matching entries agree on.
    fn the_only(&self, is_meant: impl Fn(&RateKey) -> bool) -> Option<f64> {
        let current = self.rates.iter().filter(|(_, rate)| self.is_current(rate));
        let mut meant = current.filter(|(key, _)| is_meant(key)).map(|(_, rate)| rate.interval);
        let first = meant.next()?;
        meant.all(|interval| interval == first).then_some(first)
    }

    fn is_current(&self, rate: &Rate) -> bool {
        rate.is_current(self.now_ms)
    }
}

impl Rate {
    fn is_current(self, now_ms: i64) -> bool {
        now_ms - self.seen_ms < AGE_MAX_MS
    }
}

/// The elements of an options record that tell a sampling rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RateElement {
    /// samplerId (48), selectorId (302).
    Sampler,
    /// samplingInterval (34), samplerRandomInterval (50): one packet in this many.
    Interval,
    /// samplingPacketInterval (305): so many packets are taken in a row (RFC 5477 section 8.2.2).
    PacketInterval,
    /// samplingPacketSpace (306): so many are left out behind them (RFC 5477 section 8.2.3).
    PacketSpace,
    /// samplingSize (309): so many packets are taken (RFC 5477 section 8.2.6).
    Size,
    /// samplingPopulation (310): of so many (RFC 5477 section 8.2.7).
    Population,
}

/// Reads the records of one options template.
#[derive(Debug, Default)]
pub(super) struct OptionsReader {
    rate_elements: Vec<(RateElement, Place)>,
    /// systemInitTimeMilliseconds (160).
    boot: Option<Place>,
    names: NamesReader,
}

impl OptionsReader {
    /// Finds the elements in a template.
    pub(super) fn compile(fields: &[Field]) -> Self {
        let (_, places) = Shape::of(fields);
        let elements = fields.iter().zip(&places).filter_map(|(field, &place)| {
            let element = match (field.enterprise, field.id) {
                (0, 48 | 302) => RateElement::Sampler,
                (0, 34 | 50) => RateElement::Interval,
                (0, 305) => RateElement::PacketInterval,
                (0, 306) => RateElement::PacketSpace,
                (0, 309) => RateElement::Size,
                (0, 310) => RateElement::Population,
                _ => return None,
            };
            (1..=8).contains(&field.length).then_some((element, place))
        });
        Self {
            rate_elements: elements.collect(),
            boot: boot_place(fields, &places),
            names: NamesReader::compile(fields, &places),
        }
    }

    /// Learns what `records` announce. Returns whether there was room for all.
    pub(super) fn learn(
        &self,
        records: &dyn Records,
        announced: &Announced,
        domain_id: u32,
        now_ms: i64,
    ) -> bool {
        let mut has_room = self.names.learn(records, &announced.names, domain_id, now_ms);
        if let Some(boot) = self.boot {
            for record in 0..records.count() {
                let boot_ms = unsigned(records.value(record, boot));
                has_room &= announced.boots.learn(domain_id, boot_ms, now_ms);
            }
        }
        if self.rate_elements.is_empty() {
            return has_room;
        }
        for record in 0..records.count() {
            let value = |element| {
                let (_, place) = self.rate_elements.iter().find(|(known, _)| *known == element)?;
                Some(unsigned(records.value(record, *place)))
            };
            let key = RateKey { domain_id, sampler_id: value(RateElement::Sampler).unwrap_or(0) };
            if let Some(interval) = interval_of(value) {
                has_room &= announced.rates.learn(key, interval, now_ms);
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

/// One packet in how many is looked at, 0 when none is; `None` when the record does not tell.
#[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
fn interval_of(value: impl Fn(RateElement) -> Option<u64>) -> Option<f64> {
    use RateElement::{Interval, PacketInterval, PacketSpace, Population, Size};
    if let Some(interval) = value(Interval) {
        return Some(interval as f64);
    }
    let ratio = |whole: f64, part: u64| if part == 0 { 0.0 } else { whole / part as f64 };
    if let (Some(taken), Some(left_out)) = (value(PacketInterval), value(PacketSpace)) {
        return Some(ratio(taken as f64 + left_out as f64, taken));
    }
    let (size, population) = (value(Size)?, value(Population)?);
    Some(ratio(population as f64, size))
}

/// Big-endian, up to 8 bytes.
pub(super) fn unsigned(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(domain_id: u32, sampler_id: u64) -> RateKey {
        RateKey { domain_id, sampler_id }
    }

    #[test]
    fn a_sampler_of_the_own_domain_wins_and_another_domain_helps_out() {
        let rates = SamplingRates::default();
        rates.learn(key(1, 5), 100.0, 0);
        rates.learn(key(2, 5), 200.0, 0);
        rates.learn(key(2, 6), 300.0, 0);
        assert_eq!(rates.lookup(1, 0).of_sampler(5), Some(100.0));
        assert_eq!(rates.lookup(1, 0).of_sampler(6), Some(300.0));
        assert_eq!(rates.lookup(3, 0).of_sampler(5), None, "the others disagree");
        assert_eq!(rates.lookup(1, 0).of_sampler(7), None);
    }

    #[test]
    fn records_without_a_sampler_get_the_only_rate_there_is() {
        let rates = SamplingRates::default();
        assert_eq!(rates.lookup(1, 0).of_domain(), None);
        rates.learn(key(1, 5), 100.0, 0);
        assert_eq!(rates.lookup(1, 0).of_domain(), Some(100.0));
        assert_eq!(rates.lookup(9, 0).of_domain(), Some(100.0));
        rates.learn(key(1, 6), 200.0, 0);
        assert_eq!(rates.lookup(1, 0).of_domain(), None, "two samplers, no telling which");
        rates.learn(key(1, 0), 300.0, 0);
        assert_eq!(rates.lookup(1, 0).of_domain(), Some(300.0));
    }

    #[test]
    fn a_rate_expires_when_it_is_not_announced_again_and_0_takes_it_back() {
        let rates = SamplingRates::default();
        rates.learn(key(1, 5), 100.0, 0);
        assert_eq!(rates.lookup(1, AGE_MAX_MS - 1).of_sampler(5), Some(100.0));
        assert_eq!(rates.lookup(1, AGE_MAX_MS).of_sampler(5), None);
        rates.learn(key(1, 5), 100.0, AGE_MAX_MS);
        assert_eq!(rates.lookup(1, AGE_MAX_MS).of_sampler(5), Some(100.0));
        rates.learn(key(1, 5), 0.0, AGE_MAX_MS);
        assert_eq!(rates.lookup(1, AGE_MAX_MS).of_sampler(5), None);
    }

    #[test]
    fn an_exporter_has_a_limited_number_of_rates() {
        let rates = SamplingRates::default();
        let learned = (0..RATES_MAX as u64 + 3).filter(|&id| rates.learn(key(1, id), 2.0, 0));
        assert_eq!(learned.count(), RATES_MAX);
    }

    #[test]
    fn every_way_to_say_a_rate_is_understood() {
        use RateElement::{Interval, PacketInterval, PacketSpace, Population, Size};
        let of = |pairs: &[(RateElement, u64)]| {
            interval_of(|element| pairs.iter().find(|(e, _)| *e == element).map(|(_, v)| *v))
        };
        assert_eq!(of(&[(Interval, 512)]), Some(512.0));
        assert_eq!(of(&[(PacketInterval, 1), (PacketSpace, 99)]), Some(100.0));
        assert_eq!(of(&[(PacketInterval, 2), (PacketSpace, 8)]), Some(5.0));
        assert_eq!(of(&[(Size, 1), (Population, 1_000)]), Some(1_000.0));
        assert_eq!(of(&[(Size, 0), (Population, 1_000)]), Some(0.0));
        assert_eq!(of(&[(PacketSpace, 99)]), None);
        assert_eq!(of(&[]), None);
    }
}
