//! What an exporter calls its interfaces, applications and VRFs, as it announces in records of options
//! templates, and the columns that the names fill.
//!
//! Kept per exporter and shared by all readers; a message looks at the names as they were when it came. A change
//! copies the tables only while another reader looks at them, and at most once a set. A name that is not
//! announced any more expires, because ids are given to other things.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::flow::{Chunk, Column};

use super::records::{Place, Records};
use super::steps::{application_id, read_text};
use super::template::{Field, NETFLOW_V9_SCOPE, VARIABLE_LENGTH};

/// Names of one table of one exporter. A subscriber gateway has some ten thousand interfaces, Cisco's
/// NBAR knows about 1,500 applications, and a provider edge has some thousand VRFs.
const NAMES_PER_TABLE_MAX: usize = 16_384;

/// Bytes of the names of all exporters, each with [`ENTRY_BYTES`]: spoofed exporters must not fill the memory.
const BYTES_IN_ALL_MAX: usize = 128 << 20;

/// What an entry takes beside its texts: key, time, pointers and their counts.
const ENTRY_BYTES: usize = 128;

/// A name counts for this long after it was announced. Devices announce at least every 30 minutes.
const AGE_MAX_MS: i64 = 3_600_000;

/// A full table is searched for expired names no more often than this: a datagram can ask for it
/// thousands of times.
const EXPIRE_INTERVAL_MS: u64 = 1_000;

/// Other domains that are asked for the name of an id. If so many agree, so do the rest; a record must not
/// cost a look at a thousand.
const DOMAINS_ASKED_MAX: usize = 16;

/// An unchanged name is written down again after this, so that most refreshes write nothing.
const REFRESH_MS: i64 = 60_000;

/// Scope type Interface of NetFlow v9, RFC 3954 section 6.1.
const SCOPE_INTERFACE: u16 = 2;

/// What has a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// By ifIndex.
    Interface,
    /// By applicationId (95).
    Application,
    /// By ingressVRFID (234) or egressVRFID (235).
    Vrf,
}

/// How many there are.
const KINDS: usize = 3;

/// What the exporter tells of one id.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Entry {
    name: Arc<str>,
    /// Of interfaces only.
    description: Arc<str>,
    seen_ms: i64,
}

/// Names by id and observation domain. Ordered, so that the domains of an id lie side by side.
type Table = BTreeMap<(u64, u32), Entry>;

type Tables = [Table; KINDS];

/// The names of one exporter.
#[derive(Debug, Default)]
pub(super) struct Names {
    tables: RwLock<Arc<Tables>>,
    /// Most exporters announce none: then a message does not even look.
    has_any: AtomicBool,
    /// When each table was last searched for expired names; written with `tables` locked.
    expired_ms: [AtomicI64; KINDS],
    /// Bytes of the names of all exporters, against [`BYTES_IN_ALL_MAX`].
    bytes_in_all: Arc<AtomicUsize>,
}

/// The names at one moment, for the records of one message.
#[derive(Debug, Default)]
pub(super) struct NameLookup {
    /// `None` when there are none.
    tables: Option<Arc<Tables>>,
    domain_id: u32,
    now_ms: i64,
}

/// One name as a record announces it.
#[derive(Debug)]
struct Announcement {
    kind: Kind,
    key: (u64, u32),
    entry: Entry,
}

impl Names {
    pub(super) fn new(bytes_in_all: Arc<AtomicUsize>) -> Self {
        let has_any = AtomicBool::new(false);
        Self { tables: RwLock::default(), has_any, expired_ms: Default::default(), bytes_in_all }
    }

    pub(super) fn lookup(&self, domain_id: u32, now_ms: i64) -> NameLookup {
        let has_any = self.has_any.load(Ordering::Relaxed);
        NameLookup { tables: has_any.then(|| self.current()), domain_id, now_ms }
    }

    fn current(&self) -> Arc<Tables> {
        Arc::clone(&self.tables.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes the names of one set. One without any text takes the old one back. Returns whether there was
    /// room for all.
    fn learn(&self, announcements: impl Iterator<Item = Announcement>, now_ms: i64) -> bool {
        let known = self.current();
        let changes: Vec<_> = announcements.filter(|news| news.is_change(&known)).collect();
        // Else the tables would be copied for a look that is over.
        drop(known);
        if changes.is_empty() {
            return true;
        }
        let mut shared = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let tables = Arc::make_mut(&mut shared);
        let mut has_room = true;
        for Announcement { kind, key, entry } in changes {
            let table = &mut tables[kind as usize];
            self.remove(table, key);
            if entry.is_empty() {
                continue;
            }
            if !self.has_room(table, &entry) {
                self.expire(kind, table, now_ms);
            }
            if self.has_room(table, &entry) {
                self.bytes_in_all.fetch_add(entry.cost_bytes(), Ordering::Relaxed);
                table.insert(key, entry);
            } else {
                has_room = false;
            }
        }
        let has_any = tables.iter().any(|table| !table.is_empty());
        self.has_any.store(has_any, Ordering::Relaxed);
        has_room
    }

    fn has_room(&self, table: &Table, entry: &Entry) -> bool {
        let bytes = self.bytes_in_all.load(Ordering::Relaxed) + entry.cost_bytes();
        table.len() < NAMES_PER_TABLE_MAX && bytes <= BYTES_IN_ALL_MAX
    }

    fn remove(&self, table: &mut Table, key: (u64, u32)) {
        if let Some(old) = table.remove(&key) {
            self.bytes_in_all.fetch_sub(old.cost_bytes(), Ordering::Relaxed);
        }
    }

    fn expire(&self, kind: Kind, table: &mut Table, now_ms: i64) {
        let expired_ms = &self.expired_ms[kind as usize];
        if now_ms.abs_diff(expired_ms.load(Ordering::Relaxed)) < EXPIRE_INTERVAL_MS {
            return;
        }
        expired_ms.store(now_ms, Ordering::Relaxed);
        table.retain(|_, entry| {
            let is_current = entry.is_current(now_ms);
            if !is_current {
                self.bytes_in_all.fetch_sub(entry.cost_bytes(), Ordering::Relaxed);
            }
            is_current
        });
    }
}

/// An exporter that makes room for another takes its names with it.
impl Drop for Names {
    fn drop(&mut self) {
        let tables = self.current();
        let bytes = tables.iter().flat_map(Table::values).map(Entry::cost_bytes).sum();
        self.bytes_in_all.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Announcement {
    /// Whether it says something new, or the old was written down long ago.
    fn is_change(&self, known: &Tables) -> bool {
        let Some(known) = known[self.kind as usize].get(&self.key) else {
            return !self.entry.is_empty();
        };
        known.texts() != self.entry.texts() || self.entry.seen_ms - known.seen_ms >= REFRESH_MS
    }
}

impl Entry {
    fn texts(&self) -> [&Arc<str>; 2] {
        [&self.name, &self.description]
    }

    fn is_empty(&self) -> bool {
        self.texts().iter().all(|text| text.is_empty())
    }

    fn cost_bytes(&self) -> usize {
        ENTRY_BYTES + self.name.len() + self.description.len()
    }

    fn is_current(&self, now_ms: i64) -> bool {
        now_ms - self.seen_ms < AGE_MAX_MS
    }
}

impl NameLookup {
    /// The texts of an id: of this domain, else of another one if all that name the id agree (there are
    /// devices that send options under another source id than flows).
    fn texts(&self, kind: Kind, id: u64) -> Option<[&Arc<str>; 2]> {
        let table = &self.tables.as_ref()?[kind as usize];
        let in_domain = table.get(&(id, self.domain_id));
        if let Some(entry) = in_domain.filter(|entry| entry.is_current(self.now_ms)) {
            return Some(entry.texts());
        }
        let of_id = table.range((id, 0)..=(id, u32::MAX)).map(|(_, entry)| entry);
        let of_id = of_id.take(DOMAINS_ASKED_MAX);
        let mut current = of_id.filter(|entry| entry.is_current(self.now_ms)).map(Entry::texts);
        let first = current.next()?;
        current.all(|texts| texts == first).then_some(first)
    }
}

/// A column of ids and the columns that their texts fill.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamedColumn {
    kind: Kind,
    id: Column,
    name: Column,
    description: Option<Column>,
}

const NAMED_COLUMNS: [NamedColumn; 5] = [
    NamedColumn {
        kind: Kind::Interface,
        id: Column::InputSnmp,
        name: Column::InputSnmpIfName,
        description: Some(Column::InputSnmpIfAlias),
    },
    NamedColumn {
        kind: Kind::Interface,
        id: Column::OutputSnmp,
        name: Column::OutputSnmpIfName,
        description: Some(Column::OutputSnmpIfAlias),
    },
    NamedColumn {
        kind: Kind::Application,
        id: Column::ApplicationId,
        name: Column::ApplicationName,
        description: None,
    },
    NamedColumn {
        kind: Kind::Vrf,
        id: Column::IngressVrf,
        name: Column::IngressVrfName,
        description: None,
    },
    NamedColumn {
        kind: Kind::Vrf,
        id: Column::EgressVrf,
        name: Column::EgressVrfName,
        description: None,
    },
];

impl NamedColumn {
    /// Those whose ids the records of a template have.
    pub(super) fn of(has: impl Fn(Column) -> bool) -> Vec<Self> {
        NAMED_COLUMNS.into_iter().filter(|named| has(named.id)).collect()
    }

    /// Fills in the texts of the next `count` rows, where the record itself has none. Neighbours mostly
    /// have the same id, and an id is looked up once for all of them.
    pub(super) fn fill(&self, lookup: &NameLookup, count: usize, chunk: &mut Chunk) {
        if lookup.tables.is_none() {
            return;
        }
        let first = chunk.rows();
        let mut row = 0;
        while row < count {
            let id = self.id_in(chunk, first + row);
            let end = (row + 1..count).find(|&next| self.id_in(chunk, first + next) != id);
            let rows = row..end.unwrap_or(count);
            row = rows.end;
            let Some([name, description]) = lookup.texts(self.kind, id) else { continue };
            let described = self.description.map(|column| (column, description));
            for (column, text) in [(self.name, name)].into_iter().chain(described) {
                let index = chunk.intern_shared(column, text).to_le_bytes();
                let (out, _) = chunk.extend(column, count).as_chunks_mut::<2>();
                out[rows.clone()]
                    .iter_mut()
                    .filter(|out| **out == [0; 2])
                    .for_each(|out| *out = index);
            }
        }
    }

    fn id_in(&self, chunk: &Chunk, row: usize) -> u64 {
        match self.id.width_bytes() {
            4 => u32::from_le_bytes(chunk.value(self.id, row)).into(),
            _ => u64::from_le_bytes(chunk.value(self.id, row)),
        }
    }
}

/// Reads the names in records of one options template.
#[derive(Debug, Default)]
pub(super) struct NamesReader(Vec<NamePlaces>);

/// Where one name is in a record.
#[derive(Debug)]
struct NamePlaces {
    kind: Kind,
    /// The first that is not 0 is the id.
    ids: Vec<Place>,
    name: Option<Place>,
    description: Option<Place>,
}

impl NamesReader {
    /// Finds the elements in a template.
    pub(super) fn compile(fields: &[Field], places: &[Place]) -> Self {
        let place = |enterprise, id, is_length: fn(u16) -> bool| {
            let is_meant = |field: &Field| {
                (field.enterprise, field.id) == (enterprise, id) && is_length(field.length)
            };
            fields.iter().position(is_meant).map(|index| places[index])
        };
        let is_id = |length| (1..=8).contains(&length) || length == VARIABLE_LENGTH;
        let id = |id| place(0, id, is_id);
        let text = |id| place(0, id, |length| length > 0);
        let interfaces = [
            place(NETFLOW_V9_SCOPE, SCOPE_INTERFACE, is_id),
            id(10),  // ingressInterface
            id(252), // ingressPhysicalInterface
            id(14),  // egressInterface
            id(253), // egressPhysicalInterface
        ];
        let of = |kind, ids: &[Option<Place>], name, description| NamePlaces {
            kind,
            ids: ids.iter().copied().flatten().collect(),
            name,
            description,
        };
        let all = [
            // interfaceName, interfaceDescription
            of(Kind::Interface, &interfaces, text(82), text(83)),
            // applicationId; applicationName, else applicationDescription
            of(
                Kind::Application,
                &[place(0, 95, |length| length > 0)],
                text(96).or_else(|| text(94)),
                None,
            ),
            // ingressVRFID, egressVRFID; VRFname
            of(Kind::Vrf, &[id(234), id(235)], text(236), None),
        ];
        let is_whole = |places: &NamePlaces| {
            !places.ids.is_empty() && (places.name.is_some() || places.description.is_some())
        };
        Self(all.into_iter().filter(is_whole).collect())
    }

    /// Learns what `records` announce. Returns whether there was room for all.
    pub(super) fn learn(
        &self,
        records: &dyn Records,
        names: &Names,
        domain_id: u32,
        now_ms: i64,
    ) -> bool {
        let mut has_room = true;
        for places in &self.0 {
            let announcements = (0..records.count()).map(|record| {
                let id = |&place: &Place| application_id(records.value(record, place));
                let text = |place: Option<Place>| {
                    place.map_or_else(Arc::default, |place| {
                        Arc::from(&*read_text(records.value(record, place)))
                    })
                };
                let id = places.ids.iter().map(id).find(|&id| id != 0).unwrap_or(0);
                let (name, description) = (text(places.name), text(places.description));
                let entry = Entry { name, description, seen_ms: now_ms };
                Announcement { kind: places.kind, key: (id, domain_id), entry }
            });
            has_room &= names.learn(announcements, now_ms);
        }
        has_room
    }
}

#[cfg(test)]
mod tests;
