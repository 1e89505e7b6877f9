//! Batches that cannot be delivered now, kept on disk: a bounded directory, one file a batch.
//!
//! An append that succeeded outlives the process, and with `fsync` the machine. Batches come back oldest
//! first, with the bytes and the token that they had, one in memory at a time. What may be lost here: batches
//! that find no room, which the caller is told; files that the disk damaged, which are set aside and counted.
//! Nothing on disk ends the collector but a directory that cannot be used at the start.

mod book;
mod directory;
mod format;
mod metrics;
mod pace;
mod survey;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use crate::config::SpoolConfig;
use crate::telemetry::{Metrics, RateLimit};

use book::{Book, Waiting};
use directory::{Directory, Kind, SpoolFile, disk_bytes};
use metrics::SpoolMetrics;

pub use directory::BatchId;
use format::Sealed;
pub use format::{Entry, Header, ReadError, Why};
pub use pace::Pace;
pub use survey::{Depth, Surveyed, survey};

/// How long a file is left alone that could not be read.
const READ_PAUSE: Duration = Duration::from_secs(60);

/// What repeats, as damage does after a power cut without `fsync`, is logged once in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The batches on disk, owned by one collector.
#[derive(Debug)]
pub struct Spool {
    directory: Directory,
    max_bytes: u64,
    /// By the table that the batches are for.
    books: BTreeMap<String, Book>,
    /// Of the youngest file, whatever became of it.
    last_id: BatchId,
    /// On disk, of files that are not in the book: damaged ones, and those that cannot be removed.
    kept_bytes: u64,
    /// Of files that were set aside, until somebody asks.
    damaged_rows: usize,
    metrics: SpoolMetrics,
    damage_log: RateLimit,
    error_log: RateLimit,
}

/// A batch that is due.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SpooledBatch {
    /// For [`Spool::remove`] and [`Spool::defer`].
    pub id: BatchId,
    /// As it was appended.
    pub entry: Entry,
}

/// Why there is no spool.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another collector has the directory.
    #[error(
        "spool.directory {} is used by another tidegate: stop it, or give each a directory of its own",
        .0.display()
    )]
    InUse(PathBuf),
    /// The directory cannot be made, read or written.
    #[error("spool.directory {} cannot be used: {source}", .directory.display())]
    Unusable {
        /// Of the spool.
        directory: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Why a batch was not appended. Nothing of it is on disk.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The spool is full.
    #[error("the spool has reached spool.max-size")]
    MaxSize,
    /// The disk is full before the spool is, or a quota.
    #[error("the disk of the spool is full: {0}")]
    DiskFull(io::Error),
    /// The disk fails.
    #[error("the spool cannot be written: {0}")]
    Io(io::Error),
}

impl Spool {
    /// Opens the directory and finds what waits there; `None` when there is to be no spool. Reads the headers
    /// of all files, not their bodies.
    ///
    /// # Errors
    ///
    /// Another collector has the directory, or it cannot be used.
    pub fn open(config: &SpoolConfig, metrics: &Metrics) -> Result<Option<Self>, OpenError> {
        let metrics = SpoolMetrics::new(metrics);
        let Some(path) = &config.directory else { return Ok(None) };
        let directory = Directory::open(path, config.fsync)?;
        let files = directory
            .files()
            .map_err(|source| OpenError::Unusable { directory: path.clone(), source })?;
        let mut spool = Self {
            directory,
            max_bytes: config.max_bytes,
            books: BTreeMap::new(),
            last_id: BatchId::NONE,
            kept_bytes: 0,
            damaged_rows: 0,
            metrics,
            damage_log: RateLimit::new(LOG_INTERVAL),
            error_log: RateLimit::new(LOG_INTERVAL),
        };
        let waiting: BTreeSet<_> =
            files.iter().filter(|file| file.kind == Kind::Batch).map(|file| file.id).collect();
        for file in &files {
            spool.take_in(file, &waiting);
        }
        spool.metrics.max_bytes.set(as_f64(spool.max_bytes));
        spool.show();
        info!(
            directory = %path.display(),
            batches = spool.batches(),
            rows = spool.rows(),
            bytes = spool.bytes(),
            "Spool opened."
        );
        Ok(Some(spool))
    }

    /// Keeps a batch, the youngest now.
    ///
    /// # Errors
    ///
    /// There is no room, or the disk fails.
    pub fn append(&mut self, entry: &Entry) -> Result<BatchId, AppendError> {
        let bytes_max = self.max_bytes.saturating_sub(self.bytes());
        let appended = self.write(entry, bytes_max);
        self.count(entry, appended.as_ref().err());
        let (id, bytes) = appended?;
        self.book(&entry.header.target).add(id, entry.header.rows, bytes);
        self.show();
        Ok(id)
    }

    /// Keeps several batches, all or none.
    ///
    /// # Errors
    ///
    /// There is no room, or the disk fails.
    pub fn append_all(&mut self, entries: Vec<Entry>) -> Result<(), AppendError> {
        let room = self.max_bytes.saturating_sub(self.bytes());
        let written = self.write_all(&entries, room)?;
        self.add_all(&entries, written);
        Ok(())
    }

    /// Keeps batches in the stead of one that waits. After a crash either that one is there or all of them.
    ///
    /// # Errors
    ///
    /// There is no room, or the disk fails; then the one stays.
    pub fn replace(&mut self, id: BatchId, mut entries: Vec<Entry>) -> Result<(), AppendError> {
        let replaced = self.books.values().find_map(|book| book.get(id)).map_or(0, |it| it.bytes);
        let room = (self.max_bytes + replaced).saturating_sub(self.bytes());
        for entry in &mut entries {
            entry.header.replaces = Some(id);
        }
        let written = self.write_all(&entries, room)?;
        let removed = self.directory.remove(id, Kind::Batch).and_then(|()| self.directory.sync());
        if let Err(error) = removed {
            self.take_back(&written);
            return Err(AppendError::of(error));
        }
        self.forget(id);
        self.add_all(&entries, written);
        Ok(())
    }

    fn write_all(
        &mut self,
        entries: &[Entry],
        mut room: u64,
    ) -> Result<Vec<(BatchId, u64)>, AppendError> {
        let mut written = Vec::new();
        for entry in entries {
            match self.write(entry, room) {
                Ok((id, bytes)) => {
                    room = room.saturating_sub(bytes);
                    written.push((id, bytes));
                }
                Err(error) => {
                    self.count(entry, Some(&error));
                    self.take_back(&written);
                    return Err(error);
                }
            }
        }
        Ok(written)
    }

    fn add_all(&mut self, entries: &[Entry], written: Vec<(BatchId, u64)>) {
        for (entry, (id, bytes)) in entries.iter().zip(written) {
            self.count(entry, None);
            self.book(&entry.header.target).add(id, entry.header.rows, bytes);
        }
        self.show();
    }

    /// Removes batches that nobody was told of.
    fn take_back(&mut self, written: &[(BatchId, u64)]) {
        for &(id, bytes) in written {
            if let Err(error) = self.directory.remove(id, Kind::Batch) {
                self.kept_bytes += bytes;
                self.note_error(id, &error, "A batch cannot be removed from the spool.");
            }
        }
    }

    /// Writes a file of at most so many bytes on disk; its id and what it takes.
    fn write(&mut self, entry: &Entry, bytes_max: u64) -> Result<(BatchId, u64), AppendError> {
        let invalid = |why| AppendError::Io(io::Error::new(io::ErrorKind::InvalidInput, why));
        let head = format::seal(entry).ok_or_else(|| invalid("the header is too long"))?;
        let bytes = disk_bytes((head.len() + entry.body.len()) as u64);
        if bytes > bytes_max {
            return Err(AppendError::MaxSize);
        }
        let id = self.last_id.next().ok_or_else(|| invalid("there are no more names"))?;
        self.last_id = id;
        self.directory.write(id, &[&head, &entry.body]).map_err(AppendError::of)?;
        Ok((id, bytes))
    }

    fn count(&self, entry: &Entry, error: Option<&AppendError>) {
        let counter = match error {
            None => self.metrics.appended_rows(entry.header.why),
            Some(error) => self.metrics.refused_rows(error),
        };
        counter.increment(entry.header.rows as u64);
    }

    /// The oldest batch, of those for tables that `is_open`, that may be tried now. It stays until it is removed,
    /// so that the next call gives the same one, unless it was deferred.
    pub fn next(&mut self, now: Instant, is_open: impl Fn(&str) -> bool) -> Option<SpooledBatch> {
        loop {
            let open = self.books.iter_mut().filter(|(target, _)| is_open(target));
            let id = open.filter_map(|(_, book)| book.next(now)).min()?;
            match self.read(id) {
                Ok(entry) => return Some(SpooledBatch { id, entry }),
                Err(ReadError::Io(error)) if error.kind() != io::ErrorKind::NotFound => {
                    self.note_error(
                        id,
                        &error,
                        "A spooled batch cannot be read, trying again in a minute.",
                    );
                    self.defer(id, now + READ_PAUSE);
                }
                Err(error) => self.set_aside(id, &error),
            }
        }
    }

    /// When [`Self::next`] has a batch, if a table is `open_at` some time; `None` without batches.
    #[must_use]
    pub fn next_at(&self, now: Instant, open_at: impl Fn(&str) -> Instant) -> Option<Instant> {
        let next_at =
            |(target, book): (&String, &Book)| Some(book.next_at(now)?.max(open_at(target)));
        self.books.iter().filter_map(next_at).min()
    }

    /// Forgets a batch that has its outcome.
    pub fn remove(&mut self, id: BatchId) {
        let Some(removed) = self.forget(id) else { return };
        self.metrics.drained_rows.increment(removed.rows as u64);
        match self.directory.remove(id, Kind::Batch) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                self.kept_bytes += removed.bytes;
                self.note_error(
                    id,
                    &error,
                    "A batch cannot be removed from the spool, it would be sent again after a restart.",
                );
            }
            _ => {}
        }
        self.show();
    }

    /// Leaves a batch alone until then, so that it does not block younger ones. Forgotten at a restart.
    pub fn defer(&mut self, id: BatchId, until: Instant) {
        self.books.values_mut().for_each(|book| book.defer(id, until));
    }

    /// Rows of files that were set aside since the last call: they are lost.
    pub fn take_damaged_rows(&mut self) -> usize {
        std::mem::take(&mut self.damaged_rows)
    }

    /// Batches that wait.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.books.values().map(Book::batches).sum()
    }

    /// Their rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.books.values().map(Book::rows).sum()
    }

    /// Disk that the spool takes, files that were set aside included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.books.values().map(Book::bytes).sum::<u64>() + self.kept_bytes
    }

    fn book(&mut self, target: &str) -> &mut Book {
        self.books.entry(target.to_owned()).or_default()
    }

    fn forget(&mut self, id: BatchId) -> Option<Waiting> {
        self.books.values_mut().find_map(|book| book.remove(id))
    }

    /// A file that is there at the start.
    fn take_in(&mut self, file: &SpoolFile, waiting: &BTreeSet<BatchId>) {
        let (id, bytes) = (file.id, disk_bytes(file.bytes));
        self.last_id = self.last_id.max(id);
        match file.kind {
            Kind::Batch => {}
            Kind::Damaged => {
                self.kept_bytes += bytes;
                return;
            }
            // Nobody was told that it is kept.
            Kind::New => {
                if let Err(error) = self.directory.remove(id, Kind::New) {
                    self.kept_bytes += bytes;
                    self.note_error(
                        id,
                        &error,
                        "The half file beside this batch cannot be removed.",
                    );
                }
                return;
            }
        }
        match self.directory.open_batch(id) {
            // A crash came before that one was gone.
            Ok((_, Sealed { header: Header { replaces: Some(other), .. }, .. }))
                if waiting.contains(&other) =>
            {
                self.take_back(&[(id, bytes)]);
            }
            Ok((_, sealed)) => {
                self.book(&sealed.header.target).add(id, sealed.header.rows, bytes);
                if sealed.file_bytes != file.bytes {
                    self.set_aside(id, &ReadError::Damaged);
                }
            }
            Err(error @ (ReadError::Io(_) | ReadError::OtherVersion(_))) => {
                self.kept_bytes += bytes;
                self.note_error(id, &error, "A spooled batch cannot be read, left where it is.");
            }
            Err(error) => {
                self.book("").add(id, 0, bytes);
                self.set_aside(id, &error);
            }
        }
    }

    fn read(&self, id: BatchId) -> Result<Entry, ReadError> {
        let (mut file, sealed) = self.directory.open_batch(id)?;
        let body = sealed.read_body(&mut file)?;
        Ok(Entry { header: sealed.header, body })
    }

    /// Takes a batch out of the book that cannot be used, and its file out of the way.
    fn set_aside(&mut self, id: BatchId, why: &ReadError) {
        let Some(removed) = self.forget(id) else { return };
        self.damaged_rows += removed.rows;
        self.metrics.damaged_rows.increment(removed.rows as u64);
        self.metrics.damaged_batches.increment(1);
        let file = self.directory.path_of(id, Kind::Batch);
        match self.directory.set_aside(id) {
            Ok(set_aside) => {
                self.kept_bytes += removed.bytes;
                if let Some(held_back) = self.damage_log.pass(Instant::now()) {
                    error!(rows = removed.rows, file = %file.display(), error = %why,
                        set_aside = %set_aside.display(), held_back,
                        "A spooled batch cannot be used, its rows are lost.");
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                error!(rows = removed.rows, file = %file.display(),
                    "Somebody removed a spooled batch, its rows are lost.");
            }
            Err(error) => {
                self.kept_bytes += removed.bytes;
                self.note_error(id, &error, "A spooled batch can neither be used nor set aside.");
            }
        }
        self.show();
    }

    fn note_error(&mut self, id: BatchId, error: &dyn Display, message: &str) {
        self.metrics.errors.increment(1);
        if let Some(held_back) = self.error_log.pass(Instant::now()) {
            let file = self.directory.path_of(id, Kind::Batch);
            warn!(file = %file.display(), error = %error, held_back, "{message}");
        }
    }

    fn show(&self) {
        self.metrics.batches.set(as_f64(self.batches() as u64));
        self.metrics.rows.set(as_f64(self.rows() as u64));
        self.metrics.bytes.set(as_f64(self.bytes()));
    }
}

impl AppendError {
    fn of(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull(error),
            _ => Self::Io(error),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a disk has far less than 2^53 bytes")]
fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
