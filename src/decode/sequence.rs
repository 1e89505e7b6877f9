//! What an exporter sent and never came: gaps in its sequence numbers.
//!
//! The number of a message tells how many units were sent before it: flows in NetFlow v5 and v7, data
//! records in IPFIX (RFC 7011 section 3.1), datagrams in NetFlow v9 (RFC 3954 section 5.1) and sFlow. A gap
//! counts as lost when it was not filled for a while: UDP reorders.

use std::collections::VecDeque;

/// A gap that so many later messages did not fill is lost. Paths that reorder at all do so within a few.
const PATIENCE_MESSAGES: u64 = 64;

/// Gaps that may be filled yet; with more, the oldest is lost.
const GAPS_MAX: usize = 16;

/// A number further away than this is no gap: the exporter has started anew. Above what a router sends in
/// a minute.
const JUMP_MAX: u32 = 1 << 24;

/// So many numbers in a row that fit another way of numbering only show that the exporter uses that.
const HABIT_MESSAGES: u8 = 3;

/// The sequence of one exporter and observation domain.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    numbering: Numbering,
    /// Number and units of the message before.
    previous: Option<(u32, Option<u32>)>,
    /// Messages in a row that fit each numbering.
    fitting: [u8; NUMBERINGS.len()],
    /// The number that the next message should have; unknown before the first, and behind a message whose
    /// units could not be counted.
    expected: Option<u32>,
    gaps: VecDeque<Gap>,
    messages: u64,
}

/// How an exporter numbers its messages.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Numbering {
    /// By the units before the message, as the RFCs have it.
    #[default]
    Before,
    /// By the units up to the end of the message: softflowd's IPFIX, Open vSwitch's NetFlow v5.
    Through,
    /// By messages, whatever they hold.
    Messages,
}

const NUMBERINGS: [Numbering; 3] = [Numbering::Before, Numbering::Through, Numbering::Messages];

#[derive(Debug)]
struct Gap {
    first: u32,
    units: u32,
    seen: u64,
}

/// What one message showed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Observed {
    /// Units that are lost for good.
    pub(super) lost: u64,
    /// The message came behind later ones.
    pub(super) is_late: bool,
    /// The exporter has started anew.
    pub(super) is_restart: bool,
}

impl Sequence {
    /// Notes a message with this number and so many units, or an unknown number of them.
    pub(super) fn note(&mut self, number: u32, units: Option<u32>) -> Observed {
        if self.learn_numbering(number, units) {
            // What was expected was wrong: begin again with this message.
            (self.expected, self.gaps) = (None, VecDeque::new());
        }
        match self.numbering {
            Numbering::Before => self.note_units(number, units),
            Numbering::Through => self.note_units(number.wrapping_sub(units.unwrap_or(0)), units),
            Numbering::Messages => self.note_units(number, Some(1)),
        }
    }

    /// Compares the number with the one before; whether the numbering turned out to be another one.
    fn learn_numbering(&mut self, number: u32, units: Option<u32>) -> bool {
        let previous = self.previous.replace((number, units));
        let Some((previous_number, previous_units)) = previous else { return false };
        let step = number.wrapping_sub(previous_number);
        for (numbering, fitting) in NUMBERINGS.into_iter().zip(&mut self.fitting) {
            let does_fit = match numbering {
                Numbering::Before => previous_units == Some(step),
                Numbering::Through => units == Some(step),
                Numbering::Messages => step == 1,
            };
            *fitting = if does_fit { fitting.saturating_add(1) } else { 0 };
        }
        if self.fitting[self.numbering as usize] > 0 {
            return false;
        }
        let habit = NUMBERINGS.into_iter().find(|&n| self.fitting[n as usize] >= HABIT_MESSAGES);
        self.numbering = habit.unwrap_or(self.numbering);
        habit.is_some()
    }

    fn note_units(&mut self, number: u32, units: Option<u32>) -> Observed {
        self.messages += 1;
        let mut observed = Observed { lost: self.take_old_gaps(), ..Observed::default() };
        let next = units.map(|units| number.wrapping_add(units));
        let Some(expected) = self.expected else {
            self.expected = next;
            return observed;
        };
        let ahead = number.wrapping_sub(expected);
        let behind = expected.wrapping_sub(number);
        if ahead <= JUMP_MAX {
            observed.lost += self.open_gap(expected, ahead);
            self.expected = next;
        } else if behind <= JUMP_MAX && self.fill_gap(number, units.unwrap_or(1)) {
            observed.is_late = true;
        } else {
            // Neither missing nor expected: what was missing before will not come any more.
            observed.lost += self.gaps.drain(..).map(|gap| u64::from(gap.units)).sum::<u64>();
            observed.is_restart = true;
            self.expected = next;
        }
        observed
    }

    /// Notes missing units; returns those that are lost because there is no room to wait for them.
    fn open_gap(&mut self, first: u32, units: u32) -> u64 {
        if units == 0 {
            return 0;
        }
        self.gaps.push_back(Gap { first, units, seen: self.messages });
        if self.gaps.len() <= GAPS_MAX {
            return 0;
        }
        self.gaps.pop_front().map_or(0, |gap| gap.units.into())
    }

    /// Takes units out of the gap that they were missing in; `false` when there is none.
    fn fill_gap(&mut self, number: u32, units: u32) -> bool {
        let offset = |gap: &Gap| number.wrapping_sub(gap.first);
        let Some(index) = self.gaps.iter().position(|gap| offset(gap) < gap.units) else {
            return false;
        };
        let gap = &mut self.gaps[index];
        let before = number.wrapping_sub(gap.first);
        let behind = (gap.units - before).saturating_sub(units);
        let seen = gap.seen;
        gap.units = before;
        if behind > 0 {
            let first = number.wrapping_add(units);
            self.gaps.insert(index + 1, Gap { first, units: behind, seen });
        }
        self.gaps.retain(|gap| gap.units > 0);
        true
    }

    fn take_old_gaps(&mut self) -> u64 {
        let mut lost = 0;
        while let Some(gap) =
            self.gaps.front().filter(|gap| self.messages - gap.seen > PATIENCE_MESSAGES)
        {
            lost += u64::from(gap.units);
            self.gaps.pop_front();
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes messages of one unit and adds up what they show: lost, late, restarts.
    fn note(sequence: &mut Sequence, numbers: impl IntoIterator<Item = u32>) -> (u64, u32, u32) {
        numbers.into_iter().fold((0, 0, 0), |(lost, late, restarts), number| {
            let observed = sequence.note(number, Some(1));
            (
                lost + observed.lost,
                late + u32::from(observed.is_late),
                restarts + u32::from(observed.is_restart),
            )
        })
    }

    #[test]
    fn a_gap_is_lost_when_it_is_not_filled_for_a_while() {
        let mut sequence = Sequence::default();
        assert_eq!(note(&mut sequence, [10, 11, 15]), (0, 0, 0));
        assert_eq!(note(&mut sequence, 16..16 + 64), (0, 0, 0));
        assert_eq!(note(&mut sequence, [80]), (3, 0, 0));
    }

    #[test]
    fn late_messages_fill_their_gap() {
        let mut sequence = Sequence::default();
        assert_eq!(note(&mut sequence, [10, 15, 12, 11, 14]), (0, 3, 0));
        assert_eq!(note(&mut sequence, 16..16 + 70), (1, 0, 0), "13 is missing");
    }

    #[test]
    fn the_number_wraps() {
        let mut sequence = Sequence::default();
        assert_eq!(note(&mut sequence, [u32::MAX - 1, u32::MAX, 0, 1, 3]), (0, 0, 0));
        assert_eq!(note(&mut sequence, 4..4 + 70), (1, 0, 0));
    }

    #[test]
    fn a_jump_or_a_number_that_was_not_missing_is_a_restart() {
        let mut sequence = Sequence::default();
        assert_eq!(note(&mut sequence, [5_000, 5_001, 0, 1, 2]), (0, 0, 1));
        assert_eq!(note(&mut sequence, [1 << 30, (1 << 30) + 1]), (0, 0, 1));
        assert_eq!(note(&mut sequence, [(1 << 30) + 4, 7]), (2, 0, 1), "its gap is given up");
    }

    #[test]
    fn units_are_counted_and_unknown_units_give_no_gap() {
        let mut sequence = Sequence::default();
        assert_eq!(sequence.note(100, Some(30)), Observed::default());
        assert_eq!(sequence.note(130, None), Observed::default());
        assert_eq!(sequence.note(175, Some(10)), Observed::default());
        assert_eq!(sequence.note(200, Some(10)), Observed::default());
        let late = Observed { is_late: true, ..Observed::default() };
        assert_eq!(sequence.note(185, Some(10)), late);
        let lost: u64 = (0..70).map(|n| sequence.note(210 + n, Some(1)).lost).sum();
        assert_eq!(lost, 5);
    }

    #[test]
    fn exporters_that_number_in_another_way_are_understood_after_a_few_messages() {
        let units = [24, 32, 32, 32, 24, 20, 20, 16, 31, 7, 9, 30];
        let mut through = Sequence::default();
        let mut messages = Sequence::default();
        let mut number = 0;
        for (index, units) in (0..).zip(units) {
            number += units;
            let seen = [through.note(number, Some(units)), messages.note(index, Some(units))];
            let is_learning = index < 6;
            assert!(is_learning || seen == [Observed::default(); 2], "{index}: {seen:?}");
        }
        // Then a gap is a gap again.
        through.note(number + 5 + 10, Some(10));
        let lost: u64 = (0..70).map(|n| through.note(number + 16 + n, Some(1)).lost).sum();
        assert_eq!(lost, 5);
    }

    #[test]
    fn gaps_are_bounded() {
        let mut sequence = Sequence::default();
        let (lost, _, _) = note(&mut sequence, (0..40).map(|n| n * 2));
        assert_eq!(lost, 39 - GAPS_MAX as u64);
    }
}
