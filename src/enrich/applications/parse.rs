//! The text of the rules: CSV with a line of names on top.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ipnet::IpNet;

use crate::config::parse_prefix;

use super::super::csv::{Line, Table};
use super::super::mistakes::Mistakes;
use super::WITH_PORTS;
use super::rule::{Rule, joined, unmapped};
use super::rules::RULES_MAX;

/// Bytes of an application's name: as much as texts of the wire may have.
const APPLICATION_BYTES_MAX: usize = 255;

/// Parts of a list, between bars.
const BAR: char = '|';

const COLUMNS: [&str; 6] =
    ["application", "protocol", "ports", "prefixes", "peer-prefixes", "exporter"];

/// The names of protocols that rules use; others are written as numbers.
const PROTOCOLS: [(&str, u8); 19] = [
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("egp", 8),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("icmpv6", 58),
    ("eigrp", 88),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("sctp", 132),
];

/// The rules of a text, in its order.
pub(super) fn parse(text: &str) -> Result<Vec<Rule>, Mistakes> {
    let table = Table::new(text, &COLUMNS, "application")?;
    let (mut rules, mut mistakes, mut names) = (Vec::new(), Mistakes::default(), HashSet::new());
    table.read(&mut mistakes, |line, mistakes| {
        if rules.len() < RULES_MAX {
            rules.push(Row { line, mistakes }.rule(&mut names));
        } else {
            mistakes.add(line.number, format!("there are more than {RULES_MAX} rules"));
        }
    });
    mistakes.unless_any(rules)
}

/// One line below the names.
struct Row<'a, 'm> {
    line: &'a Line<'a, { COLUMNS.len() }>,
    mistakes: &'m mut Mistakes,
}

impl Row<'_, '_> {
    /// The rule; what is wrong in it is among the mistakes, and left out.
    fn rule(&mut self, names: &mut HashSet<Arc<str>>) -> Rule {
        let [name, protocols, port, prefixes, peers, exporters] = self.line.fields;
        let protocols = self.list("protocol", protocols, "tcp or 47", protocol);
        let ports = self.list("ports", port, "443 or 8000-8099", ports);
        let without = protocols.iter().find(|protocol| !WITH_PORTS.contains(protocol));
        if let Some(protocol) = without.filter(|_| !ports.is_empty()) {
            self.mistake(format!("ports: protocol {protocol} has none"));
        }
        Rule {
            application: self.application(name, names),
            protocols,
            ports: joined(ports),
            prefixes: self.prefixes("prefixes", prefixes),
            peers: self.prefixes("peer-prefixes", peers),
            exporters: self.prefixes("exporter", exporters),
        }
    }

    /// Equal names are one text in memory.
    fn application(&mut self, text: &str, names: &mut HashSet<Arc<str>>) -> Arc<str> {
        if text.is_empty() || text.len() > APPLICATION_BYTES_MAX || text.contains(char::is_control)
        {
            self.mistake(format!(
                "application: must be a name of 1 to {APPLICATION_BYTES_MAX} bytes"
            ));
        }
        if let Some(name) = names.get(text) {
            return Arc::clone(name);
        }
        let name = Arc::<str>::from(text);
        names.insert(Arc::clone(&name));
        name
    }

    fn prefixes(&mut self, column: &str, text: &str) -> Vec<IpNet> {
        let example = "10.0.0.0/8, 192.0.2.1 or 2001:db8::/32, without bits behind the length";
        let prefixes = self.list(column, text, example, parse_prefix);
        prefixes.into_iter().map(unmapped).collect()
    }

    /// The parts of a field between bars; none when it is empty.
    fn list<T>(
        &mut self,
        column: &str,
        text: &str,
        example: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Vec<T> {
        if text.is_empty() {
            return Vec::new();
        }
        let mut items = Vec::new();
        for part in text.split(BAR).map(str::trim) {
            match parse(part) {
                Some(item) => items.push(item),
                None => self.mistake(format!("{column}: \"{part}\" must be as {example}")),
            }
        }
        items
    }

    fn mistake(&mut self, text: String) {
        self.mistakes.add(self.line.number, text);
    }
}

fn protocol(text: &str) -> Option<u8> {
    let named = PROTOCOLS.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
    named.map(|(_, number)| *number).or_else(|| text.parse().ok())
}

fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last).then_some(first..=last)
}
