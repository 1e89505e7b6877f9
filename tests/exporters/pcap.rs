//! Captures that tests write.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Link types of pcap files.
pub const LINK_ETHERNET: u32 = 1;
pub const LINK_RAW: u32 = 101;

/// A pcap file of little-endian words and microseconds.
pub fn write_pcap<'a>(path: &Path, link: u32, frames: impl Iterator<Item = (i64, &'a [u8])>) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    let header = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, link];
    header.iter().for_each(|word| file.write_all(&word.to_le_bytes()).unwrap());
    for (at_ms, frame) in frames {
        let length = u32::try_from(frame.len()).unwrap();
        let seconds = u32::try_from(at_ms / 1_000).unwrap();
        let micros = u32::try_from(at_ms % 1_000 * 1_000).unwrap();
        let record = [seconds, micros, length, length];
        record.iter().for_each(|word| file.write_all(&word.to_le_bytes()).unwrap());
        file.write_all(frame).unwrap();
    }
    file.flush().unwrap();
}
