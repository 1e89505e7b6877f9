//! What is known of an address, and the memory of what was found.

use std::collections::HashMap;
use std::net::Ipv6Addr;

use foldhash::fast::RandomState;

use super::applications::AddressClass;
use super::geoip::Decoded;
use super::locality::Locality;
use super::tables::Tables;
use super::texts::{TextBook, TextId};

/// What the tables say of an address.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Facts {
    pub(super) locality: Locality,
    pub(super) class: AddressClass,
    /// Of the file of prefixes.
    pub(super) network: NetworkFacts,
    /// Of the databases.
    pub(super) geo: GeoFacts,
}

/// A network of the file of prefixes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct NetworkFacts {
    pub(super) as_number: u32,
    pub(super) name: TextId,
    pub(super) country: TextId,
    pub(super) site: TextId,
    pub(super) role: TextId,
}

/// A record of a database, or what several of them say together.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct GeoFacts {
    pub(super) country: TextId,
    pub(super) city: TextId,
    pub(super) as_number: u32,
    pub(super) as_name: TextId,
}

/// Facts by address, for one reader and one set of tables: addresses come again and again, and few facts are of
/// many addresses.
#[derive(Debug, Default)]
pub(super) struct FactBook {
    /// By a hash of the address; a newer address takes the place of an older one.
    slots: Vec<Slot>,
    facts: Vec<Facts>,
    ids: HashMap<Facts, u32, RandomState>,
    pub(super) texts: TextBook,
    networks: HashMap<u32, NetworkFacts, RandomState>,
    decoded: Decoded,
    /// Since somebody last took them.
    pub(super) counts: LookupCounts,
}

/// What became of questions for addresses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LookupCounts {
    pub(super) remembered: u64,
    pub(super) looked_up: u64,
    pub(super) failed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    address: [u8; 16],
    id: u32,
}

/// Addresses that are remembered, 1.3 MiB a reader. Measured (docs/performance.md).
const SLOTS: usize = 1 << u16::BITS;

/// Facts that are remembered, some 10 MiB a reader; what is beyond begins anew. A chunk has 16,384 at most.
const FACTS_MAX: usize = 1 << 16;

/// A slot that nothing is in.
const NOBODY: u32 = u32::MAX;

impl FactBook {
    /// Forgets everything: the tables have changed.
    pub(super) fn clear(&mut self) {
        *self = Self { counts: self.counts, ..Self::default() };
    }

    /// Makes room for so many new facts, whose ids then hold until it is called again.
    pub(super) fn make_room(&mut self, facts: usize) {
        if self.facts.len() + facts > FACTS_MAX {
            self.clear();
        }
        if self.slots.is_empty() {
            self.slots = vec![Slot { address: [0; 16], id: NOBODY }; SLOTS];
        }
    }

    /// How many ids there are, from 0.
    pub(super) fn len(&self) -> usize {
        self.facts.len()
    }

    /// The facts with an id.
    pub(super) fn get(&self, id: u32) -> &Facts {
        &self.facts[id as usize]
    }

    /// The id of the facts of an address; IPv4 addresses are mapped.
    pub(super) fn id(&mut self, address: [u8; 16], tables: &Tables) -> u32 {
        let slot = slot_of(address);
        let known = self.slots[slot];
        if known.address == address && known.id != NOBODY {
            self.counts.remembered += 1;
            return known.id;
        }
        let facts = self.look_up(address.into(), tables);
        let next = u32::try_from(self.facts.len()).unwrap_or(NOBODY);
        let id = *self.ids.entry(facts).or_insert(next);
        if id == next {
            self.facts.push(facts);
        }
        self.slots[slot] = Slot { address, id };
        id
    }

    fn look_up(&mut self, address: Ipv6Addr, tables: &Tables) -> Facts {
        self.counts.looked_up += 1;
        let Self { texts, decoded, counts, networks, .. } = self;
        let network = tables.prefixes.find(address).map(|(index, network)| {
            *networks.entry(index).or_insert_with(|| NetworkFacts {
                as_number: network.as_number,
                name: texts.id(&network.name),
                country: texts.id(&network.country),
                site: texts.id(&network.site),
                role: texts.id(&network.role),
            })
        });
        Facts {
            locality: Locality::of(address),
            class: tables.rules.as_ref().map(|it| it.address_class(address)).unwrap_or_default(),
            network: network.unwrap_or_default(),
            geo: decoded.find(&tables.geoip, address, texts, &mut counts.failed),
        }
    }
}

/// Who sends to chosen addresses can make them collide, which costs a look into the tables.
fn slot_of(address: [u8; 16]) -> usize {
    let [high, low] = [0, 8].map(|start| {
        let half: [u8; 8] = std::array::from_fn(|index| address[start + index]);
        u64::from_le_bytes(half)
    });
    // The upper bits of the product depend on all of the address.
    let mixed = (low ^ high.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let [first, second, ..] = mixed.to_be_bytes();
    usize::from(u16::from_be_bytes([first, second]))
}

impl Facts {
    /// Country of the file of prefixes, else of the databases.
    pub(super) fn country(&self) -> TextId {
        self.network.country.or(self.geo.country)
    }
}
