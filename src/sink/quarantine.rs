//! The search for the rows of a batch that ClickHouse refuses: halves of what is refused are tried until
//! single rows are left. Decides what to try next; sends nothing.
//!
//! The cuts depend on the number of rows alone and the tokens on the cuts, so a search that is repeated
//! sends the same parts with the same tokens.

use std::ops::Range;

/// Rows to be tried together.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Part {
    pub(super) rows: Range<usize>,
    /// The way to it: 0 for the first half and 1 for the second, from the whole batch on.
    pub(super) path: String,
}

/// A search in one refused batch.
#[derive(Debug)]
pub(super) struct Search {
    /// To be tried, the next one last.
    parts: Vec<Part>,
    inserts_left: usize,
}

impl Search {
    /// A search in a batch of `rows`, at least two, in at most `inserts_max` inserts.
    pub(super) fn new(rows: usize, inserts_max: usize) -> Self {
        let mut search = Self { parts: Vec::new(), inserts_left: inserts_max };
        search.cut(&Part { rows: 0..rows, path: String::new() });
        search
    }

    /// What to try next; `None` when nothing is left, or no insert.
    pub(super) fn next(&mut self) -> Option<Part> {
        self.inserts_left = self.inserts_left.checked_sub(1)?;
        self.parts.pop()
    }

    /// A part was refused: its halves are tried.
    pub(super) fn refuse(&mut self, part: &Part) {
        self.cut(part);
    }

    /// A part was stored. When it was a first half, the second one must be what the whole was refused for:
    /// it is cut without being tried.
    pub(super) fn accept(&mut self, part: &Part) {
        let is_first_half = part.path.ends_with('0');
        if is_first_half && self.parts.last().is_some_and(|second| second.rows.len() > 1) {
            let second = self.parts.pop();
            second.iter().for_each(|second| self.cut(second));
        }
    }

    /// The rows that were not told apart.
    pub(super) fn left(self) -> Vec<Range<usize>> {
        self.parts.into_iter().rev().map(|part| part.rows).collect()
    }

    fn cut(&mut self, part: &Part) {
        let Range { start, end } = part.rows;
        let middle = start + (end - start) / 2;
        self.parts.push(Part { rows: middle..end, path: format!("{}1", part.path) });
        self.parts.push(Part { rows: start..middle, path: format!("{}0", part.path) });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Searches a batch with these bad rows; the inserts that it takes, the rows stored, those told bad, and
    /// those left.
    fn run(rows: usize, bad: &[usize], inserts_max: usize) -> (usize, usize, Vec<usize>, usize) {
        let mut search = Search::new(rows, inserts_max);
        let (mut inserts, mut stored, mut found) = (0, 0, Vec::new());
        let mut tokens = HashSet::new();
        while let Some(part) = search.next() {
            inserts += 1;
            assert!(tokens.insert(part.path.clone()), "a token is used once");
            let is_bad = bad.iter().any(|row| part.rows.contains(row));
            match is_bad {
                false => {
                    stored += part.rows.len();
                    search.accept(&part);
                }
                true if part.rows.len() > 1 => search.refuse(&part),
                true => found.push(part.rows.start),
            }
        }
        let left = search.left().iter().map(ExactSizeIterator::len).sum();
        (inserts, stored, found, left)
    }

    #[test]
    fn one_bad_row_of_50_000_is_found_in_40_inserts() {
        for bad in (0..50_000).step_by(37).chain([1, 24_999, 25_000, 49_998, 49_999]) {
            let (inserts, stored, found, left) = run(50_000, &[bad], 1_000);
            assert!(inserts <= 40, "{bad}: {inserts}");
            assert_eq!((stored, found, left), (49_999, vec![bad], 0));
        }
    }

    #[test]
    fn scattered_bad_rows_are_all_found() {
        let bad: Vec<usize> = (0..20).map(|n| n * 2_477 + 13).collect();
        let (inserts, stored, found, left) = run(50_000, &bad, 1_000);
        assert_eq!((stored, found, left), (49_980, bad, 0));
        assert!(inserts < 500, "{inserts}");
        let all: Vec<usize> = (0..100).collect();
        let (_, stored, found, left) = run(100, &all, 1_000);
        assert_eq!((stored, found, left), (0, all, 0));
    }

    #[test]
    fn what_the_limit_leaves_is_given_back() {
        let all: Vec<usize> = (0..1_000).collect();
        let (inserts, stored, found, left) = run(1_000, &all, 50);
        assert_eq!((inserts, stored, found.len() + left), (50, 0, 1_000));
    }
}
