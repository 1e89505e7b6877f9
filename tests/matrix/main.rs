//! Every fault between the collector and a real ClickHouse, with each way to treat refused rows, with and
//! without a spool: what becomes of every row, by `/metrics` and by ClickHouse. `docs/delivery.md` has the table.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unreachable_pub, reason = "modules of one test")]

mod asker;
mod books;
mod case;
#[path = "../common/mod.rs"]
mod common;
mod document;
mod faults;
mod outcome;
mod scene;
mod server;
mod spool_place;
mod traffic;

use std::sync::Mutex;
use std::time::Duration;

use case::SETTINGS;
use faults::{FAULTS, Trouble};
use outcome::Outcome;
use server::Server;

/// Cases that run at the same time: most of the time they wait.
const WORKERS: usize = 4;

/// No test of a busy machine may fail by it; docs/delivery.md has what was measured.
const METRICS_TIME_MAX: Duration = Duration::from_secs(1);

struct Case {
    /// Its place in the matrix, row by row.
    number: usize,
    expected: Outcome,
}

impl Case {
    fn all() -> Vec<Self> {
        let expected = FAULTS.iter().flat_map(|fault| fault.expected).enumerate();
        expected.filter_map(|(number, it)| Some(Self { number, expected: it? })).collect()
    }

    fn fault(&self) -> usize {
        self.number / SETTINGS.len()
    }

    fn run(&self, server: &Server) -> Option<Duration> {
        case::run(server, &FAULTS[self.fault()], self.number, self.expected)
    }
}

#[test]
fn every_row_has_the_end_that_the_matrix_says() {
    let is_killed = |case: &Case| FAULTS[case.fault()].trouble == Trouble::Killed;
    let (killed, others): (Vec<_>, Vec<_>) = Case::all().into_iter().partition(is_killed);
    let slowest = Mutex::new(vec![None; FAULTS.len()]);
    let note = |case: &Case, time: Option<Duration>| {
        let worst = &mut slowest.lock().unwrap()[case.fault()];
        *worst = (*worst).max(time);
    };
    // What is written down is not to be about other cases.
    let workers = if document::is_to_be_written() { 1 } else { WORKERS };
    let (mortal, server) = (Server::start(killed.len()), Server::start(0));
    let left = Mutex::new(others.into_iter());
    std::thread::scope(|scope| {
        for case in &killed {
            scope.spawn(|| note(case, case.run(&mortal)));
        }
    });
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(case) = { left.lock().unwrap().next() } {
                    note(&case, case.run(&server));
                }
            });
        }
    });
    let slowest = slowest.into_inner().unwrap();
    for (fault, worst) in FAULTS.iter().zip(&slowest) {
        println!("{}: /metrics within {worst:?}", fault.name);
        assert!(worst.is_none_or(|it| it < METRICS_TIME_MAX), "{}", fault.name);
    }
    document::check(&slowest);
}
