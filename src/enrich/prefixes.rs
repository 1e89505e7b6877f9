//! The operator's own prefixes: AS, name, country, site and role, by longest match.

use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::sync::Arc;

use ipnet::IpNet;
use prefix_trie::joint::JointPrefixMap;

use crate::config::parse_prefix;

use super::csv::Table;
use super::mistakes::Mistakes;
use super::prefix_of;

/// What the file says of a prefix. Empty and 0 are left to other sources.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Network {
    /// AS number.
    pub as_number: u32,
    /// Name of the AS, or of the network.
    pub name: Arc<str>,
    /// Country, two letters.
    pub country: Arc<str>,
    /// Site.
    pub site: Arc<str>,
    /// What it is for.
    pub role: Arc<str>,
}

/// Networks by prefix.
#[derive(Clone, Default)]
pub struct Prefixes {
    networks: Vec<Network>,
    by_prefix: JointPrefixMap<IpNet, u32>,
}

const COLUMNS: [&str; 6] = ["prefix", "as", "name", "country", "site", "role"];

/// A full table of the Internet is a million prefixes, IPv4 and IPv6 together.
const PREFIXES_MAX: usize = 4_000_000;

impl Prefixes {
    /// Reads CSV whose first line names the columns: `prefix`, and any of `as`, `name`, `country`, `site` and
    /// `role`.
    ///
    /// # Errors
    ///
    /// Every mistake with its line; the first fifty are told.
    pub fn parse(text: &str) -> Result<Self, Mistakes> {
        let mut mistakes = Mistakes::default();
        let mut prefixes = Self::default();
        let mut indices = HashMap::new();
        let mut texts = HashMap::<String, Arc<str>>::new();
        let table = Table::new(text, &COLUMNS, "prefix")?;
        table.read(&mut mistakes, |line, mistakes| {
            let [prefix, as_number, name, country, site, role] = line.fields;
            let Some(prefix) = parse_prefix(prefix) else {
                let text = format!("prefix {prefix:?} is none, or has bits behind its length");
                return mistakes.add(line.number, text);
            };
            let Some(as_number) = parse_as(as_number) else {
                return mistakes.add(line.number, format!("as {as_number:?} is no AS number"));
            };
            let mut share = |text: &str| {
                let shared = texts.get(text).cloned();
                shared.unwrap_or_else(|| {
                    Arc::clone(texts.entry(text.to_owned()).or_insert_with(|| text.into()))
                })
            };
            let network = Network {
                as_number,
                name: share(name),
                country: share(country),
                site: share(site),
                role: share(role),
            };
            let next = u32::try_from(prefixes.networks.len()).unwrap_or(u32::MAX);
            let index = *indices.entry(network.clone()).or_insert(next);
            if index == next {
                prefixes.networks.push(network);
            }
            if prefixes.by_prefix.insert(prefix, index).is_some() {
                mistakes.add(line.number, format!("prefix {prefix} is there before"));
            } else if prefixes.by_prefix.len() > PREFIXES_MAX {
                mistakes.add(line.number, format!("more than {PREFIXES_MAX} prefixes"));
            }
        });
        mistakes.unless_any(prefixes)
    }

    /// The network of the longest prefix around an address, and its number; IPv4 addresses are mapped.
    #[must_use]
    pub fn find(&self, address: Ipv6Addr) -> Option<(u32, &Network)> {
        if self.by_prefix.is_empty() {
            return None;
        }
        let (_, index) = self.by_prefix.get_lpm(&prefix_of(address))?;
        Some((*index, self.networks.get(usize::try_from(*index).ok()?)?))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_prefix.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_prefix.is_empty()
    }
}

/// `64500`, `AS64500` or nothing.
pub(super) fn parse_as(text: &str) -> Option<u32> {
    match text.strip_prefix("AS").unwrap_or(text) {
        "" => Some(0),
        digits => digits.parse().ok(),
    }
}

impl std::fmt::Debug for Prefixes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prefixes").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins_whatever_the_order() {
        let text = "prefix,as,name,country,site,role\n\
                    10.0.0.0/8,,,DE,,\n10.1.0.0/16,AS64500,Berlin,DE,BER,office\n\
                    10.1.2.3,64501,\"Ada, Lovelace\",GB,,\n2001:db8::/32,64502,Six,,,\n";
        let prefixes = Prefixes::parse(text).unwrap();
        let find = |text: &str| {
            let address: Ipv6Addr = text.parse().unwrap();
            prefixes.find(address).map(|(_, network)| (network.as_number, &*network.name))
        };
        assert_eq!(find("::ffff:10.1.2.3"), Some((64_501, "Ada, Lovelace")));
        assert_eq!(find("::ffff:10.1.2.4"), Some((64_500, "Berlin")));
        assert_eq!(find("::ffff:10.2.0.0"), Some((0, "")));
        assert_eq!(find("::ffff:11.0.0.0"), None);
        assert_eq!(find("2001:db8:1::"), Some((64_502, "Six")));
        assert_eq!(find("2001:db9::"), None);
        assert_eq!(find("::"), None);
    }

    #[test]
    fn every_mistake_is_said_with_its_line() {
        let mistakes = |text| Prefixes::parse(text).unwrap_err().to_string();
        assert_eq!(
            mistakes("prefix,asn\n10.0.0.0/33,1\n"),
            "line 1: \"asn\" is no column, known are prefix, as, name, country, site, role"
        );
        let text = "as,prefix\n\n# old\nAS-1,10.0.0.0/8\n1,10.0.0.0/8\n2,10.0.0.0/8\n1,2,3\n\
                    4294967296,::/0\n1,10.0.0.1/24\n";
        assert_eq!(
            mistakes(text).split("; ").collect::<Vec<_>>(),
            [
                "line 4: as \"AS-1\" is no AS number",
                "line 6: prefix 10.0.0.0/8 is there before",
                "line 7: has 3 fields, and there are 2 columns",
                "line 8: as \"4294967296\" is no AS number",
                "line 9: prefix \"10.0.0.1/24\" is none, or has bits behind its length",
            ]
        );
        assert!(mistakes("").starts_with("line 1: the first line must name the column prefix"));
        let many = format!("prefix\n{}", "x\n".repeat(100));
        assert!(mistakes(&many).ends_with("; and 50 more"));
    }
}
