//! What source and destination address are: locality, AS, country, city, site and role.

use std::sync::Arc;

use crate::flow::{Chunk, Column};

use super::autonomous_systems::AsOrder;
use super::facts::{FactBook, Facts};
use super::locality::Locality;
use super::tables::Tables;

/// The columns of one side of a flow.
pub(super) struct Side {
    address: Column,
    locality: Column,
    as_number: Column,
    as_name: Column,
    texts: [Column; 4],
}

/// Source, destination.
pub(super) const SIDES: [Side; 2] = [
    Side {
        address: Column::SrcAddr,
        locality: Column::SrcLocality,
        as_number: Column::SrcAs,
        as_name: Column::SrcAsOrg,
        texts: [Column::SrcCountry, Column::SrcCity, Column::SrcSite, Column::SrcRole],
    },
    Side {
        address: Column::DstAddr,
        locality: Column::DstLocality,
        as_number: Column::DstAs,
        as_name: Column::DstAsOrg,
        texts: [Column::DstCountry, Column::DstCity, Column::DstSite, Column::DstRole],
    },
];

/// The texts of facts, in the order of [`Side::texts`].
const TEXTS: [fn(&Facts) -> &Arc<str>; 4] = [
    |facts| facts.country(),
    |facts| &facts.geo.city,
    |facts| &facts.network.site,
    |facts| &facts.network.role,
];

/// Writes what the tables say of the addresses of all rows; returns the ids of their facts in `book`.
pub(super) fn write(tables: &Tables, book: &mut FactBook, chunk: &mut Chunk) -> [Vec<u32>; 2] {
    book.make_room(2 * chunk.rows());
    let ids = SIDES.map(|side| {
        let (addresses, _) = chunk.column(side.address).as_chunks::<16>();
        let unknown = chunk.rows() - addresses.len();
        let addresses = addresses.iter().copied().chain(std::iter::repeat_n([0; 16], unknown));
        let ids: Vec<u32> = addresses.map(|address| book.id(address, tables)).collect();
        let of_chunk = OfChunk::new(&ids, book);
        side.write_localities(&ids, book, chunk);
        for (column, text) in side.texts.into_iter().zip(TEXTS) {
            of_chunk.write_text(column, text, &ids, book, chunk);
        }
        side.write_as(&tables.as_order, &ids, book, chunk);
        ids
    });
    write_flow_locality(&ids, book, chunk);
    ids
}

/// The facts that occur in a chunk.
struct OfChunk {
    /// Each once.
    ids: Vec<u32>,
}

impl OfChunk {
    fn new(ids: &[u32], book: &FactBook) -> Self {
        let mut is_seen = vec![false; book.len()];
        let is_first = |id: &u32| !std::mem::replace(&mut is_seen[*id as usize], true);
        Self { ids: ids.iter().copied().filter(is_first).collect() }
    }

    fn write_text(
        &self,
        column: Column,
        text: fn(&Facts) -> &Arc<str>,
        ids: &[u32],
        book: &FactBook,
        chunk: &mut Chunk,
    ) {
        if self.ids.iter().all(|&id| text(book.get(id)).is_empty()) {
            return;
        }
        let mut indices = vec![[0; 2]; book.len()];
        for &id in &self.ids {
            indices[id as usize] = chunk.intern_shared(column, text(book.get(id))).to_le_bytes();
        }
        let (out, _) = chunk.finished(column).as_chunks_mut::<2>();
        out.iter_mut().zip(ids).for_each(|(out, id)| *out = indices[*id as usize]);
    }
}

impl Side {
    fn write_localities(&self, ids: &[u32], book: &FactBook, chunk: &mut Chunk) {
        write_localities(self.locality, ids.iter().map(|id| book.get(*id).locality), chunk);
    }

    fn write_as(&self, order: &AsOrder, ids: &[u32], book: &FactBook, chunk: &mut Chunk) {
        let sent: Vec<u32> = {
            let (sent, _) = chunk.column(self.as_number).as_chunks::<4>();
            let sent = sent.iter().map(|number| u32::from_le_bytes(*number));
            sent.chain(std::iter::repeat(0)).take(chunk.rows()).collect()
        };
        let chosen: Vec<u32> =
            sent.iter().zip(ids).map(|(&sent, &id)| order.choose(sent, book.get(id))).collect();
        if chosen != sent {
            let (out, _) = chunk.finished(self.as_number).as_chunks_mut::<4>();
            out.iter_mut().zip(&chosen).for_each(|(out, number)| *out = number.to_le_bytes());
        }
        let mut last = None;
        let indices: Vec<u16> = ids
            .iter()
            .zip(&chosen)
            .map(|(&id, &number)| match last {
                Some((known, index)) if known == (id, number) => index,
                _ => {
                    let name = book.get(id).as_name(number);
                    let index = name.map_or(0, |name| chunk.intern_shared(self.as_name, name));
                    last = Some(((id, number), index));
                    index
                }
            })
            .collect();
        if indices.iter().any(|&index| index != 0) {
            let (out, _) = chunk.finished(self.as_name).as_chunks_mut::<2>();
            out.iter_mut().zip(&indices).for_each(|(out, index)| *out = index.to_le_bytes());
        }
    }
}

fn write_flow_locality(
    [sources, destinations]: &[Vec<u32>; 2],
    book: &FactBook,
    chunk: &mut Chunk,
) {
    let localities = sources.iter().zip(destinations).map(|(source, destination)| {
        book.get(*source).locality.with(book.get(*destination).locality)
    });
    write_localities(Column::FlowLocality, localities, chunk);
}

fn write_localities(column: Column, localities: impl Iterator<Item = Locality>, chunk: &mut Chunk) {
    let mut indices = [None; 3];
    let indices: Vec<[u8; 2]> = localities
        .map(|locality| {
            *indices[locality as usize]
                .get_or_insert_with(|| chunk.intern(column, locality.label()).to_le_bytes())
        })
        .collect();
    let (out, _) = chunk.finished(column).as_chunks_mut::<2>();
    out.copy_from_slice(&indices);
}
