//! What an exporter counts of itself and announces in options records: what it saw, ignored and did not
//! send (RFC 5102 section 5.3). Its last word on each is kept, for the management API.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::limit::Limit;
use super::options::unsigned;
use super::records::{Place, Records};
use super::template::Field;

/// Numbers. A thousand domains of an exporter with all of them would be 9,000; those of all exporters take
/// about 10 MiB.
const STATISTICS_MAX: Limit = Limit { of_one: 4_096, in_all: 262_144 };

/// The elements, by IANA's number, and the names that the management API gives them.
const ELEMENTS: [(u16, &str); 9] = [
    (40, "exportedOctetTotalCount"),
    (41, "exportedMessageTotalCount"),
    (42, "exportedFlowRecordTotalCount"),
    (163, "observedFlowTotalCount"),
    (164, "ignoredPacketTotalCount"),
    (165, "ignoredOctetTotalCount"),
    (166, "notSentFlowTotalCount"),
    (167, "notSentPacketTotalCount"),
    (168, "notSentOctetTotalCount"),
];

/// The numbers of one exporter, by observation domain and index in [`ELEMENTS`].
#[derive(Debug, Default)]
pub(super) struct Statistics {
    known: Mutex<BTreeMap<(u32, usize), Statistic>>,
    /// Numbers of all exporters, against [`STATISTICS_MAX`].
    in_all: Arc<AtomicUsize>,
}

/// The last word on one number.
#[derive(Clone, Copy, Debug)]
struct Statistic {
    value: u64,
    seen_ms: i64,
}

/// What was not said again for this long is not shown.
const AGE_MAX_MS: i64 = 24 * 3_600_000;

impl Statistics {
    pub(super) fn new(in_all: Arc<AtomicUsize>) -> Self {
        Self { known: Mutex::default(), in_all }
    }

    /// Notes a number; returns whether there was room.
    fn learn(&self, domain_id: u32, element: usize, statistic: Statistic) -> bool {
        let mut known = self.lock();
        let key = (domain_id, element);
        let has_room =
            known.contains_key(&key) || STATISTICS_MAX.add_one(known.len(), &self.in_all);
        if has_room {
            known.insert(key, statistic);
        }
        has_room
    }

    /// Domain, element and number of all that still count, by domain.
    pub(super) fn list(&self, now_ms: i64) -> Vec<(u32, &'static str, u64)> {
        let known = self.lock();
        let current = known.iter().filter(|(_, it)| now_ms - it.seen_ms < AGE_MAX_MS);
        current.map(|(&(domain_id, it), of)| (domain_id, ELEMENTS[it].1, of.value)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u32, usize), Statistic>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An exporter that makes room for another takes its numbers with it.
impl Drop for Statistics {
    fn drop(&mut self) {
        self.in_all.fetch_sub(self.lock().len(), Ordering::Relaxed);
    }
}

/// Where the records of an options template have such numbers.
#[derive(Debug, Default)]
pub(super) struct StatisticsReader(Vec<(usize, Place)>);

impl StatisticsReader {
    /// Finds the elements in a template.
    pub(super) fn compile(fields: &[Field], places: &[Place]) -> Self {
        let found = fields.iter().zip(places).filter(|(field, _)| field.is_integer());
        let found = found.filter_map(|(field, &place)| {
            let index = ELEMENTS.iter().position(|(id, _)| field.is_iana(&[*id]))?;
            Some((index, place))
        });
        Self(found.collect())
    }

    /// Learns what `records` announce. Returns whether there was room for all.
    pub(super) fn learn(
        &self,
        records: &dyn Records,
        known: &Statistics,
        domain_id: u32,
        now_ms: i64,
    ) -> bool {
        let mut has_room = true;
        for &(element, place) in &self.0 {
            for record in 0..records.count() {
                let value = unsigned(records.value(record, place));
                has_room &= known.learn(domain_id, element, Statistic { value, seen_ms: now_ms });
            }
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_limited_for_one_exporter_and_for_all_and_end_with_theirs() {
        let in_all = Arc::default();
        let exporters: Vec<_> = (0..65).map(|_| Statistics::new(Arc::clone(&in_all))).collect();
        let one = Statistic { value: 1, seen_ms: 0 };
        let learn = |it: &Statistics| (0..4_100).filter(|&domain| it.learn(domain, 0, one)).count();
        let learned: Vec<_> = exporters.iter().map(learn).collect();
        assert_eq!(learned[0], STATISTICS_MAX.of_one);
        assert_eq!(learned.iter().sum::<usize>(), STATISTICS_MAX.in_all);
        assert!(exporters[0].learn(0, 0, one), "known");
        assert_eq!(exporters[0].list(AGE_MAX_MS - 1).len(), STATISTICS_MAX.of_one);
        assert_eq!(exporters[0].list(AGE_MAX_MS).len(), 0, "not said again");
        drop(exporters);
        assert_eq!(in_all.load(Ordering::Relaxed), 0);
    }
}
