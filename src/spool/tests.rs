use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use fastrand::Rng;
use tempfile::TempDir;

use super::*;
use crate::config::OnRowError;

const MINUTE: Duration = Duration::from_secs(60);

fn config(directory: &Path) -> SpoolConfig {
    SpoolConfig {
        directory: Some(directory.to_owned()),
        max_bytes: 1 << 20,
        fsync: false,
        drain_rate_rows: 1_000,
    }
}

fn open(directory: &Path) -> Spool {
    Spool::open(&config(directory), &Metrics::default()).unwrap().unwrap()
}

/// A batch of so many rows; its token is the number.
fn entry(number: usize) -> Entry {
    let header = Header {
        token: number.to_string(),
        target: "tidegate.flows".to_owned(),
        rows: number,
        first_row: 0,
        on_row_error: OnRowError::Fail,
        why: Why::Outage,
        created_ms: 1_800_000_000_000,
        replaces: None,
    };
    Entry { header, body: Bytes::from(vec![7; number]) }
}

fn tokens(spool: &mut Spool) -> Vec<String> {
    let now = Instant::now();
    let drain = || {
        let batch = spool.next(now, |_| true)?;
        spool.remove(batch.id);
        Some(batch.entry.header.token)
    };
    std::iter::from_fn(drain).collect()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn has_metric(metrics: &Metrics, line: &str) -> bool {
    metrics.render().lines().any(|it| it == line)
}

#[test]
fn a_batch_comes_back_as_it_was_until_it_is_removed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("made/by/the/spool");
    let metrics = Metrics::default();
    let mut spool = Spool::open(&config(&path), &metrics).unwrap().unwrap();
    let now = Instant::now();
    assert_eq!((spool.next(now, |_| true), spool.next_at(now, |_| now)), (None, None));
    let id = spool.append(&entry(5_000)).unwrap();
    let batch = SpooledBatch { id, entry: entry(5_000) };
    assert_eq!(spool.next(now, |_| true).as_ref(), Some(&batch));
    drop(spool);
    let mut spool = Spool::open(&config(&path), &metrics).unwrap().unwrap();
    assert_eq!((spool.batches(), spool.rows(), spool.bytes()), (1, 5_000, 8_192));
    assert_eq!(spool.next(now, |_| true).as_ref(), Some(&batch));
    assert_eq!(spool.next(now, |_| true).as_ref(), Some(&batch));
    assert!(has_metric(&metrics, "tidegate_spool_rows 5000"));
    spool.remove(id);
    spool.remove(id);
    assert_eq!(spool.next(now, |_| true), None);
    assert_eq!((spool.batches(), spool.rows(), spool.bytes()), (0, 0, 0));
    assert_eq!(names(&path), ["lock"]);
    assert!(has_metric(&metrics, "tidegate_spool_drained_rows_total 5000"));
    assert!(has_metric(&metrics, "tidegate_spool_appended_rows_total{reason=\"outage\"} 5000"));
}

#[test]
fn without_a_directory_there_is_no_spool() {
    let config = SpoolConfig { directory: None, ..config(Path::new("")) };
    assert!(Spool::open(&config, &Metrics::default()).unwrap().is_none());
}

#[test]
fn a_batch_that_does_not_fit_is_refused_and_counted_until_there_is_room() {
    let folder = TempDir::new().unwrap();
    let metrics = Metrics::default();
    let small = SpoolConfig { max_bytes: 3 * 4_096, ..config(folder.path()) };
    let mut spool = Spool::open(&small, &metrics).unwrap().unwrap();
    assert!(matches!(spool.append(&entry(3 * 4_096)), Err(AppendError::MaxSize)));
    let first = spool.append(&entry(1)).unwrap();
    spool.append(&entry(5_000)).unwrap();
    assert!(matches!(spool.append(&entry(2)), Err(AppendError::MaxSize)));
    assert!(has_metric(&metrics, "tidegate_spool_refused_rows_total{reason=\"max_size\"} 12290"));
    spool.remove(first);
    spool.append(&entry(3)).unwrap();
    assert_eq!(tokens(&mut spool), ["5000", "3"]);
    assert_eq!(names(folder.path()), ["lock"]);
    // What was set aside takes room too.
    fs::write(folder.path().join("0000000000000009.damaged"), [0; 8_193]).unwrap();
    drop(spool);
    let mut spool = Spool::open(&small, &metrics).unwrap().unwrap();
    assert!(matches!(spool.append(&entry(1)), Err(AppendError::MaxSize)));
}

#[test]
fn a_second_collector_is_told_that_the_directory_is_used() {
    let folder = TempDir::new().unwrap();
    let first = open(folder.path());
    let error = Spool::open(&config(folder.path()), &Metrics::default()).unwrap_err();
    let expected = format!(
        "spool.directory {} is used by another tidegate: stop it, or give each a directory of its own",
        folder.path().display()
    );
    assert_eq!(error.to_string(), expected);
    drop(first);
    open(folder.path());
}

#[test]
fn a_directory_that_cannot_be_made_is_said() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().join("spool");
    let error = Spool::open(&config(&path), &Metrics::default()).unwrap_err();
    let expected =
        format!("spool.directory {} cannot be used: Not a directory (os error 20)", path.display());
    assert_eq!(error.to_string(), expected);
}

#[test]
fn half_files_go_and_damaged_ones_are_set_aside_and_counted_at_the_start() {
    let folder = TempDir::new().unwrap();
    let mut spool = open(folder.path());
    for number in [10, 20, 30, 40] {
        spool.append(&entry(number)).unwrap();
    }
    drop(spool);
    let path = |name| folder.path().join(name);
    let whole = fs::read(path("0000000000000002.batch")).unwrap();
    fs::write(path("0000000000000002.batch"), &whole[..whole.len() - 1]).unwrap();
    fs::write(path("0000000000000003.batch"), "").unwrap();
    fs::write(path("0000000000000005.new"), &whole).unwrap();
    fs::write(path("somebody.else"), "").unwrap();
    let metrics = Metrics::default();
    let mut spool = Spool::open(&config(folder.path()), &metrics).unwrap().unwrap();
    // Of the empty file nobody knows the rows.
    assert!(has_metric(&metrics, "tidegate_spool_damaged_batches_total 2"));
    assert!(has_metric(&metrics, "tidegate_spool_damaged_rows_total 20"));
    assert_eq!((spool.batches(), spool.rows(), spool.bytes()), (2, 50, 4 * 4_096));
    // No id comes twice.
    spool.append(&entry(60)).unwrap();
    assert_eq!(
        names(folder.path()),
        [
            "0000000000000001.batch",
            "0000000000000002.damaged",
            "0000000000000003.damaged",
            "0000000000000004.batch",
            "0000000000000006.batch",
            "lock",
            "somebody.else",
        ]
    );
    assert_eq!(tokens(&mut spool), ["10", "40", "60"]);
    assert_eq!(fs::read(path("0000000000000002.damaged")).unwrap(), whole[..whole.len() - 1]);
}

#[test]
fn a_file_that_is_damaged_or_removed_later_costs_its_rows_only() {
    let folder = TempDir::new().unwrap();
    let metrics = Metrics::default();
    let mut spool = Spool::open(&config(folder.path()), &metrics).unwrap().unwrap();
    for number in [10, 20, 30, 40] {
        spool.append(&entry(number)).unwrap();
    }
    let path = |name| folder.path().join(name);
    let mut flipped = fs::read(path("0000000000000001.batch")).unwrap();
    *flipped.last_mut().unwrap() ^= 1;
    fs::write(path("0000000000000001.batch"), &flipped).unwrap();
    fs::remove_file(path("0000000000000002.batch")).unwrap();
    // One that cannot be read now waits for a minute.
    fs::remove_file(path("0000000000000003.batch")).unwrap();
    fs::create_dir(path("0000000000000003.batch")).unwrap();
    let now = Instant::now();
    assert_eq!(spool.next(now, |_| true).unwrap().entry, entry(40));
    assert!(has_metric(&metrics, "tidegate_spool_damaged_rows_total 30"));
    assert!(has_metric(&metrics, "tidegate_spool_damaged_batches_total 2"));
    assert!(has_metric(&metrics, "tidegate_spool_errors_total 1"));
    assert_eq!((spool.batches(), spool.rows(), spool.bytes()), (2, 70, 3 * 4_096));
    assert!(path("0000000000000001.damaged").exists());
    fs::remove_dir(path("0000000000000003.batch")).unwrap();
    let whole = [&format::seal(&entry(30)).unwrap()[..], &entry(30).body].concat();
    fs::write(path("0000000000000003.batch"), whole).unwrap();
    assert_eq!(spool.next(now + MINUTE, |_| true).unwrap().entry, entry(30));
}

#[test]
fn a_batch_that_is_left_alone_is_tried_again_in_time_and_after_a_restart() {
    let folder = TempDir::new().unwrap();
    let mut spool = open(folder.path());
    let now = Instant::now();
    let first = spool.append(&entry(1)).unwrap();
    spool.append(&entry(2)).unwrap();
    spool.defer(first, now + MINUTE);
    assert_eq!(tokens(&mut spool), ["2"]);
    assert_eq!(spool.next_at(now, |_| now), Some(now + MINUTE));
    assert_eq!(spool.next(now, |_| true), None);
    assert_eq!(spool.next(now + MINUTE, |_| true).unwrap().id, first);
    spool.defer(first, now + MINUTE);
    drop(spool);
    assert_eq!(tokens(&mut open(folder.path())), ["1"]);
}

#[test]
fn a_write_that_fails_leaves_nothing_and_the_next_one_works() {
    let folder = TempDir::new().unwrap();
    let metrics = Metrics::default();
    let mut spool = Spool::open(&config(folder.path()), &metrics).unwrap().unwrap();
    fs::create_dir(folder.path().join("0000000000000001.batch")).unwrap();
    assert!(matches!(spool.append(&entry(9)), Err(AppendError::Io(_))));
    let endless = Header { token: "x".repeat(70_000), ..entry(1).header };
    assert!(matches!(
        spool.append(&Entry { header: endless, ..entry(1) }),
        Err(AppendError::Io(_))
    ));
    assert!(has_metric(&metrics, "tidegate_spool_refused_rows_total{reason=\"error\"} 10"));
    assert_eq!(names(folder.path()), ["0000000000000001.batch", "lock"]);
    spool.append(&entry(3)).unwrap();
    assert_eq!(tokens(&mut spool), ["3"]);
}

/// Against a queue in memory: whatever happens in between, batches come in the order of their appends.
#[test]
fn order_holds_over_restarts() {
    for seed in 0..100 {
        let mut rng = Rng::with_seed(seed);
        let folder = TempDir::new().unwrap();
        let metrics = Metrics::default();
        let config = SpoolConfig { max_bytes: 20 * 4_096, ..config(folder.path()) };
        let mut spool = Spool::open(&config, &metrics).unwrap().unwrap();
        let mut expected: VecDeque<(BatchId, usize)> = VecDeque::new();
        let mut damaged = 0;
        for number in 1..200 {
            let now = Instant::now();
            match rng.u8(0..12) {
                0..6 => match spool.append(&entry(number)) {
                    Ok(id) => expected.push_back((id, number)),
                    Err(error) => {
                        assert!(matches!(error, AppendError::MaxSize), "seed {seed}: {error}");
                        assert_eq!(expected.len() + damaged, 20, "seed {seed}");
                    }
                },
                6..9 => {
                    let next = spool.next(now, |_| true).map(|batch| (batch.id, batch.entry));
                    let oldest = expected.pop_front();
                    assert_eq!(next, oldest.map(|(id, number)| (id, entry(number))), "seed {seed}");
                    if let Some((id, _)) = oldest {
                        spool.remove(id);
                    }
                }
                9 => {
                    // The oldest is passed over; it is the oldest again after a restart.
                    let next = expected.get(1).map(|(id, _)| *id);
                    if let Some((first, _)) = expected.front() {
                        spool.defer(*first, now + MINUTE);
                        assert_eq!(
                            spool.next(now, |_| true).map(|batch| batch.id),
                            next,
                            "seed {seed}"
                        );
                        spool.defer(*first, now);
                    }
                }
                10 if !expected.is_empty() && damaged < 5 => {
                    let (id, _) = expected.remove(rng.usize(..expected.len())).unwrap();
                    let file = spool.directory.path_of(id, Kind::Batch);
                    let length = fs::metadata(&file).unwrap().len();
                    fs::File::options()
                        .write(true)
                        .open(&file)
                        .unwrap()
                        .set_len(rng.u64(..length))
                        .unwrap();
                    damaged += 1;
                    drop(spool);
                    spool = Spool::open(&config, &metrics).unwrap().unwrap();
                }
                _ => {
                    drop(spool);
                    spool = Spool::open(&config, &metrics).unwrap().unwrap();
                }
            }
            let rows = expected.iter().map(|(_, number)| number).sum::<usize>();
            assert_eq!((spool.batches(), spool.rows()), (expected.len(), rows), "seed {seed}");
            assert_eq!(spool.bytes(), 4_096 * (expected.len() + damaged) as u64, "seed {seed}");
        }
        let rest = expected.iter().map(|(_, number)| number.to_string()).collect::<Vec<_>>();
        assert_eq!(tokens(&mut spool), rest, "seed {seed}");
        let line = format!("tidegate_spool_damaged_batches_total {damaged}");
        assert!(has_metric(&metrics, &line), "seed {seed}");
    }
}
