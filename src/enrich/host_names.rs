//! Names of addresses, as far as DNS has said them already: a name that is not known is asked for and comes with
//! later flows.

use std::sync::Arc;

use crate::flow::{Chunk, Column};
use crate::hostnames::HostNames;

/// Address, name.
const COLUMNS: [(Column, Column); 3] = [
    (Column::SrcAddr, Column::SrcAddrHostname),
    (Column::DstAddr, Column::DstAddrHostname),
    (Column::NextHop, Column::NextHopHostname),
];

/// Writes the names that are known.
pub(super) fn write(names: &HostNames, chunk: &mut Chunk) {
    if !names.are_asked_for() {
        return;
    }
    for (address, name) in COLUMNS {
        let (addresses, _) = chunk.column(address).as_chunks::<16>();
        let mut last: Option<([u8; 16], Option<Arc<str>>)> = None;
        let found: Vec<Option<Arc<str>>> = addresses
            .iter()
            .map(|&address| match &last {
                Some((known, name)) if *known == address => name.clone(),
                _ => {
                    let name = names.name(address.into());
                    last = Some((address, name.clone()));
                    name
                }
            })
            .collect();
        for (row, found) in found.iter().enumerate() {
            if let Some(text) = found {
                let index = chunk.intern_shared(name, text).to_le_bytes();
                chunk.finished(name).as_chunks_mut::<2>().0[row] = index;
            }
        }
    }
}
