//! The set of an address: the rules of all prefixes that cover it.

use std::fmt;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::{Prefix, PrefixMap};

use super::groups::{Asked, Group, Position};
use super::rule::Rule;
use super::sets::{SetId, Sets, SetsBuilder, TooMany};

/// The sets of one address of a flow, by prefix.
pub(super) struct Addresses {
    v4: PrefixMap<Ipv4Net, SetId>,
    v6: PrefixMap<Ipv6Net, SetId>,
    pub(super) sets: Sets,
}

impl fmt::Debug for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Addresses").field("v4", &self.v4.len()).field("v6", &self.v6.len()).finish()
    }
}

impl Addresses {
    /// The sets of the addresses that rules ask for; `prefixes` of a rule are those that it names.
    pub(super) fn new(
        groups: &[Group],
        positions: &[Option<Position>],
        rules: &[Rule],
        what: Asked,
        prefixes: impl Fn(&Rule) -> &[IpNet],
    ) -> Result<Self, TooMany> {
        let mut v4: PrefixMap<Ipv4Net, Vec<Position>> = PrefixMap::new();
        let mut v6: PrefixMap<Ipv6Net, Vec<Position>> = PrefixMap::new();
        for (rule, position) in rules.iter().zip(positions) {
            for prefix in prefixes(rule) {
                let own = match *prefix {
                    IpNet::V4(prefix) => v4.entry(prefix).or_default(),
                    IpNet::V6(prefix) => v6.entry(prefix).or_default(),
                };
                own.extend(position);
            }
        }
        let mut sets = SetsBuilder::new(groups, what);
        let v4 = covered(&v4, &mut sets)?;
        let v6 = covered(&v6, &mut sets)?;
        Ok(Self { v4, v6, sets: sets.finish() })
    }

    /// The set of an address; IPv4 may be mapped.
    pub(super) fn find(&self, address: IpAddr) -> SetId {
        let found = match address.to_canonical() {
            IpAddr::V4(address) => self.v4.get_lpm(&address.into()).map(|(_, set)| *set),
            IpAddr::V6(address) => self.v6.get_lpm(&address.into()).map(|(_, set)| *set),
        };
        found.unwrap_or_default()
    }
}

/// Each prefix with the rules of all prefixes that cover it.
fn covered<P: Prefix>(
    own: &PrefixMap<P, Vec<Position>>,
    sets: &mut SetsBuilder,
) -> Result<PrefixMap<P, SetId>, TooMany> {
    let mut all = PrefixMap::new();
    for prefix in own.keys() {
        let covering = own.cover(&prefix).flat_map(|(_, rules)| rules);
        let mut rules: Vec<Position> = covering.copied().collect();
        rules.sort_unstable();
        rules.dedup();
        all.insert(prefix, sets.add(&rules)?);
    }
    Ok(all)
}
