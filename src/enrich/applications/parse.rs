//! The text of the rules: CSV with a line of names on top.

use std::collections::HashSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use csv::{ReaderBuilder, StringRecord, Trim};
use ipnet::IpNet;

use crate::config::parse_prefix;

use super::WITH_PORTS;
use super::rule::{Rule, joined, unmapped};
use super::rules::RULES_MAX;

/// Mistakes that are told. Who has more has most likely one that is behind all of them.
const MISTAKES_MAX: usize = 50;

/// Bytes of an application's name: as much as texts of the wire may have.
const APPLICATION_BYTES_MAX: usize = 255;

/// Parts of a list, between bars.
const BAR: char = '|';

/// What is wrong, and where.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mistake {
    /// From 1; the line where its rule begins.
    pub line: usize,
    /// A fragment that ends a sentence.
    pub text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

/// A column of the file.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Column {
    Application,
    Protocol,
    Ports,
    Prefixes,
    PeerPrefixes,
    Exporter,
}

impl Column {
    const ALL: [Self; 6] = [
        Self::Application,
        Self::Protocol,
        Self::Ports,
        Self::Prefixes,
        Self::PeerPrefixes,
        Self::Exporter,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::Protocol => "protocol",
            Self::Ports => "ports",
            Self::Prefixes => "prefixes",
            Self::PeerPrefixes => "peer-prefixes",
            Self::Exporter => "exporter",
        }
    }
}

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
pub(super) fn parse(text: &str) -> Result<Vec<Rule>, Vec<Mistake>> {
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(Trim::All)
        .comment(Some(b'#'))
        .from_reader(text.as_bytes());
    let mut mistakes = Mistakes { text, found: Vec::new() };
    let records: Vec<StringRecord> =
        reader.records().collect::<Result<_, _>>().unwrap_or_else(|error| {
            // Text in memory is UTF-8 and can be read to its end, and nothing else is an error here.
            mistakes.add(0, error.to_string());
            Vec::new()
        });
    let Some((head, records)) = records.split_first() else {
        mistakes.add(0, "the line with the names of the columns is missing".to_owned());
        return Err(mistakes.found);
    };
    let columns = columns(head, &mut mistakes);
    if !mistakes.found.is_empty() {
        return Err(mistakes.found);
    }
    if let Some(record) = records.get(RULES_MAX) {
        mistakes.add(offset(record), format!("there are more than {RULES_MAX} rules"));
    }
    let mut names = HashSet::new();
    let rule = |record| Row { record, columns: &columns, mistakes: &mut mistakes }.rule(&mut names);
    let rules = records.iter().take(RULES_MAX).map(rule).collect();
    if mistakes.found.is_empty() { Ok(rules) } else { Err(mistakes.found) }
}

/// The mistakes found so far.
struct Mistakes<'a> {
    text: &'a str,
    found: Vec<Mistake>,
}

impl Mistakes<'_> {
    fn add(&mut self, offset: usize, text: String) {
        let text = match self.found.len() {
            ..MISTAKES_MAX => text,
            MISTAKES_MAX => format!("more than {MISTAKES_MAX} mistakes, the others are not told"),
            _ => return,
        };
        let line = self.line(offset);
        self.found.push(Mistake { line, text });
    }

    /// The line of a record. Its offset is where the record before it ended, so empty lines and comments in
    /// between are stepped over.
    fn line(&self, offset: usize) -> usize {
        let (before, mut rest) = self.text.split_at_checked(offset).unwrap_or((self.text, ""));
        let mut line = before.matches('\n').count() + 1;
        while let Some((skipped, behind)) = rest.split_once('\n')
            && (skipped.trim().is_empty() || skipped.starts_with('#'))
        {
            (rest, line) = (behind, line + 1);
        }
        line
    }
}

fn offset(record: &StringRecord) -> usize {
    let byte = record.position().map_or(0, csv::Position::byte);
    usize::try_from(byte).unwrap_or(usize::MAX)
}

/// The column of each field.
fn columns(head: &StringRecord, mistakes: &mut Mistakes<'_>) -> Vec<Column> {
    let mut columns = Vec::new();
    for name in head {
        match Column::ALL.into_iter().find(|column| column.name() == name) {
            Some(column) if columns.contains(&column) => {
                mistakes.add(offset(head), format!("the column {name} is there twice"));
            }
            Some(column) => columns.push(column),
            None => {
                let known = Column::ALL.map(Column::name).join(", ");
                mistakes.add(offset(head), format!("\"{name}\" is no column; known are {known}"));
            }
        }
    }
    if mistakes.found.is_empty() && !columns.contains(&Column::Application) {
        mistakes.add(offset(head), "the column application is missing".to_owned());
    }
    columns
}

/// One line below the names.
struct Row<'a, 't> {
    record: &'a StringRecord,
    columns: &'a [Column],
    mistakes: &'a mut Mistakes<'t>,
}

impl<'a> Row<'a, '_> {
    /// The rule; what is wrong in it is among the mistakes, and left out.
    fn rule(&mut self, names: &mut HashSet<Arc<str>>) -> Rule {
        if self.record.len() != self.columns.len() {
            let (has, wanted) = (self.record.len(), self.columns.len());
            self.mistake(format!("has {has} fields, and there are {wanted} columns"));
        }
        let protocols = self.list(Column::Protocol, "tcp or 47", protocol);
        let ports = self.list(Column::Ports, "443 or 8000-8099", ports);
        let without = protocols.iter().find(|protocol| !WITH_PORTS.contains(protocol));
        if let Some(protocol) = without.filter(|_| !ports.is_empty()) {
            self.mistake(format!("ports: protocol {protocol} has none"));
        }
        Rule {
            application: self.application(names),
            protocols,
            ports: joined(ports),
            prefixes: self.prefixes(Column::Prefixes),
            peers: self.prefixes(Column::PeerPrefixes),
            exporters: self.prefixes(Column::Exporter),
        }
    }

    /// Equal names are one text in memory.
    fn application(&mut self, names: &mut HashSet<Arc<str>>) -> Arc<str> {
        let text = self.field(Column::Application);
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

    fn prefixes(&mut self, column: Column) -> Vec<IpNet> {
        let example = "10.0.0.0/8, 192.0.2.1 or 2001:db8::/32, without bits behind the length";
        let prefixes = self.list(column, example, parse_prefix);
        prefixes.into_iter().map(unmapped).collect()
    }

    /// The parts of a field between bars; none when it is empty.
    fn list<T>(
        &mut self,
        column: Column,
        example: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Vec<T> {
        let text = self.field(column);
        if text.is_empty() {
            return Vec::new();
        }
        let mut items = Vec::new();
        for part in text.split(BAR).map(str::trim) {
            match parse(part) {
                Some(item) => items.push(item),
                None => {
                    let name = column.name();
                    self.mistake(format!("{name}: \"{part}\" must be as {example}"));
                }
            }
        }
        items
    }

    fn field(&self, column: Column) -> &'a str {
        let index = self.columns.iter().position(|&known| known == column);
        index.and_then(|index| self.record.get(index)).unwrap_or_default()
    }

    fn mistake(&mut self, text: String) {
        self.mistakes.add(offset(self.record), text);
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
