//! What holds for any input, on random ones: what was written is what the columns say. A failure names the
//! seed of its case.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unreachable_pub, reason = "the fuzz targets use the reader of blocks too")]

#[path = "hostile/native.rs"]
mod native;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fastrand::Rng;
use tidegate::clickhouse::{Method, encode_batch};
use tidegate::config::Config;
use tidegate::decode::{Datagram, Decoder, DecoderOptions, Exporters};
use tidegate::flow::{Chunk, ChunkWriter, Column, Kind, Read, Source};
use tidegate::traffic::{Field, IpfixHeader, MessageBuilder, V9Header, variable_length};

const NOW_S: u32 = 1_800_000_000;
const NOW_MS: i64 = NOW_S as i64 * 1_000;
const TEMPLATE: u16 = 256;

/// Enough to meet every column in every length.
const CASES: u64 = 3_000;

/// One field of a random template.
#[derive(Clone, Copy, Debug)]
struct RandomField {
    field: Field,
    /// The column that it fills, and how; nothing for elements without column.
    target: Option<(Column, Read)>,
}

/// What a column must say.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Value {
    Bytes(Vec<u8>),
    Text(String),
}

/// A template, and records with what becomes of each.
struct Sample {
    is_v9: bool,
    fields: Vec<Field>,
    records: Vec<Vec<u8>>,
    expected: Vec<BTreeMap<&'static str, Value>>,
}

#[test]
fn columns_say_what_was_written() {
    for seed in 0..CASES {
        let mut rng = Rng::with_seed(seed);
        let sample = Sample::random(&mut rng);
        let exporters = Arc::new(Exporters::default());
        let [before, data, behind] = sample.messages(rng.u8(0..4));
        let datagrams = [before, data, behind].concat();
        let rows_max = rng.usize(1..50);
        sample.check(&decode(&exporters, &datagrams, rows_max), seed);
    }
}

#[test]
fn templates_mean_the_same_after_a_restart() {
    for seed in 0..CASES / 10 {
        let mut rng = Rng::with_seed(seed);
        let sample = Sample::random(&mut rng);
        let [template, data, _] = sample.messages(0);
        let exporters = Arc::new(Exporters::default());
        decode(&exporters, &template, 1);
        let kept = exporters.snapshot(NOW_MS);
        let restored = Arc::new(Exporters::default());
        let counts = restored.restore(&kept.bytes, NOW_MS).unwrap();
        assert_eq!((counts.exporters, counts.templates), (1, 1), "seed {seed}");
        assert_eq!(restored.snapshot(NOW_MS).bytes, kept.bytes, "seed {seed}");
        sample.check(&decode(&restored, &data, 10), seed);
    }
}

#[test]
fn a_block_has_the_rows_of_its_chunks_whatever_columns_they_have() {
    for seed in 0..CASES / 10 {
        let mut rng = Rng::with_seed(seed);
        let mut chunks = Vec::new();
        for _ in 0..rng.usize(1..6) {
            let [template, data, _] = Sample::random(&mut rng).messages(0);
            chunks.extend(decode(&Arc::default(), &[template, data].concat(), 10));
        }
        let block = native::read(&encode_batch(&chunks, Method::None));
        assert_eq!(block.rows, chunks.iter().map(Chunk::rows).sum::<usize>(), "seed {seed}");
        for column in Column::ALL.iter().filter(|column| is_fixed(column)) {
            let padded = |chunk: &Chunk| {
                let mut bytes = chunk.column(*column).to_vec();
                bytes.resize(chunk.rows() * column.width_bytes(), 0);
                bytes
            };
            let expected: Vec<u8> = chunks.iter().flat_map(padded).collect();
            // A column that no chunk has is left out.
            let is_equal = match block.columns.get(column.name()) {
                Some(actual) => *actual == expected,
                None => expected.iter().all(|&byte| byte == 0),
            };
            assert!(is_equal, "seed {seed}: {}", column.name());
        }
    }
}

#[test]
fn a_configuration_of_any_text_is_read_or_refused() {
    let valid = include_str!("../packaging/tidegate.toml");
    let words = [
        "[receivers.a]",
        "[clickhouse]",
        "[clickhouse.batch]",
        "[identity]",
        "[state]",
        "listen",
        "max-rows",
        "directory",
        "endpoint",
        "=",
        "\"",
        "'''",
        "\"1s\"",
        "\"32MiB\"",
        "-1",
        "1e400",
        "\u{1F980}",
        "#",
        "\n",
        "\0",
        "[[",
        "]",
        "{",
        "99999999999999999999999",
        "\"0.0.0.0:2055\"",
        "env:",
        "true",
        ".",
    ];
    for seed in 0..CASES {
        let mut rng = Rng::with_seed(seed);
        let mut text = String::new();
        if rng.bool() {
            (0..rng.usize(0..30)).for_each(|_| text.push_str(words[rng.usize(0..words.len())]));
        } else {
            // Every key without its comment mark, and then damage.
            text = valid.replace("\n#", "\n");
            for _ in 0..rng.usize(1..8) {
                let chars: Vec<char> = text.chars().collect();
                let at = rng.usize(0..chars.len());
                let word = words[rng.usize(0..words.len())];
                let end = (at + rng.usize(0..5)).min(chars.len());
                text = [&chars[..at], &word.chars().collect::<Vec<_>>(), &chars[end..]]
                    .concat()
                    .into_iter()
                    .collect();
            }
        }
        let variable = format!("TIDEGATE_{}", words[rng.usize(0..words.len())].to_uppercase());
        let environment = vec![(variable, words[rng.usize(0..words.len())].to_owned())];
        if let Err(errors) = Config::parse(&text, Path::new("random.toml"), environment) {
            assert!(!errors.to_string().is_empty());
        }
    }
}

impl Sample {
    fn random(rng: &mut Rng) -> Self {
        let is_v9 = rng.bool();
        let mut columns: Vec<_> = Column::ALL.to_vec();
        rng.shuffle(&mut columns);
        let known = columns.iter().take(rng.usize(0..40));
        let mut fields: Vec<_> =
            known.filter_map(|&c| RandomField::of_column(c, is_v9, rng)).collect();
        fields.extend((0..rng.usize(0..5)).map(|_| RandomField::unknown(is_v9, rng)));
        fields.push(RandomField { field: Field::new(210, 1), target: None });
        rng.shuffle(&mut fields);
        let (mut records, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..rng.usize(1..40) {
            let (mut record, mut row) = (Vec::new(), BTreeMap::new());
            for field in &fields {
                let value = field.value(rng);
                if let Some((column, read)) = field.target {
                    row.insert(column.name(), expected_value(column, read, &value));
                }
                let is_variable = field.field.octets == u16::MAX;
                record.extend(if is_variable { variable_length(&value) } else { value });
            }
            records.push(record);
            expected.push(row);
        }
        let fields = fields.iter().map(|field| field.field).collect();
        Self { is_v9, fields, records, expected }
    }

    /// Datagrams with the template before the data (0), with them (1), behind them (2, 3).
    fn messages(&self, order: u8) -> [Vec<Vec<u8>>; 3] {
        let message = || {
            if self.is_v9 {
                MessageBuilder::v9(V9Header { export_time_s: NOW_S, ..V9Header::default() })
            } else {
                MessageBuilder::ipfix(IpfixHeader {
                    export_time_s: NOW_S,
                    sequence: 0,
                    domain_id: 1,
                })
            }
        };
        let template = message().template(TEMPLATE, &self.fields).finish();
        // Not padded: zeros behind short records would be one more.
        let data = |message: MessageBuilder| {
            vec![message.data_set_padded(TEMPLATE, &self.records, 0).finish()]
        };
        match order {
            0 => [vec![template], data(message()), vec![]],
            1 => [vec![], data(message().template(TEMPLATE, &self.fields)), vec![]],
            _ => [vec![], data(message()), vec![template]],
        }
    }

    fn check(&self, chunks: &[Chunk], seed: u64) {
        let rows: Vec<_> = chunks.iter().flat_map(|c| (0..c.rows()).map(move |r| (c, r))).collect();
        assert_eq!(rows.len(), self.records.len(), "seed {seed}");
        for ((chunk, row), expected) in rows.into_iter().zip(&self.expected) {
            for (name, expected) in expected {
                let column = *Column::ALL.iter().find(|column| column.name() == *name).unwrap();
                let actual = value(chunk, column, row);
                assert_eq!(actual, *expected, "seed {seed}: {name} of {:?}", self.fields);
            }
        }
    }
}

impl RandomField {
    fn of_column(column: Column, is_v9: bool, rng: &mut Rng) -> Option<Self> {
        let is_possible = |source: &&Source| {
            is_plain(source) && if is_v9 { source.enterprise == 0 } else { source.id < 0x8000 }
        };
        let sources: Vec<_> = column.spec().sources.iter().filter(is_possible).collect();
        let source = rng.choice(sources)?;
        let octets = match source.read {
            Read::Address if source.name.contains("IPv4") || source.name.contains("IPV4") => 4,
            Read::Address => 16,
            Read::Millis => 8,
            _ if !is_v9 && rng.u8(0..4) == 0 => u16::MAX,
            Read::Text => rng.u16(1..20),
            _ => rng.u16(1..=8),
        };
        let field = match source.enterprise {
            0 => Field::new(source.id, octets),
            enterprise => Field::enterprise(enterprise, source.id, octets),
        };
        Some(Self { field, target: Some((column, source.read)) })
    }

    /// An element that no column takes; one of no length too.
    fn unknown(is_v9: bool, rng: &mut Rng) -> Self {
        let octets = if !is_v9 && rng.bool() { u16::MAX } else { rng.u16(0..40) };
        let element = rng.u16(1_000..0x7fff);
        let field = if is_v9 || rng.bool() {
            Field::new(element, octets)
        } else {
            Field::enterprise(rng.u32(1..100_000), element, octets)
        };
        Self { field, target: None }
    }

    fn value(self, rng: &mut Rng) -> Vec<u8> {
        let octets = match (self.field.octets, self.target) {
            (u16::MAX, Some((_, Read::Text))) | (u16::MAX, None) => rng.usize(0..300),
            (u16::MAX, Some(_)) => rng.usize(0..=8),
            (octets, _) => octets.into(),
        };
        match self.target {
            // A start behind the end is not believed.
            Some((column, Read::Millis)) => {
                let ago = rng.i64(0..100_000);
                let ago = if column == Column::FirstSwitched { ago + 100_000 } else { ago };
                (NOW_MS - ago).to_be_bytes().to_vec()
            }
            Some((_, Read::Text)) => (0..octets).map(|_| rng.u8(b'a'..=b'z')).collect(),
            // Small values, since most random ones are beyond their column.
            _ if rng.bool() && octets > 1 => [&vec![0; octets - 1][..], &[rng.u8(..)]].concat(),
            _ => (0..octets).map(|_| rng.u8(..)).collect(),
        }
    }
}

/// Columns whose values all take the same bytes.
fn is_fixed(column: &Column) -> bool {
    !matches!(column.spec().kind, Kind::Text | Kind::UInt32List | Kind::TextMap)
}

/// Elements that are read as they are, into one column.
fn is_plain(source: &Source) -> bool {
    let fills_two_columns = [32, 139, 323].contains(&source.id);
    !fills_two_columns
        && matches!(source.read, Read::Unsigned | Read::Address | Read::Text | Read::Millis)
}

fn expected_value(column: Column, read: Read, wire: &[u8]) -> Value {
    if read == Read::Text {
        let text = String::from_utf8_lossy(&wire[..wire.len().min(255)]).into_owned();
        return Value::Text(if wire.len() > 255 { text + "\u{2026}" } else { text });
    }
    if read == Read::Address {
        let address = match *wire {
            [0, 0, 0, 0] => [0; 16],
            [a, b, c, d] => Ipv4Addr::new(a, b, c, d).to_ipv6_mapped().octets(),
            _ => wire.try_into().unwrap(),
        };
        return Value::Bytes(address.to_vec());
    }
    let width = column.width_bytes();
    let number = wire.iter().fold(0_u64, |sum, &byte| sum << 8 | u64::from(byte));
    let saturated = number.min(u64::MAX >> (64 - 8 * width));
    Value::Bytes(saturated.to_le_bytes()[..width].to_vec())
}

fn value(chunk: &Chunk, column: Column, row: usize) -> Value {
    match column.width_bytes() {
        _ if column.spec().kind == Kind::Text => Value::Text(chunk.text(column, row).to_owned()),
        1 => Value::Bytes(chunk.value::<1>(column, row).to_vec()),
        2 => Value::Bytes(chunk.value::<2>(column, row).to_vec()),
        4 => Value::Bytes(chunk.value::<4>(column, row).to_vec()),
        8 => Value::Bytes(chunk.value::<8>(column, row).to_vec()),
        _ => Value::Bytes(chunk.value::<16>(column, row).to_vec()),
    }
}

fn decode(exporters: &Arc<Exporters>, datagrams: &[Vec<u8>], rows_max: usize) -> Vec<Chunk> {
    let options = DecoderOptions::default();
    let mut decoder = Decoder::new(options, Arc::clone(exporters));
    let mut writer = ChunkWriter::new(rows_max);
    for payload in datagrams {
        let exporter = IpAddr::from([192, 0, 2, 1]);
        let datagram = Datagram { exporter, source_port: 0, received_ms: NOW_MS, payload };
        let (_, tally) = decoder.decode(&datagram, Instant::now(), &mut writer);
        assert_eq!(tally.drops().count(), 0, "{tally:?}");
    }
    writer.close_all();
    writer.take_closed().collect()
}
