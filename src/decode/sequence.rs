//! What an exporter sent and never came: gaps in its sequence numbers.
//!
//! The number of a message tells how many units were sent before it: flows in NetFlow v5 and v7, data
//! records in IPFIX (RFC 7011 section 3.1), datagrams in NetFlow v9 (RFC 3954 section 5.1) and sFlow. A gap
//! counts as lost when it was not filled for a while: UDP reorders. One number out of place says nothing of
//! the exporter, which may have been sent twice; several that follow each other do.

use std::collections::VecDeque;

/// A gap that so many later messages did not fill is lost, and a number within so many messages is that of
/// one that came twice. Paths reorder within a few, but two readers of an exporter that sends from several
/// ports take 64 datagrams each in turn.
const PATIENCE_MESSAGES: u32 = 128;

/// Gaps that are kept; with more, the oldest is lost.
const GAPS_MAX: usize = 128;

/// Units of a message that are believed when it is asked how far a number is: a datagram holds no more.
const UNITS_MAX: u32 = 1 << 16;

/// Numbers in place further on, up to this, are a gap; a router sends less in a minute.
const JUMP_MAX: u32 = 1 << 24;

/// Numbers in a row, far from what was expected, by which the exporter goes on from there.
const RUN_MESSAGES: u32 = 3;

/// The same for numbers that came just before: a path that sends some messages twice is no restart.
const NEAR_RUN_MESSAGES: u32 = 8;

/// So many numbers in a row that fit another way of numbering only show that the exporter uses that.
const HABIT_MESSAGES: u8 = 3;

/// The messages that one process of an exporter numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    numbering: Numbering,
    /// Number and units of the message before.
    previous: Option<(u32, Option<u32>)>,
    /// Messages in a row that fit each numbering.
    fitting: [u8; NUMBERINGS.len()],
    /// How far it is; unknown before the first message.
    head: Option<Head>,
    /// What is missing, in the order in which that was seen.
    gaps: VecDeque<Gap>,
    /// So many of them, from the first, are counted as lost and kept to know what fills them.
    lost_gaps: usize,
    /// Messages elsewhere, since the last one in place.
    run: Option<Run>,
    /// Messages noted; wraps.
    messages: u32,
    /// Of the message with the most.
    units_max: u32,
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

/// Where a sequence, or a run elsewhere, goes on.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// The number that the next message should have.
    next: u32,
    /// Behind a message whose units could not be counted, the next number is this or a later one.
    is_exact: bool,
    /// Units since the first message: what is further back was sent before it.
    units: u32,
}

#[derive(Clone, Debug)]
struct Gap {
    first: u32,
    units: u32,
    seen: u32,
}

/// Messages that are not where they should be.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The number that it began with.
    first: u32,
    head: Head,
    messages: u32,
    /// How many of them seem to be messages that came before.
    duplicates: u32,
}

/// What one message showed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Observed {
    /// Units that are lost for good.
    pub(super) lost: u64,
    /// The message came behind later ones.
    pub(super) is_late: bool,
    /// Messages that came before, this one or others; noted when the next one is in place again.
    pub(super) duplicates: u32,
    /// The exporter has started anew.
    pub(super) is_restart: bool,
    /// The number was the expected one, or missing.
    pub(super) does_fit: bool,
}

impl Head {
    fn behind(number: u32, units: Option<u32>) -> Self {
        let first = Self { next: number, is_exact: true, units: 0 };
        first.on(number, units)
    }

    /// Where it is behind a message.
    fn on(self, number: u32, units: Option<u32>) -> Self {
        let next = number.wrapping_add(units.unwrap_or(0));
        let passed = next.wrapping_sub(self.next);
        Self { next, is_exact: units.is_some(), units: self.units.saturating_add(passed) }
    }
}

impl Sequence {
    /// Notes a message with this number and so many units, or an unknown number of them.
    pub(super) fn note(&mut self, number: u32, units: Option<u32>) -> Observed {
        if self.learn_numbering(number, units) {
            // What was expected was wrong: begin again with this message.
            (self.head, self.run) = (None, None);
            self.forget_gaps();
        }
        self.messages = self.messages.wrapping_add(1);
        let lost = self.give_up_old_gaps();
        let mut observed = match self.numbering {
            Numbering::Before => self.note_units(number, units),
            Numbering::Through => self.note_units(number.wrapping_sub(units.unwrap_or(0)), units),
            Numbering::Messages => self.note_units(number, Some(1)),
        };
        observed.lost += lost + self.give_up_surplus();
        observed
    }

    /// Waits for nothing any more that is missing by now.
    pub(super) fn forget_gaps(&mut self) {
        (self.gaps, self.lost_gaps) = (VecDeque::new(), 0);
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
        self.units_max = self.units_max.max(units.unwrap_or(0).min(UNITS_MAX));
        let Some(head) = self.head else {
            self.head = Some(Head::behind(number, units));
            return Observed::default();
        };
        let ahead = number.wrapping_sub(head.next);
        let behind = head.next.wrapping_sub(number);
        let mut observed = Observed::default();
        if ahead <= self.near() {
            observed.does_fit = ahead == 0 || !head.is_exact;
            self.open_gap(head, ahead);
            self.head = Some(head.on(number, units));
        } else if units == Some(0) && behind <= self.near() {
            // Templates alone: nothing of what is numbered came twice or late.
            return observed;
        } else if self.fill_gap(number, units.unwrap_or(1)) {
            (observed.is_late, observed.does_fit) = (true, true);
        } else if behind <= self.near() && behind > head.units {
            observed.is_late = true;
        } else {
            return self.note_elsewhere(head, number, units);
        }
        observed.duplicates = self.run.take().map_or(0, |run| run.duplicates);
        observed
    }

    /// Units of as many messages as may come out of order.
    fn near(&self) -> u32 {
        PATIENCE_MESSAGES * self.units_max.max(1)
    }

    /// Notes a message that is neither missing nor expected. When enough of them follow each other, the
    /// sequence goes on behind them.
    fn note_elsewhere(&mut self, head: Head, number: u32, units: Option<u32>) -> Observed {
        let near = self.near();
        let goes_on = |run: &Run| number.wrapping_sub(run.head.next) <= near;
        let (mut run, mut observed) = (self.run.take(), Observed::default());
        if let Some(broken) = run.take_if(|run| !goes_on(run)) {
            observed.duplicates = broken.duplicates;
        }
        let begin = Head { next: number, is_exact: true, units: 0 };
        let mut run = run.unwrap_or(Run { first: number, head: begin, messages: 0, duplicates: 0 });
        run.messages += 1;
        run.duplicates += u32::from(head.next.wrapping_sub(number) <= near);
        run.head = run.head.on(number, units);
        let is_near = head.next.wrapping_sub(run.first) <= near;
        if run.messages < if is_near { NEAR_RUN_MESSAGES } else { RUN_MESSAGES } {
            self.run = Some(run);
            return observed;
        }
        let ahead = run.first.wrapping_sub(head.next);
        if ahead <= JUMP_MAX {
            self.open_gap(head, ahead);
            run.head.units = run.head.units.saturating_add(head.units).saturating_add(ahead);
        } else {
            // What was missing before will not come any more.
            let missing = self.gaps.iter().skip(self.lost_gaps).map(|gap| u64::from(gap.units));
            observed.lost += missing.sum::<u64>();
            observed.is_restart = true;
            self.forget_gaps();
        }
        self.head = Some(run.head);
        observed
    }

    /// Notes missing units.
    fn open_gap(&mut self, head: Head, units: u32) {
        if units > 0 && head.is_exact {
            self.gaps.push_back(Gap { first: head.next, units, seen: self.messages });
        }
    }

    /// Takes units out of the gap that they were missing in; `false` when there is none.
    fn fill_gap(&mut self, number: u32, units: u32) -> bool {
        let offset = |gap: &Gap| number.wrapping_sub(gap.first);
        let Some(index) = self.gaps.iter().position(|gap| offset(gap) < gap.units) else {
            return false;
        };
        let gap = &mut self.gaps[index];
        let before = offset(gap);
        let behind = (gap.units - before).saturating_sub(units);
        let rest = Gap { first: number.wrapping_add(units), units: behind, seen: gap.seen };
        let is_lost = usize::from(index < self.lost_gaps);
        gap.units = before;
        if behind > 0 {
            self.gaps.insert(index + 1, rest);
            self.lost_gaps += is_lost;
        }
        if before == 0 {
            self.gaps.remove(index);
            self.lost_gaps -= is_lost;
        }
        true
    }

    /// Counts gaps that waited long enough as lost, and forgets them after as long again.
    fn give_up_old_gaps(&mut self) -> u64 {
        let age = |gap: &Gap| self.messages.wrapping_sub(gap.seen);
        let old = self.gaps.iter().skip(self.lost_gaps);
        let old = old.take_while(|gap| age(gap) > PATIENCE_MESSAGES);
        let (count, lost) = old.fold((0, 0), |(n, sum), gap| (n + 1, sum + u64::from(gap.units)));
        self.lost_gaps += count;
        let forgotten = self.gaps.iter().take_while(|gap| age(gap) > 2 * PATIENCE_MESSAGES).count();
        self.gaps.drain(..forgotten);
        self.lost_gaps -= forgotten;
        lost
    }

    /// Gives up the oldest gaps when there is no room for all.
    fn give_up_surplus(&mut self) -> u64 {
        let surplus = self.gaps.len().saturating_sub(GAPS_MAX);
        let counted = surplus.min(self.lost_gaps);
        self.lost_gaps -= counted;
        self.gaps.drain(..surplus).skip(counted).map(|gap| u64::from(gap.units)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What messages of one unit show, added up: lost, late, duplicates, restarts.
    fn note(
        sequence: &mut Sequence,
        numbers: impl IntoIterator<Item = u32>,
    ) -> (u64, u32, u32, u32) {
        numbers.into_iter().fold((0, 0, 0, 0), |(lost, late, duplicates, restarts), number| {
            let observed = sequence.note(number, Some(1));
            (
                lost + observed.lost,
                late + u32::from(observed.is_late),
                duplicates + observed.duplicates,
                restarts + u32::from(observed.is_restart),
            )
        })
    }

    #[test]
    fn a_gap_is_lost_when_it_is_not_filled_for_a_while() {
        let mut sequence = Sequence::default();
        assert_eq!(note(&mut sequence, [10, 11, 15]), (0, 0, 0, 0));
        assert_eq!(note(&mut sequence, 16..16 + PATIENCE_MESSAGES), (0, 0, 0, 0));
        assert_eq!(note(&mut sequence, [16 + PATIENCE_MESSAGES]), (3, 0, 0, 0));
        assert_eq!(note(&mut sequence, [12]), (0, 1, 0, 0), "too late to be counted back");
    }

    #[test]
    fn late_messages_fill_their_gap() {
        let mut sequence = Sequence::default();
        assert_eq!(note(&mut sequence, [10, 15, 12, 11, 14]), (0, 3, 0, 0));
        assert_eq!(note(&mut sequence, 16..16 + 140), (1, 0, 0, 0), "13 is missing");
    }

    #[test]
    fn the_number_wraps() {
        let mut sequence = Sequence::default();
        assert_eq!(note(&mut sequence, [u32::MAX - 1, u32::MAX, 0, 1, 3]), (0, 0, 0, 0));
        assert_eq!(note(&mut sequence, 4..4 + 140), (1, 0, 0, 0));
    }

    #[test]
    fn a_message_that_comes_twice_is_a_duplicate_and_changes_nothing() {
        let mut sequence = Sequence::default();
        assert_eq!(note(&mut sequence, (100..110).chain([105]).chain(110..300)), (0, 0, 1, 0));
        assert_eq!(note(&mut sequence, (300..400).flat_map(|n| [n, n])), (0, 0, 99, 0));
        assert_eq!(note(&mut sequence, [396, 397, 398, 400]), (0, 0, 4, 0), "three in a row");
        assert_eq!(note(&mut sequence, 401..500), (0, 0, 0, 0));
    }

    #[test]
    fn one_message_that_is_very_late_is_late() {
        let mut sequence = Sequence::default();
        let numbers = (0..50).chain(51..130).chain([50]).chain(130..300);
        assert_eq!(note(&mut sequence, numbers), (0, 1, 0, 0));
    }

    #[test]
    fn messages_from_before_the_first_one_are_late() {
        let mut sequence = Sequence::default();
        assert_eq!(note(&mut sequence, [10, 9, 8, 11]), (0, 2, 0, 0));
    }

    #[test]
    fn readers_that_take_turns_in_batches_lose_nothing() {
        let mut sequence = Sequence::default();
        let block = |n: u32| {
            let odd = (0..64).map(move |k| n * 128 + k * 2 + 1);
            odd.chain((0..64).map(move |k| n * 128 + k * 2))
        };
        let (lost, _, duplicates, restarts) = note(&mut sequence, (0..20).flat_map(block));
        assert_eq!((lost, duplicates, restarts), (0, 0, 0));
    }

    #[test]
    fn several_numbers_elsewhere_are_a_restart() {
        let mut sequence = Sequence::default();
        assert_eq!(note(&mut sequence, [5_000, 5_001, 0, 1]), (0, 0, 0, 0));
        assert_eq!(note(&mut sequence, [2, 3]), (0, 0, 0, 1));
        assert_eq!(note(&mut sequence, 4..60), (0, 0, 0, 0));
        assert_eq!(note(&mut sequence, (0..8).chain(8..30)), (0, 0, 0, 1), "soon after the start");
        assert_eq!(note(&mut sequence, [33, 1 << 30, (1 << 30) + 1]), (0, 0, 0, 0));
        assert_eq!(note(&mut sequence, [(1 << 30) + 2]), (3, 0, 0, 1), "its gap is given up");
    }

    #[test]
    fn a_jump_ahead_is_a_gap_when_messages_follow_it() {
        let mut sequence = Sequence::default();
        assert_eq!(note(&mut sequence, [1, 2, 500_000, 3, 4]), (0, 0, 0, 0));
        assert_eq!(note(&mut sequence, 1_005..1_200), (1_000, 0, 0, 0));
    }

    #[test]
    fn two_processes_that_cannot_be_told_apart_are_no_restarts() {
        let mut sequence = Sequence::default();
        assert_eq!(note(&mut sequence, (0..200).flat_map(|n| [n, 1_000_000 + n])), (0, 0, 0, 0));
    }

    #[test]
    fn units_are_counted_and_unknown_units_give_no_gap() {
        let fits = Observed { does_fit: true, ..Observed::default() };
        let mut sequence = Sequence::default();
        assert_eq!(sequence.note(100, Some(30)), Observed::default());
        assert_eq!(sequence.note(130, None), fits);
        assert_eq!(sequence.note(175, Some(10)), fits);
        assert_eq!(sequence.note(200, Some(10)), Observed::default());
        let late = Observed { is_late: true, ..fits };
        assert_eq!(sequence.note(185, Some(10)), late);
        let lost: u64 = (0..140).map(|n| sequence.note(210 + n, Some(1)).lost).sum();
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
            let fits = Observed { does_fit: true, ..Observed::default() };
            let is_learning = index < 6;
            assert!(is_learning || seen == [fits; 2], "{index}: {seen:?}");
        }
        // Then a gap is a gap again.
        through.note(number + 5 + 10, Some(10));
        let lost: u64 = (0..140).map(|n| through.note(number + 16 + n, Some(1)).lost).sum();
        assert_eq!(lost, 5);
    }

    #[test]
    fn gaps_are_bounded() {
        let mut sequence = Sequence::default();
        let (lost, ..) = note(&mut sequence, (0..150).map(|n| n * 2));
        assert_eq!(lost, 149 - GAPS_MAX as u64);
        assert_eq!(sequence.gaps.len(), GAPS_MAX);
    }
}
