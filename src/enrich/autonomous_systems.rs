//! Which AS an address is of, when several say it.

use crate::config::AsSource;

use super::facts::Facts;
use super::texts::TextId;

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
    pub(super) fn as_name(&self, number: u32) -> TextId {
        let is_network = self.network.as_number == 0 || self.network.as_number == number;
        let of_network = if is_network { self.network.name } else { TextId::default() };
        let is_geo = number != 0 && self.geo.as_number == number;
        of_network.or(if is_geo { self.geo.as_name } else { TextId::default() })
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
    use std::sync::Arc;

    use super::super::facts::{GeoFacts, NetworkFacts};
    use super::super::texts::TextBook;
    use super::*;

    /// Facts of a network and of a database, by AS.
    fn facts(network: u32, geo: u32) -> Facts {
        Facts {
            network: NetworkFacts { as_number: network, ..NetworkFacts::default() },
            geo: GeoFacts { as_number: geo, ..GeoFacts::default() },
            ..Facts::default()
        }
    }

    #[test]
    fn the_exporter_is_believed_unless_it_says_nothing_or_a_private_number() {
        let order = AsOrder::new(&[AsSource::Exporter, AsSource::Prefixes, AsSource::Geoip]);
        let all = facts(10, 20);
        assert_eq!(order.choose(3_320, &all), 3_320);
        for sent in [0, 23_456, 64_512, 65_535, 4_200_000_000, u32::MAX] {
            assert_eq!(order.choose(sent, &all), 10, "{sent}");
            assert_eq!(order.choose(sent, &facts(0, 20)), 20);
            assert_eq!(order.choose(sent, &Facts::default()), sent, "as it was sent");
        }
    }

    #[test]
    fn another_order_is_followed() {
        let choose = |order: &[AsSource], sent| AsOrder::new(order).choose(sent, &facts(10, 20));
        assert_eq!(choose(&[AsSource::Geoip, AsSource::Exporter, AsSource::Prefixes], 3_320), 20);
        assert_eq!(choose(&[AsSource::Exporter, AsSource::Geoip], 0), 20);
        assert_eq!(choose(&[AsSource::Prefixes], 3_320), 10, "the exporter comes last");
        assert_eq!(choose(&[], 3_320), 3_320);
    }

    #[test]
    fn a_name_goes_with_the_number() {
        let mut texts = TextBook::default();
        let mut text = |text: &str| texts.id(&Arc::from(text));
        let (ten, twenty) = (text("ten"), text("twenty"));
        let with_names = |mut facts: Facts| {
            (facts.network.name, facts.geo.as_name) = (ten, twenty);
            facts
        };
        let both = with_names(facts(10, 20));
        assert_eq!([10, 20, 30].map(|it| both.as_name(it)), [ten, twenty, TextId::default()]);
        let network = with_names(facts(0, 20));
        assert_eq!([20, 0].map(|it| network.as_name(it)), [ten, ten]);
    }
}
