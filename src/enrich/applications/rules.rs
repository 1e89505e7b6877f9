//! The operator's rules: which applies to a flow, in a time that does not grow with their number.

use std::array;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::BitAnd;
use std::sync::Arc;

use super::super::mistakes::Mistakes;
use super::addresses::Addresses;
use super::groups::{Asked, GROUP_RULES_MAX, GROUPS_MAX, Group, grouped};
use super::parse::parse;
use super::rule::Rule;
use super::sets::{MEMBERS_MAX, Part, Set, SetId, Sets, TooMany};
use super::transports::Transports;

/// Rules that there may be: an index has 16 bits, and the last number is none.
pub const RULES_MAX: usize = NONE as usize;

/// No rule.
const NONE: u16 = u16::MAX;

/// A group for each combination of what may be asked for, but nothing, and one more for each that is full.
const _: () = assert!((1 << Asked::ALL.len()) - 1 + RULES_MAX / GROUP_RULES_MAX <= GROUPS_MAX);

/// Rules in the order of a file.
#[derive(Debug)]
pub struct Rules {
    /// By index.
    names: Vec<Arc<str>>,
    groups: Vec<Group>,
    /// The first rule that asks for nothing, which applies to every flow that no rule before it takes.
    catch_all: Option<u16>,
    transports: Transports,
    services: Addresses,
    peers: Addresses,
    exporters: Addresses,
}

/// What rules see in an address: as the service's, and as that of the other side. The default is an address that
/// no rule names.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct AddressClass {
    service: SetId,
    peer: SetId,
}

/// What rules see in an exporter's address. The default is one that no rule names.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ExporterClass(SetId);

/// One side of a flow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Side {
    /// Of its address.
    pub class: AddressClass,
    /// Its port; of protocols without ports it is not looked at.
    pub port: u16,
}

impl Rules {
    /// Reads rules: CSV with a line of names on top, docs/applications.md.
    ///
    /// # Errors
    ///
    /// Every mistake, at once; of very many the first ones.
    pub fn parse(text: &str) -> Result<Self, Mistakes> {
        let rules = parse(text)?;
        Self::new(&rules).map_err(|_too_many| {
            let text = format!(
                "ports or prefixes of too many rules lie within each other: at most {MEMBERS_MAX} \
                 pairs of a rule and a range of ports or a prefix, and 65,535 kinds of ports"
            );
            Mistakes::one(1, text)
        })
    }

    fn new(rules: &[Rule]) -> Result<Self, TooMany> {
        let (groups, positions, catch_all) = grouped(rules);
        let addresses = |what, prefixes: fn(&Rule) -> &[ipnet::IpNet]| {
            Addresses::new(&groups, &positions, rules, what, prefixes)
        };
        Ok(Self {
            transports: Transports::new(&groups, &positions, rules)?,
            services: addresses(Asked::Service, |rule| &rule.prefixes)?,
            peers: addresses(Asked::Peer, |rule| &rule.peers)?,
            exporters: addresses(Asked::Exporter, |rule| &rule.exporters)?,
            names: rules.iter().map(|rule| Arc::clone(&rule.application)).collect(),
            groups,
            catch_all,
        })
    }

    /// What rules see in an address of a flow, IPv4 mapped. It holds for these rules only, and as long as they do.
    #[must_use]
    pub fn address_class(&self, address: Ipv6Addr) -> AddressClass {
        let address = IpAddr::V6(address);
        AddressClass { service: self.services.find(address), peer: self.peers.find(address) }
    }

    /// What rules see in the address of an exporter.
    #[must_use]
    pub fn exporter_class(&self, address: IpAddr) -> ExporterClass {
        ExporterClass(self.exporters.find(address))
    }

    /// The first rule that applies to a flow, whichever of its sides is the service's.
    #[must_use]
    pub fn find(&self, exporter: ExporterClass, protocol: u8, src: Side, dst: Side) -> Option<u16> {
        let best = self.catch_all.unwrap_or(NONE);
        let best = self.first(exporter, protocol, dst, src, best);
        let best = self.first(exporter, protocol, src, dst, best);
        (best != NONE).then_some(best)
    }

    /// The application of a rule that [`Self::find`] found.
    #[must_use]
    pub fn name(&self, index: u16) -> &Arc<str> {
        &self.names[usize::from(index)]
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The first rule before `best` that applies with these sides; else `best`.
    fn first(
        &self,
        ExporterClass(exporter): ExporterClass,
        protocol: u8,
        service: Side,
        peer: Side,
        mut best: u16,
    ) -> u16 {
        // In the order of `Asked`.
        let tables =
            [&self.transports.sets, &self.services.sets, &self.peers.sets, &self.exporters.sets];
        let ids = [
            self.transports.find(protocol, service.port),
            service.class.service,
            peer.class.peer,
            exporter,
        ];
        let taken = Taken { tables, sets: array::from_fn(|index| tables[index].set(ids[index])) };
        for (number, group) in taken.groups(&self.groups) {
            // Groups are in the order of their first rules.
            if group.first() >= best {
                break;
            }
            if let Some(bit) = taken.first(number, group) {
                best = best.min(group.rules[bit as usize]);
            }
        }
        best
    }
}

/// The rules that take a flow, by what they ask for; those that are in all four apply.
struct Taken<'a> {
    tables: [&'a Sets; Asked::ALL.len()],
    sets: [Set; Asked::ALL.len()],
}

impl<'a> Taken<'a> {
    /// Groups with a rule in each of the sets.
    fn groups(&self, groups: &'a [Group]) -> impl Iterator<Item = (u32, &'a Group)> {
        let of_set = self.tables.iter().zip(self.sets).map(|(table, set)| table.groups(set));
        let common = of_set.fold(u32::MAX, BitAnd::bitand);
        bits(u64::from(common)).filter_map(|bit| Some((bit, groups.get(bit as usize)?)))
    }

    /// The first rule of a group that is in each of the sets.
    fn first(&self, number: u32, group: &Group) -> Option<u32> {
        let asked =
            || Asked::ALL.into_iter().filter(|&what| group.asks(what)).map(|it| it as usize);
        let mut parts = [Part::ANY; Asked::ALL.len()];
        let mut summary = u64::MAX;
        for index in asked() {
            parts[index] = self.tables[index].part(self.sets[index], number);
            summary &= parts[index].summary;
        }
        bits(summary).find_map(|word| {
            let rules = asked().map(|index| self.tables[index].word(parts[index], word));
            let rules = rules.fold(u64::MAX, BitAnd::bitand);
            (rules != 0).then(|| word * u64::BITS + rules.trailing_zeros())
        })
    }
}

/// The bits of a word that are set, from the lowest.
fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit)
    })
}
