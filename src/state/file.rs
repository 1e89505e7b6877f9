//! A file that is replaced whole, and set aside when it cannot be used.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// A file in a directory that need not exist.
#[derive(Clone, Debug)]
pub struct KeptFile {
    directory: PathBuf,
    name: &'static str,
}

impl KeptFile {
    /// The file `name` in `directory`.
    #[must_use]
    pub fn new(directory: &Path, name: &'static str) -> Self {
        Self { directory: directory.to_owned(), name }
    }

    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join(self.name)
    }

    /// What is in it. A file longer than `bytes_max` was not written by us, and is damaged when it is cut.
    ///
    /// # Errors
    ///
    /// It is not there or cannot be read.
    pub fn read(&self, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.path())?.take(bytes_max as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Replaces it: after a crash at any moment it is the old one or the new one. It grows as `NAME.new`; one
    /// that a crash left is overwritten.
    ///
    /// # Errors
    ///
    /// Of the disk; the old one stays.
    pub fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        let new = self.sibling("new");
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, self.path())?;
        File::open(&self.directory)?.sync_all()
    }

    /// Renames it to `NAME.damaged`, over an older one, and says where that is.
    ///
    /// # Errors
    ///
    /// Of the disk; it stays.
    pub fn set_aside(&self) -> io::Result<PathBuf> {
        let damaged = self.sibling("damaged");
        fs::rename(self.path(), &damaged)?;
        Ok(damaged)
    }

    fn sibling(&self, extension: &str) -> PathBuf {
        self.directory.join(format!("{}.{extension}", self.name))
    }
}
