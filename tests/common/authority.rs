//! A certificate authority of a test, and what it signs, as files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use tidegate::tls::{certificates, private_key};

/// Where all servers of the tests are.
pub const LOOPBACK: &str = "127.0.0.1";

pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: tempfile::TempDir,
}

/// A certificate and its key.
#[derive(Clone)]
pub struct Signed {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// When a certificate is valid.
#[derive(Clone, Copy)]
pub enum Validity {
    Now,
    Before,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(directory.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, directory }
    }

    /// Its own certificate.
    pub fn file(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// A certificate for this host, under a name of its own.
    pub fn sign(&self, name: &str, host: &str, validity: Validity) -> Signed {
        let signed = Signed {
            certificate: self.directory.path().join(format!("{name}.pem")),
            key: self.directory.path().join(format!("{name}.key")),
        };
        self.sign_into(&signed, host, validity);
        signed
    }

    /// The same into files that are there.
    pub fn sign_into(&self, signed: &Signed, host: &str, validity: Validity) {
        let mut params = CertificateParams::new([host.to_owned()]).unwrap();
        if matches!(validity, Validity::Before) {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(&signed.certificate, certificate.pem()).unwrap();
        std::fs::write(&signed.key, key.serialize_pem()).unwrap();
    }
}

/// A server with this certificate, for clients with one of these authorities, or for all.
pub fn server(signed: &Signed, clients: Option<&Path>) -> Arc<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(certificates(authorities).unwrap());
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.unwrap())
        }
    };
    let (chain, key) = (certificates(&signed.certificate), private_key(&signed.key));
    Arc::new(builder.with_single_cert(chain.unwrap(), key.unwrap()).unwrap())
}
