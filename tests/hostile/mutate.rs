//! What becomes of a datagram on its way to a fuzzed decoder.

use fastrand::Rng;

/// No UDP payload is longer.
const DATAGRAM_BYTES_MAX: usize = 65_507;

/// Repetitions stop here, so that most inputs stay near the size that exporters send.
const GROWN_BYTES_MAX: usize = 4_096;

/// Values that decide something: no, one and two records, header lengths, the ids of sets and the first of
/// templates, the length of variable-length fields.
const WORDS: [u16; 18] =
    [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 16, 20, 255, 256, 257, 0x7fff, 0x8000, 0xffff];

/// Changes `bytes` at one to four places; `other` is a datagram to take parts of.
pub fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..rng.u8(1..=4) {
        change(rng, bytes, other);
        bytes.truncate(DATAGRAM_BYTES_MAX);
    }
    // Else hardly any IPFIX message of another length would be read.
    if bytes.starts_with(&[0, 10]) && bytes.len() >= 4 && rng.u8(..) < 200 {
        let length = u16::try_from(bytes.len()).unwrap();
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
    }
}

fn change(rng: &mut Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    let length = bytes.len();
    if length < 4 {
        return bytes.extend_from_slice(&other[..other.len().min(rng.usize(0..64))]);
    }
    let at = rng.usize(0..length);
    match rng.u8(0..12) {
        0 => bytes[at] ^= 1 << rng.u8(0..8),
        1 => bytes[at] = rng.u8(..),
        // Counts and lengths are at even places.
        2..=4 => put_word(bytes, at & !1, WORDS[rng.usize(0..WORDS.len())]),
        5 => {
            let rest = u16::try_from(length - (at & !1)).unwrap_or(u16::MAX);
            put_word(bytes, at & !1, rest.saturating_sub(rng.u16(0..4)));
        }
        6 => bytes.truncate(at),
        7 => bytes.extend((0..rng.usize(1..32)).map(|_| rng.u8(..))),
        8 => {
            let end = (at + rng.usize(1..16)).min(length);
            drop(bytes.drain(at..end));
        }
        9 => repeat(rng, bytes, at & !3),
        10 => {
            // The head of this one and the tail of the other: templates of one, data of another.
            bytes.truncate(at & !3);
            bytes.extend_from_slice(&other[(at & !3).min(other.len())..]);
        }
        _ => {
            let end = other.len().min((at & !3) + rng.usize(4..128));
            let part = other.get((at & !3).min(end)..end).unwrap_or(&[]);
            bytes.splice((at & !3)..(at & !3), part.iter().copied());
        }
    }
}

fn repeat(rng: &mut Rng, bytes: &mut Vec<u8>, at: usize) {
    let part = bytes[at..(at + 4 * rng.usize(1..16)).min(bytes.len())].to_vec();
    for _ in 0..rng.u8(1..32) {
        if bytes.len() + part.len() > GROWN_BYTES_MAX {
            break;
        }
        bytes.extend_from_slice(&part);
    }
}

fn put_word(bytes: &mut [u8], at: usize, word: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&word.to_be_bytes());
    }
}
