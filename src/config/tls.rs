//! `[clickhouse.tls]` and `[management.tls]`: names of PEM files, which are read with the configuration.

use std::path::{Path, PathBuf};

use rustls::pki_types::ServerName;

use crate::tls::{
    ClientTls, FileError, Identity, ServerTls, SetupError, Trust, certificates, private_key,
};

use super::section::Section;

/// A key that names a file.
struct Named<T> {
    path: Option<PathBuf>,
    /// What is in it; none too when it cannot be used, which was said then.
    content: Option<T>,
}

/// `[clickhouse.tls]`; none when no endpoint is `https`.
pub(super) fn client(section: Section<'_>, is_used: bool) -> Option<ClientTls> {
    let authorities = named(&section, "ca-file", certificates);
    let (_, identity) = identity(&section);
    let server_name = section.parsed("server-name", None, "a host name, or \"\"", |text| {
        if text.is_empty() {
            return Some(None);
        }
        ServerName::try_from(text.to_owned()).ok().map(Some)
    });
    let keys = ["ca-file", "certificate-file", "key-file", "server-name"];
    for key in keys.into_iter().filter(|_| !is_used) {
        if !section.peek(key).is_empty() {
            section.mistake(key, "goes with an endpoint that is https:// only");
        }
    }
    let trust = match authorities {
        Named { path: None, .. } => Trust::System,
        Named { content, .. } => Trust::Authorities(content.unwrap_or_default()),
    };
    let tls = if is_used { Some(ClientTls::new(trust, identity, server_name)) } else { None };
    let tls = tls?.map_err(|error| {
        let (key, hint) = match error {
            SetupError::Identity(_) => ("key-file", ""),
            SetupError::NoSystemRoots(_) => ("ca-file", "is needed: "),
            SetupError::Authority(_) | SetupError::Other(_) => ("ca-file", ""),
        };
        section.mistake(key, format!("{hint}{error}"));
    });
    section.finish();
    tls.ok()
}

/// `[management.tls]`; none without a certificate.
pub(super) fn server(section: Section<'_>) -> Option<ServerTls> {
    let ((certificate_file, key_file), identity) = identity(&section);
    let tls = certificate_file.zip(key_file).zip(identity).and_then(|(files, identity)| {
        ServerTls::new(files.0, files.1, identity)
            .map_err(|error| section.mistake("key-file", error))
            .ok()
    });
    section.finish();
    tls
}

/// `certificate-file` and `key-file`, both or none.
fn identity(section: &Section<'_>) -> ((Option<PathBuf>, Option<PathBuf>), Option<Identity>) {
    let certificate = named(section, "certificate-file", certificates);
    let key = named(section, "key-file", private_key);
    match (&certificate.path, &key.path) {
        (Some(_), None) => section.mistake("certificate-file", "goes with key-file only"),
        (None, Some(_)) => section.mistake("key-file", "goes with certificate-file only"),
        _ => {}
    }
    if let Some(path) = &key.path {
        section.warn_if_open("key-file", path);
    }
    let identity = certificate.content.zip(key.content);
    let identity = identity.map(|(chain, key)| Identity { chain, key });
    ((certificate.path, key.path), identity)
}

fn named<T>(
    section: &Section<'_>,
    key: &str,
    read: impl Fn(&Path) -> Result<T, FileError>,
) -> Named<T> {
    let path = section.text(key, "");
    if path.is_empty() {
        return Named { path: None, content: None };
    }
    let path = PathBuf::from(path);
    let content = read(&path).map_err(|error| section.mistake(key, error)).ok();
    Named { path: Some(path), content }
}
