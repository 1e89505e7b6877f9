//! Where the fields of each record of a set are.
//!
//! Records of fixed length lie at a stride. Records with variable-length fields are scanned once: each
//! variable field ends a segment, and a field is found by its segment's start in each record.

use std::ops::Range;

use super::template::{Field, VARIABLE_LENGTH};
use super::wire::Wire;

/// The place of a field in every record of a template.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    /// `length` bytes at `offset` behind the start of `segment`.
    Fixed { segment: usize, offset: usize, length: usize },
    /// The content of the variable-length field that ends `segment`.
    Variable { segment: usize },
}

/// Records of one set.
pub(super) trait Records {
    fn count(&self) -> usize;

    /// The field at `place` of one record.
    fn value(&self, record: usize, place: Place) -> &[u8];

    /// The field at `place` of every record.
    fn values(&self, place: Place) -> impl Iterator<Item = &[u8]>
    where
        Self: Sized;

    /// Writes the field at `place`, whose length is `N`, of every record to `out`.
    #[inline]
    fn write<const N: usize, const OUT: usize>(
        &self,
        place: Place,
        out: &mut [[u8; OUT]],
        convert: impl Fn([u8; N]) -> [u8; OUT],
    ) where
        Self: Sized,
    {
        out.iter_mut()
            .zip(self.values(place))
            .for_each(|(out, value)| *out = convert(array(value)));
    }
}

/// The first bytes of a field. Invariant: it has as many; the shape of a record is checked before it is read.
pub(super) fn array<const N: usize>(value: &[u8]) -> [u8; N] {
    value.first_chunk::<N>().copied().unwrap_or([0; N])
}

/// Records without variable-length fields.
#[derive(Debug)]
pub(super) struct FixedRecords<'a> {
    /// A whole number of records.
    pub(super) bytes: &'a [u8],
    pub(super) record_bytes: usize,
}

impl Records for FixedRecords<'_> {
    fn count(&self) -> usize {
        self.bytes.len() / self.record_bytes
    }

    fn value(&self, record: usize, place: Place) -> &[u8] {
        let (offset, length) = fixed(place);
        let start = record * self.record_bytes + offset;
        &self.bytes[start..start + length]
    }

    #[inline]
    fn values(&self, place: Place) -> impl Iterator<Item = &[u8]> {
        let (offset, length) = fixed(place);
        self.bytes
            .chunks_exact(self.record_bytes)
            .map(move |record| &record[offset..offset + length])
    }

    #[inline]
    fn write<const N: usize, const OUT: usize>(
        &self,
        place: Place,
        out: &mut [[u8; OUT]],
        convert: impl Fn([u8; N]) -> [u8; OUT],
    ) {
        let (offset, _) = fixed(place);
        // Pieces that begin with the field, so that nothing is checked for each; the last one is shorter.
        let pieces = self.bytes.get(offset..).unwrap_or_default().chunks_exact(self.record_bytes);
        let (whole, last) = (pieces.len(), pieces.remainder());
        out.iter_mut().zip(pieces).for_each(|(out, piece)| *out = convert(array(piece)));
        if let (Some(out), true) = (out.get_mut(whole), offset > 0) {
            *out = convert(array(last));
        }
    }
}

/// Records with at least one variable-length field.
#[derive(Debug)]
pub(super) struct VariableRecords<'a> {
    pub(super) set: &'a [u8],
    pub(super) segments: &'a [Segment],
    pub(super) segments_per_record: usize,
}

impl Records for VariableRecords<'_> {
    fn count(&self) -> usize {
        self.segments.len() / self.segments_per_record
    }

    fn value(&self, record: usize, place: Place) -> &[u8] {
        self.value_in(&self.segments[record * self.segments_per_record..], place)
    }

    #[inline]
    fn values(&self, place: Place) -> impl Iterator<Item = &[u8]> {
        let records = self.segments.chunks_exact(self.segments_per_record);
        records.map(move |record| self.value_in(record, place))
    }
}

impl VariableRecords<'_> {
    #[inline]
    fn value_in(&self, record: &[Segment], place: Place) -> &[u8] {
        match place {
            Place::Fixed { segment, offset, length } => {
                let start = record[segment].start + offset;
                &self.set[start..start + length]
            }
            Place::Variable { segment } => &self.set[record[segment].variable.clone()],
        }
    }
}

/// Offset and length of a field in records that have only such.
fn fixed(place: Place) -> (usize, usize) {
    // Invariant: a template without variable-length fields has only fixed places.
    let Place::Fixed { offset, length, .. } = place else { unreachable!("variable place") };
    (offset, length)
}

/// One segment of one record: fixed-length fields and the variable-length field behind them.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    start: usize,
    /// Content of the variable-length field; empty for the segment behind the last one.
    variable: Range<usize>,
}

/// How the records of a template are laid out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Shape {
    Fixed {
        record_bytes: usize,
    },
    /// Bytes of the fixed-length fields before each variable-length field, then of those behind the last.
    Variable {
        segment_bytes: Vec<usize>,
    },
}

impl Shape {
    /// The shape of a record of `fields`, and each field's place in it.
    pub(super) fn of(fields: &[Field]) -> (Self, Vec<Place>) {
        let mut segment_bytes = vec![0];
        let places = fields.iter().map(|field| {
            let segment = segment_bytes.len() - 1;
            if field.length == VARIABLE_LENGTH {
                segment_bytes.push(0);
                return Place::Variable { segment };
            }
            let length = usize::from(field.length);
            let offset = segment_bytes[segment];
            segment_bytes[segment] += length;
            Place::Fixed { segment, offset, length }
        });
        let places = places.collect();
        let shape = match segment_bytes[..] {
            [record_bytes] => Self::Fixed { record_bytes },
            _ => Self::Variable { segment_bytes },
        };
        (shape, places)
    }
}

/// Finds the segments of every record of `set`. Ends at the first record that reaches beyond the set:
/// what is left then is padding when it is shorter than the shortest record, else damage. Returns the
/// bytes that were scanned.
pub(super) fn scan(set: &[u8], segment_bytes: &[usize], segments: &mut Vec<Segment>) -> usize {
    segments.clear();
    let mut wire = Wire(set);
    let mut scanned = 0;
    while wire.len() >= bytes_min(segment_bytes) {
        let complete = segments.len();
        if scan_record(&mut wire, set.len(), segment_bytes, segments).is_none() {
            segments.truncate(complete);
            break;
        }
        scanned = set.len() - wire.len();
    }
    scanned
}

/// The shortest record: every variable-length field takes its one length byte.
pub(super) fn bytes_min(segment_bytes: &[usize]) -> usize {
    segment_bytes.iter().sum::<usize>() + segment_bytes.len() - 1
}

fn scan_record(
    wire: &mut Wire<'_>,
    set_bytes: usize,
    segment_bytes: &[usize],
    segments: &mut Vec<Segment>,
) -> Option<()> {
    let last = segment_bytes.len() - 1;
    for (index, &bytes) in segment_bytes.iter().enumerate() {
        let start = set_bytes - wire.len();
        wire.take(bytes)?;
        let mut variable = start..start;
        if index < last {
            // RFC 7011 section 7: one byte, or 255 and two bytes.
            let length = match wire.u8()? {
                255 => usize::from(wire.u16()?),
                length => usize::from(length),
            };
            let content = set_bytes - wire.len();
            wire.take(length)?;
            variable = content..content + length;
        }
        segments.push(Segment { start, variable });
    }
    Some(())
}
