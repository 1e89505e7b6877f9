//! Rules that ask for the same things stand together.
//!
//! A rule that does not ask for a port is in the set of every port. In one row of bits it would make the bits of all
//! ports dense, and a search that skips what is empty would skip nothing. So rules are in groups by what they ask for, and
//! a group is searched by that only.

use super::rule::Rule;

/// What a rule may ask for; transport is protocol and port together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Asked {
    Transport,
    Service,
    Peer,
    Exporter,
}

impl Asked {
    pub(super) const ALL: [Self; 4] = [Self::Transport, Self::Service, Self::Peer, Self::Exporter];

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Rules of a group: a word with a bit for each of the words that their bits need.
pub(super) const GROUP_RULES_MAX: usize = 64 * 64;

/// Groups, so that a word has a bit for each.
pub(super) const GROUPS_MAX: usize = u32::BITS as usize;

/// Where the bit of a rule is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct Position {
    pub(super) group: u8,
    pub(super) bit: u16,
}

/// Rules that ask for the same, in the order of the file.
#[derive(Debug)]
pub(super) struct Group {
    asks: u8,
    /// Indexes of the rules, by bit.
    pub(super) rules: Vec<u16>,
}

impl Group {
    pub(super) const fn asks(&self, what: Asked) -> bool {
        self.asks & what.bit() != 0
    }

    /// The rule before which none of the group is.
    pub(super) fn first(&self) -> u16 {
        self.rules.first().copied().unwrap_or(u16::MAX)
    }
}

/// The groups in the order of their first rules, where each rule is, and the first rule that asks for nothing.
pub(super) fn grouped(rules: &[Rule]) -> (Vec<Group>, Vec<Option<Position>>, Option<u16>) {
    let mut groups: Vec<Group> = Vec::new();
    let mut positions = Vec::with_capacity(rules.len());
    let mut catch_all = None;
    for (index, rule) in (0..u16::MAX).zip(rules) {
        let asks = asks(rule);
        if asks == 0 {
            catch_all = catch_all.or(Some(index));
            positions.push(None);
            continue;
        }
        let has_room = |group: &Group| group.asks == asks && group.rules.len() < GROUP_RULES_MAX;
        let number = groups.iter().position(has_room).unwrap_or_else(|| {
            groups.push(Group { asks, rules: Vec::new() });
            groups.len() - 1
        });
        let group = &mut groups[number];
        positions.push(position(number, group.rules.len()));
        group.rules.push(index);
    }
    (groups, positions, catch_all)
}

/// Both fit: there are [`GROUPS_MAX`] groups at most, each of [`GROUP_RULES_MAX`] rules.
fn position(group: usize, bit: usize) -> Option<Position> {
    Some(Position { group: u8::try_from(group).ok()?, bit: u16::try_from(bit).ok()? })
}

fn asks(rule: &Rule) -> u8 {
    let asked = [
        !rule.is_any_transport(),
        !rule.prefixes.is_empty(),
        !rule.peers.is_empty(),
        !rule.exporters.is_empty(),
    ];
    let bits = Asked::ALL.iter().zip(asked).filter(|(_, is_asked)| *is_asked);
    bits.fold(0, |asks, (what, _)| asks | what.bit())
}
