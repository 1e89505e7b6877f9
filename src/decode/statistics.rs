//! What an exporter counts of itself and announces in options records: what it saw, ignored and did not
//! send (RFC 5102 section 5.3). Its last word on each is kept, for the management API.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::options::unsigned;
use super::records::{Place, Records};
use super::template::Field;

/// Numbers of one exporter; a thousand domains with all of them would be 9,000.
const STATISTICS_MAX: usize = 4_096;

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
pub(super) struct Statistics(Mutex<BTreeMap<(u32, usize), u64>>);

impl Statistics {
    /// Notes a number; returns whether there was room.
    fn learn(&self, domain_id: u32, element: usize, value: u64) -> bool {
        let mut known = self.lock();
        let key = (domain_id, element);
        let has_room = known.len() < STATISTICS_MAX || known.contains_key(&key);
        if has_room {
            known.insert(key, value);
        }
        has_room
    }

    /// Domain, element and number of all, by domain.
    pub(super) fn list(&self) -> Vec<(u32, &'static str, u64)> {
        let known = self.lock();
        known.iter().map(|(&(domain_id, it), &value)| (domain_id, ELEMENTS[it].1, value)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u32, usize), u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub(super) fn learn(&self, records: &dyn Records, known: &Statistics, domain_id: u32) -> bool {
        let mut has_room = true;
        for &(element, place) in &self.0 {
            for record in 0..records.count() {
                let value = unsigned(records.value(record, place));
                has_room &= known.learn(domain_id, element, value);
            }
        }
        has_room
    }
}
