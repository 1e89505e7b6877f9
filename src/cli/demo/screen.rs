//! What the demo shows.

use std::fmt;
use std::time::Duration;

use crate::sink::{Books, RowDropReason};

/// Hosts that sent most, over the last minute.
pub(super) const TOP_TALKERS_SQL: &str = "\
    SELECT replaceOne(toString(srcAddr), '::ffff:', ''), sum(bytes * samplingInterval), count() \
    FROM tidegate.flows WHERE timestamp > now() - 60 GROUP BY srcAddr ORDER BY 2 DESC LIMIT 8";

/// One host.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Talker {
    address: String,
    bytes: f64,
    flows: u64,
}

impl Talker {
    /// A row of [`TOP_TALKERS_SQL`].
    pub(super) fn parse(row: &str) -> Option<Self> {
        let mut fields = row.split('\t');
        let address = fields.next()?.to_owned();
        Some(Self {
            address,
            bytes: fields.next()?.parse().ok()?,
            flows: fields.next()?.parse().ok()?,
        })
    }
}

/// One moment.
#[derive(Clone, Debug)]
pub(super) struct Screen {
    pub(super) elapsed: Duration,
    /// Time and books of the moment before, for rates.
    pub(super) before: Option<(Duration, Books)>,
    pub(super) books: Books,
    pub(super) sent: u64,
    pub(super) talkers: Vec<Talker>,
    pub(super) clickhouse: String,
    pub(super) management: String,
}

impl Screen {
    /// Where to look, and a query to try.
    pub(super) fn addresses(&self) -> String {
        format!(
            "  metrics     {}/metrics\n  ClickHouse  {clickhouse}\n  try         curl '{clickhouse}' -d \
             'SELECT flowProtocol, count(), sum(bytes) FROM tidegate.flows GROUP BY 1'",
            self.management,
            clickhouse = self.clickhouse,
        )
    }

    /// The same in one line, for a log.
    pub(super) fn line(&self) -> String {
        format!(
            "{:>4} s  in {} flows/s  stored {} flows/s  pending {}  dropped {}",
            self.elapsed.as_secs(),
            self.rate(|books| books.received),
            self.rate(|books| books.stored),
            self.books.pending(),
            self.drops(),
        )
    }

    fn rate(&self, count: impl Fn(&Books) -> u64) -> u64 {
        let Some((before, books)) = &self.before else { return 0 };
        let millis = self.elapsed.saturating_sub(*before).as_millis().max(1);
        let new = u128::from(count(&self.books) - count(books));
        u64::try_from(new * 1_000 / millis).unwrap_or(u64::MAX)
    }

    fn drops(&self) -> String {
        let reasons: Vec<_> = RowDropReason::ALL
            .iter()
            .map(|&reason| (reason, self.books.dropped[reason as usize]))
            .filter(|(_, rows)| *rows > 0)
            .map(|(reason, rows)| format!("{} {rows}", reason.label()))
            .collect();
        if reasons.is_empty() { "0".to_owned() } else { reasons.join(", ") }
    }
}

impl fmt::Display for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Books { received, stored, .. } = self.books;
        writeln!(f, "tidegate demo   {} s   Ctrl-C ends it\n", self.elapsed.as_secs())?;
        let (rate_in, rate_stored) = (self.rate(|b| b.received), self.rate(|b| b.stored));
        writeln!(f, "  flows/s   in {rate_in:>12}   stored {rate_stored:>12}")?;
        writeln!(
            f,
            "  flows     in {received:>12}   stored {stored:>12}   sent {:>12}",
            self.sent
        )?;
        writeln!(f, "  pending   {:>15}   dropped {}\n", self.books.pending(), self.drops())?;
        writeln!(f, "  {:<40} {:>12} {:>8}", "top talkers of the last minute", "bytes", "flows")?;
        for Talker { address, bytes, flows } in &self.talkers {
            writeln!(f, "  {address:<40} {bytes:>12.0} {flows:>8}")?;
        }
        writeln!(f, "\n{}", self.addresses())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_screen_shows_rates_books_and_what_to_try() {
        let before = Books { received: 1_000, stored: 500, ..Books::default() };
        let screen = Screen {
            elapsed: Duration::from_secs(12),
            before: Some((Duration::from_secs(10), before)),
            books: Books {
                received: 41_000,
                stored: 40_000,
                dropped: [7, 0, 0, 0, 0, 0, 0],
                ..Books::default()
            },
            sent: 41_020,
            talkers: Talker::parse("192.0.2.1\t123456.0\t12").into_iter().collect(),
            clickhouse: "http://127.0.0.1:8123".to_owned(),
            management: "http://127.0.0.1:8080".to_owned(),
        };
        insta::assert_snapshot!(format!("{screen}\n{}", screen.line()));
    }
}
