//! The processes behind one address that number messages of the same domain.
//!
//! A router has one, whatever ports it sends from: there are exporters that spread one sequence over
//! several source ports. Behind a NAT, or where one softflowd runs for each interface, each port has a
//! sequence of its own. Nothing says which it is, so both are tried, and the one that more messages fit
//! counts.

use super::sequence::{Observed, Sequence};

/// Ports that are told apart. With more, the one that was silent for longest is forgotten; an exporter that
/// sends from so many has one sequence.
const PORTS_MAX: usize = 8;

/// From here on one of the two is wrong for sure, and what it misses is not missing.
const FITTING_MAX: i8 = 16;

/// By so many messages more must one sequence of all ports fit, to count.
const FITTING_JOINED: i8 = 4;

/// The sequences of one domain.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// By source port, the latest last.
    by_port: Vec<(u16, Sequence)>,
    /// Of all ports; there is none while there is one port, as it would be the same.
    joined: Option<Sequence>,
    /// How many messages more fit the sequences of ports than the joined one, within limits.
    fitting: i8,
}

impl Streams {
    /// Sequences that are kept.
    pub(super) fn count(&self) -> usize {
        self.by_port.len() + usize::from(self.joined.is_some())
    }

    /// Sequences that a message from `port` adds.
    pub(super) fn count_new(&self, port: u16) -> usize {
        match self.by_port.len() {
            _ if self.by_port.iter().any(|(known, _)| *known == port) => 0,
            0 | 2.. if self.by_port.len() < PORTS_MAX => 1,
            1 => 2,
            _ => 0,
        }
    }

    /// Notes a message with this number from a port.
    pub(super) fn note(&mut self, port: u16, number: u32, units: Option<u32>) -> Observed {
        let of_port = self.sequence_of(port).note(number, units);
        let Some(joined) = &mut self.joined else { return of_port };
        let of_all = joined.note(number, units);
        let more = i8::from(of_port.does_fit) - i8::from(of_all.does_fit);
        self.fitting = (self.fitting + more).clamp(-FITTING_MAX, FITTING_MAX);
        match self.fitting {
            FITTING_MAX => joined.forget_gaps(),
            fitting if fitting == -FITTING_MAX => {
                self.by_port.iter_mut().for_each(|(_, sequence)| sequence.forget_gaps());
            }
            _ => {}
        }
        if self.fitting <= -FITTING_JOINED { of_all } else { of_port }
    }

    fn sequence_of(&mut self, port: u16) -> &mut Sequence {
        let index = self.by_port.iter().position(|(known, _)| *known == port);
        let sequence = match index {
            Some(index) => self.by_port.remove(index).1,
            None => {
                if let [(_, only)] = &self.by_port[..] {
                    self.joined.get_or_insert_with(|| only.clone());
                }
                if self.by_port.len() == PORTS_MAX {
                    self.by_port.remove(0);
                }
                Sequence::default()
            }
        };
        self.by_port.push((port, sequence));
        let last = self.by_port.len() - 1;
        &mut self.by_port[last].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What messages of one unit show, added up: lost, duplicates, restarts.
    fn note(messages: impl IntoIterator<Item = (u16, u32)>) -> (u64, u32, u32) {
        let mut streams = Streams::default();
        messages.into_iter().fold((0, 0, 0), |(lost, duplicates, restarts), (port, number)| {
            let observed = streams.note(port, number, Some(1));
            (
                lost + observed.lost,
                duplicates + observed.duplicates,
                restarts + u32::from(observed.is_restart),
            )
        })
    }

    #[test]
    fn processes_on_several_ports_have_sequences_of_their_own() {
        let far = (0..300).flat_map(|n| [(1, n), (2, 1_000_000 + n)]);
        assert_eq!(note(far), (0, 0, 0));
        let near = (0..300).flat_map(|n| [(1, 100 + n), (2, n), (3, n)]);
        assert_eq!(note(near), (0, 0, 0));
        let bursts = (0..100).flat_map(|n| (0..10).map(move |k| (n % 2 + 1, n / 2 * 10 + k)));
        assert_eq!(note(bursts.map(|(port, n)| (u16::try_from(port).unwrap(), n))), (0, 0, 0));
    }

    #[test]
    fn what_one_of_several_processes_lost_is_lost() {
        let messages = (0..400).flat_map(|n| [(1, n), (2, 5_000 + n)]);
        assert_eq!(note(messages.filter(|(_, n)| ![50, 51, 5_100].contains(n))), (3, 0, 0));
    }

    #[test]
    fn one_sequence_over_several_ports_is_one() {
        let port = |n: u32, ports: u32| u16::try_from(n % ports).unwrap();
        for ports in [2, 3, 5, 100] {
            let messages = (0..1_000).map(|n| (port(n, ports), n));
            assert_eq!(note(messages), (0, 0, 0), "{ports} ports");
        }
        let messages = (0..1_000).map(|n| (port(n, 4), n));
        assert_eq!(note(messages.filter(|(_, n)| *n != 600)), (1, 0, 0));
        // Hashed by flow, so without any order.
        let messages = (0..1_000_u32).map(|n| (port(n.wrapping_mul(2_654_435_761) >> 16, 3), n));
        assert_eq!(note(messages), (0, 0, 0));
    }

    #[test]
    fn one_sequence_over_two_ports_and_two_readers_is_one() {
        let block = |n: u32| {
            let odd = (0..64).map(move |k| (1, n * 128 + k * 2 + 1));
            odd.chain((0..64).map(move |k| (2, n * 128 + k * 2)))
        };
        assert_eq!(note((0..20).flat_map(block)), (0, 0, 0));
    }

    #[test]
    fn a_process_that_starts_anew_on_another_port_is_no_loss() {
        assert_eq!(note((0..500).map(|n| (1, n)).chain((0..500).map(|n| (2, n)))), (0, 0, 0));
    }

    #[test]
    fn what_is_added_is_said_before() {
        let mut streams = Streams::default();
        for port in 0..20_u16 {
            let expected = streams.count() + streams.count_new(port);
            streams.note(port, 1, Some(1));
            assert_eq!(streams.count(), expected);
            assert_eq!(streams.count_new(port), 0);
        }
        assert_eq!(streams.count(), PORTS_MAX + 1);
    }
}
