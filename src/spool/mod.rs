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

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use crate::config::SpoolConfig;
use crate::telemetry::{Metrics, RateLimit};

use book::Book;
use directory::{Directory, Kind, SpoolFile, disk_bytes};
use metrics::SpoolMetrics;

pub use directory::BatchId;
pub use format::{Entry, Header, ReadError, Why};
pub use pace::Pace;
pub use survey::{Depth, Surveyed, survey};

/// How long a file is left alone that could not be read.
const READ_PAUSE: Duration = Duration::from_secs(60);

/// What repeats, as damage does after a power cut without `fsync`, is logged once in this time.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The batches on disk, owned by one thread of one collector.
#[derive(Debug)]
pub struct Spool {
    directory: Directory,
    max_bytes: u64,
    book: Book,
    /// Of the youngest file, whatever became of it.
    last_id: BatchId,
    /// On disk, of files that are not in the book: damaged ones, and those that cannot be removed.
    kept_bytes: u64,
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
            book: Book::default(),
            last_id: BatchId::NONE,
            kept_bytes: 0,
            metrics,
            damage_log: RateLimit::new(LOG_INTERVAL),
            error_log: RateLimit::new(LOG_INTERVAL),
        };
        for file in &files {
            spool.take_in(file);
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
        let rows = entry.header.rows;
        let appended = self.try_append(entry);
        match &appended {
            Ok(_) => self.metrics.appended_rows(entry.header.why).increment(rows as u64),
            Err(error) => self.metrics.refused_rows(error).increment(rows as u64),
        }
        self.show();
        appended
    }

    fn try_append(&mut self, entry: &Entry) -> Result<BatchId, AppendError> {
        let invalid = |why| AppendError::Io(io::Error::new(io::ErrorKind::InvalidInput, why));
        let head = format::seal(entry).ok_or_else(|| invalid("the header is too long"))?;
        let bytes = disk_bytes((head.len() + entry.body.len()) as u64);
        if bytes > self.max_bytes.saturating_sub(self.bytes()) {
            return Err(AppendError::MaxSize);
        }
        let id = self.last_id.next().ok_or_else(|| invalid("there are no more names"))?;
        self.last_id = id;
        self.directory.write(id, &[&head, &entry.body]).map_err(AppendError::of)?;
        self.book.add(id, entry.header.rows, bytes);
        Ok(id)
    }

    /// The oldest batch that may be tried now. It stays until it is removed, so that the next call gives the
    /// same one, unless it was deferred.
    pub fn next(&mut self, now: Instant) -> Option<SpooledBatch> {
        while let Some(id) = self.book.next(now) {
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
        None
    }

    /// When [`Self::next`] has a batch; `None` without batches.
    #[must_use]
    pub fn next_at(&self, now: Instant) -> Option<Instant> {
        self.book.next_at(now)
    }

    /// Forgets a batch that has its outcome.
    pub fn remove(&mut self, id: BatchId) {
        let Some(removed) = self.book.remove(id) else { return };
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
        self.book.defer(id, until);
    }

    /// Batches that wait.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.book.batches()
    }

    /// Their rows.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.book.rows()
    }

    /// Disk that the spool takes, files that were set aside included.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.book.bytes() + self.kept_bytes
    }

    /// A file that is there at the start.
    fn take_in(&mut self, file: &SpoolFile) {
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
            Ok((_, sealed)) => {
                self.book.add(id, sealed.header.rows, bytes);
                if sealed.file_bytes != file.bytes {
                    self.set_aside(id, &ReadError::Damaged);
                }
            }
            Err(ReadError::Io(error)) => {
                self.kept_bytes += bytes;
                self.note_error(
                    id,
                    &error,
                    "A spooled batch cannot be read, left for the next start.",
                );
            }
            Err(error) => {
                self.book.add(id, 0, bytes);
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
        let Some(removed) = self.book.remove(id) else { return };
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

    fn note_error(&mut self, id: BatchId, error: &io::Error, message: &str) {
        self.metrics.errors.increment(1);
        if let Some(held_back) = self.error_log.pass(Instant::now()) {
            let file = self.directory.path_of(id, Kind::Batch);
            warn!(file = %file.display(), %error, held_back, "{message}");
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
