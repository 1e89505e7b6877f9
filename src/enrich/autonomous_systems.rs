//! Which AS an address is of, when several say it.

use std::sync::Arc;

use crate::config::AsSource;

use super::facts::Facts;

/// Sources before the exporter and behind it, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct AsOrder {
    before: Vec<AsSource>,
    behind: Vec<AsSource>,
}

impl AsOrder {
    /// What the configuration says. An exporter that it leaves out is asked last.
    pub(super) fn new(order: &[AsSource]) -> Self {
        let mut parts = order.split(|source| *source == AsSource::Exporter);
        let mut part = || parts.next().unwrap_or_default().to_vec();
        Self { before: part(), behind: part() }
    }

    /// The AS number, given the one that the exporter said. What nobody knows better stays as it was sent.
    pub(super) fn choose(&self, sent: u32, facts: &Facts) -> u32 {
        let first = |sources: &[AsSource]| {
            sources.iter().map(|source| facts.as_number(*source)).find(|&number| number != 0)
        };
        first(&self.before)
            .or_else(|| is_public(sent).then_some(sent))
            .or_else(|| first(&self.behind))
            .unwrap_or(sent)
    }
}

impl Facts {
    fn as_number(&self, source: AsSource) -> u32 {
        match source {
            AsSource::Exporter => 0,
            AsSource::Prefixes => self.network.as_number,
            AsSource::Geoip => self.geo.as_number,
        }
    }

    /// The name that goes with the AS: of the network in the file of prefixes, unless that is of another AS, else
    /// of the databases, if they mean the same.
    pub(super) fn as_name(&self, number: u32) -> Option<&Arc<str>> {
        let is_network = self.network.as_number == 0 || self.network.as_number == number;
        if is_network && !self.network.name.is_empty() {
            return Some(&self.network.name);
        }
        (self.geo.as_number == number && number != 0).then_some(&self.geo.as_name)
    }
}

/// Whether the number is one that the Internet knows: not 0 (RFC 7607), AS_TRANS (RFC 6793), documentation
/// (RFC 5398), private (RFC 6996) or last (RFC 7300).
const fn is_public(number: u32) -> bool {
    !matches!(
        number,
        0 | 23_456 | 64_496..=65_551 | 4_200_000_000..=u32::MAX
    )
}

#[cfg(test)]
mod tests {
    use super::super::geoip::GeoRecord;
    use super::super::prefixes::Network;
    use super::*;

    fn facts(network: (u32, &str), geo: (u32, &str)) -> Facts {
        Facts {
            network: Network { as_number: network.0, name: network.1.into(), ..Network::default() },
            geo: GeoRecord { as_number: geo.0, as_name: geo.1.into(), ..GeoRecord::default() },
            ..Facts::default()
        }
    }

    #[test]
    fn the_exporter_is_believed_unless_it_says_nothing_or_a_private_number() {
        let order = AsOrder::new(&[AsSource::Exporter, AsSource::Prefixes, AsSource::Geoip]);
        let all = facts((10, "ten"), (20, "twenty"));
        assert_eq!(order.choose(3_320, &all), 3_320);
        for sent in [0, 23_456, 64_512, 65_535, 4_200_000_000, u32::MAX] {
            assert_eq!(order.choose(sent, &all), 10, "{sent}");
            assert_eq!(order.choose(sent, &facts((0, ""), (20, ""))), 20);
            assert_eq!(order.choose(sent, &Facts::default()), sent, "as it was sent");
        }
    }

    #[test]
    fn another_order_is_followed() {
        let all = facts((10, "ten"), (20, "twenty"));
        let choose = |order: &[AsSource], sent| AsOrder::new(order).choose(sent, &all);
        assert_eq!(choose(&[AsSource::Geoip, AsSource::Exporter, AsSource::Prefixes], 3_320), 20);
        assert_eq!(choose(&[AsSource::Exporter, AsSource::Geoip], 0), 20);
        assert_eq!(choose(&[AsSource::Prefixes], 3_320), 10, "the exporter comes last");
        assert_eq!(choose(&[], 3_320), 3_320);
    }

    #[test]
    fn a_name_goes_with_the_number() {
        let name = |facts: &Facts, number| facts.as_name(number).map(ToString::to_string);
        let all = facts((10, "ten"), (20, "twenty"));
        assert_eq!(name(&all, 10).as_deref(), Some("ten"));
        assert_eq!(name(&all, 20).as_deref(), Some("twenty"));
        assert_eq!(name(&all, 30), None);
        let network = facts((0, "office"), (20, "twenty"));
        assert_eq!(name(&network, 20).as_deref(), Some("office"));
        assert_eq!(name(&network, 0).as_deref(), Some("office"));
    }
}
