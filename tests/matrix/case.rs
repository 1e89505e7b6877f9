//! One run of the matrix: flows before, during and after a fault, and the books at the end.

use std::time::Duration;

use tidegate::app::App;

use crate::asker::Asker;
use crate::books::{Books, Stored};
use crate::common::proxy::Fault as Way;
use crate::common::{target, wait_until};
use crate::faults::{Fault, Trouble, Until};
use crate::outcome::Outcome;
use crate::scene::Scene;
use crate::server::Server;
use crate::traffic::{AFTER, BEFORE, DURING, Sums, WITH_BAD, send, send_with_bad};

/// A column of the matrix.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub on_row_error: &'static str,
    pub has_spool: bool,
}

/// Of the rows that are to fill a spool.
const PARTS: u64 = 5;

/// In the order of [`Fault::expected`].
pub const SETTINGS: [Setting; 4] = [
    Setting { on_row_error: "fail", has_spool: false },
    Setting { on_row_error: "fail", has_spool: true },
    Setting { on_row_error: "quarantine", has_spool: false },
    Setting { on_row_error: "quarantine", has_spool: true },
];

/// Runs a fault with a setting. The longest that `/metrics` took; `None` when this machine cannot have the fault.
pub fn run(server: &Server, fault: &Fault, number: usize, expected: Outcome) -> Option<Duration> {
    let setting = SETTINGS[number % SETTINGS.len()];
    let Setting { on_row_error, has_spool } = setting;
    let case = format!("{}, {setting:?}", fault.name);
    let scene = Scene::set(server, fault, &format!("case_{number}"), on_row_error, has_spool)?;
    let app = scene.collector();
    let asker = Asker::start(app.management_address());

    let seed = 100 * number as u64;
    let mut sent = send(target(&app), BEFORE, seed);
    wait_until("the first are stored", || Books::read(&app).stored == BEFORE);
    scene.hurt();
    send_during(fault.trouble, &app, seed + 1, &mut sent);
    wait_until(&case, || is_long_enough(fault.until, &app, sent));
    let is_felt = scene.proxy.hurt() > 0 || Books::read(&app).retries > 0;
    assert!(is_felt || expected != Outcome::AllStored, "{case}: nothing happened");
    check_way(fault.trouble, &scene, &case);
    scene.mend();
    sent += send(target(&app), AFTER, seed + 99);
    // What an operator had to mend is tried after a minute, or a restart.
    let may_wait = expected == Outcome::Spooled;
    wait_until(&case, || {
        let books = Books::read(&app);
        books.received == sent.0[0]
            && books.settled() == sent.0[0]
            && (books.spooled == 0 || may_wait)
    });
    let mut slowest_metrics = asker.stop();
    let mut books = stop(app, &case);
    let spooled = books.spooled;
    if spooled > 0 {
        assert_eq!((books.stored, spooled), (BEFORE, DURING + AFTER), "{case}: on disk");
        let app = scene.collector();
        let asker = Asker::start(app.management_address());
        wait_until(&case, || Books::read(&app).stored == spooled);
        slowest_metrics = slowest_metrics.max(asker.stop());
        books = books.then(&stop(app, &case));
    }
    let stored = Stored::read(server, &scene.database);
    stored.check(&case, &books, sent);
    let outcome = Outcome::of(&books, spooled, stored.letter_batches);
    assert_eq!(outcome, expected, "{case}: {books:?}, {stored:?}");
    Some(slowest_metrics)
}

fn send_during(trouble: Trouble, app: &App, seed: u64, sent: &mut Sums) {
    match trouble {
        Trouble::BadRow => {
            let half = (DURING - WITH_BAD) / 2;
            *sent += send(target(app), half, seed);
            *sent += send_with_bad(target(app));
            *sent += send(target(app), half, seed + 1);
        }
        // One batch after the other: one of all rows would find no room at all.
        Trouble::SpoolFull | Trouble::DiskFull => {
            for part in 0..PARTS {
                *sent += send(target(app), DURING / PARTS, seed + part);
                wait_until("they are settled", || Books::read(app).settled() == sent.0[0]);
            }
        }
        _ => *sent += send(target(app), DURING, seed),
    }
}

fn is_long_enough(until: Until, app: &App, sent: Sums) -> bool {
    let books = Books::read(app);
    match until {
        Until::TriedAgain(retries) => books.retries >= retries,
        Until::Settled => books.settled() == sent.0[0],
        Until::Ended => books.settled() == sent.0[0] && (books.spooled == 0 || books.retries >= 20),
    }
}

/// A fault on the way is what its name says: ClickHouse has stored what was not answered, or nothing.
fn check_way(trouble: Trouble, scene: &Scene<'_>, case: &str) {
    let sql = format!("SELECT count() FROM {}.flows", scene.database);
    let count = || scene.server.numbers::<1>(&sql)[0];
    match trouble {
        Trouble::Way(Way::ResetAfterBody) => {
            assert!(count() > BEFORE, "{case}: nothing was stored without an answer");
        }
        Trouble::Way(Way::Slow(_)) | Trouble::Killed => {}
        Trouble::Way(_) => assert_eq!(count(), BEFORE, "{case}: the fault let an insert through"),
        _ => {}
    }
}

/// Stops a collector whose rows are settled; its last books by `/metrics`, which are those of the stop.
fn stop(app: App, case: &str) -> Books {
    let books = Books::read(&app);
    let stopped = app.stop();
    let last = stopped.books;
    let told = (books.received, books.stored, books.dead_letters, books.spooled);
    assert_eq!(told, (last.received, last.stored, last.dead_lettered, last.spooled), "{case}");
    assert_eq!(books.dropped_total(), last.dropped_total(), "{case}");
    assert!(stopped.is_drained, "{case}");
    books
}
