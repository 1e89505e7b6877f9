//! `[management]`: where the management server listens, and who may ask it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::tls::ServerTls;

use super::secret::Secret;
use super::section::Section;
use super::tls;

/// `[management]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ManagementConfig {
    /// Address of the HTTP server.
    pub listen: SocketAddr,
    /// What requests must have, but for `/livez` and `/readyz`.
    pub token: Option<Secret>,
    /// `[management.tls]`: its certificate, if it speaks TLS.
    pub tls: Option<Arc<ServerTls>>,
}

/// Shorter ones can be guessed.
const TOKEN_CHARACTERS_MIN: usize = 16;

impl ManagementConfig {
    /// What an operator will hardly want.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let why = match (&self.token, &self.tls) {
            _ if self.listen.ip().is_loopback() => return None,
            (Some(_), Some(_)) => return None,
            (None, _) => "whoever reaches it can ask it: set management.token",
            (Some(_), None) => "the token passes the network in the clear: set [management.tls]",
        };
        Some(format!("management.listen: {} is not of loopback, and {why}", self.listen))
    }

    /// The beginning of its URLs.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

/// Reads the section.
pub(super) fn read(section: Section<'_>) -> ManagementConfig {
    let default = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
    let expected = "an address and a port, \"127.0.0.1:8080\"";
    let config = ManagementConfig {
        listen: section.parsed("listen", default, expected, |text| text.parse().ok()),
        token: token(&section),
        tls: tls::server(section.section("tls")).map(Arc::new),
    };
    section.finish();
    config
}

fn token(section: &Section<'_>) -> Option<Secret> {
    let token = section.secret("token");
    if section.peek("token").is_empty() {
        return None;
    }
    if !is_token(token.expose()) {
        section.mistake(
            "token",
            format!(
                "must have {TOKEN_CHARACTERS_MIN} characters at least, letters, digits and -._~+/="
            ),
        );
    }
    Some(token)
}

/// What a header can have, RFC 6750 section 2.1.
fn is_token(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    text.len() >= TOKEN_CHARACTERS_MIN && text.bytes().all(is_allowed)
}
