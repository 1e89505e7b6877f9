//! The books of a case: what `/metrics` says, and what ClickHouse has.

use tidegate::app::App;
use tidegate::sink::RowDropReason;

use crate::common::Scrape;
use crate::server::Server;
use crate::traffic::Sums;

/// Rows by what became of them, as `/metrics` says; of two collectors, one after the other.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Books {
    pub received: u64,
    pub stored: u64,
    pub dead_letters: u64,
    pub spooled: u64,
    /// By reason, those that lost some.
    pub dropped: Vec<(&'static str, u64)>,
    /// Inserts that were sent again.
    pub retries: u64,
}

impl Books {
    pub fn read(app: &App) -> Self {
        let scraped = Scrape::of(app);
        let sum = |metric| scraped.sum(metric, &[]);
        let dropped = |reason: RowDropReason| {
            let label = format!("reason=\"{}\"", reason.label());
            (reason.label(), scraped.sum("tidegate_batch_dropped_rows_total", &[&label]))
        };
        Self {
            received: sum("tidegate_batch_received_rows_total"),
            stored: sum("tidegate_batch_stored_rows_total"),
            dead_letters: sum("tidegate_dead_letter_rows_total"),
            spooled: sum("tidegate_spool_rows"),
            dropped: RowDropReason::ALL.map(dropped).into_iter().filter(|it| it.1 > 0).collect(),
            retries: sum("tidegate_batch_retries_total"),
        }
    }

    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().map(|(_, rows)| rows).sum()
    }

    /// Rows that have their end, or are on disk.
    pub fn settled(&self) -> u64 {
        self.stored + self.dead_letters + self.spooled + self.dropped_total()
    }

    /// These books went on in `next`, which found in the spool what they left there.
    pub fn then(self, next: &Self) -> Self {
        let dropped = [self.dropped, next.dropped.clone()].concat();
        Self {
            received: self.received + next.received,
            stored: self.stored + next.stored,
            dead_letters: self.dead_letters + next.dead_letters,
            spooled: next.spooled,
            dropped,
            retries: self.retries + next.retries,
        }
    }
}

/// What ClickHouse has of a case.
#[derive(Debug, Eq, PartialEq)]
pub struct Stored {
    pub flows: Sums,
    pub rollup: Sums,
    pub letters: Sums,
    /// Batches that have dead letters.
    pub letter_batches: u64,
}

impl Stored {
    pub fn read(server: &Server, database: &str) -> Self {
        let sums = |columns: &str, table: &str| {
            Sums(server.numbers(&format!("SELECT {columns} FROM {database}.{table}")))
        };
        // A column that is 0 is not in a payload.
        let of_payload =
            |column| format!("sum(toUInt64OrZero(JSONExtractString(payload, '{column}')))");
        let of_letters = format!("count(), {}, {}", of_payload("bytes"), of_payload("packets"));
        // Generated flows differ in these.
        let [unique_flows] = server.numbers(&format!(
            "SELECT uniqExact(srcAddr, dstAddr, srcPort, dstPort, bytes, packets, firstSwitched) \
             FROM {database}.flows"
        ));
        // A letter that is there twice has the same batch and row.
        let letters = "flows_dead_letter";
        let [batches, unique] = server.numbers(&format!(
            "SELECT uniqExact(batchId), uniqExact(batchId, rowIndex) FROM {database}.{letters}"
        ));
        let stored = Self {
            flows: sums("count(), sum(bytes), sum(packets)", "flows"),
            rollup: sums("sum(flows), sum(bytes), sum(packets)", "rollup"),
            letters: sums(&of_letters, letters),
            letter_batches: batches,
        };
        assert_eq!(stored.flows.0[0], unique_flows, "{database}: a flow is there twice");
        assert_eq!(stored.letters.0[0], unique, "{database}: a letter is there twice");
        stored
    }

    /// Compares it with what was sent, and with the books.
    pub fn check(&self, case: &str, books: &Books, sent: Sums) {
        let Self { flows, rollup, letters, .. } = *self;
        assert_eq!(rollup, flows, "{case}: the rollup");
        assert_eq!(flows.0[0], books.stored, "{case}: stored rows, {books:?}");
        assert_eq!(letters.0[0], books.dead_letters, "{case}: dead letters, {books:?}");
        assert_eq!(books.received, sent.0[0], "{case}: received rows");
        assert_eq!(books.settled(), books.received, "{case}: {books:?}");
        assert_eq!(books.spooled, 0, "{case}: nothing is left on disk");
        let mut kept = flows;
        kept += letters;
        if books.dropped_total() == 0 {
            assert_eq!(kept, sent, "{case}: each row once, in one of the tables");
        }
    }
}
