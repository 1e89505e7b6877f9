//! What source and destination address are: locality, AS, country, city, site and role.

use crate::flow::{Chunk, Column};

use super::autonomous_systems::AsOrder;
use super::facts::{FactBook, Facts};
use super::locality::Locality;
use super::tables::Tables;
use super::texts::{Places, TextId};

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
const TEXTS: [fn(&Facts) -> TextId; 4] = [
    Facts::country,
    |facts| facts.geo.city,
    |facts| facts.network.site,
    |facts| facts.network.role,
];

/// Memory that is used again for each chunk.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    places: Places,
    /// By id of facts: the chunk in which they last were, and their number there.
    seen: Vec<(u64, u16)>,
    chunks: u64,
}

/// Writes what the tables say of the addresses of all rows; returns the ids of their facts in `book`.
pub(super) fn write(
    tables: &Tables,
    book: &mut FactBook,
    scratch: &mut Scratch,
    chunk: &mut Chunk,
) -> [Vec<u32>; 2] {
    book.make_room(2 * chunk.rows());
    let ids = SIDES.map(|side| {
        let ids = side.ids(tables, book, chunk);
        let rows = RowFacts::new(&ids, book, scratch);
        rows.write_localities(side.locality, book, chunk);
        for (column, text) in side.texts.into_iter().zip(TEXTS) {
            rows.write_texts(column, text, book, &mut scratch.places, chunk);
        }
        side.write_as(&tables.as_order, &ids, book, &mut scratch.places, chunk);
        ids
    });
    write_flow_locality(&ids, book, chunk);
    ids
}

/// The facts of the rows of a chunk, each once.
struct RowFacts {
    ids: Vec<u32>,
    /// Number of its facts in `ids`, for each row.
    rows: Vec<u16>,
}

impl RowFacts {
    fn new(ids: &[u32], book: &FactBook, scratch: &mut Scratch) -> Self {
        scratch.chunks += 1;
        scratch.seen.resize(book.len(), (0, 0));
        let mut distinct = Vec::new();
        let number = |&id: &u32| {
            let (chunk, number) = &mut scratch.seen[id as usize];
            if *chunk != scratch.chunks {
                // A chunk has fewer rows than there are numbers.
                (*chunk, *number) = (scratch.chunks, u16::try_from(distinct.len()).unwrap_or(0));
                distinct.push(id);
            }
            *number
        };
        let rows = ids.iter().map(number).collect();
        Self { ids: distinct, rows }
    }

    fn write_texts(
        &self,
        column: Column,
        text: fn(&Facts) -> TextId,
        book: &FactBook,
        places: &mut Places,
        chunk: &mut Chunk,
    ) {
        let texts: Vec<TextId> = self.ids.iter().map(|id| text(book.get(*id))).collect();
        if texts.iter().all(|text| text.is_empty()) {
            return;
        }
        places.begin(&book.texts);
        let values: Vec<[u8; 2]> =
            texts.into_iter().map(|text| places.of(text, &book.texts, column, chunk)).collect();
        self.write_values(column, &values, chunk);
    }

    fn write_localities(&self, column: Column, book: &FactBook, chunk: &mut Chunk) {
        let labels = LocalityPlaces::new(column, chunk);
        let values: Vec<[u8; 2]> =
            self.ids.iter().map(|id| labels.of(book.get(*id).locality)).collect();
        self.write_values(column, &values, chunk);
    }

    /// `values` are those of the facts.
    fn write_values(&self, column: Column, values: &[[u8; 2]], chunk: &mut Chunk) {
        let (out, _) = chunk.finished(column).as_chunks_mut::<2>();
        out.iter_mut().zip(&self.rows).for_each(|(out, row)| *out = values[usize::from(*row)]);
    }
}

impl Side {
    fn ids(&self, tables: &Tables, book: &mut FactBook, chunk: &Chunk) -> Vec<u32> {
        let (addresses, _) = chunk.column(self.address).as_chunks::<16>();
        let unknown = chunk.rows() - addresses.len();
        let addresses = addresses.iter().copied().chain(std::iter::repeat_n([0; 16], unknown));
        addresses.map(|address| book.id(address, tables)).collect()
    }

    fn write_as(
        &self,
        order: &AsOrder,
        ids: &[u32],
        book: &FactBook,
        places: &mut Places,
        chunk: &mut Chunk,
    ) {
        let (sent, _) = chunk.column(self.as_number).as_chunks::<4>();
        let sent = sent.iter().map(|number| u32::from_le_bytes(*number));
        let sent: Vec<u32> = sent.chain(std::iter::repeat(0)).take(ids.len()).collect();
        let facts = || ids.iter().map(|id| book.get(*id));
        let chosen: Vec<u32> =
            sent.iter().zip(facts()).map(|(&sent, facts)| order.choose(sent, facts)).collect();
        if chosen != sent {
            let (out, _) = chunk.finished(self.as_number).as_chunks_mut::<4>();
            out.iter_mut().zip(&chosen).for_each(|(out, number)| *out = number.to_le_bytes());
        }
        let names: Vec<TextId> =
            chosen.iter().zip(facts()).map(|(&number, facts)| facts.as_name(number)).collect();
        if names.iter().all(|name| name.is_empty()) {
            return;
        }
        places.begin(&book.texts);
        let values: Vec<[u8; 2]> = names
            .into_iter()
            .map(|name| places.of(name, &book.texts, self.as_name, chunk))
            .collect();
        chunk.finished(self.as_name).as_chunks_mut::<2>().0.copy_from_slice(&values);
    }
}

fn write_flow_locality([from, to]: &[Vec<u32>; 2], book: &FactBook, chunk: &mut Chunk) {
    let labels = LocalityPlaces::new(Column::FlowLocality, chunk);
    let (out, _) = chunk.finished(Column::FlowLocality).as_chunks_mut::<2>();
    for (out, (from, to)) in out.iter_mut().zip(from.iter().zip(to)) {
        *out = labels.of(book.get(*from).locality.with(book.get(*to).locality));
    }
}

/// Where the names of localities are in a column.
struct LocalityPlaces([[u8; 2]; 3]);

impl LocalityPlaces {
    fn new(column: Column, chunk: &mut Chunk) -> Self {
        Self(Locality::ALL.map(|it| chunk.intern(column, it.label()).to_le_bytes()))
    }

    fn of(&self, locality: Locality) -> [u8; 2] {
        self.0[locality as usize]
    }
}
