//! Delivery against a destination that follows a script.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::clickhouse::{Block, ClickHouseError, Method, Views, encode_batch};
use crate::config::{Config, OnRowError};
use crate::flow::{Chunk, Column, Row};
use crate::patience::Patience;
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

impl Scripted {
    /// Of what it was sent.
    fn tokens(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|batch| batch.token.clone()).collect()
    }
}

/// Delivery on a thread of its own.
struct Running {
    batches: Sender<Batch>,
    patience: Patience,
    fatal: Receiver<Fatal>,
    thread: thread::JoinHandle<()>,
    ledger: Arc<Ledger>,
    metrics: Arc<Metrics>,
}

fn run<D: Destination + Clone + 'static>(destination: &D, max_attempts: u32) -> Running {
    let metrics = Arc::new(Metrics::default());
    let ledger = Arc::new(Ledger::new(&metrics));
    let (batches, received) = bounded(0);
    let patience = Patience::default();
    let (report, fatal) = bounded(1);
    let text = format!("[clickhouse.retry]\ndelay = \"2ms\"\nmax-attempts = {max_attempts}");
    let config = Config::parse(&text, Path::new("test.toml"), Vec::new()).unwrap();
    let alarms = Arc::new(Alarms::new(Arc::clone(&metrics)));
    let tries =
        Tries::new(destination.clone(), &config.clickhouse, patience.clone(), alarms, &metrics);
    let delivery =
        Delivery::new(received, tries, &config.clickhouse, None, Arc::clone(&ledger), &metrics);
    let thread = thread::spawn(move || delivery.run(&report));
    Running { batches, patience, fatal, thread, ledger, metrics }
}

impl Running {
    fn send(&self, token: &str, rows: usize) {
        self.send_with(token, rows, OnRowError::Fail);
    }

    fn send_with(&self, token: &str, rows: usize, on_row_error: OnRowError) {
        self.ledger.receive(rows);
        let (token, target) = (token.to_owned(), Target::Flows);
        let bytes = encode_batch(&[numbered(rows)], Method::Lz4);
        self.batches
            .send(Batch { token, target, on_row_error, rows, first_row: 0, bytes })
            .unwrap();
    }

    /// Ends as the flusher does: no more batches. The books, and the metrics.
    fn finish(self) -> (Books, String) {
        drop(self.batches);
        self.thread.join().unwrap();
        (self.ledger.books(), self.metrics.render())
    }
}

/// Rows with their number as bytes.
fn numbered(rows: usize) -> Chunk {
    let mut chunk = Chunk::default();
    for row in 0..rows {
        chunk.set(Column::Bytes, rows, row, (row as u64).to_le_bytes());
    }
    chunk.finish(rows);
    chunk
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
    let tokens: Vec<_> = seen.iter().map(|batch| batch.token.as_str()).collect();
    assert_eq!(tokens, ["a-1", "a-1", "a-1", "a-1", "a-2"]);
    assert!(seen[..4].iter().all(|batch| batch.bytes == seen[0].bytes));
    assert_eq!((books.stored, books.dropped_total()), (12, 0));
    assert!(metrics.contains("tidegate_batch_retries_total{reason=\"refused\"} 2"), "{metrics}");
    assert!(metrics.contains("tidegate_batch_retries_total{reason=\"no_answer\"} 1"), "{metrics}");
}

#[test]
fn refusals_are_limited_and_outages_are_not() {
    let destination = Scripted::default();
    destination.deliveries.lock().unwrap().extend((0..30).map(|_| no_answer()));
    destination.deliveries.lock().unwrap().extend((0..4).map(|_| refused(241)));
    let running = run(&destination, 3);
    running.send("a-1", 7);
    running.send("a-2", 5);
    let (books, metrics) = running.finish();
    assert_eq!((books.stored, books.dead_lettered, books.dropped_total()), (5, 7, 0));
    let tokens = destination.tokens();
    assert_eq!((tokens.len(), tokens[34].as_str()), (36, "a-1/dead/0"));
    let views = destination.views.lock().unwrap();
    assert_eq!(views[32..34], [Views::Required, Views::Optional], "a view may be what is refused");
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
    assert_eq!((books.stored, books.dead_lettered, books.dropped_total()), (5, 7, 0));
    assert_eq!(destination.tokens(), ["a-1", "a-1/dead/0", "a-2"]);
    let seen = destination.seen.lock().unwrap();
    let targets: Vec<_> = seen.iter().map(|batch| batch.target).collect();
    assert_eq!(targets, [Target::Flows, Target::DeadLetters, Target::Flows]);
}

#[test]
fn rows_whose_dead_letters_are_refused_too_are_lost_and_counted() {
    let destination = Scripted::default();
    destination.deliveries.lock().unwrap().extend([refused(469), refused(60)]);
    let running = run(&destination, 10);
    running.send("a-1", 7);
    let (books, metrics) = running.finish();
    assert_eq!((books.dead_lettered, books.dropped), (0, [0, 7, 0, 0, 0, 0, 0]));
    assert!(metrics.contains("tidegate_dead_letter_failed_rows_total 7"), "{metrics}");
}

/// A destination that refuses whatever has one of these rows.
#[derive(Clone)]
struct Picky {
    bad: Vec<u64>,
    stored: Arc<Mutex<Vec<u64>>>,
    letters: Arc<Mutex<Vec<u64>>>,
}

impl Destination for Picky {
    fn prepare(&mut self) -> Outcome {
        Ok(())
    }

    fn deliver(&mut self, batch: &Batch, _: Views) -> Outcome {
        if batch.target == Target::DeadLetters {
            let text = String::from_utf8(crate::clickhouse::plain(&batch.bytes)).unwrap();
            let letters = text.lines().map(|line| {
                let letter: serde_json::Value = serde_json::from_str(line).unwrap();
                letter["rowIndex"].as_u64().unwrap()
            });
            self.letters.lock().unwrap().extend(letters);
            return Ok(());
        }
        let block = Block::decode(&batch.bytes).unwrap();
        let chunks = block.chunks(0..block.rows());
        let rows = chunks.iter().flat_map(|it| (0..it.rows()).map(move |row| Row::new(it, row)));
        let rows: Vec<u64> = rows.map(|row| row.unsigned(Column::Bytes)).collect();
        if rows.iter().any(|row| self.bad.contains(row)) {
            return refused(469);
        }
        self.stored.lock().unwrap().extend(rows);
        Ok(())
    }
}

#[test]
fn quarantine_stores_every_row_but_the_refused_ones() {
    let bad = vec![0, 17, 18, 4_999];
    let destination = Picky { bad: bad.clone(), stored: Arc::default(), letters: Arc::default() };
    let running = run(&destination, 10);
    running.send_with("a-1", 5_000, OnRowError::Quarantine);
    let (books, metrics) = running.finish();
    assert_eq!((books.stored, books.dead_lettered, books.dropped_total()), (4_996, 4, 0));
    let mut letters = destination.letters.lock().unwrap().clone();
    letters.sort_unstable();
    assert_eq!(letters, bad);
    let mut stored = destination.stored.lock().unwrap().clone();
    stored.sort_unstable();
    let expected: Vec<u64> = (0..5_000).filter(|row| !bad.contains(row)).collect();
    assert_eq!(stored, expected, "each once");
    assert!(metrics.contains("tidegate_batch_failed_rows_total 5000"), "{metrics}");
}

#[test]
fn a_code_that_nobody_classified_has_a_counter_of_its_own() {
    let destination = Scripted::default();
    destination.deliveries.lock().unwrap().extend([refused(9_999), Ok(())]);
    let running = run(&destination, 10);
    running.send("a-1", 7);
    let (books, metrics) = running.finish();
    assert_eq!(books.dead_lettered, 7);
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
    running.patience.end();
    drop(running.batches);
    running.thread.join().unwrap();
    assert_eq!(running.ledger.books().pending(), 7);
    let books = running.ledger.close();
    assert_eq!((books.pending(), books.dropped), (0, [0, 0, 0, 0, 0, 0, 7]));
    running.ledger.store(7); // an answer that comes too late changes nothing
    assert_eq!(running.ledger.books(), books);
}
