//! Messages in a stream of bytes: IPFIX over TCP has no other framing than the length in each message's
//! header, RFC 7011 section 10.4.

use std::io::{self, Read};

/// The length in the header has 16 bits, so no message is longer.
const MESSAGE_BYTES_MAX: usize = 65_535;

/// Message header, RFC 7011 section 3.1.
const HEADER_BYTES: usize = 16;

/// Version word of IPFIX.
const VERSION: u16 = 10;

/// Cuts what comes over one connection into messages. Owns 64 KiB; pages that no byte reached take no memory.
#[derive(Debug)]
pub(super) struct StreamReader {
    buffer: Box<[u8]>,
    /// Where the next message begins.
    start: usize,
    /// Behind the last byte received.
    end: usize,
}

/// What the bytes received so far begin with.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Frame<'a> {
    /// A whole message.
    Message(&'a [u8]),
    /// All of them. No message begins here, so where the next one would is not known.
    Garbage(&'a [u8]),
}

impl StreamReader {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; MESSAGE_BYTES_MAX].into(), start: 0, end: 0 }
    }

    /// Reads once; 0 bytes are the end of the stream. To be called when [`Self::next`] has no more: then
    /// there is room, since a message that is not whole is shorter than the buffer.
    ///
    /// # Errors
    ///
    /// Those of the stream.
    pub(super) fn fill(&mut self, stream: &mut impl Read) -> io::Result<usize> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let bytes = stream.read(&mut self.buffer[self.end..])?;
        self.end += bytes;
        Ok(bytes)
    }

    /// The next message; `None` until more bytes are there.
    pub(super) fn next(&mut self) -> Option<Frame<'_>> {
        let received = &self.buffer[self.start..self.end];
        let version = word(received, 0)?;
        if version == VERSION && received.len() < HEADER_BYTES {
            return None;
        }
        let length = usize::from(word(received, 2).unwrap_or(0));
        if version != VERSION || length < HEADER_BYTES {
            return Some(Frame::Garbage(self.take_rest()));
        }
        let message = self.start..self.start + length;
        if message.end > self.end {
            return None;
        }
        self.start = message.end;
        Some(Frame::Message(&self.buffer[message]))
    }

    /// What was received and is no whole message.
    pub(super) fn take_rest(&mut self) -> &[u8] {
        let rest = self.start..self.end;
        self.start = self.end;
        &self.buffer[rest]
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of this length whose body has bytes of a value.
    fn message(length: u16, value: u8) -> Vec<u8> {
        let mut bytes = vec![value; length.into()];
        bytes[..2].copy_from_slice(&VERSION.to_be_bytes());
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        bytes
    }

    /// The frames of a stream that gives at most so many bytes a read, and what is left at its end.
    fn read(mut stream: &[u8], bytes_max: usize) -> (Vec<Vec<u8>>, Option<Vec<u8>>, Vec<u8>) {
        let mut reader = StreamReader::new();
        let mut messages = Vec::new();
        loop {
            match reader.next() {
                Some(Frame::Message(bytes)) => messages.push(bytes.to_vec()),
                Some(Frame::Garbage(bytes)) => return (messages, Some(bytes.to_vec()), vec![]),
                None => {
                    let (mut now, later) = stream.split_at(stream.len().min(bytes_max));
                    let offered = now.len();
                    let bytes = reader.fill(&mut now).unwrap();
                    if bytes == 0 {
                        return (messages, None, reader.take_rest().to_vec());
                    }
                    assert_eq!(bytes, offered - now.len());
                    stream = &stream[bytes..];
                    assert!(stream.len() >= later.len());
                }
            }
        }
    }

    #[test]
    fn messages_are_found_however_the_bytes_come() {
        let sent = [message(16, 1), message(17, 2), message(65_535, 3), message(40, 4)];
        for bytes_max in [1, 3, 16, 1_448, 65_535, usize::MAX] {
            let (messages, garbage, rest) = read(&sent.concat(), bytes_max);
            assert!(messages == sent, "{bytes_max} bytes a read");
            assert_eq!((garbage, rest), (None, vec![]));
        }
    }

    /// Random messages, some of them damaged, in pieces of random sizes.
    #[test]
    fn every_byte_is_in_one_frame_and_the_pieces_make_no_difference() {
        for seed in 0..2_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let lengths = (0..rng.usize(1..12)).map(|_| 16 + (rng.u16(..) >> rng.u32(0..16)) / 2);
            let lengths: Vec<u16> = lengths.collect();
            let mut sent: Vec<u8> =
                lengths.iter().flat_map(|&it| message(it, rng.u8(..))).collect();
            if rng.bool() {
                let at = rng.usize(..sent.len());
                sent[at] = rng.u8(..);
                sent.truncate(rng.usize(at..sent.len()) + 1);
            }
            let whole = read(&sent, usize::MAX);
            let (messages, garbage, rest) = read(&sent, rng.usize(1..2_000));
            // Where something else than a message begins, as much as came with it is given with it.
            assert_eq!((&messages, &rest), (&whole.0, &whole.2), "seed {seed}");
            assert_eq!(garbage.is_some(), whole.1.is_some(), "seed {seed}");
            let got = [messages.concat(), garbage.clone().unwrap_or_default(), rest].concat();
            assert!(sent.starts_with(&got), "seed {seed}");
            assert!(garbage.is_some() || got.len() == sent.len(), "seed {seed}");
            for message in &messages {
                assert_eq!(message[..2], VERSION.to_be_bytes(), "seed {seed}");
                assert_eq!(word(message, 2).map(usize::from), Some(message.len()), "seed {seed}");
            }
        }
    }

    #[test]
    fn what_is_no_message_is_given_whole_and_a_cut_one_is_the_rest() {
        let good = message(20, 1);
        let other_version = [&good[..], &[0, 9, 0, 1, 7]].concat();
        assert_eq!(read(&other_version, 64).1, Some(vec![0, 9, 0, 1, 7]));
        assert_eq!(read(&other_version, 1).1, Some(vec![0, 9]), "as soon as it shows");
        let mut short = message(16, 9);
        short[3] = 15;
        assert_eq!(
            read(&[&good[..], &short].concat(), 1),
            (vec![good.clone()], Some(short), vec![])
        );
        let cut = &message(300, 5)[..299];
        assert_eq!(read(&[&good[..], cut].concat(), 7), (vec![good], None, cut.to_vec()));
        assert_eq!(read(&[0], 7), (vec![], None, vec![0]));
    }
}
