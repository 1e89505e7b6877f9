//! Who may ask: whoever has the token, when there is one.

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use subtle::ConstantTimeEq;

use crate::config::Secret;

/// Paths for probes, which have no token. They say no more than that the process is there.
const OPEN_PATHS: [&str; 2] = ["/livez", "/readyz"];

/// How to ask, RFC 6750 section 3.
pub(super) const CHALLENGE: &str = "Bearer realm=\"tidegate\"";

/// Says who may ask.
#[derive(Debug)]
pub(super) struct Access {
    token: Option<Secret>,
}

impl Access {
    /// Everybody may, without a token.
    pub(super) fn new(token: Option<Secret>) -> Self {
        Self { token }
    }

    /// Whether a request has what it needs.
    pub(super) fn is_granted(&self, path: &str, headers: &HeaderMap) -> bool {
        match &self.token {
            Some(token) if !OPEN_PATHS.contains(&path) => {
                bearer(headers).is_some_and(|shown| is_same(shown, token))
            }
            _ => true,
        }
    }
}

/// In a time that tells the length of the token and nothing of its text.
fn is_same(shown: &[u8], token: &Secret) -> bool {
    shown.ct_eq(token.expose().as_bytes()).into()
}

/// The token that a request has. The name of the scheme has no case, RFC 9110 section 11.1.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let text = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = text.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_opens_what_is_not_for_probes() {
        let secret = Secret::resolve("abcdefgh-12345678", |_| None).unwrap();
        let access = Access::new(Some(secret));
        let with = |text: &str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, text.parse().unwrap())]);
            access.is_granted("/metrics", &headers)
        };
        assert!(with("Bearer abcdefgh-12345678"));
        assert!(with("bearer   abcdefgh-12345678"));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "abcdefgh-12345678",
            "Basic abcdefgh-12345678",
            "Bearer abcdefgh-1234567",
            "Bearer abcdefgh-123456789",
            "Bearer abcdefgh-12345679",
        ] {
            assert!(!with(wrong), "{wrong}");
        }
        let none = HeaderMap::new();
        assert!(!access.is_granted("/api/v1/status", &none) && !access.is_granted("/", &none));
        assert!(access.is_granted("/livez", &none) && access.is_granted("/readyz", &none));
        assert!(!access.is_granted("/livez/", &none));
        assert!(Access::new(None).is_granted("/metrics", &none));
    }
}
