//! What the servers said, as far as it matters here.

use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData};

/// Bytes of a name: 255 on the wire (RFC 1035 section 3.1) are 253 as text.
const NAME_BYTES_MAX: usize = 253;

/// The end of a question.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Answer {
    /// The address has this name.
    Found(Arc<str>, Duration),
    /// It has none: NXDOMAIN or no PTR record. The TTL is that of RFC 2308 section 5; without SOA there is none.
    NoName(Option<Duration>),
    /// It has one that is none.
    Bad(Duration),
    /// The server says that it could not, or what came cannot be read.
    Failed,
    /// Nothing came in time.
    Silent,
}

impl Answer {
    pub(super) fn of(result: Result<Lookup, NetError>) -> Self {
        match result {
            Ok(lookup) => Self::found(&lookup),
            Err(NetError::Dns(DnsError::NoRecordsFound(none))) => match none.response_code {
                ResponseCode::NXDomain | ResponseCode::NoError => {
                    Self::NoName(none.negative_ttl.map(seconds))
                }
                _ => Self::Failed,
            },
            Err(NetError::Timeout | NetError::NoConnections | NetError::Io(_)) => Self::Silent,
            Err(_) => Self::Failed,
        }
    }

    /// The first PTR record; aliases before it (RFC 2317) are stepped over.
    fn found(lookup: &Lookup) -> Self {
        let pointers = lookup.answers().iter().filter_map(|record| match &record.data {
            RData::PTR(name) => Some((&name.0, seconds(record.ttl))),
            _ => None,
        });
        let Some((name, ttl)) = pointers.into_iter().next() else { return Self::NoName(None) };
        host_name(name).map_or(Self::Bad(ttl), |name| Self::Found(name, ttl))
    }
}

fn seconds(ttl: u32) -> Duration {
    Duration::from_secs(ttl.into())
}

/// A name as columns have it: lower case, without the dot of the root. A label may hold any bytes on the wire; what is
/// not printable, or a dot within a label, would make a name look like another one.
fn host_name(name: &Name) -> Option<Arc<str>> {
    let mut text = String::with_capacity(NAME_BYTES_MAX);
    for label in name.iter() {
        if !text.is_empty() {
            text.push('.');
        }
        for &byte in label {
            if !byte.is_ascii_graphic() || byte == b'.' {
                return None;
            }
            text.push(char::from(byte.to_ascii_lowercase()));
        }
    }
    (1..=NAME_BYTES_MAX).contains(&text.len()).then(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_labels(labels: &[&[u8]]) -> Option<Arc<str>> {
        host_name(&Name::from_labels(labels.iter().copied()).expect("a name"))
    }

    #[test]
    fn names_are_printable_or_none() {
        assert_eq!(of_labels(&[b"WWW", b"Example", b"net"]).as_deref(), Some("www.example.net"));
        assert_eq!(of_labels(&[b"_dmarc-1", b"net"]).as_deref(), Some("_dmarc-1.net"));
        for label in [&b"a.b"[..], b"a b", b"\x00", b"\x7f", b"\xc3\xa4", b"\n"] {
            assert_eq!(of_labels(&[label, b"net"]), None, "{label:?}");
        }
        assert_eq!(host_name(&Name::root()), None);
    }
}
