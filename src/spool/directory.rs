//! The files of the spool: their names, and how they come and go so that a crash at any moment leaves whole
//! ones.
//!
//! A batch grows as `ID.new`, is brought to the disk and renamed to `ID.batch`. One that turns out damaged
//! becomes `ID.damaged`. Anything else in the directory is left alone.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::OpenError;
use super::format::{ReadError, Sealed};

/// Locked by the collector that owns the directory. The system unlocks it when the process ends, however
/// that happens.
const LOCK_NAME: &str = "lock";

/// Digits of an id in a name: files sort by age in any listing.
const ID_DIGITS: usize = 16;

/// The largest number with that many digits.
const ID_MAX: u64 = 9_999_999_999_999_999;

/// What a file takes on disk is counted in blocks, so that the limit in bytes limits the number of files too.
const BLOCK_BYTES: u64 = 4_096;

/// The name of a batch: ids grow with age, also over restarts.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct BatchId(u64);

/// What the extension of a file says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// Grows, or was left by a crash.
    New,
    /// Waits.
    Batch,
    /// Was set aside.
    Damaged,
}

/// A file of the spool.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpoolFile {
    pub(super) id: BatchId,
    pub(super) kind: Kind,
    /// Its length.
    pub(super) bytes: u64,
}

/// A directory that no other collector uses.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    fsync: bool,
    _lock: File,
}

impl Directory {
    /// Makes it if need be, and locks it.
    pub(super) fn open(path: &Path, fsync: bool) -> Result<Self, OpenError> {
        let unusable = |source| OpenError::Unusable { directory: path.to_owned(), source };
        fs::create_dir_all(path).map_err(unusable)?;
        let mut options = File::options();
        let lock = options.write(true).create(true).truncate(false).open(path.join(LOCK_NAME));
        let lock = lock.map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), fsync, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => Err(unusable(source)),
        }
    }

    pub(super) fn files(&self) -> io::Result<Vec<SpoolFile>> {
        list(&self.path)
    }

    /// Writes a batch of `parts`. When this fails there is none.
    pub(super) fn write(&self, id: BatchId, parts: &[&[u8]]) -> io::Result<()> {
        let (new, batch) = (self.path_of(id, Kind::New), self.path_of(id, Kind::Batch));
        let written = self.write_and_rename(&new, &batch, parts);
        if written.is_err() {
            // What cannot be removed now is at the next start, or is sent with the token that it has.
            drop(fs::remove_file(&new));
            drop(fs::remove_file(&batch));
        }
        written
    }

    fn write_and_rename(&self, new: &Path, batch: &Path, parts: &[&[u8]]) -> io::Result<()> {
        let mut file = File::create(new)?;
        for part in parts {
            file.write_all(part)?;
        }
        if self.fsync {
            file.sync_all()?;
        }
        fs::rename(new, batch)?;
        // Without this the name may be gone after a power cut, and the batch with it.
        self.sync()
    }

    /// Opens a batch and reads its header.
    pub(super) fn open_batch(&self, id: BatchId) -> Result<(File, Sealed), ReadError> {
        open(&self.path, id, Kind::Batch)
    }

    /// Not brought to the disk: after a power cut the batch may be back and is sent again, with its token.
    pub(super) fn remove(&self, id: BatchId, kind: Kind) -> io::Result<()> {
        fs::remove_file(self.path_of(id, kind))
    }

    /// Brings the names that are there to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        if self.fsync { File::open(&self.path)?.sync_all() } else { Ok(()) }
    }

    /// Takes a batch out of the way, and says where to.
    pub(super) fn set_aside(&self, id: BatchId) -> io::Result<PathBuf> {
        let damaged = self.path_of(id, Kind::Damaged);
        fs::rename(self.path_of(id, Kind::Batch), &damaged)?;
        Ok(damaged)
    }

    pub(super) fn path_of(&self, id: BatchId, kind: Kind) -> PathBuf {
        self.path.join(file_name(id, kind))
    }
}

/// The files of the spool at `path`, the oldest first. Takes no lock, so some of them may be gone.
pub(super) fn list(path: &Path) -> io::Result<Vec<SpoolFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let Some((id, kind)) = entry.file_name().to_str().and_then(parse_name) else { continue };
        match entry.metadata() {
            Ok(metadata) if metadata.is_file() => {
                files.push(SpoolFile { id, kind, bytes: metadata.len() });
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    files.sort_by_key(|file| file.id);
    Ok(files)
}

/// Opens a file and reads its header.
pub(super) fn open(path: &Path, id: BatchId, kind: Kind) -> Result<(File, Sealed), ReadError> {
    let mut file = File::open(path.join(file_name(id, kind)))?;
    let sealed = Sealed::read(&mut file)?;
    Ok((file, sealed))
}

pub(super) fn file_name(id: BatchId, kind: Kind) -> String {
    format!("{id}.{}", kind.extension())
}

fn parse_name(name: &str) -> Option<(BatchId, Kind)> {
    let (digits, extension) = name.split_once('.')?;
    let is_id = digits.len() == ID_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    let kind = [Kind::New, Kind::Batch, Kind::Damaged]
        .into_iter()
        .find(|kind| kind.extension() == extension)?;
    if is_id { Some((BatchId(digits.parse().ok()?), kind)) } else { None }
}

/// What a file of this length takes on disk; an empty one takes something too.
pub(super) fn disk_bytes(file_bytes: u64) -> u64 {
    file_bytes.max(1).div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES)
}

impl BatchId {
    /// Before the first.
    pub(super) const NONE: Self = Self(0);

    /// The id with this number; 0 is none.
    pub(super) const fn of(number: u64) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    pub(super) const fn number(self) -> u64 {
        self.0
    }

    /// The one behind it, unless it is the last.
    pub(super) fn next(self) -> Option<Self> {
        (self.0 < ID_MAX).then_some(Self(self.0 + 1))
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0ID_DIGITS$}", self.0)
    }
}

impl Kind {
    const fn extension(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Batch => "batch",
            Self::Damaged => "damaged",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_sixteen_digits_and_what_it_is() {
        for (name, number, kind) in [
            ("0000000000000001.batch", 1, Kind::Batch),
            ("0000000000000001.new", 1, Kind::New),
            ("9999999999999999.damaged", ID_MAX, Kind::Damaged),
        ] {
            assert_eq!(parse_name(name), Some((BatchId(number), kind)));
            assert_eq!(file_name(BatchId(number), kind), name);
        }
        for other in ["lock", "1.batch", "000000000000000+.new", "0000000000000001.batch.old", ""] {
            assert_eq!(parse_name(other), None, "{other}");
        }
        assert_eq!(BatchId(ID_MAX - 1).next(), Some(BatchId(ID_MAX)));
        assert_eq!(BatchId(ID_MAX).next(), None);
    }

    #[test]
    fn a_file_takes_whole_blocks() {
        assert_eq!([0, 1, 4_096, 4_097].map(disk_bytes), [4_096, 4_096, 4_096, 8_192]);
    }
}
