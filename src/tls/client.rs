//! The side that connects: whom it trusts, and what it shows of itself.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::pinned::Pinned;
use super::{SetupError, provider};

/// Whose certificates are believed.
#[derive(Debug)]
pub enum Trust {
    /// Those of the authorities that the system trusts.
    System,
    /// Those of these authorities, and of no others.
    Authorities(Vec<CertificateDer<'static>>),
    /// This certificate only.
    Exactly(CertificateDer<'static>),
}

/// A certificate with those that lead to its authority, and its key.
#[derive(Debug)]
pub struct Identity {
    /// The own one first.
    pub chain: Vec<CertificateDer<'static>>,
    /// Of the first.
    pub key: PrivateKeyDer<'static>,
}

/// How to connect with TLS.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

impl ClientTls {
    /// `server_name` is what servers must be, in the stead of what they are called by.
    ///
    /// # Errors
    ///
    /// There is nobody to trust, or the identity is not one.
    pub fn new(
        trust: Trust,
        identity: Option<Identity>,
        server_name: Option<ServerName<'static>>,
    ) -> Result<Self, SetupError> {
        let provider = provider();
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let config = match trust {
            Trust::System => config.with_root_certificates(of_system()?),
            Trust::Authorities(authorities) => config.with_root_certificates(these(authorities)?),
            Trust::Exactly(certificate) => {
                let pinned = Pinned { certificate, provider };
                config.dangerous().with_custom_certificate_verifier(Arc::new(pinned))
            }
        };
        let config = match identity {
            None => config.with_no_client_auth(),
            Some(Identity { chain, key }) => {
                config.with_client_auth_cert(chain, key).map_err(SetupError::Identity)?
            }
        };
        Ok(Self { config: Arc::new(config), server_name })
    }

    /// For rustls.
    #[must_use]
    pub fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// What servers must be, whatever they are called by.
    #[must_use]
    pub fn server_name(&self) -> Option<&ServerName<'static>> {
        self.server_name.as_ref()
    }
}

fn these(authorities: Vec<CertificateDer<'static>>) -> Result<RootCertStore, SetupError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(SetupError::Authority)?;
    }
    Ok(roots)
}

/// Systems have some that nobody can read; those are left out.
fn of_system() -> Result<RootCertStore, SetupError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 { Err(SetupError::NoSystemRoots(found.errors)) } else { Ok(roots) }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// What was read once is itself only.
impl PartialEq for ClientTls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
    }
}

impl Eq for ClientTls {}
