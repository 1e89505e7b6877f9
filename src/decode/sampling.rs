//! The sampling rate of a message and where it came from.

/// One packet in `interval` was looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sampling {
    pub(super) interval: f64,
    /// The column `samplingProvenance`.
    pub(super) provenance: &'static str,
    /// The column `samplingAlgorithm`.
    pub(super) algorithm: &'static str,
}

impl Sampling {
    /// Nobody said a rate: every packet is taken to be counted.
    pub(super) const ASSUMED: Self = Self { interval: 1.0, provenance: "assumed", algorithm: "" };

    /// The record itself has a rate.
    pub(super) const RECORD: &'static str = "record";

    /// The exporter announced the rate in options records.
    pub(super) const OPTIONS: &'static str = "options";

    /// A rate that the exporter announced, if it did.
    pub(super) fn from_options(interval: Option<f64>) -> Self {
        interval.map_or(Self::ASSUMED, |interval| Self {
            interval,
            provenance: Self::OPTIONS,
            algorithm: "",
        })
    }

    /// From the NetFlow v5 header: two bits of mode, fourteen of interval. A mode without an interval,
    /// or an interval of 0, says nothing.
    pub(super) fn from_v5_header(word: u16) -> Self {
        let interval = word & 0x3fff;
        let algorithm = match word >> 14 {
            1 => "SystematicCountBasedSampling",
            2 => "RandomNOutOfNSampling",
            _ => "",
        };
        if interval == 0 {
            return Self::ASSUMED;
        }
        Self { interval: interval.into(), provenance: "header", algorithm }
    }
}
