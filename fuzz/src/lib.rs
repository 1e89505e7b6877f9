//! What the fuzz targets share: the checks of `tests/hostile`, and how an input becomes datagrams.

#[path = "../../tests/hostile/native.rs"]
pub mod native;
#[path = "../../tests/hostile/trial.rs"]
pub mod trial;

use std::time::Duration;

use trial::{CONNECTED, Trial};

/// Sends the datagrams of an input to a decoder, each with one of these version words. How the receiver is
/// configured and whether it is a connection depends on the length of the input.
pub fn decode(input: &[u8], versions: &[&[u8]]) {
    let has_bit = |bit: u32| input.len() >> bit & 1 == 1;
    let mut trial = Trial::new(has_bit(0), has_bit(1));
    let most = if has_bit(2) { CONNECTED } else { 0 };
    for (number, datagram) in datagrams(input).enumerate() {
        let mut payload = datagram.to_vec();
        let choice = payload.get(1).map_or(0, |&byte| usize::from(byte / 3) % versions.len());
        let exact = versions.iter().find(|version| payload.starts_with(version));
        let version = exact.unwrap_or(&versions[choice]);
        let length = version.len().min(payload.len());
        payload[..length].copy_from_slice(&version[..length]);
        // Mostly one exporter, so that templates and data meet.
        trial.decode(if number % 8 == 7 { 1 } else { most }, &payload);
        match number % 32 {
            15 => trial.wait(Duration::from_secs(700)),
            31 => trial.wait(Duration::from_secs(25 * 3_600)),
            _ => {}
        }
    }
    trial.restart();
    trial.finish();
}

/// Each datagram is behind its length in two bytes; the last one may be cut.
pub fn datagrams(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = input;
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes(*length)).min(behind.len());
        let (datagram, behind) = behind.split_at(length);
        rest = behind;
        Some(datagram)
    })
}
