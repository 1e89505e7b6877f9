//! Files of export messages without the headers of packets: what was in the datagrams, one behind the other.
//!
//! Captures in the literature of vendors are often such. Nothing in them says where a datagram ended, so each
//! message is taken for one, by the lengths that its protocol has.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use crate::capture::Datagram;
use crate::decode::Protocol;

/// Nobody collects more without the times and senders that a capture has.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A UDP payload cannot be longer.
const DATAGRAM_BYTES_MAX: usize = 65_535;

/// Why a file holds no messages.
#[derive(Debug, thiserror::Error)]
pub enum RawError {
    /// The system does not give it.
    #[error("cannot read {path}")]
    Read {
        /// The file asked for.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// It begins with no version of NetFlow, IPFIX or sFlow.
    #[error("{0} is neither a capture nor begins with an export message")]
    NoMessages(String),
    /// Longer than is read at once.
    #[error("{0} is longer than {FILE_BYTES_MAX} bytes")]
    TooLong(String),
}

/// The messages of a file, as datagrams that nobody knows the sender of; received when they were exported.
///
/// # Errors
///
/// When the file cannot be read, is too long, or does not begin with a message.
pub fn read_raw(path: &Path) -> Result<Vec<Datagram>, RawError> {
    let name = || path.display().to_string();
    let failed = |source| RawError::Read { path: name(), source };
    if std::fs::metadata(path).map_err(failed)?.len() > FILE_BYTES_MAX {
        return Err(RawError::TooLong(name()));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    if Protocol::of(&bytes).is_none() {
        return Err(RawError::NoMessages(name()));
    }
    Ok(split(&bytes).map(datagram).collect())
}

/// The messages, one after another. What cannot be told apart is the last one.
pub(super) fn split(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = message_bytes(bytes).filter(|length| (1..=bytes.len()).contains(length));
        let length = length.unwrap_or(bytes.len()).min(DATAGRAM_BYTES_MAX);
        let (message, behind) = bytes.split_at(length);
        bytes = behind;
        (!message.is_empty()).then_some(message)
    })
}

fn datagram(payload: &[u8]) -> Datagram {
    let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let export_seconds = match Protocol::of(payload) {
        Some(Protocol::Ipfix) => word(payload, 4),
        Some(Protocol::Sflow) | None => None,
        Some(_) => word(payload, 8),
    };
    Datagram {
        time_unix_ns: i64::from(export_seconds.unwrap_or(0)) * 1_000_000_000,
        source: nobody,
        destination: nobody,
        payload: payload.to_vec(),
    }
}

/// How long the message is that `bytes` begin with.
fn message_bytes(bytes: &[u8]) -> Option<usize> {
    let counted = |header: usize, record: usize| {
        half(bytes, 2).map(|count| header + usize::from(count) * record)
    };
    match Protocol::of(bytes)? {
        Protocol::NetflowV1 => counted(16, 52),
        Protocol::NetflowV5 => counted(24, 48),
        Protocol::NetflowV7 => counted(24, 52),
        Protocol::NetflowV9 => Some(netflow_v9_bytes(bytes)),
        Protocol::Ipfix => half(bytes, 2).map(usize::from).filter(|&length| length >= 16),
        Protocol::Sflow => sflow_bytes(bytes),
    }
}

/// Sets follow one another up to something that is none. The ids of sets from 2 to 255 are reserved (RFC 3954
/// section 5.2), so the version word of another message cannot be one.
fn netflow_v9_bytes(bytes: &[u8]) -> usize {
    let mut at = 20;
    while let (Some(id), Some(length)) = (half(bytes, at), half(bytes, at + 2)) {
        if (2..256).contains(&id) || length < 4 {
            break;
        }
        at += usize::from(length);
    }
    at
}

/// The samples that the header counts, each with its length (sflow_version_5.txt section 5).
fn sflow_bytes(bytes: &[u8]) -> Option<usize> {
    let mut at = if word(bytes, 4)? == 2 { 40 } else { 28 };
    for _ in 0..word(bytes, at - 4)? {
        at = at.checked_add(8)?.checked_add(usize::try_from(word(bytes, at + 4)?).ok()?)?;
    }
    Some(at)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|half| u16::from_be_bytes(*half))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}
