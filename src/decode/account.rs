//! The account of one exporter: what it sent and what became of it.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;

use super::limit::Limit;
use super::tally::{Protocol, Tally};

/// Rates are those of the last whole window. Long enough to smooth exporters that send in bursts, short
/// enough to see a change while one looks.
const WINDOW_MS: i64 = 10_000;

/// Domains that accounts list. A chassis has one for each line card or VRF; those of all exporters take some MiB.
const DOMAINS_MAX: Limit = Limit { of_one: 1_024, in_all: 131_072 };

/// What one exporter sent and what became of it.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// When its first datagram was received, milliseconds since 1970; 0 before it.
    pub first_seen_ms: i64,
    /// Datagrams received.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Datagrams of each protocol, by [`Protocol`].
    pub by_protocol: [u64; Protocol::ALL.len()],
    /// Protocol and observation domain, source id or sub-agent of its messages; the first 1,024 that came,
    /// while all exporters together have fewer than 131,072.
    pub domains: BTreeSet<(Protocol, u32)>,
    /// Everything that decoding them gave.
    pub tally: Tally,
    /// How far its clock is behind, milliseconds, by its last message; sFlow does not tell.
    pub clock_skew_ms: Option<i64>,
    rates: Rates,
}

/// What a datagram adds to an account.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received<'a> {
    pub(super) received_ms: i64,
    pub(super) bytes: usize,
    pub(super) protocol: Option<Protocol>,
    /// The last message's.
    pub(super) domain: Option<(Protocol, u32)>,
    pub(super) clock_skew_ms: Option<i64>,
    pub(super) tally: &'a Tally,
}

/// Numbers a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PerSecond {
    /// Datagrams.
    pub datagrams: f64,
    /// Their bytes.
    pub bytes: f64,
    /// Flows.
    pub flows: f64,
}

/// Datagrams, bytes and flows of the window that runs and of the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    window: i64,
    running: [u64; 3],
    last: [u64; 3],
}

impl Account {
    /// Adds a datagram; `domains_in_all` is how many domains all accounts list.
    pub(super) fn add(&mut self, entry: &Received<'_>, domains_in_all: &AtomicUsize) {
        if self.datagrams == 0 {
            self.first_seen_ms = entry.received_ms;
        }
        self.datagrams += 1;
        self.bytes += entry.bytes as u64;
        if let Some(protocol) = entry.protocol {
            self.by_protocol[protocol as usize] += 1;
        }
        if let Some(domain) = entry.domain
            && !self.domains.contains(&domain)
            && DOMAINS_MAX.add_one(self.domains.len(), domains_in_all)
        {
            self.domains.insert(domain);
        }
        self.clock_skew_ms = entry.clock_skew_ms.or(self.clock_skew_ms);
        self.rates.add(entry.received_ms, [1, entry.bytes as u64, entry.tally.flows]);
        self.tally.add(entry.tally);
    }

    /// What it sends at `now_ms`: the mean of the last whole ten seconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of ten seconds are far below 2^53")]
    pub fn per_second(&self, now_ms: i64) -> PerSecond {
        let mut rates = self.rates;
        rates.turn(now_ms);
        let [datagrams, bytes, flows] =
            rates.last.map(|count| count as f64 * 1_000.0 / WINDOW_MS as f64);
        PerSecond { datagrams, bytes, flows }
    }
}

impl Rates {
    fn add(&mut self, now_ms: i64, counts: [u64; 3]) {
        self.turn(now_ms);
        for (sum, count) in self.running.iter_mut().zip(counts) {
            *sum += count;
        }
    }

    /// Begins a new window when the running one is over.
    fn turn(&mut self, now_ms: i64) {
        let window = now_ms.div_euclid(WINDOW_MS);
        if window != self.window {
            let is_next = window == self.window + 1;
            self.last = if is_next { self.running } else { [0; 3] };
            self.running = [0; 3];
            self.window = window;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(received_ms: i64, domain_id: u32, tally: &Tally) -> Received<'_> {
        Received {
            received_ms,
            bytes: 100,
            protocol: Some(Protocol::Ipfix),
            domain: Some((Protocol::Ipfix, domain_id)),
            clock_skew_ms: Some(5),
            tally,
        }
    }

    #[test]
    fn an_account_lists_a_limited_number_of_domains_and_so_do_all() {
        let (tally, in_all) = (Tally::default(), AtomicUsize::new(0));
        let mut accounts = vec![Account::default(); 130];
        for account in &mut accounts {
            (0..1_030).for_each(|domain| account.add(&received(0, domain, &tally), &in_all));
        }
        assert_eq!(accounts[0].domains.len(), DOMAINS_MAX.of_one);
        let listed: usize = accounts.iter().map(|account| account.domains.len()).sum();
        assert_eq!((listed, in_all.into_inner()), (DOMAINS_MAX.in_all, DOMAINS_MAX.in_all));
        assert_eq!(accounts[129].datagrams, 1_030, "counted all the same");
    }

    #[test]
    fn rates_are_those_of_the_last_whole_window() {
        let mut account = Account::default();
        let tally = Tally::default();
        let in_all = AtomicUsize::new(0);
        let mut add = |received_ms| account.add(&received(received_ms, 7, &tally), &in_all);
        (0..20).for_each(|nth| add(100_000 + nth * 500));
        assert_eq!(account.per_second(109_999).datagrams, 0.0);
        let rate = PerSecond { datagrams: 2.0, bytes: 200.0, flows: 0.0 };
        assert_eq!(account.per_second(110_000), rate);
        assert_eq!(account.per_second(120_000), PerSecond::default(), "it has fallen silent");
        assert_eq!(account.domains, [(Protocol::Ipfix, 7)].into());
        assert_eq!((account.first_seen_ms, account.clock_skew_ms), (100_000, Some(5)));
    }
}
