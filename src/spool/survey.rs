//! The spool as another process sees it: without the lock, while a collector may be writing and draining.

use std::io;
use std::path::Path;

use super::directory::{BatchId, Kind, file_name, list, open};
use super::format::{Header, ReadError};

/// How much of each file is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Depth {
    /// What the batch is.
    Header,
    /// Also whether its body is what was written.
    Body,
}

/// A file of the spool.
#[derive(Debug)]
pub struct Surveyed {
    /// Of the batch.
    pub id: BatchId,
    /// In the directory.
    pub file_name: String,
    /// Its length.
    pub bytes: u64,
    /// The collector set it aside.
    pub is_set_aside: bool,
    /// What it is, if that can be read.
    pub header: Option<Header>,
    /// Why it is no batch, if it is none.
    pub error: Option<ReadError>,
}

/// The batches in `directory`, the oldest first, and the files that were set aside. What a collector removes
/// meanwhile, and what it is writing, is left out.
///
/// # Errors
///
/// The directory cannot be read.
pub fn survey(
    directory: &Path,
    depth: Depth,
) -> io::Result<impl Iterator<Item = Surveyed> + use<'_>> {
    let files = list(directory)?.into_iter().filter(|file| file.kind != Kind::New);
    Ok(files.filter_map(move |file| {
        let (header, error) = match open(directory, file.id, file.kind) {
            Err(error) => (None, Some(error)),
            Ok((_, sealed)) if sealed.file_bytes != file.bytes => {
                (Some(sealed.header), Some(ReadError::Damaged))
            }
            Ok((mut content, sealed)) if depth == Depth::Body => {
                let error = sealed.read_body(&mut content).err();
                (Some(sealed.header), error)
            }
            Ok((_, sealed)) => (Some(sealed.header), None),
        };
        let is_gone =
            matches!(&error, Some(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound);
        (!is_gone).then(|| Surveyed {
            id: file.id,
            file_name: file_name(file.id, file.kind),
            bytes: file.bytes,
            is_set_aside: file.kind == Kind::Damaged,
            header,
            error,
        })
    }))
}
