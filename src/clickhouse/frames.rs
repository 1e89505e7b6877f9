//! ClickHouse's compressed frames: always checksummed, so that a cut or changed body is an error.
//!
//! A frame is a CityHash128 (version 1.0.2) of what follows, a method byte, the compressed length
//! including these 9 bytes, the plain length, and the data. Sent with `decompress=1`.

use lz4_flex::block;

/// Plain bytes of one frame; the size that ClickHouse itself uses.
const FRAME_BYTES: usize = 1 << 20;

const CHECKSUM_BYTES: usize = 16;
const HEADER_BYTES: usize = 9;

/// How the data of a frame is stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Method {
    /// As it is.
    None = 0x02,
    /// LZ4 block.
    Lz4 = 0x82,
}

const METHOD_NONE: u8 = Method::None as u8;
const METHOD_LZ4: u8 = Method::Lz4 as u8;

impl Method {
    /// By `clickhouse.compress-requests`.
    #[must_use]
    pub const fn of(is_compressed: bool) -> Self {
        if is_compressed { Self::Lz4 } else { Self::None }
    }
}

/// `plain` as frames.
#[must_use]
pub(super) fn encode(plain: &[u8], method: Method) -> Vec<u8> {
    let mut out = Vec::with_capacity(match method {
        Method::None => plain.len() + plain.len() / FRAME_BYTES * 32 + 32,
        Method::Lz4 => plain.len() / 2,
    });
    for part in plain.chunks(FRAME_BYTES) {
        put_frame(part, method, &mut out);
    }
    out
}

fn put_frame(plain: &[u8], method: Method, out: &mut Vec<u8>) {
    let start = out.len();
    let data = start + CHECKSUM_BYTES + HEADER_BYTES;
    out.resize(data, 0);
    match method {
        Method::None => out.extend_from_slice(plain),
        Method::Lz4 => {
            out.resize(data + block::get_maximum_output_size(plain.len()), 0);
            // Invariant: the output has room for the worst case, the only error there is.
            let length = block::compress_into(plain, &mut out[data..]).unwrap_or(0);
            out.truncate(data + length);
        }
    }
    let header = start + CHECKSUM_BYTES;
    out[header] = method as u8;
    put_u32(out.len() - header, &mut out[header + 1..]);
    put_u32(plain.len(), &mut out[header + 5..]);
    let checksum = checksum_of(&out[header..]);
    out[start..header].copy_from_slice(&checksum);
}

/// The plain bytes of frames; `None` when a checksum or length is wrong.
pub(super) fn decode(mut frames: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    while !frames.is_empty() {
        let checksum = *frames.first_chunk::<CHECKSUM_BYTES>()?;
        let content = &frames[CHECKSUM_BYTES..];
        let header = *content.first_chunk::<HEADER_BYTES>()?;
        let [method, sizes @ ..] = header;
        let (sizes, _) = sizes.as_chunks::<4>();
        let [compressed, size] = sizes else { return None };
        let [compressed, size] = [u32::from_le_bytes(*compressed), u32::from_le_bytes(*size)];
        let (content, rest) = content.split_at_checked(usize::try_from(compressed).ok()?)?;
        let size = usize::try_from(size).ok().filter(|size| *size <= FRAME_BYTES)?;
        if checksum_of(content) != checksum {
            return None;
        }
        let data = content.get(HEADER_BYTES..)?;
        match method {
            METHOD_NONE if data.len() == size => plain.extend_from_slice(data),
            METHOD_LZ4 => plain.extend(block::decompress(data, size).ok()?),
            _ => return None,
        }
        frames = rest;
    }
    Some(plain)
}

/// The two halves of the hash, each little-endian, the high one first.
fn checksum_of(content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    cityhash_rs::cityhash_102_128(content).rotate_right(64).to_le_bytes()
}

fn put_u32(value: usize, out: &mut [u8]) {
    // Invariant: a frame is about FRAME_BYTES.
    let value = u32::try_from(value).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&value.to_le_bytes());
}
