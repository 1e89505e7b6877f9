//! The side that listens: its certificate, which is renewed while the process runs.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;

use super::client::Identity;
use super::files::{FileError, certificates, private_key};
use super::{SetupError, provider};

/// The files are looked at so often at most. Certificates are renewed weeks before they end.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// A certificate and its key, as they are in their files or as they were when both last went together.
pub struct ServerTls {
    certificate_file: PathBuf,
    key_file: PathBuf,
    current: ArcSwap<Loaded>,
    looked: Mutex<Instant>,
}

struct Loaded {
    certificate: CertificateDer<'static>,
    config: Arc<ServerConfig>,
}

/// The files cannot be used; the certificate of before stays.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// One of them is not what it should be.
    #[error(transparent)]
    File(#[from] FileError),
    /// They do not go together, as while one of them is renewed.
    #[error("{}: {error}", key_file.display())]
    Setup {
        /// The file of the key.
        key_file: PathBuf,
        /// Why not.
        error: SetupError,
    },
}

impl ServerTls {
    /// With what was read from both files just now.
    ///
    /// # Errors
    ///
    /// The key is not that of the certificate.
    pub fn new(
        certificate_file: PathBuf,
        key_file: PathBuf,
        identity: Identity,
    ) -> Result<Self, SetupError> {
        Ok(Self {
            certificate_file,
            key_file,
            current: ArcSwap::from_pointee(Loaded::new(identity)?),
            looked: Mutex::new(Instant::now()),
        })
    }

    /// For rustls.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().config)
    }

    /// The certificate that is shown now.
    #[must_use]
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.current.load().certificate.clone()
    }

    /// Whether the files are to be looked at; then not again for [`LOOK_INTERVAL`].
    #[must_use]
    pub fn is_look_due(&self, now: Instant) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = now.saturating_duration_since(*looked) >= LOOK_INTERVAL;
        if is_due {
            *looked = now;
        }
        is_due
    }

    /// Reads both files; `true` when there is another certificate.
    ///
    /// # Errors
    ///
    /// They cannot be used, and nothing has changed.
    pub fn reload(&self) -> Result<bool, ReloadError> {
        let chain = certificates(&self.certificate_file)?;
        let key = private_key(&self.key_file)?;
        let loaded = Loaded::new(Identity { chain, key })
            .map_err(|error| ReloadError::Setup { key_file: self.key_file.clone(), error })?;
        let is_new = loaded.certificate != self.current.load().certificate;
        self.current.store(Arc::new(loaded));
        Ok(is_new)
    }
}

impl Loaded {
    fn new(identity: Identity) -> Result<Self, SetupError> {
        let Identity { chain, key } = identity;
        let certificate = chain.first().cloned().unwrap_or_else(|| Vec::new().into());
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(SetupError::Identity)?;
        Ok(Self { certificate, config: Arc::new(config) })
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls")
            .field("certificate_file", &self.certificate_file)
            .field("key_file", &self.key_file)
            .finish_non_exhaustive()
    }
}

/// The same files.
impl PartialEq for ServerTls {
    fn eq(&self, other: &Self) -> bool {
        (&self.certificate_file, &self.key_file) == (&other.certificate_file, &other.key_file)
    }
}

impl Eq for ServerTls {}
