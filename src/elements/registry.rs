//! The table of all elements, with what follows from the files by rule, and its indexes.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::element::{Element, Scope};
use super::lines;

/// YAF sets this bit of its own ids for the reverse direction.
const CERT_REVERSE_BIT: u16 = 0x4000;
const CERT: Scope = Scope::Enterprise(6871);
/// CERT's elements about the exporter itself, which has no direction.
const CERT_STATISTICS: [std::ops::RangeInclusive<u16>; 2] = [100..=105, 550..=554];

const NTOP: Scope = Scope::Enterprise(35_632);
/// In NetFlow v9 nProbe adds this to its own ids (nProbe user guide, "Flow Information Elements").
const NTOP_NETFLOW_V9_OFFSET: u16 = 57_472;

/// Enterprise numbers under which libfds keeps NetFlow v9 field types in IPFIX, and what it took off their
/// ids: those from 128 on, and those that do not fit the 15 bits of an IPFIX id.
const NETFLOW_V9_IN_IPFIX: [(u32, u16); 2] = [(u32::MAX - 1, 0), (u32::MAX, 0x8000)];

/// All known elements.
#[derive(Debug)]
pub struct Registry {
    /// By scope and id.
    elements: Vec<Element>,
    by_id: HashMap<(Scope, u16), usize>,
    /// By name in lower case; IANA's element first where vendors use the same name.
    by_name: HashMap<String, Vec<usize>>,
}

/// The registry, built when it is first asked for.
#[must_use]
pub fn registry() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::load);
    &REGISTRY
}

impl Registry {
    /// A line that cannot be read would be left out; a test sees to it that there is none.
    fn load() -> Self {
        let iana: Vec<_> = lines::parse(lines::IANA, lines::iana).flatten().collect();
        let others: Vec<_> = lines::parse(lines::ENTERPRISE, lines::enterprise).flatten().collect();
        let reverse = iana.iter().filter(|element| is_reversible(element.id));
        let reverse = reverse.map(|element| element.reverse(Scope::REVERSE, element.id));
        let cert = others.iter().filter(|element| is_reversible_of_cert(element));
        let cert = cert.map(|element| element.reverse(CERT, element.id | CERT_REVERSE_BIT));
        let ntop = others.iter().filter(|element| element.scope == NTOP).map(|element| Element {
            scope: Scope::NetflowV9,
            id: element.id + NTOP_NETFLOW_V9_OFFSET,
            ..element.clone()
        });
        let derived: Vec<_> = reverse.chain(cert).chain(ntop).collect();
        Self::new([iana, others, derived].concat())
    }

    fn new(mut elements: Vec<Element>) -> Self {
        elements.sort_by_key(|element| (element.scope, element.id));
        let mut by_id = HashMap::with_capacity(elements.len());
        let mut by_name = HashMap::<_, Vec<_>>::with_capacity(elements.len());
        for (index, element) in elements.iter().enumerate() {
            by_id.insert((element.scope, element.id), index);
            by_name.entry(element.name.to_ascii_lowercase()).or_default().push(index);
        }
        Self { elements, by_id, by_name }
    }

    /// All elements, by scope and id.
    pub fn iter(&self) -> impl Iterator<Item = &Element> {
        self.elements.iter()
    }

    /// The element of an IPFIX template field; enterprise 0 is IANA.
    #[must_use]
    pub fn find(&self, enterprise: u32, id: u16) -> Option<&Element> {
        match NETFLOW_V9_IN_IPFIX.iter().find(|(number, _)| *number == enterprise) {
            Some((_, offset)) => self.find_netflow_v9(id | offset),
            None => self.get(Scope::Enterprise(enterprise), id),
        }
    }

    /// The element of a NetFlow v9 template field.
    #[must_use]
    pub fn find_netflow_v9(&self, id: u16) -> Option<&Element> {
        self.get(Scope::IANA, id).or_else(|| self.get(Scope::NetflowV9, id))
    }

    /// The element that a column's source names: enterprise 0 stands for IANA's and NetFlow v9's.
    #[must_use]
    pub fn find_source(&self, enterprise: u32, id: u16) -> Option<&Element> {
        match enterprise {
            0 => self.find_netflow_v9(id),
            enterprise => self.find(enterprise, id),
        }
    }

    /// The element with this number in a scope.
    #[must_use]
    pub fn get(&self, scope: Scope, id: u16) -> Option<&Element> {
        self.by_id.get(&(scope, id)).map(|&index| &self.elements[index])
    }

    /// The elements of this name, in any case of letters; IANA's first.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &Element> {
        let found = self.by_name.get(&name.to_ascii_lowercase());
        found.into_iter().flatten().map(|&index| &self.elements[index])
    }
}

/// Whether an IANA element has a reverse one. RFC 5103 section 6.1 excepts what no single direction of a flow
/// has; numbers of elements as in RFC 5102, the sections of which it names.
fn is_reversible(id: u16) -> bool {
    match id {
        // Identifiers: commonPropertiesId, templateId, flowId, observationDomainId (section 5.1).
        137 | 145 | 148 | 149 => false,
        // Configuration of the process (section 5.2).
        130 | 131 | 173 | 211..=217 => false,
        // Statistics of the process (section 5.3).
        40..=42 | 163..=168 => false,
        // paddingOctets, and biflowDirection of RFC 5103 itself.
        210 | 239 => false,
        _ => true,
    }
}

fn is_reversible_of_cert(element: &Element) -> bool {
    element.scope == CERT
        && !element.name.starts_with("reverse")
        && !CERT_STATISTICS.iter().any(|ids| ids.contains(&element.id))
}
