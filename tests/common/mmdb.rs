//! Writes databases in MaxMind's format (MaxMind DB File Format Specification 2.0), for tests and benchmarks.

use std::collections::HashMap;
use std::net::IpAddr;

/// A value of a record.
pub enum Value<'a> {
    Text(&'a str),
    Number(u32),
    Map(Vec<(&'a str, Self)>),
}

/// A database under construction: IPv6, in which IPv4 is `::/96`.
pub struct Mmdb {
    /// Two records for each node: 0 is nothing, then nodes, or data behind [`DATA`].
    nodes: Vec<[u32; 2]>,
    data: Vec<u8>,
    offsets: HashMap<Vec<u8>, u32>,
}

/// Marks a record that is an offset into the data.
const DATA: u32 = 1 << 31;

const SEPARATOR_BYTES: u32 = 16;

impl Mmdb {
    pub fn new() -> Self {
        Self { nodes: vec![[0; 2]], data: Vec::new(), offsets: HashMap::new() }
    }

    /// Adds a prefix, shorter ones before longer ones.
    pub fn insert(&mut self, address: IpAddr, length: u8, record: &Value<'_>) {
        let offset = self.offset(record);
        let (bits, length) = match address {
            IpAddr::V4(address) => (u128::from(u32::from(address)), 96 + u32::from(length)),
            IpAddr::V6(address) => (u128::from(address), u32::from(length)),
        };
        let mut node = 0;
        for depth in 0..length {
            let side = (bits >> (127 - depth) & 1) as usize;
            if depth + 1 == length {
                self.nodes[node][side] = DATA | offset;
                return;
            }
            let next = self.nodes[node][side];
            if next == 0 || next & DATA != 0 {
                // What was known of the shorter prefix holds for both halves of it.
                self.nodes.push([next; 2]);
                self.nodes[node][side] = u32::try_from(self.nodes.len() - 1).unwrap();
            }
            node = self.nodes[node][side] as usize;
        }
    }

    fn offset(&mut self, record: &Value<'_>) -> u32 {
        let mut bytes = Vec::new();
        put(record, &mut bytes);
        let next = u32::try_from(self.data.len()).unwrap();
        *self.offsets.entry(bytes).or_insert_with_key(|bytes| {
            self.data.extend_from_slice(bytes);
            next
        })
    }

    /// The file.
    pub fn finish(&self, kind: &str) -> Vec<u8> {
        let node_count = u32::try_from(self.nodes.len()).unwrap();
        let mut file = Vec::new();
        for record in self.nodes.iter().flatten() {
            let value = match *record {
                0 => node_count,
                record if record & DATA != 0 => node_count + SEPARATOR_BYTES + (record & !DATA),
                node => node,
            };
            file.extend_from_slice(&value.to_be_bytes());
        }
        file.extend_from_slice(&[0; SEPARATOR_BYTES as usize]);
        file.extend_from_slice(&self.data);
        file.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
        metadata(node_count, kind, &mut file);
        file
    }
}

fn metadata(node_count: u32, kind: &str, out: &mut Vec<u8>) {
    control(7, 9, out);
    let mut entry = |key: &str, kind: u8, bytes: &[u8]| {
        put(&Value::Text(key), out);
        control(kind, bytes.len(), out);
        out.extend_from_slice(bytes);
    };
    entry("node_count", 6, &node_count.to_be_bytes());
    entry("record_size", 5, &[32]);
    entry("ip_version", 5, &[6]);
    entry("binary_format_major_version", 5, &[2]);
    entry("binary_format_minor_version", 5, &[]);
    entry("build_epoch", 9, &1_700_000_000_u32.to_be_bytes());
    entry("database_type", 2, kind.as_bytes());
    entry("languages", 11, &[]);
    put(&Value::Text("description"), out);
    put(&Value::Map(vec![("en", Value::Text("a test"))]), out);
}

fn put(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Text(text) => {
            control(2, text.len(), out);
            out.extend_from_slice(text.as_bytes());
        }
        Value::Number(number) => {
            control(6, 4, out);
            out.extend_from_slice(&number.to_be_bytes());
        }
        Value::Map(entries) => {
            control(7, entries.len(), out);
            for (key, value) in entries {
                put(&Value::Text(key), out);
                put(value, out);
            }
        }
    }
}

fn control(kind: u8, size: usize, out: &mut Vec<u8>) {
    assert!(size < 29 + 256, "long values are not needed");
    let extended = kind > 7;
    let (code, small) = (if extended { 0 } else { kind << 5 }, size.min(29));
    out.push(code | u8::try_from(small).unwrap());
    if extended {
        out.push(kind - 7);
    }
    if size >= 29 {
        out.push(u8::try_from(size - 29).unwrap());
    }
}
