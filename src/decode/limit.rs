//! Limits of what is kept: of one exporter, and of all together, so that spoofed addresses cost no more
//! memory than those of a large network.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many of one kind may be kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// Of one exporter, or one session.
    pub(super) of_one: usize,
    /// Of all.
    pub(super) in_all: usize,
}

impl Limit {
    /// Counts one more for an owner who has `known`, if there is room. Readers who count at the same moment
    /// may exceed the limit by one each.
    pub(super) fn add_one(&self, known: usize, in_all: &AtomicUsize) -> bool {
        let has_room = known < self.of_one && in_all.load(Ordering::Relaxed) < self.in_all;
        if has_room {
            in_all.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_until_one_or_all_have_as_many_as_they_may() {
        let limit = Limit { of_one: 2, in_all: 3 };
        let in_all = AtomicUsize::new(0);
        assert!(limit.add_one(0, &in_all) && limit.add_one(1, &in_all));
        assert!(!limit.add_one(2, &in_all), "one has enough");
        assert!(limit.add_one(0, &in_all));
        assert!(!limit.add_one(1, &in_all), "all have enough");
        assert_eq!(in_all.load(Ordering::Relaxed), 3);
    }
}
