//! Certificates and keys in PEM files (RFC 7468).

use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A file does not have what it should.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is not there, or not for us.
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// It is no PEM file.
    #[error("{} is not PEM: {error}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where it stops to be one.
        error: pem::Error,
    },
    /// It has something else.
    #[error("{} has no {what} in PEM", path.display())]
    Without {
        /// The file.
        path: PathBuf,
        /// What it should have.
        what: &'static str,
    },
}

/// The certificates of a file, one at least.
///
/// # Errors
///
/// It has none.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if found.is_empty() => Err(without(path, "certificate")),
        Ok(found) => Ok(found),
        Err(error) => Err(FileError::Damaged { path: path.to_owned(), error }),
    }
}

/// The first private key of a file.
///
/// # Errors
///
/// It has none, or an encrypted one, for which nobody is asked.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    match PrivateKeyDer::from_pem_slice(&read(path)?) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) => Err(without(path, "private key (without a passphrase)")),
        Err(error) => Err(FileError::Damaged { path: path.to_owned(), error }),
    }
}

fn without(path: &Path, what: &'static str) -> FileError {
    FileError::Without { path: path.to_owned(), what }
}

fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    std::fs::read(path).map_err(|error| FileError::Unreadable { path: path.to_owned(), error })
}
