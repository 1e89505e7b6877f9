//! The enterprise elements that exporters really send are in the registry, as far as their vendors name them.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::captures;
use tidegate::capture::Capture;
use tidegate::elements::registry;

/// Elements in the captures that no public source names.
const UNNAMED: [(u32, u16); 10] = [
    (2011, 232),
    (2011, 701),
    (2011, 702),
    (2011, 703),
    (2011, 704),
    (5951, 329),
    (5951, 330),
    (5951, 331),
    (5951, 332),
    (5951, 347),
];

/// RFC 7011 section 3.3.2.
const TEMPLATE_SET: u16 = 2;
const OPTIONS_TEMPLATE_SET: u16 = 3;
const HEADER_BYTES: usize = 16;

#[test]
fn enterprise_elements_of_the_captures_are_known() {
    let Some(folder) = captures() else { return };
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "pcap") {
            walk_file(&path, &mut found);
        }
    }
    let unknown: Vec<_> =
        found.iter().filter(|((pen, id), _)| registry().find(*pen, *id).is_none()).collect();
    let numbers: Vec<_> = unknown.iter().map(|(number, _)| **number).collect();
    assert_eq!(numbers, UNNAMED, "{unknown:?}");
    println!("{} enterprise elements, {} without a name", found.len(), unknown.len());
    assert!(found.len() > 150, "the captures were not read: {}", found.len());
}

fn walk_file(path: &Path, found: &mut BTreeMap<(u32, u16), String>) {
    let Ok(capture) = Capture::open(path) else { return };
    for datagram in capture.map_while(Result::ok) {
        // Damaged templates are in the captures too: what can be read of them counts.
        for number in enterprise_fields(&datagram.payload).unwrap_or_default() {
            found.entry(number).or_insert_with(|| path.display().to_string());
        }
    }
}

/// The enterprise elements in the templates of an IPFIX message.
fn enterprise_fields(message: &[u8]) -> Option<Vec<(u32, u16)>> {
    let mut fields = Vec::new();
    let mut sets = message.get(HEADER_BYTES..)?;
    if read_u16(&mut &*message)? != 10 {
        return None;
    }
    while let [_, _, _, _, ..] = sets {
        let mut head = sets;
        let (id, length) = (read_u16(&mut head)?, usize::from(read_u16(&mut head)?));
        let Some(set) = sets.get(4..length) else { break };
        if matches!(id, TEMPLATE_SET | OPTIONS_TEMPLATE_SET) {
            // Ends with the set, or with its padding.
            _ = walk_set(set, id == OPTIONS_TEMPLATE_SET, &mut fields);
        }
        sets = &sets[length..];
    }
    Some(fields)
}

fn walk_set(mut set: &[u8], is_options: bool, fields: &mut Vec<(u32, u16)>) -> Option<()> {
    loop {
        let template_id = read_u16(&mut set)?;
        let count = read_u16(&mut set)?;
        if template_id < 256 {
            return None;
        }
        if is_options && count > 0 {
            read_u16(&mut set)?;
        }
        for _ in 0..count {
            let id = read_u16(&mut set)?;
            read_u16(&mut set)?;
            if id & 0x8000 != 0 {
                let enterprise = u32::from(read_u16(&mut set)?) << 16;
                fields.push((enterprise | u32::from(read_u16(&mut set)?), id & 0x7fff));
            }
        }
    }
}

fn read_u16(bytes: &mut &[u8]) -> Option<u16> {
    let (value, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u16::from_be_bytes(*value))
}
