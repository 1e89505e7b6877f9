//! Interfaces: names, descriptions and speeds, and the direction that their boundaries tell.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::config::Boundary;
use crate::flow::{Chunk, Column};
use crate::snmp::{Interface, Tables};

use super::exporters::KnownInterface;
use super::sources::Sources;

/// The columns of one side of a flow.
struct Side {
    if_index: Column,
    name: Column,
    alias: Column,
    speed: Column,
}

const SIDES: [Side; 2] = [
    Side {
        if_index: Column::InputSnmp,
        name: Column::InputSnmpIfName,
        alias: Column::InputSnmpIfAlias,
        speed: Column::InputSnmpIfSpeed,
    },
    Side {
        if_index: Column::OutputSnmp,
        name: Column::OutputSnmpIfName,
        alias: Column::OutputSnmpIfAlias,
        speed: Column::OutputSnmpIfSpeed,
    },
];

/// A text of a chunk's dictionary for a row, and whether it takes the place of what the exporter said.
#[derive(Clone, Copy, Debug, Default)]
struct Label {
    index: u16,
    wins: bool,
}

/// What is known of the interface of a row.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    name: Label,
    alias: Label,
    speed_mbit: u32,
    boundary: Option<Boundary>,
}

/// Writes what is known of the interfaces of all rows, and from their boundaries the direction.
pub(super) fn write(sources: &Sources, snmp: &Tables, chunk: &mut Chunk) {
    let walked = |source: &super::sources::Source| snmp.get(&source.address?);
    let is_known = |source: &super::sources::Source| {
        source.known.as_ref().is_some_and(|known| !known.interfaces.is_empty())
            || walked(source).is_some()
    };
    if !sources.list.iter().any(is_known) {
        return;
    }
    let sides = SIDES.map(|side| {
        let found = side.find(sources, snmp, chunk);
        side.write(&found, chunk);
        found
    });
    write_direction(&sides, chunk);
}

impl Side {
    fn find(&self, sources: &Sources, snmp: &Tables, chunk: &mut Chunk) -> Vec<Found> {
        let mut rows = vec![Found::default(); chunk.rows()];
        let if_indices: Vec<[u8; 4]> = chunk.column(self.if_index).as_chunks::<4>().0.to_vec();
        let mut known = HashMap::with_hasher(RandomState::default());
        for (run, index) in &sources.runs {
            let source = &sources.list[*index];
            let configured = source.known.as_ref().map(|known| &known.interfaces);
            let walked = source.address.and_then(|address| snmp.get(&address));
            if configured.is_none() && walked.is_none() {
                continue;
            }
            for row in run.clone() {
                let if_index = if_indices.get(row).copied().map_or(0, u32::from_le_bytes);
                rows[row] = *known.entry((*index, if_index)).or_insert_with(|| {
                    let configured = configured.and_then(|it| it.get(&if_index));
                    self.found(configured, walked.and_then(|it| it.get(&if_index)), chunk)
                });
            }
        }
        rows
    }

    fn found(
        &self,
        configured: Option<&KnownInterface>,
        walked: Option<&Interface>,
        chunk: &mut Chunk,
    ) -> Found {
        let mut label = |column, mine: Option<&Arc<str>>, theirs: Option<&Arc<str>>| {
            let mine = mine.filter(|text| !text.is_empty());
            let text = mine.or(theirs);
            let index = text.map_or(0, |text| chunk.intern_shared(column, text));
            Label { index, wins: mine.is_some() }
        };
        Found {
            name: label(self.name, configured.map(|it| &it.name), walked.map(|it| &it.name)),
            alias: label(self.alias, configured.map(|it| &it.alias), walked.map(|it| &it.alias)),
            speed_mbit: configured
                .map(|it| it.speed_mbit)
                .filter(|&speed| speed != 0)
                .or_else(|| walked.map(|it| it.speed_mbit))
                .unwrap_or(0),
            boundary: configured.and_then(|it| it.boundary),
        }
    }

    fn write(&self, found: &[Found], chunk: &mut Chunk) {
        write_labels(self.name, found, |it| it.name, chunk);
        write_labels(self.alias, found, |it| it.alias, chunk);
        if found.iter().any(|it| it.speed_mbit != 0) {
            let (speeds, _) = chunk.finished(self.speed).as_chunks_mut::<4>();
            for (speed, found) in speeds.iter_mut().zip(found) {
                *speed = found.speed_mbit.to_le_bytes();
            }
        }
    }
}

fn write_labels(column: Column, found: &[Found], label: fn(&Found) -> Label, chunk: &mut Chunk) {
    if found.iter().all(|it| label(it).index == 0) {
        return;
    }
    let (out, _) = chunk.finished(column).as_chunks_mut::<2>();
    for (out, label) in out.iter_mut().zip(found.iter().map(label)) {
        if label.wins || *out == [0; 2] {
            *out = label.index.to_le_bytes();
        }
    }
}

/// A flow that comes from outside goes into the network, and one that leaves to the outside out of it. Between
/// two of the same side there is no direction.
fn write_direction([input, output]: &[Vec<Found>; 2], chunk: &mut Chunk) {
    use Boundary::{External, Internal};
    let has_boundary = |found: &Found| found.boundary.is_some();
    if !input.iter().chain(output).any(has_boundary) {
        return;
    }
    let [ingress, egress] = ["INGRESS", "EGRESS"].map(|it| chunk.intern(Column::FlowDirection, it));
    let (out, _) = chunk.finished(Column::FlowDirection).as_chunks_mut::<2>();
    for ((out, input), output) in out.iter_mut().zip(input).zip(output) {
        let direction = match (input.boundary, output.boundary) {
            _ if *out != [0; 2] => continue,
            (Some(External), Some(Internal) | None) => ingress,
            (Some(Internal) | None, Some(External)) => egress,
            _ => continue,
        };
        *out = direction.to_le_bytes();
    }
}
