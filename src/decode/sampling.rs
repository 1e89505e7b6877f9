//! The sampling rate of a record, where it came from, and the fields that say it.

use super::options::unsigned;
use super::records::{Place, Records};
use super::template::Field;

/// One packet in `interval` was looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sampling {
    pub(super) interval: f64,
    /// The column `samplingProvenance`.
    pub(super) provenance: &'static str,
    pub(super) algorithm: Algorithm,
}

/// How packets are chosen: a number of IANA's registry of selector algorithms (RFC 5477 section 8.2.1), or 0
/// when nobody said.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Algorithm(pub(super) u8);

impl Sampling {
    /// Nobody said a rate: every packet is taken to be counted.
    pub(super) const ASSUMED: Self =
        Self { interval: 1.0, provenance: "assumed", algorithm: Algorithm::UNKNOWN };

    /// The record itself has a rate.
    pub(super) const RECORD: &'static str = "record";

    pub(super) fn from_record(interval: f64) -> Self {
        Self { interval, provenance: Self::RECORD, algorithm: Algorithm::UNKNOWN }
    }

    /// The exporter announced the rate in options records.
    pub(super) fn from_options(interval: f64, algorithm: Algorithm) -> Self {
        Self { interval, provenance: "options", algorithm }
    }

    /// The configuration says it for exporters that do not.
    pub(super) fn from_fallback(interval: f64) -> Self {
        Self { interval, provenance: "fallback", algorithm: Algorithm::UNKNOWN }
    }

    /// From the NetFlow v5 header: two bits of mode, fourteen of interval. A mode without an interval,
    /// or an interval of 0, says nothing.
    pub(super) fn from_v5_header(word: u16) -> Option<Self> {
        let interval = f64::from(word & 0x3fff);
        let algorithm = Algorithm::of_sampler_mode(u64::from(word >> 14));
        (interval > 0.0).then_some(Self { interval, provenance: "header", algorithm })
    }
}

impl Algorithm {
    const UNKNOWN: Self = Self(0);

    /// selectorAlgorithm (304).
    pub(super) fn of_selector(number: u64) -> Self {
        u8::try_from(number).map_or(Self::UNKNOWN, Self)
    }

    /// samplingAlgorithm (35), samplerMode (49) and the header of NetFlow v5: 1 deterministic, 2 random.
    pub(super) fn of_sampler_mode(mode: u64) -> Self {
        match mode {
            1 => Self(1),
            2 => Self(3),
            _ => Self::UNKNOWN,
        }
    }

    /// The column `samplingAlgorithm`.
    pub(super) fn name(self) -> &'static str {
        match self.0 {
            1 => "SystematicCountBasedSampling",
            2 => "SystematicTimeBasedSampling",
            3 => "RandomNOutOfNSampling",
            4 => "UniformProbabilisticSampling",
            5 => "PropertyMatchFiltering",
            6..=8 => "HashBasedFiltering",
            9 => "FlowStateDependentIntermediateFlowSelectionProcess",
            _ => "",
        }
    }
}

/// The elements that tell a sampling rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Element {
    /// samplerId (48), selectorId (302).
    Sampler,
    /// samplingInterval (34), samplerRandomInterval (50): one packet in this many.
    Interval,
    /// samplingPacketInterval (305): so many packets are taken in a row (RFC 5477 section 8.2.2).
    PacketInterval,
    /// samplingPacketSpace (306): so many are left out behind them (RFC 5477 section 8.2.3).
    PacketSpace,
    /// samplingSize (309): so many packets are taken (RFC 5477 section 8.2.6).
    Size,
    /// samplingPopulation (310): of so many (RFC 5477 section 8.2.7).
    Population,
    /// selectorAlgorithm (304).
    Selector,
    /// samplingAlgorithm (35), samplerMode (49).
    Mode,
}

impl Element {
    fn of(field: &Field) -> Option<Self> {
        Some(match (field.enterprise, field.id) {
            (0, 48 | 302) => Self::Sampler,
            (0, 34 | 50) => Self::Interval,
            (0, 305) => Self::PacketInterval,
            (0, 306) => Self::PacketSpace,
            (0, 309) => Self::Size,
            (0, 310) => Self::Population,
            (0, 304) => Self::Selector,
            (0, 35 | 49) => Self::Mode,
            _ => return None,
        })
    }

    /// Whether exporters that send sampling rates in the wrong byte order do so with this element.
    fn is_of_rate(self) -> bool {
        !matches!(self, Self::Sampler | Self::Selector | Self::Mode)
    }
}

/// Where the records of a template say a sampling rate.
#[derive(Debug, Default)]
pub(super) struct SamplingFields(Vec<(Element, Place)>);

impl SamplingFields {
    pub(super) fn of(fields: &[Field], places: &[Place]) -> Self {
        let fixed = fields.iter().zip(places).filter(|(field, _)| (1..=8).contains(&field.length));
        let found = fixed.filter_map(|(field, place)| Some((Element::of(field)?, *place)));
        Self(found.collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether they say a rate in two numbers, which no column's element holds.
    pub(super) fn has_ratio(&self) -> bool {
        let has = |element| self.0.iter().any(|(known, _)| *known == element);
        has(Element::PacketInterval) && has(Element::PacketSpace)
            || has(Element::Size) && has(Element::Population)
    }

    /// The sampler that a record names, and what it says of it.
    pub(super) fn read(
        &self,
        records: &(impl Records + ?Sized),
        record: usize,
        is_little_endian: bool,
    ) -> (u64, Option<f64>, Algorithm) {
        let value = |element| {
            let (element, place) = *self.0.iter().find(|(known, _)| *known == element)?;
            let bytes = records.value(record, place);
            let is_reversed = is_little_endian && element.is_of_rate();
            Some(if is_reversed { little_endian(bytes) } else { unsigned(bytes) })
        };
        let sampler_id = value(Element::Sampler).unwrap_or(0);
        let algorithm = match (value(Element::Selector), value(Element::Mode)) {
            (Some(number), _) => Algorithm::of_selector(number),
            (None, mode) => Algorithm::of_sampler_mode(mode.unwrap_or(0)),
        };
        (sampler_id, interval_of(value), algorithm)
    }
}

/// One packet in how many is looked at, 0 when none is; `None` when the record does not tell.
#[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
fn interval_of(value: impl Fn(Element) -> Option<u64>) -> Option<f64> {
    use Element::{Interval, PacketInterval, PacketSpace, Population, Size};
    // A 0 beside a rate in two numbers says nothing.
    let interval = value(Interval).map(|interval| interval as f64);
    if interval.is_some_and(|interval| interval > 0.0) {
        return interval;
    }
    let ratio = |whole: f64, part: u64| if part == 0 { 0.0 } else { whole / part as f64 };
    if let (Some(taken), Some(left_out)) = (value(PacketInterval), value(PacketSpace)) {
        return Some(ratio(taken as f64 + left_out as f64, taken));
    }
    match (value(Size), value(Population)) {
        (Some(size), Some(population)) => Some(ratio(population as f64, size)),
        _ => interval,
    }
}

/// An integer in the byte order that the protocols do not have, up to 8 bytes.
pub(super) fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_say_a_rate_is_understood() {
        use Element::{Interval, PacketInterval, PacketSpace, Population, Size};
        let of = |pairs: &[(Element, u64)]| {
            interval_of(|element| pairs.iter().find(|(e, _)| *e == element).map(|(_, v)| *v))
        };
        assert_eq!(of(&[(Interval, 512)]), Some(512.0));
        assert_eq!(of(&[(PacketInterval, 1), (PacketSpace, 99)]), Some(100.0));
        assert_eq!(of(&[(Interval, 0), (PacketInterval, 1), (PacketSpace, 99)]), Some(100.0));
        assert_eq!(of(&[(Interval, 0)]), Some(0.0));
        assert_eq!(of(&[(PacketInterval, 2), (PacketSpace, 8)]), Some(5.0));
        assert_eq!(of(&[(Size, 1), (Population, 1_000)]), Some(1_000.0));
        assert_eq!(of(&[(Size, 0), (Population, 1_000)]), Some(0.0));
        assert_eq!(of(&[(PacketSpace, 99)]), None);
        assert_eq!(of(&[]), None);
    }
}
