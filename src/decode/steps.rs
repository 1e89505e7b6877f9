//! One column of one set at a time: the inner loops of the decoder.

use std::borrow::Cow;

use crate::flow::{Chunk, Column, Kind, Read};

use super::clock::Timing;
use super::options::unsigned;
use super::plan::MessageContext;
use super::records::{Place, Records, array};
use super::sampling::{Algorithm, Sampling, SamplingFields};
use super::wire::map_ipv4;

/// Seconds from 1900, the epoch of NTP, to 1970.
const NTP_EPOCH_SECONDS: u64 = 2_208_988_800;

/// Longest text of a column, in bytes on the wire. Names of applications and interfaces are far shorter;
/// without a limit one exporter could fill the memory of the queue, which is bounded in rows.
const TEXT_BYTES_MAX: usize = 255;

/// Copies one element of every record into one column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) column: Column,
    pub(super) read: Read,
    pub(super) place: Place,
    /// Where the record itself says when the exporter started; for uptimes.
    pub(super) boot: Option<Place>,
    /// A value of 0 leaves what a less preferred element has written.
    pub(super) does_yield: bool,
}

impl Step {
    pub(super) fn run(
        &self,
        records: &impl Records,
        context: &MessageContext<'_>,
        chunk: &mut Chunk,
    ) {
        if !self.does_yield {
            return self.write(records, context, chunk);
        }
        let (count, width) = (records.count(), self.column.width_bytes());
        let before = chunk.extend(self.column, count).to_vec();
        self.write(records, context, chunk);
        let rows = chunk.extend(self.column, count).chunks_exact_mut(width);
        let rows = rows.zip(before.chunks_exact(width)).zip(records.values(self.place));
        for ((out, before), value) in rows {
            if value.iter().all(|&byte| byte == 0) {
                out.copy_from_slice(before);
            }
        }
    }

    fn write(&self, records: &impl Records, context: &MessageContext<'_>, chunk: &mut Chunk) {
        let Self { column, place, .. } = *self;
        let timing = &context.timing;
        match self.read {
            Read::Unsigned => self.unsigned(records, chunk),
            Read::ApplicationId => {
                self.each(records, chunk, |value| application_id(value).to_le_bytes());
            }
            // `LabelStack` reads them all at once.
            Read::Label => {}
            Read::Address => self.address(records, chunk),
            Read::Text => self.text(records, chunk),
            Read::Direction => self.direction(records, chunk),
            // A rate of 0 is no rate.
            Read::Rate => rates(place, records, chunk, |rate| {
                let rate = if context.options.has_little_endian_rates {
                    swapped(rate, place)
                } else {
                    rate
                };
                #[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
                (rate != 0).then(|| Sampling::from_record(rate as f64))
            }),
            Read::Sampler if context.rates.is_empty() => {}
            Read::Sampler => rates(place, records, chunk, |sampler| {
                (sampler != 0).then(|| context.sampling_of_sampler(sampler))
            }),
            Read::SelectorAlgorithm => self.algorithms(records, chunk, Algorithm::of_selector),
            Read::SamplerMode => self.algorithms(records, chunk, Algorithm::of_sampler_mode),
            Read::LowByte => {
                self.each(records, chunk, |value| [value.last().copied().unwrap_or(0)])
            }
            Read::HighByte => self.each(records, chunk, |value| match value {
                [.., high, _low] => [*high],
                _ => [0],
            }),
            Read::Uptime => self.uptimes(records, timing, chunk),
            Read::Seconds => times(column, place, records, chunk, |seconds| {
                timing.at_absolute(seconds.saturating_mul(1_000))
            }),
            Read::Millis => {
                times(column, place, records, chunk, |millis| timing.at_absolute(millis));
            }
            Read::Ntp => {
                times(column, place, records, chunk, |ntp| timing.at_absolute(ntp_to_unix_ms(ntp)));
            }
            Read::MicrosBefore => {
                times(column, place, records, chunk, |micros| timing.before_export(micros));
            }
        }
    }

    fn uptimes(&self, records: &impl Records, timing: &Timing, chunk: &mut Chunk) {
        let Some(boot) = self.boot else {
            let at = |value| timing.at_uptime(value);
            return times(self.column, self.place, records, chunk, at);
        };
        let (out, _) = chunk.extend(self.column, records.count()).as_chunks_mut::<8>();
        let values = records.values(self.place).zip(records.values(boot));
        for (out, (value, boot)) in out.iter_mut().zip(values) {
            let boot_ms = i64::try_from(unsigned(boot)).unwrap_or(0);
            *out = timing.after_boot(boot_ms, unsigned(value)).to_le_bytes();
        }
    }

    fn unsigned(&self, records: &impl Records, chunk: &mut Chunk) {
        let out = chunk.extend(self.column, records.count());
        match self.column.spec().kind {
            Kind::UInt8 => copy_unsigned::<1>(self.place, records, out),
            Kind::UInt16 => copy_unsigned::<2>(self.place, records, out),
            Kind::UInt32 => copy_unsigned::<4>(self.place, records, out),
            _ => copy_unsigned::<8>(self.place, records, out),
        }
    }

    fn address(&self, records: &impl Records, chunk: &mut Chunk) {
        let (out, _) = chunk.extend(self.column, records.count()).as_chunks_mut::<16>();
        let is_new = out.iter().all(|address| *address == [0; 16]);
        match self.place {
            Place::Fixed { length: 4, .. } if is_new => records.write(self.place, out, map_ipv4),
            Place::Fixed { length: 4, .. } => {
                write_where_unknown(out, records.values(self.place).map(|it| map_ipv4(array(it))));
            }
            _ if is_new => records.write::<16, 16>(self.place, out, |address| address),
            _ => write_where_unknown(out, records.values(self.place).map(array)),
        }
    }

    fn text(&self, records: &impl Records, chunk: &mut Chunk) {
        for (row, value) in records.values(self.place).enumerate() {
            let index = chunk.intern(self.column, &read_text(value));
            chunk.set(self.column, records.count(), row, index.to_le_bytes());
        }
    }

    fn algorithms(
        &self,
        records: &impl Records,
        chunk: &mut Chunk,
        algorithm_of: impl Fn(u64) -> Algorithm,
    ) {
        for (row, value) in records.values(self.place).enumerate() {
            let index = chunk.intern(self.column, algorithm_of(unsigned(value)).name());
            if index != 0 {
                chunk.set(self.column, records.count(), row, index.to_le_bytes());
            }
        }
    }

    fn direction(&self, records: &impl Records, chunk: &mut Chunk) {
        let ingress = chunk.intern(self.column, "INGRESS").to_le_bytes();
        let egress = chunk.intern(self.column, "EGRESS").to_le_bytes();
        self.each(records, chunk, |value| match value {
            [high @ .., low] if high.iter().all(|&byte| byte == 0) => match low {
                0 => ingress,
                1 => egress,
                _ => [0; 2],
            },
            _ => [0; 2],
        });
    }

    fn each<const OUT: usize>(
        &self,
        records: &impl Records,
        chunk: &mut Chunk,
        convert: impl Fn(&[u8]) -> [u8; OUT],
    ) {
        let (out, _) = chunk.extend(self.column, records.count()).as_chunks_mut::<OUT>();
        for (out, value) in out.iter_mut().zip(records.values(self.place)) {
            *out = convert(value);
        }
    }
}

/// 4 for a mapped source address, 6 for another one; without a source the destination tells.
pub(super) fn ip_version_of_addresses(chunk: &mut Chunk, count: usize) {
    let version = |address: &[u8; 16]| match address {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..] => 4,
        address if *address == [0; 16] => 0,
        _ => 6,
    };
    let mut versions = vec![0; count];
    for column in [Column::SrcAddr, Column::DstAddr] {
        let (addresses, _) = chunk.extend(column, count).as_chunks::<16>();
        for (known, address) in versions.iter_mut().zip(addresses).filter(|(known, _)| **known == 0)
        {
            *known = version(address);
        }
    }
    chunk.extend(Column::IpProtocolVersion, count).copy_from_slice(&versions);
}

fn write_where_unknown(out: &mut [[u8; 16]], addresses: impl Iterator<Item = [u8; 16]>) {
    for (out, address) in out.iter_mut().zip(addresses) {
        if *out == [0; 16] {
            *out = address;
        }
    }
}

/// Writes what `sampling_of` knows. Neighbours mostly have the same value.
fn rates(
    place: Place,
    records: &impl Records,
    chunk: &mut Chunk,
    sampling_of: impl Fn(u64) -> Option<Sampling>,
) {
    let mut last = (0, sampling_of(0));
    let known = records.values(place).map(|value| {
        let value = unsigned(value);
        if last.0 != value {
            last = (value, sampling_of(value));
        }
        last.1
    });
    write_sampling(&known.collect::<Vec<_>>(), chunk);
}

/// Rates that records have in two numbers.
pub(super) fn ratios(
    fields: &SamplingFields,
    records: &impl Records,
    context: &MessageContext<'_>,
    chunk: &mut Chunk,
) {
    let is_little_endian = context.options.has_little_endian_rates;
    let sampling_of = |record| {
        let (_, interval, _) = fields.read(records, record, is_little_endian);
        interval.filter(|&interval| interval > 0.0).map(Sampling::from_record)
    };
    let known: Vec<_> = (0..records.count()).map(sampling_of).collect();
    write_sampling(&known, chunk);
}

/// Writes rate and provenance of the rows of which they are known, and the algorithm if it is too.
fn write_sampling(known: &[Option<Sampling>], chunk: &mut Chunk) {
    let count = known.len();
    let mut start = 0;
    for same in known.chunk_by(PartialEq::eq) {
        let rows = start..start + same.len();
        start = rows.end;
        let Some(sampling) = same[0] else { continue };
        let (intervals, _) = chunk.extend(Column::SamplingInterval, count).as_chunks_mut::<8>();
        intervals[rows.clone()].fill(sampling.interval.to_le_bytes());
        let texts = [
            (Column::SamplingProvenance, sampling.provenance),
            (Column::SamplingAlgorithm, sampling.algorithm.name()),
        ];
        // A rate in the record does not say how packets are chosen; another field of it may.
        let is_said = |text: &str| !text.is_empty() || sampling.provenance != Sampling::RECORD;
        for (column, text) in texts.into_iter().filter(|(_, text)| is_said(text)) {
            let index = chunk.intern(column, text).to_le_bytes();
            let (out, _) = chunk.extend(column, count).as_chunks_mut::<2>();
            out[rows.clone()].fill(index);
        }
    }
}

/// An integer of which the bytes came the other way round.
fn swapped(value: u64, place: Place) -> u64 {
    match place {
        Place::Fixed { length: length @ 1..=8, .. } => value.swap_bytes() >> (64 - 8 * length),
        _ => value,
    }
}

fn times(
    column: Column,
    place: Place,
    records: &impl Records,
    chunk: &mut Chunk,
    at: impl Fn(u64) -> i64,
) {
    let (out, _) = chunk.extend(column, records.count()).as_chunks_mut::<8>();
    write_unsigned(place, records, out, |value| at(value).to_le_bytes());
}

/// NTP timestamp: seconds since 1900 and a binary fraction, RFC 5905 section 6.
fn ntp_to_unix_ms(ntp: u64) -> u64 {
    let seconds = (ntp >> 32).saturating_sub(NTP_EPOCH_SECONDS);
    let millis = ((ntp & 0xffff_ffff) * 1_000) >> 32;
    seconds * 1_000 + millis
}

fn copy_unsigned<const OUT: usize>(place: Place, records: &impl Records, out: &mut [u8]) {
    let max = u64::MAX >> (64 - 8 * OUT);
    write_unsigned(place, records, out.as_chunks_mut::<OUT>().0, |value| {
        value.min(max).to_le_bytes().first_chunk::<OUT>().copied().unwrap_or([0; OUT])
    });
}

/// Writes the integer at `place` of every record; the length is looked at once, outside of the loop.
#[inline]
fn write_unsigned<const OUT: usize>(
    place: Place,
    records: &impl Records,
    out: &mut [[u8; OUT]],
    convert: impl Fn(u64) -> [u8; OUT],
) {
    fn wide<const N: usize>(value: [u8; N]) -> u64 {
        let mut wide = [0; 8];
        wide[8 - N..].copy_from_slice(&value);
        u64::from_be_bytes(wide)
    }
    match place {
        Place::Fixed { length: 1, .. } => {
            records.write(place, out, |it: [u8; 1]| convert(wide(it)))
        }
        Place::Fixed { length: 2, .. } => {
            records.write(place, out, |it: [u8; 2]| convert(wide(it)))
        }
        Place::Fixed { length: 4, .. } => {
            records.write(place, out, |it: [u8; 4]| convert(wide(it)))
        }
        Place::Fixed { length: 8, .. } => {
            records.write(place, out, |it: [u8; 8]| convert(wide(it)))
        }
        _ => {
            let values = records.values(place);
            out.iter_mut().zip(values).for_each(|(out, value)| *out = convert(unsigned(value)));
        }
    }
}

/// As [`Read::ApplicationId`] says; any integer of up to 8 bytes is itself.
pub(super) fn application_id(value: &[u8]) -> u64 {
    match value {
        [engine, .., _, _, _, _, _, _, _, _] => {
            unsigned(&value[value.len() - 7..]) | u64::from(*engine) << 56
        }
        _ => unsigned(value),
    }
}

/// Text without trailing zeros. What is not UTF-8 shows as U+FFFD, which is longer; what is too long ends in
/// an ellipsis, so that a cut text can be told from a whole one.
pub(super) fn read_text(value: &[u8]) -> Cow<'_, str> {
    let end = value.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let text = String::from_utf8_lossy(&value[..end.min(TEXT_BYTES_MAX + 1)]);
    if text.len() <= TEXT_BYTES_MAX {
        return text;
    }
    let mut text = text.into_owned();
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text.push('\u{2026}');
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ntp_times_count_from_1900_and_keep_the_fraction() {
        let ntp = (NTP_EPOCH_SECONDS + 10) << 32 | 0x8000_0000;
        assert_eq!(ntp_to_unix_ms(ntp), 10_500);
    }
}
