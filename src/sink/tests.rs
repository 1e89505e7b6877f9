//! Delivery against a destination that follows a script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::clickhouse::{ClickHouseError, Views};
use crate::config::{ErrorsConfig, RetryConfig};
use crate::telemetry::Metrics;

use super::*;

type Outcome = Result<(), DeliveryError>;

/// Answers with the next line of the script, or with success; keeps what it was sent.
#[derive(Clone, Default)]
struct Scripted {
    preparations: Arc<Mutex<VecDeque<Outcome>>>,
    deliveries: Arc<Mutex<VecDeque<Outcome>>>,
    seen: Arc<Mutex<Vec<Batch>>>,
    views: Arc<Mutex<Vec<Views>>>,
}

impl Destination for Scripted {
    fn prepare(&mut self) -> Outcome {
        self.preparations.lock().unwrap().pop_front().unwrap_or(Ok(()))
    }

    fn deliver(&mut self, batch: &Batch, views: Views) -> Outcome {
        self.seen.lock().unwrap().push(batch.clone());
        self.views.lock().unwrap().push(views);
        self.deliveries.lock().unwrap().pop_front().unwrap_or(Ok(()))
    }
}

/// Delivery on a thread of its own.
struct Running {
    batches: Sender<Batch>,
    abandon: Sender<std::convert::Infallible>,
    fatal: Receiver<Fatal>,
    thread: thread::JoinHandle<()>,
    ledger: Arc<Ledger>,
    metrics: Arc<Metrics>,
}

fn run(destination: &Scripted, max_attempts: u32) -> Running {
    let metrics = Arc::new(Metrics::default());
    let ledger = Arc::new(Ledger::new(&metrics));
    let (batches, received) = bounded(0);
    let (abandon, abandoned) = bounded(0);
    let (report, fatal) = bounded(1);
    let retry = RetryConfig { delay: Duration::from_millis(2), max_attempts };
    let delivery = Delivery::new(
        received,
        destination.clone(),
        &retry,
        &ErrorsConfig::default(),
        abandoned,
        Arc::clone(&ledger),
        &metrics,
    );
    let thread = thread::spawn(move || delivery.run(&report));
    Running { batches, abandon, fatal, thread, ledger, metrics }
}

impl Running {
    fn send(&self, token: &str, rows: usize) {
        self.ledger.receive(rows);
        let bytes = token.as_bytes().to_vec().into();
        self.batches.send(Batch { token: token.to_owned(), rows, bytes }).unwrap();
    }

    /// Ends as the flusher does: no more batches. The books, and the metrics.
    fn finish(self) -> (Books, String) {
        drop(self.batches);
        self.thread.join().unwrap();
        (self.ledger.books(), self.metrics.render())
    }
}

fn refused(code: u32) -> Outcome {
    Err(ClickHouseError::Refused { code, message: format!("Code: {code}.") }.into())
}

fn no_answer() -> Outcome {
    Err(ClickHouseError::NoAnswer("reset".to_owned()).into())
}

#[test]
fn a_batch_is_sent_again_with_the_same_bytes_and_token_until_it_is_stored() {
    let destination = Scripted::default();
    destination.deliveries.lock().unwrap().extend([refused(241), no_answer(), refused(202)]);
    let running = run(&destination, 10);
    running.send("a-1", 7);
    running.send("a-2", 5);
    let (books, metrics) = running.finish();
    let seen = destination.seen.lock().unwrap();
    let sent: Vec<_> = seen.iter().map(|batch| (batch.token.as_str(), &batch.bytes[..])).collect();
    assert_eq!(sent[..4], [("a-1", &b"a-1"[..]); 4]);
    assert_eq!(sent[4..], [("a-2", &b"a-2"[..])]);
    assert_eq!((books.stored, books.dropped_total()), (12, 0));
    assert!(metrics.contains("tidegate_batch_retries_total{reason=\"refused\"} 2"), "{metrics}");
    assert!(metrics.contains("tidegate_batch_retries_total{reason=\"no_answer\"} 1"), "{metrics}");
}

#[test]
fn refusals_are_limited_and_outages_are_not() {
    let destination = Scripted::default();
    destination.deliveries.lock().unwrap().extend((0..30).map(|_| no_answer()));
    destination.deliveries.lock().unwrap().extend([refused(241), refused(241), refused(241)]);
    let running = run(&destination, 3);
    running.send("a-1", 7);
    running.send("a-2", 5);
    let (books, metrics) = running.finish();
    assert_eq!((books.stored, books.dropped), (5, [0, 7, 0]));
    assert_eq!(destination.seen.lock().unwrap().len(), 34);
    assert!(metrics.contains("tidegate_batch_failed_rows_total 7"), "{metrics}");
}

#[test]
fn a_permanent_refusal_costs_its_batch_at_once_and_no_other() {
    let destination = Scripted::default();
    destination.deliveries.lock().unwrap().extend([refused(469), Ok(())]);
    let running = run(&destination, 10);
    running.send("a-1", 7);
    running.send("a-2", 5);
    let (books, _) = running.finish();
    assert_eq!((books.stored, books.dropped), (5, [0, 7, 0]));
}

#[test]
fn a_code_that_nobody_classified_has_a_counter_of_its_own() {
    let destination = Scripted::default();
    destination.deliveries.lock().unwrap().extend([refused(9_999), Ok(())]);
    let running = run(&destination, 10);
    running.send("a-1", 7);
    let (books, metrics) = running.finish();
    assert_eq!(books.dropped, [0, 7, 0]);
    assert!(metrics.contains("tidegate_batch_unclassified_errors_total 1"), "{metrics}");
}

#[test]
fn a_batch_on_which_a_view_fails_is_stored_without_the_view() {
    let destination = Scripted::default();
    let message = "Code: 395. DB::Exception: no: while pushing to view db.v".to_owned();
    let broken = Err(ClickHouseError::Refused { code: 395, message }.into());
    destination.deliveries.lock().unwrap().extend([broken, no_answer()]);
    let running = run(&destination, 1);
    running.send("a-1", 7);
    running.send("a-2", 5);
    let (books, metrics) = running.finish();
    assert_eq!((books.stored, books.dropped_total()), (12, 0));
    let views = destination.views.lock().unwrap();
    assert_eq!(views[..], [Views::Required, Views::Optional, Views::Optional, Views::Required]);
    assert!(
        metrics.contains("tidegate_batch_retries_total{reason=\"broken_view\"} 1"),
        "{metrics}"
    );
}

#[test]
fn preparation_is_tried_until_it_succeeds() {
    let destination = Scripted::default();
    destination.preparations.lock().unwrap().extend([no_answer(), no_answer()]);
    let running = run(&destination, 1);
    running.send("a-1", 7);
    assert_eq!(running.finish().0.stored, 7);
}

#[test]
fn a_destination_that_cannot_be_used_is_told_and_ends_delivery() {
    let destination = Scripted::default();
    let unusable = || DeliveryError::Fatal(Fatal("wrong password".to_owned()));
    destination.preparations.lock().unwrap().push_back(Err(unusable()));
    let running = run(&destination, 1);
    assert_eq!(running.fatal.recv().unwrap().0, "wrong password");
    running.thread.join().unwrap();
}

#[test]
fn abandoned_delivery_ends_and_leaves_its_rows_to_the_shutdown() {
    let destination = Scripted::default();
    destination.deliveries.lock().unwrap().extend((0..100_000).map(|_| no_answer()));
    let running = run(&destination, 1);
    running.send("a-1", 7);
    drop(running.abandon);
    drop(running.batches);
    running.thread.join().unwrap();
    assert_eq!(running.ledger.books().pending(), 7);
    let books = running.ledger.close();
    assert_eq!((books.pending(), books.dropped), (0, [0, 0, 7]));
    running.ledger.store(7); // an answer that comes too late changes nothing
    assert_eq!(running.ledger.books(), books);
}
