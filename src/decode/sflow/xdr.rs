//! The XDR forms that sFlow builds on: tagged opaque data and addresses.

use crate::decode::wire::{Wire, map_ipv4};

/// XDR pads opaque data to a multiple of this, RFC 4506 section 4.10.
const WORD_BYTES: usize = 4;

/// Why an address cannot be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fault {
    Cut,
    /// The length of what follows is not known.
    UnknownType,
}

/// `data_format` and what it describes. `None`, and nothing consumed, when it is cut. Padding that the
/// datagram cuts is not missed.
pub(super) fn opaque<'a>(wire: &mut Wire<'a>) -> Option<(u32, &'a [u8])> {
    let mut ahead = *wire;
    let format = ahead.u32()?;
    let length = usize::try_from(ahead.u32()?).ok()?;
    let content = ahead.take(length)?;
    let padding = length.wrapping_neg() % WORD_BYTES;
    ahead.take(padding.min(ahead.len()))?;
    *wire = ahead;
    Some((format, content))
}

/// `address`, section 5: a type, then nothing (0), an IPv4 (1) or an IPv6 address (2). IPv4 addresses
/// are mapped; an unknown address is all zero.
pub(super) fn address(wire: &mut Wire<'_>) -> Result<[u8; 16], Fault> {
    match wire.u32().ok_or(Fault::Cut)? {
        0 => Ok([0; 16]),
        1 => wire.array().map(map_ipv4).ok_or(Fault::Cut),
        2 => wire.array().ok_or(Fault::Cut),
        _ => Err(Fault::UnknownType),
    }
}
