//! What tshark prints as PDML, as a tree of fields.
//!
//! PDML and not JSON: it is as exact and has fields of the same name in their order, where tshark's JSON has
//! objects with the same key many times; and it is read line by line, without a parser of XML.

use std::path::Path;
use std::process::Command;

/// A field, or a protocol with its fields.
#[derive(Debug, Default)]
pub struct Field {
    /// tshark's name; empty for a line of text.
    pub name: String,
    /// The value as tshark shows it; of a line of text the text.
    pub show: String,
    /// The value with its label.
    pub label: String,
    /// The bytes in hexadecimal digits.
    pub bytes: String,
    pub children: Vec<Self>,
}

impl Field {
    /// This field and all below it, in their order.
    pub fn all(&self) -> Vec<&Self> {
        let below = self.children.iter().flat_map(Self::all);
        std::iter::once(self).chain(below).collect()
    }

    /// The first field of this name, here or below.
    pub fn find(&self, name: &str) -> Option<&Self> {
        self.all().into_iter().find(|field| field.name == name)
    }

    /// The value of the first field of this name, as a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        number(&self.find(name)?.show)
    }
}

/// A number as tshark shows it: decimal, hexadecimal, or bytes with colons.
pub fn number(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok();
    }
    match text.contains(':') {
        true => u64::from_str_radix(&text.replace(':', ""), 16).ok(),
        false => text.parse().ok(),
    }
}

/// Packets of a capture, each with its protocols. `decode_as` are values of tshark's option `-d`.
pub fn packets(capture: &Path, decode_as: &[String]) -> Vec<Field> {
    let rules = decode_as.iter().flat_map(|rule| ["-d", rule]);
    let output = Command::new("tshark")
        .args(["-n", "-T", "pdml"])
        .args(rules)
        .arg("-r")
        .arg(capture)
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "tshark {}: {output:?}", capture.display());
    parse(&String::from_utf8_lossy(&output.stdout))
}

/// Every element is on a line of its own.
fn parse(text: &str) -> Vec<Field> {
    let mut packets = Vec::new();
    let mut open: Vec<Field> = Vec::new();
    for line in text.lines().map(str::trim_start) {
        let is_element = ["<packet>", "<proto ", "<field "].iter().any(|tag| line.starts_with(tag));
        if is_element {
            open.push(Field {
                name: attribute(line, " name=\""),
                show: attribute(line, " show=\""),
                label: attribute(line, " showname=\""),
                bytes: attribute(line, " value=\""),
                children: Vec::new(),
            });
        }
        let is_end = ["</packet>", "</proto>", "</field>"].iter().any(|tag| line.starts_with(tag));
        if is_end || is_element && line.ends_with("/>") {
            let field = open.pop().unwrap();
            match open.last_mut() {
                Some(parent) => parent.children.push(field),
                None => packets.push(field),
            }
        }
    }
    packets
}

fn attribute(line: &str, begin: &str) -> String {
    let value = line.split_once(begin).and_then(|(_, rest)| rest.split_once('"'));
    value.map_or_else(String::new, |(value, _)| value.to_owned())
}
