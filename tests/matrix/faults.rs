//! The table of faults: how each is made, how long it lasts, and what must become of the rows.

use std::time::Duration;

use crate::common::proxy::Fault as Way;
use crate::outcome::Outcome::{
    self, AllStored, DeadLetters, Dropped, OneBatch, SomeDropped, Spooled,
};
use crate::traffic::DURING;

/// One row of the matrix.
pub struct Fault {
    pub name: &'static str,
    pub trouble: Trouble,
    pub until: Until,
    /// Under `fail` without a spool, with one, and under `quarantine` without and with one. `None` is not run.
    pub expected: [Option<Outcome>; 4],
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trouble {
    /// On the way to ClickHouse.
    Way(Way),
    /// The table takes no more parts, code 252.
    TooManyParts,
    /// A CHECK refuses one of all rows, code 469.
    BadRow,
    /// `flows` is gone, code 60.
    NoTable,
    /// A view beside the rollup throws, code 395.
    BrokenView,
    /// Nobody listens, and the spool has little room left of its `max-size`.
    SpoolFull,
    /// Nobody listens, and the spool is on a small file system.
    DiskFull,
    /// The server is killed, and started again.
    Killed,
}

/// How long it lasts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Until {
    /// So many tries have failed; their batches must get through when it is over.
    TriedAgain(u64),
    /// Every row that came meanwhile has its end, or is on disk.
    Settled,
    /// Every row that came meanwhile has its end, or was refused on disk more often than `retry.max-attempts`.
    Ended,
}

/// Bytes of an insert that pass before its connection is reset. Inserts have tens of thousands.
const CUT_BYTES: usize = 4_000;

const LATE: Duration = Duration::from_millis(300);

/// A code that ClickHouse does not have.
const UNKNOWN: Way = Way::AnswerOfFlows(
    "500 Internal Server Error\r\nX-ClickHouse-Exception-Code: 9999",
    "Code: 9999. DB::Exception: Nobody knows this. (OF_THE_FUTURE)\n",
);

const PROXY: Way = Way::Answer("500 Internal Server Error", "the proxy has no server\n");

/// A user who may not insert there, and a password that is not the user's.
const NO_RIGHT: Way = Way::RewordOfFlows(": writer", ": nobody");
const WRONG_PASSWORD: Way = Way::Reword(": right", ": wrong");

/// Whatever the settings, all rows are stored.
const ALL_STORED: [Option<Outcome>; 4] = [Some(AllStored); 4];

/// Whatever the settings, what came meanwhile becomes dead letters.
const ALL_DEAD: [Option<Outcome>; 4] = [Some(DeadLetters(DURING)); 4];

const MENDED: [Option<Outcome>; 4] =
    [Some(DeadLetters(DURING)), Some(Spooled), Some(DeadLetters(DURING)), Some(Spooled)];

const LOST: Option<Outcome> = Some(Dropped("dead_letter_failed", DURING));

/// Only with a spool: without one the fault is that nobody listens.
const OVERFLOWS: [Option<Outcome>; 4] =
    [None, Some(SomeDropped("spool_full")), None, Some(SomeDropped("spool_full"))];

const TRIED_AGAIN: Until = Until::TriedAgain(3);

#[rustfmt::skip]
pub const FAULTS: [Fault; 17] = [
    on_the_way("connection refused", Way::Refused, TRIED_AGAIN, ALL_STORED),
    on_the_way("connection reset in the body", Way::ResetInBody(CUT_BYTES), TRIED_AGAIN, ALL_STORED),
    on_the_way("connection reset after the body, before the answer", Way::ResetAfterBody, TRIED_AGAIN, ALL_STORED),
    on_the_way("no answer within `response-timeout` (1 s)", Way::Hang, Until::TriedAgain(1), ALL_STORED),
    on_the_way("the answer comes 0.3 s late", Way::Slow(LATE), Until::Settled, ALL_STORED),
    on_the_way("a proxy answers 500, without a code", PROXY, TRIED_AGAIN, ALL_STORED),
    fault("retryable error that passes (252, too many parts)", Trouble::TooManyParts, TRIED_AGAIN, ALL_STORED),
    fault("the same, beyond `retry.max-attempts`", Trouble::TooManyParts, Until::Ended,
        [Some(DeadLetters(DURING)), Some(AllStored), Some(DeadLetters(DURING)), Some(AllStored)]),
    fault("one row violates a CHECK (469)", Trouble::BadRow, Until::Settled,
        [Some(OneBatch), Some(OneBatch), Some(DeadLetters(1)), Some(DeadLetters(1))]),
    on_the_way("no right to insert into `flows` (497)", NO_RIGHT, Until::Settled, MENDED),
    on_the_way("unknown code (9999)", UNKNOWN, Until::Settled, ALL_DEAD),
    on_the_way("wrong password (516)", WRONG_PASSWORD, Until::Settled,
        [LOST, Some(Spooled), LOST, Some(Spooled)]),
    fault("`flows` dropped (60)", Trouble::NoTable, Until::Settled, MENDED),
    fault("a view beside the rollup throws (395)", Trouble::BrokenView, Until::Settled, ALL_STORED),
    fault("connection refused, spool beyond `max-size`", Trouble::SpoolFull, Until::Settled, OVERFLOWS),
    fault("connection refused, disk of the spool full", Trouble::DiskFull, Until::Settled, OVERFLOWS),
    fault("ClickHouse killed by `kill -9`, and restarted", Trouble::Killed, TRIED_AGAIN, ALL_STORED),
];

const fn on_the_way(
    name: &'static str,
    way: Way,
    until: Until,
    expected: [Option<Outcome>; 4],
) -> Fault {
    fault(name, Trouble::Way(way), until, expected)
}

const fn fault(
    name: &'static str,
    trouble: Trouble,
    until: Until,
    expected: [Option<Outcome>; 4],
) -> Fault {
    Fault { name, trouble, until, expected }
}
