//! MPLS label stacks that records have in one field for each label (elements 70 to 79).

use crate::flow::{COLUMNS, Chunk, Column};

use super::records::{Place, Records};
use super::template::Field;

/// mplsTopLabelStackSection and nine below it.
const LABELS_MAX: usize = 10;

/// Bit of the third byte: the last label of the stack (RFC 3032 section 2.1).
const BOTTOM_OF_STACK: u8 = 1;

/// Where the labels are, top first.
#[derive(Debug)]
pub(super) struct LabelStack(Vec<Place>);

impl LabelStack {
    /// `None` when the template has no labels.
    pub(super) fn of(fields: &[Field], places: &[Place]) -> Option<Self> {
        let sources = COLUMNS[Column::MplsLabels as usize].sources;
        let place = |id| {
            let is_meant = |field: &Field| field.is_iana(&[id]) && field.length >= 3;
            fields.iter().position(is_meant).map(|index| places[index])
        };
        let places: Vec<_> = sources.iter().filter_map(|source| place(source.id)).collect();
        (!places.is_empty()).then_some(Self(places))
    }

    /// Writes the stacks of all records.
    pub(super) fn write(&self, records: &impl Records, chunk: &mut Chunk) {
        let stacks: Vec<_> =
            (0..records.count()).map(|record| self.read(records, record)).collect();
        let lists = stacks.iter().map(|(labels, depth)| &labels[..*depth]);
        chunk.put_lists(Column::MplsLabels, lists);
    }

    /// The stack ends at its bottom, or where a field is all zero: fields for more labels than the packet
    /// had hold nothing.
    fn read(&self, records: &impl Records, record: usize) -> ([u32; LABELS_MAX], usize) {
        let mut labels = [0; LABELS_MAX];
        for (depth, &place) in self.0.iter().take(LABELS_MAX).enumerate() {
            match records.value(record, place) {
                &[high, middle, low, ..] if (high, middle, low) != (0, 0, 0) => {
                    labels[depth] = u32::from_be_bytes([0, high, middle, low]) >> 4;
                    if low & BOTTOM_OF_STACK != 0 {
                        return (labels, depth + 1);
                    }
                }
                _ => return (labels, depth),
            }
        }
        (labels, self.0.len().min(LABELS_MAX))
    }
}
