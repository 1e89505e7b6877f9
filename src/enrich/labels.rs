//! The column `application`: as the exporter names it, else by rule, else IANA's name of the service port.

use crate::flow::{Chunk, Column};

use super::applications::{Rules, Side, services};
use super::facts::FactBook;
use super::sources::Sources;
use super::tables::Tables;

/// Writes the applications of all rows; `facts` are the ids of their addresses' facts in `book`.
pub(super) fn write(
    tables: &Tables,
    sources: &Sources,
    facts: &[Vec<u32>; 2],
    book: &FactBook,
    chunk: &mut Chunk,
) {
    let mut labels = vec![0_u16; chunk.rows()];
    take_named(&mut labels, chunk);
    if let Some(rules) = &tables.rules {
        find_by_rule(&mut labels, rules, sources, facts, book, chunk);
    }
    if tables.has_iana_services {
        find_service(&mut labels, chunk);
    }
    if labels.iter().any(|&label| label != 0) {
        let (out, _) = chunk.finished(Column::Application).as_chunks_mut::<2>();
        out.iter_mut().zip(&labels).for_each(|(out, label)| *out = label.to_le_bytes());
    }
}

/// What the exporter says, in the record or in its application table.
fn take_named(labels: &mut [u16], chunk: &mut Chunk) {
    if !chunk.is_written(Column::ApplicationName) {
        return;
    }
    let names: Vec<Box<str>> = chunk.texts(Column::ApplicationName).map(Into::into).collect();
    let names: Vec<u16> =
        names.iter().map(|name| chunk.intern(Column::Application, name)).collect();
    let (named, _) = chunk.column(Column::ApplicationName).as_chunks::<2>();
    for (label, name) in labels.iter_mut().zip(named) {
        *label = names.get(usize::from(u16::from_le_bytes(*name))).copied().unwrap_or(0);
    }
}

fn find_by_rule(
    labels: &mut [u16],
    rules: &Rules,
    sources: &Sources,
    [from, to]: &[Vec<u32>; 2],
    book: &FactBook,
    chunk: &mut Chunk,
) {
    let ports = Ports::of(chunk);
    // By rule; a rule is found of many rows.
    let mut known = vec![None; rules.len()];
    for (run, source) in &sources.runs {
        let exporter = sources.list[*source].class;
        for row in run.clone() {
            if labels[row] != 0 {
                continue;
            }
            let (protocol, src_port, dst_port) = ports.get(row);
            let src = Side { class: book.get(from[row]).class, port: src_port };
            let dst = Side { class: book.get(to[row]).class, port: dst_port };
            if let Some(rule) = rules.find(exporter, protocol, src, dst) {
                let known = &mut known[usize::from(rule)];
                labels[row] = *known.get_or_insert_with(|| {
                    chunk.intern_shared(Column::Application, rules.name(rule))
                });
            }
        }
    }
}

fn find_service(labels: &mut [u16], chunk: &mut Chunk) {
    let services = services();
    let mut known = vec![0; services.len()];
    let ports = Ports::of(chunk);
    for (row, label) in labels.iter_mut().enumerate().filter(|(_, label)| **label == 0) {
        let (protocol, src_port, dst_port) = ports.get(row);
        if let Some(service) = services.find(protocol, src_port, dst_port) {
            let known = &mut known[usize::from(service.number)];
            if *known == 0 {
                *known = chunk.intern(Column::Application, service.name);
            }
            *label = *known;
        }
    }
}

/// Protocols and ports of the rows, copied since the chunk is written meanwhile.
struct Ports {
    protocols: Vec<u8>,
    sources: Vec<[u8; 2]>,
    destinations: Vec<[u8; 2]>,
}

impl Ports {
    fn of(chunk: &Chunk) -> Self {
        let ports = |column| chunk.column(column).as_chunks::<2>().0.to_vec();
        Self {
            protocols: chunk.column(Column::Protocol).to_vec(),
            sources: ports(Column::SrcPort),
            destinations: ports(Column::DstPort),
        }
    }

    fn get(&self, row: usize) -> (u8, u16, u16) {
        let port = |ports: &[[u8; 2]]| ports.get(row).copied().map_or(0, u16::from_le_bytes);
        let protocol = self.protocols.get(row).copied().unwrap_or(0);
        (protocol, port(&self.sources), port(&self.destinations))
    }
}
