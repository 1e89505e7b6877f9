//! TLS, on both sides: certificates from files, what is trusted, and what went wrong in plain words.
//!
//! rustls with ring. Versions 1.2 and 1.3; older ones are not spoken.

mod client;
mod explain;
mod files;
mod pinned;
mod server;

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};

pub use client::{ClientTls, Identity, Trust};
pub use explain::{explain, is_of_certificate, of_io, within};
pub use files::{FileError, certificates, private_key};
pub use server::{LOOK_INTERVAL, ReloadError, ServerTls};

/// TLS cannot be set up with what was given.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The system has no file of authorities that is in a usual place.
    #[error("the system has no authorities to trust{}", first_of(.0))]
    NoSystemRoots(Vec<rustls_native_certs::Error>),
    /// It is a certificate, and not one of an authority.
    #[error("cannot be used as an authority: {0}")]
    Authority(#[source] rustls::Error),
    /// Above all a key of another certificate.
    #[error("does not go with the certificate: {0}")]
    Identity(#[source] rustls::Error),
    /// Nothing that a user can do.
    #[error("TLS cannot be set up: {0}")]
    Other(#[from] rustls::Error),
}

fn first_of(errors: &[rustls_native_certs::Error]) -> String {
    errors.first().map_or_else(String::new, |error| format!(": {error}"))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
