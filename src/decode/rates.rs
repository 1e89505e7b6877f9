//! The sampling rates that an exporter announced.
//!
//! Shared by all readers; a message looks at the rates as they were when it came, and a change copies them.
//! An entry that is not announced any more expires, so that a rate that was switched off does not scale
//! traffic for ever.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::limit::Limit;
use super::options::REFRESH_MS;
use super::sampling::{Algorithm, Sampling};

/// Rates. A chassis announces one for each sampler and line card; those of all exporters take about 16 MiB.
const RATES_MAX: Limit = Limit { of_one: 512, in_all: 262_144 };

/// A rate counts for this long after it was announced. Devices announce at least every 30 minutes.
const AGE_MAX_MS: i64 = 3_600_000;

/// Other domains that are asked for the rate of a sampler. If so many agree, so do the rest; a record must
/// not cost a look at all rates.
const DOMAINS_ASKED_MAX: usize = 16;

/// Which packets a rate is for. In this order the domains of a sampler lie side by side.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct RateKey {
    /// samplerId (48) or selectorId (302); 0 when the options record names none.
    pub(super) sampler_id: u64,
    pub(super) domain_id: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    /// One packet in so many; 0 when the sampler looks at none.
    pub(super) interval: f64,
    pub(super) algorithm: Algorithm,
    pub(super) seen_ms: i64,
}

/// A rate that an exporter announced, for people.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AnnouncedRate {
    /// Observation domain or source id.
    pub domain_id: u32,
    /// The sampler or selector; 0 when the options record named none.
    pub sampler_id: u64,
    /// One packet in so many.
    pub interval: f64,
    /// How packets are chosen, as the column `samplingAlgorithm` has it.
    pub algorithm: &'static str,
}

impl AnnouncedRate {
    pub(super) fn of((key, rate): &(RateKey, Rate)) -> Self {
        let RateKey { domain_id, sampler_id } = *key;
        let (interval, algorithm) = (rate.interval, rate.algorithm.name());
        Self { domain_id, sampler_id, interval, algorithm }
    }
}

type Rates = BTreeMap<RateKey, Rate>;

/// The sampling rates of one exporter.
#[derive(Debug, Default)]
pub(super) struct SamplingRates {
    rates: RwLock<Arc<Rates>>,
    changes: Arc<AtomicU64>,
    /// Rates of all exporters, against [`RATES_MAX`].
    in_all: Arc<AtomicUsize>,
}

/// The rates at one moment, for the records of one message.
#[derive(Debug, Default)]
pub(super) struct RateLookup {
    rates: Arc<Rates>,
    domain_id: u32,
    now_ms: i64,
}

impl SamplingRates {
    /// No rates; what comes is counted in `changes`, and how many there are in `in_all`.
    pub(super) fn new(changes: Arc<AtomicU64>, in_all: Arc<AtomicUsize>) -> Self {
        Self { rates: RwLock::default(), changes, in_all }
    }

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

    /// Notes a rate. An interval of 0 takes that of a sampler back; without a sampler it says that the
    /// domain is not sampled. Returns whether there was room.
    pub(super) fn learn(&self, key: RateKey, mut rate: Rate) -> bool {
        if rate.interval == 0.0 && key.sampler_id == 0 {
            rate.interval = 1.0;
        }
        let now_ms = rate.seen_ms;
        let known = self.current().get(&key).copied();
        let is_same = known.is_some_and(|known| known.says_the_same(&rate));
        let is_fresh = known.is_some_and(|known| now_ms - known.seen_ms < REFRESH_MS);
        if is_same && is_fresh || known.is_none() && rate.interval == 0.0 {
            return true;
        }
        let mut shared = self.rates.write().unwrap_or_else(PoisonError::into_inner);
        let rates = Arc::make_mut(&mut shared);
        if rate.interval == 0.0 {
            if rates.remove(&key).is_some() {
                self.in_all.fetch_sub(1, Ordering::Relaxed);
            }
            self.changes.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        let has_room = rates.contains_key(&key) || self.make_room(rates, now_ms);
        if has_room {
            rates.insert(key, rate);
        }
        if has_room && !is_same {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    /// Counts one more, for which those that expired may give way.
    fn make_room(&self, rates: &mut Rates, now_ms: i64) -> bool {
        let add_one = |rates: &Rates| RATES_MAX.add_one(rates.len(), &self.in_all);
        add_one(rates) || {
            let before = rates.len();
            rates.retain(|_, rate| rate.is_current(now_ms));
            self.in_all.fetch_sub(before - rates.len(), Ordering::Relaxed);
            add_one(rates)
        }
    }
}

/// An exporter that makes room for another takes its rates with it.
impl Drop for SamplingRates {
    fn drop(&mut self) {
        self.in_all.fetch_sub(self.current().len(), Ordering::Relaxed);
    }
}

impl RateLookup {
    pub(super) fn is_empty(&self) -> bool {
        self.rates.is_empty()
    }

    /// The rate of a sampler: of this domain, else of another one if all that have the sampler agree
    /// (there are devices that send options under another source id than flows).
    pub(super) fn of_sampler(&self, sampler_id: u64) -> Option<Sampling> {
        let key = RateKey { domain_id: self.domain_id, sampler_id };
        self.get(key).or_else(|| {
            let key = |domain_id| RateKey { sampler_id, domain_id };
            let of_sampler = self.rates.range(key(0)..=key(u32::MAX)).map(|(_, rate)| rate);
            self.the_only(of_sampler.take(DOMAINS_ASKED_MAX))
        })
    }

    /// The rate of records that name no sampler: what the domain announced without one, else the only
    /// rate of the domain, else the only rate of the exporter.
    pub(super) fn of_domain(&self) -> Option<Sampling> {
        if self.rates.is_empty() {
            return None;
        }
        let of_domain = |(key, _): &(&RateKey, &Rate)| key.domain_id == self.domain_id;
        self.get(RateKey { domain_id: self.domain_id, sampler_id: 0 })
            .or_else(|| self.the_only(self.rates.iter().filter(of_domain).map(|(_, rate)| rate)))
            .or_else(|| self.the_only(self.rates.values()))
    }

    /// The rate that was announced without a sampler, of this domain or else of others that agree.
    pub(super) fn without_sampler(&self) -> Option<Sampling> {
        self.of_sampler(0)
    }

    fn get(&self, key: RateKey) -> Option<Sampling> {
        self.rates.get(&key).filter(|rate| self.is_current(rate)).map(Rate::sampling)
    }

    /// The rate that all of `rates` agree on that count.
    fn the_only<'a>(&self, rates: impl Iterator<Item = &'a Rate>) -> Option<Sampling> {
        let mut current = rates.filter(|rate| self.is_current(rate));
        let first = current.next()?;
        current.all(|rate| rate.interval == first.interval).then(|| first.sampling())
    }

    fn is_current(&self, rate: &Rate) -> bool {
        rate.is_current(self.now_ms)
    }
}

impl Rate {
    fn is_current(&self, now_ms: i64) -> bool {
        now_ms - self.seen_ms < AGE_MAX_MS
    }

    fn says_the_same(&self, other: &Self) -> bool {
        (self.interval, self.algorithm) == (other.interval, other.algorithm)
    }

    fn sampling(&self) -> Sampling {
        Sampling::from_options(self.interval, self.algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(domain_id: u32, sampler_id: u64) -> RateKey {
        RateKey { domain_id, sampler_id }
    }

    fn rate(interval: f64, seen_ms: i64) -> Rate {
        Rate { interval, algorithm: Algorithm::default(), seen_ms }
    }

    fn of_sampler(rates: &SamplingRates, domain_id: u32, now_ms: i64, id: u64) -> Option<f64> {
        rates.lookup(domain_id, now_ms).of_sampler(id).map(|sampling| sampling.interval)
    }

    fn of_domain(rates: &SamplingRates, domain_id: u32) -> Option<f64> {
        rates.lookup(domain_id, 0).of_domain().map(|sampling| sampling.interval)
    }

    #[test]
    fn a_sampler_of_the_own_domain_wins_and_another_domain_helps_out() {
        let rates = SamplingRates::default();
        rates.learn(key(1, 5), rate(100.0, 0));
        rates.learn(key(2, 5), rate(200.0, 0));
        rates.learn(key(2, 6), rate(300.0, 0));
        assert_eq!(of_sampler(&rates, 1, 0, 5), Some(100.0));
        assert_eq!(of_sampler(&rates, 1, 0, 6), Some(300.0));
        assert_eq!(of_sampler(&rates, 3, 0, 5), None, "the others disagree");
        assert_eq!(of_sampler(&rates, 1, 0, 7), None);
    }

    #[test]
    fn records_without_a_sampler_get_the_only_rate_there_is() {
        let rates = SamplingRates::default();
        assert_eq!(of_domain(&rates, 1), None);
        rates.learn(key(1, 5), rate(100.0, 0));
        assert_eq!(of_domain(&rates, 1), Some(100.0));
        assert_eq!(of_domain(&rates, 9), Some(100.0));
        rates.learn(key(1, 6), rate(200.0, 0));
        assert_eq!(of_domain(&rates, 1), None, "two samplers, no telling which");
        rates.learn(key(1, 0), rate(300.0, 0));
        assert_eq!(of_domain(&rates, 1), Some(300.0));
    }

    #[test]
    fn a_rate_expires_when_it_is_not_announced_again_and_0_takes_it_back() {
        let rates = SamplingRates::default();
        rates.learn(key(1, 5), rate(100.0, 0));
        assert_eq!(of_sampler(&rates, 1, AGE_MAX_MS - 1, 5), Some(100.0));
        assert_eq!(of_sampler(&rates, 1, AGE_MAX_MS, 5), None);
        rates.learn(key(1, 5), rate(100.0, AGE_MAX_MS));
        assert_eq!(of_sampler(&rates, 1, AGE_MAX_MS, 5), Some(100.0));
        rates.learn(key(1, 5), rate(0.0, AGE_MAX_MS));
        assert_eq!(of_sampler(&rates, 1, AGE_MAX_MS, 5), None);
    }

    #[test]
    fn only_some_other_domains_are_asked() {
        let rates = SamplingRates::default();
        let asked = u32::try_from(DOMAINS_ASKED_MAX).unwrap();
        for domain_id in 0..asked {
            rates.learn(key(domain_id, 5), rate(100.0, 0));
        }
        rates.learn(key(asked, 5), rate(200.0, 0));
        assert_eq!(of_sampler(&rates, 1_000, 0, 5), Some(100.0));
        rates.learn(key(0, 5), rate(200.0, 0));
        assert_eq!(of_sampler(&rates, 1_000, 0, 5), None);
    }

    #[test]
    fn an_exporter_has_a_limited_number_of_rates() {
        let rates = SamplingRates::default();
        let learned = (0..515).filter(|&id| rates.learn(key(1, id), rate(2.0, 0)));
        assert_eq!(learned.count(), RATES_MAX.of_one);
        assert!(rates.learn(key(1, 0), rate(3.0, 0)), "known");
        assert!(rates.learn(key(2, 0), rate(2.0, AGE_MAX_MS)), "the others have expired");
        assert_eq!(rates.in_all.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn all_exporters_have_a_limited_number_of_rates_which_ends_with_them() {
        let in_all = Arc::default();
        let new = |_| SamplingRates::new(Arc::default(), Arc::clone(&in_all));
        let exporters: Vec<_> = (0..514).map(new).collect();
        let ids = || (0..512).map(|id| key(1, id));
        let learn = |exporter: &SamplingRates| {
            ids().filter(|&key| exporter.learn(key, rate(2.0, 0))).count()
        };
        let learned: usize = exporters.iter().map(learn).sum();
        assert_eq!(learned, RATES_MAX.in_all);
        assert!(!exporters[513].learn(key(1, 1), rate(2.0, 0)));
        exporters[0].learn(key(1, 1), rate(0.0, 0));
        assert!(exporters[513].learn(key(1, 1), rate(2.0, 0)), "one was taken back");
        drop(exporters);
        assert_eq!(in_all.load(Ordering::Relaxed), 0);
    }
}
