//! A spooled batch as bytes: what it is, and the body of its insert.
//!
//! Two checksums: one seals the header, which has that of the body. So a start reads the headers only, and a
//! batch with a damaged body can still be counted in rows.
//!
//! The bytes: [`MAGIC`], version, length of the header, header, SHA-256 of all that, body. All numbers are
//! big-endian. A layout that differs gets another [`VERSION`].

use std::fmt;
use std::io::{self, Read};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::config::OnRowError;

use super::directory::BatchId;

/// How a file begins, whatever the version.
const MAGIC: &[u8; 16] = b"tidegate spool\r\n";

/// Of the layout.
const VERSION: u16 = 2;

/// Magic, version and the length of the header.
const START_BYTES: usize = MAGIC.len() + 4;

const CHECKSUM_BYTES: usize = 32;

/// A batch that waits on disk, or is to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// What it is.
    pub header: Header,
    /// The body of the insert, sent unchanged on every try.
    pub body: Bytes,
}

/// What is known of a batch without its body.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Header {
    /// Identifies the batch: the destination stores a token once.
    pub token: String,
    /// The table that it is for.
    pub target: String,
    /// Its rows.
    pub rows: usize,
    /// Place of the first one in the batch that it was cut from, 0 of a whole one.
    pub first_row: usize,
    /// What becomes of its rows when the destination refuses some.
    pub on_row_error: OnRowError,
    /// Why it is not delivered yet.
    pub why: Why,
    /// When the batch was made, milliseconds since 1970.
    pub created_ms: i64,
    /// The batch in whose stead it came, which [`super::Spool::replace`] sets. While that is there, this one was
    /// not tried.
    pub replaces: Option<BatchId>,
}

/// Why a batch was spooled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Why {
    /// The destination was away, or took too long.
    Outage,
    /// The destination refused it with this code, until somebody mends the cause.
    Refused {
        /// Of the server.
        code: u32,
    },
    /// The collector stopped before it was delivered.
    Shutdown,
}

/// Why a file is no batch.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is not what was written.
    #[error("the file is damaged")]
    Damaged,
    /// Another version of the program wrote it.
    #[error("the file has format {0}, this version of tidegate reads format {VERSION}")]
    OtherVersion(u16),
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A header that is what was written, with what it says of the body behind it.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) header: Header,
    /// Of the whole file.
    pub(super) file_bytes: u64,
    body_bytes: usize,
    body_checksum: [u8; CHECKSUM_BYTES],
}

/// Everything before the body; `None` when token and target are longer than 64 KiB, or the rows more than 2^32.
pub(super) fn seal(entry: &Entry) -> Option<Vec<u8>> {
    let header = entry.header.encode(&entry.body)?;
    let header_bytes = u16::try_from(header.len()).ok()?;
    let mut bytes =
        [MAGIC, &VERSION.to_be_bytes()[..], &header_bytes.to_be_bytes(), &header].concat();
    let checksum = Sha256::digest(&bytes);
    bytes.extend_from_slice(&checksum);
    Some(bytes)
}

impl Sealed {
    /// Reads a file up to its body.
    pub(super) fn read(file: &mut impl Read) -> Result<Self, ReadError> {
        let mut bytes = read_bytes(file, START_BYTES)?;
        let mut start = Cursor(&bytes);
        if start.array().as_ref() != Some(MAGIC) {
            return Err(ReadError::Damaged);
        }
        let version = start.u16().ok_or(ReadError::Damaged)?;
        if version != VERSION {
            return Err(ReadError::OtherVersion(version));
        }
        let header_bytes = usize::from(start.u16().ok_or(ReadError::Damaged)?);
        bytes.extend(read_bytes(file, header_bytes)?);
        let checksum = read_bytes(file, CHECKSUM_BYTES)?;
        if Sha256::digest(&bytes).as_slice() != checksum {
            return Err(ReadError::Damaged);
        }
        let header = bytes.get(START_BYTES..).and_then(|header| Self::decode(Cursor(header)));
        header.ok_or(ReadError::Damaged)
    }

    /// The body, from a file that was read up to it.
    pub(super) fn read_body(&self, file: &mut impl Read) -> Result<Bytes, ReadError> {
        let body = read_bytes(file, self.body_bytes)?;
        if Sha256::digest(&body).as_slice() != self.body_checksum {
            return Err(ReadError::Damaged);
        }
        let is_end = file.read(&mut [0])? == 0;
        if is_end { Ok(body.into()) } else { Err(ReadError::Damaged) }
    }

    fn decode(mut bytes: Cursor<'_>) -> Option<Self> {
        let header_bytes = bytes.0.len();
        let header = Header {
            token: bytes.text()?,
            target: bytes.text()?,
            rows: usize::try_from(bytes.u32()?).ok()?,
            first_row: usize::try_from(bytes.u32()?).ok()?,
            on_row_error: decode_on_row_error(bytes.u8()?)?,
            why: Why::decode(&mut bytes)?,
            created_ms: bytes.u64()?.cast_signed(),
            replaces: BatchId::of(bytes.u64()?),
        };
        let body_bytes = usize::try_from(bytes.u64()?).ok()?;
        let body_checksum = bytes.array()?;
        let before_body = START_BYTES + header_bytes + CHECKSUM_BYTES;
        let file_bytes = before_body.checked_add(body_bytes)? as u64;
        let is_end = bytes.0.is_empty();
        is_end.then_some(Self { header, file_bytes, body_bytes, body_checksum })
    }
}

impl Header {
    fn encode(&self, body: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for text in [&self.token, &self.target] {
            bytes.extend(u16::try_from(text.len()).ok()?.to_be_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes.extend(u32::try_from(self.rows).ok()?.to_be_bytes());
        bytes.extend(u32::try_from(self.first_row).ok()?.to_be_bytes());
        bytes.push(encode_on_row_error(self.on_row_error));
        bytes.extend(self.why.encode());
        bytes.extend(self.created_ms.to_be_bytes());
        bytes.extend(self.replaces.map_or(0, BatchId::number).to_be_bytes());
        bytes.extend((body.len() as u64).to_be_bytes());
        bytes.extend(Sha256::digest(body));
        Some(bytes)
    }
}

const fn encode_on_row_error(on_row_error: OnRowError) -> u8 {
    match on_row_error {
        OnRowError::Fail => 0,
        OnRowError::Quarantine => 1,
    }
}

const fn decode_on_row_error(byte: u8) -> Option<OnRowError> {
    match byte {
        0 => Some(OnRowError::Fail),
        1 => Some(OnRowError::Quarantine),
        _ => None,
    }
}

impl Why {
    /// Value of the label `reason`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Outage => "outage",
            Self::Refused { .. } => "refused",
            Self::Shutdown => "shutdown",
        }
    }

    /// A byte for the reason and four for the code.
    fn encode(self) -> [u8; 5] {
        let (tag, code) = match self {
            Self::Outage => (0, 0),
            Self::Refused { code } => (1, code),
            Self::Shutdown => (2, 0),
        };
        let [a, b, c, d] = code.to_be_bytes();
        [tag, a, b, c, d]
    }

    fn decode(bytes: &mut Cursor<'_>) -> Option<Self> {
        match (bytes.u8()?, bytes.u32()?) {
            (0, 0) => Some(Self::Outage),
            (1, code) => Some(Self::Refused { code }),
            (2, 0) => Some(Self::Shutdown),
            _ => None,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())?;
        if let Self::Refused { code } = self { write!(f, " {code}") } else { Ok(()) }
    }
}

/// Exactly so many bytes. No more memory is taken than the file has, whatever its header says.
fn read_bytes(file: &mut impl Read, bytes: usize) -> Result<Vec<u8>, ReadError> {
    /// More than nearly all batches, so that one read is enough.
    const FIRST_BYTES_MAX: usize = 16 << 20;
    let mut read = Vec::with_capacity(bytes.min(FIRST_BYTES_MAX));
    file.take(bytes as u64).read_to_end(&mut read)?;
    if read.len() < bytes { Err(ReadError::Damaged) } else { Ok(read) }
}

/// Reads from a header.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Its length and its bytes.
    fn text(&mut self) -> Option<String> {
        let length = usize::from(self.u16()?);
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests;
