//! Sets of rules, one for each class of values of what rules may ask for: which rules take a value of this class.
//!
//! A set has a bit for each rule of each group. Of a group's words of 64 bits only those that are not 0 are there; a
//! summary word says which (an aggregated bit vector).

use std::collections::HashMap;

use super::groups::{Asked, Group, Position};

/// Rules of all sets together that one table of sets may hold. Sets that share nothing take a word of 8 bytes a rule, so it
/// is 128 MiB at most; ten thousand ordinary rules have a hundredth of it.
pub(super) const MEMBERS_MAX: usize = 1 << 24;

/// Number of a set. 0 is the empty one.
pub(super) type SetId = u32;

/// There is no memory for the sets: prefixes or ports of too many rules lie within each other.
#[derive(Debug)]
pub(super) struct TooMany;

/// The sets of one thing that rules may ask for.
#[derive(Debug)]
pub(super) struct Sets {
    /// Groups that do not ask for it: they take any value.
    indifferent: u32,
    sets: Vec<Set>,
    parts: Vec<Part>,
    words: Vec<u64>,
}

/// One set: its parts are those of its groups, in their order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Set {
    /// Groups with a rule in it.
    groups: u32,
    first_part: u32,
}

/// The rules of one group in a set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Which words are not 0.
    pub(super) summary: u64,
    first_word: u32,
}

impl Part {
    /// Of a group that takes any value; it has no words.
    pub(super) const ANY: Self = Self { summary: u64::MAX, first_word: 0 };
}

impl Sets {
    /// A set; the empty one for a number of other rules.
    pub(super) fn set(&self, id: SetId) -> Set {
        self.sets.get(id as usize).copied().unwrap_or_default()
    }

    /// Groups in which a rule may take a value of this set.
    pub(super) const fn groups(&self, set: Set) -> u32 {
        set.groups | self.indifferent
    }

    /// The rules of a group that is in the set.
    pub(super) fn part(&self, set: Set, group: u32) -> Part {
        let rank = (set.groups & below(group)).count_ones();
        self.parts[(set.first_part + rank) as usize]
    }

    /// The word of a part that is `number` in its group; it is one of the summary.
    pub(super) fn word(&self, part: Part, number: u32) -> u64 {
        let rank = (part.summary & ((1 << number) - 1)).count_ones();
        self.words[(part.first_word + rank) as usize]
    }
}

/// Bits below one.
const fn below(bit: u32) -> u32 {
    (1 << bit) - 1
}

/// Makes [`Sets`]: equal ones get the same number.
#[derive(Debug)]
pub(super) struct SetsBuilder {
    sets: Sets,
    known: HashMap<Box<[Position]>, SetId>,
    members: usize,
}

impl SetsBuilder {
    /// For what rules of `groups` ask with `what`.
    pub(super) fn new(groups: &[Group], what: Asked) -> Self {
        let indifferent = (0..).zip(groups).filter(|(_, group)| !group.asks(what));
        let indifferent = indifferent.fold(0, |groups, (number, _): (u32, _)| groups | 1 << number);
        let empty = HashMap::from([(Box::default(), 0)]);
        let sets =
            Sets { indifferent, sets: vec![Set::default()], parts: Vec::new(), words: Vec::new() };
        Self { sets, known: empty, members: 0 }
    }

    /// The number of a set; `positions` are in order, each once.
    pub(super) fn add(&mut self, positions: &[Position]) -> Result<SetId, TooMany> {
        if let Some(&id) = self.known.get(positions) {
            return Ok(id);
        }
        self.members += positions.len();
        if self.members > MEMBERS_MAX {
            return Err(TooMany);
        }
        let id = number(self.sets.sets.len())?;
        let mut set = Set { groups: 0, first_part: number(self.sets.parts.len())? };
        for rules in positions.chunk_by(|a, b| a.group == b.group) {
            set.groups |= 1 << rules[0].group;
            let part = self.part(rules)?;
            self.sets.parts.push(part);
        }
        self.sets.sets.push(set);
        self.known.insert(positions.into(), id);
        Ok(id)
    }

    fn part(&mut self, rules: &[Position]) -> Result<Part, TooMany> {
        let mut part = Part { summary: 0, first_word: number(self.sets.words.len())? };
        for rules in rules.chunk_by(|a, b| a.bit / 64 == b.bit / 64) {
            part.summary |= 1 << (rules[0].bit / 64);
            let bits = rules.iter().fold(0, |word, rule| word | 1_u64 << (rule.bit % 64));
            self.sets.words.push(bits);
        }
        Ok(part)
    }

    pub(super) fn finish(self) -> Sets {
        self.sets
    }
}

fn number(index: usize) -> Result<u32, TooMany> {
    u32::try_from(index).map_err(|_| TooMany)
}
