//! The set of a protocol and a port: for protocols with ports a table of all ports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::groups::{Asked, Group, Position};
use super::rule::Rule;
use super::sets::{SetId, Sets, SetsBuilder, TooMany};
use super::{PORTS, WITH_PORTS, table_of};

/// Number of a set in 16 bits, so that the tables of TCP and UDP stay in the cache of a core.
type ShortSetId = u16;

/// Numbers of protocols.
const PROTOCOLS: usize = 256;

/// The sets of protocols and ports.
pub(super) struct Transports {
    /// Of the protocols with ports.
    by_port: [Box<[ShortSetId]>; WITH_PORTS.len()],
    /// Of the others.
    by_protocol: [ShortSetId; PROTOCOLS],
    pub(super) sets: Sets,
}

impl fmt::Debug for Transports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transports").finish_non_exhaustive()
    }
}

impl Transports {
    pub(super) fn new(
        groups: &[Group],
        positions: &[Option<Position>],
        rules: &[Rule],
    ) -> Result<Self, TooMany> {
        let mut by_protocol: BTreeMap<u8, Vec<(&Rule, Position)>> = BTreeMap::new();
        for (rule, position) in rules.iter().zip(positions) {
            for &protocol in rule.protocols() {
                let asking = by_protocol.entry(protocol).or_default();
                asking.extend(position.map(|position| (rule, position)));
            }
        }
        let table = || vec![0; PORTS].into_boxed_slice();
        let mut transports = Self {
            by_port: [table(), table(), table(), table()],
            by_protocol: [0; PROTOCOLS],
            sets: SetsBuilder::new(groups, Asked::Transport).finish(),
        };
        let mut sets = SetsBuilder::new(groups, Asked::Transport);
        for (protocol, asking) in by_protocol {
            match table_of(protocol) {
                Some(table) => fill(&mut transports.by_port[table], &asking, &mut sets)?,
                None => {
                    let mut all: Vec<_> = asking.iter().map(|(_, position)| *position).collect();
                    all.sort_unstable();
                    all.dedup();
                    transports.by_protocol[usize::from(protocol)] = short(sets.add(&all)?)?;
                }
            }
        }
        transports.sets = sets.finish();
        Ok(transports)
    }

    /// The set of a protocol's port.
    pub(super) fn find(&self, protocol: u8, port: u16) -> SetId {
        let short = match table_of(protocol) {
            Some(table) => self.by_port[table][usize::from(port)],
            None => self.by_protocol[usize::from(protocol)],
        };
        SetId::from(short)
    }
}

/// Walks the ports at which a rule begins or ends; between two of them all ports have the same rules.
fn fill(
    table: &mut [ShortSetId],
    asking: &[(&Rule, Position)],
    sets: &mut SetsBuilder,
) -> Result<(), TooMany> {
    let mut steps: BTreeMap<usize, Vec<(Position, bool)>> = BTreeMap::new();
    let mut step = |port, position, begins| {
        steps.entry(port).or_default().push((position, begins));
    };
    for (rule, position) in asking {
        if rule.ports.is_empty() {
            step(0, *position, true);
        }
        for range in &rule.ports {
            step(usize::from(*range.start()), *position, true);
            step(usize::from(*range.end()) + 1, *position, false);
        }
    }
    let mut current = BTreeSet::new();
    let mut steps = steps.into_iter().peekable();
    while let Some((port, changes)) = steps.next() {
        for (position, begins) in changes {
            if begins {
                current.insert(position);
            } else {
                current.remove(&position);
            }
        }
        let end = steps.peek().map_or(PORTS, |(port, _)| *port);
        let rules: Vec<_> = current.iter().copied().collect();
        let set = short(sets.add(&rules)?)?;
        table[port.min(PORTS)..end].fill(set);
    }
    Ok(())
}

fn short(set: SetId) -> Result<ShortSetId, TooMany> {
    ShortSetId::try_from(set).map_err(|_| TooMany)
}
