//! What is written down equals what is. `UPDATE_DOCS=1 cargo test --test contracts` writes the generated
//! documents anew.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use common::Scrape;
use tidegate::decode::DropReason;
use tidegate::elements::{DataType, registry};
use tidegate::flow::{COLUMNS, Read, Source};
use tidegate::telemetry::{METRICS, MetricKind};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A generated document must be what it would be if it were generated now.
fn check_document(path: &str, expected: &str) {
    let file = repository(path);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, expected).unwrap();
    }
    let actual = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(actual == expected, "{path} is old: UPDATE_DOCS=1 cargo test --test contracts");
}

#[test]
fn the_metrics_document_is_the_table() {
    let mut text = "# Metrics\n\nGenerated from the table in `src/telemetry/names.rs`. All are at `/metrics` of the \
                    management server.\n\n| metric | kind | labels | meaning |\n|---|---|---|---|\n"
        .to_owned();
    for spec in METRICS {
        let labels =
            spec.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        writeln!(text, "| `{}` | {} | {labels} | {} |", spec.name, spec.kind.label(), spec.help)
            .unwrap();
    }
    text.push_str("\n## Reasons of `tidegate_decode_dropped_*`\n\n| reason | costs | meaning |\n|---|---|---|\n");
    for reason in DropReason::ALL {
        let scope = format!("{:?}", reason.scope()).to_lowercase();
        writeln!(text, "| `{}` | {scope} | {} |", reason.label(), reason.doc()).unwrap();
    }
    check_document("docs/metrics.md", &text);
}

#[test]
fn the_columns_document_is_the_table() {
    let mut text = "# Columns of `flows`\n\nGenerated from the table in `src/flow/table.rs`. 0 and the empty string mean \
                    unknown. Of several sources the first one that the template has is used; of several addresses the \
                    first one that is not zero.\n\n| column | type | elements | meaning |\n|---|---|---|---|\n"
        .to_owned();
    for spec in COLUMNS {
        let sources = spec.sources.iter().map(|source| match source.enterprise {
            0 => format!("{} ({})", source.name, source.id),
            enterprise => format!("{} ({enterprise}/{})", source.name, source.id),
        });
        let sources = sources.collect::<Vec<_>>().join(", ");
        writeln!(text, "| `{}` | `{}` | {sources} | {} |", spec.name, spec.kind.sql(), spec.doc)
            .unwrap();
    }
    check_document("docs/columns.md", &text);
}

#[test]
fn every_metric_of_the_table_is_exposed_and_no_other() {
    let tcp = "[receivers.tcp]\nlisten = \"127.0.0.1:0\"\ntransport = \"tcp\"";
    let app = common::start("http://127.0.0.1:9", tcp);
    // Histograms show up with their first value: one flow gives the queue one, a failed insert the rest.
    let family = |name: &str| {
        let histogram = METRICS.iter().filter(|spec| matches!(spec.kind, MetricKind::Histogram(_)));
        let is_part = |base: &str| {
            ["_bucket", "_sum", "_count"].iter().any(|end| name.strip_suffix(end) == Some(base))
        };
        let found = histogram.map(|spec| spec.name).find(|base| is_part(base));
        found.map_or_else(|| name.to_owned(), ToOwned::to_owned)
    };
    let exposed: BTreeSet<String> =
        Scrape::of(&app).names().iter().map(|name| family(name)).collect();
    app.stop();
    let is_histogram = |name: &str| {
        METRICS
            .iter()
            .any(|spec| spec.name == name && matches!(spec.kind, MetricKind::Histogram(_)))
    };
    let table: BTreeSet<String> = METRICS.iter().map(|spec| spec.name.to_owned()).collect();
    let missing: Vec<_> = table.difference(&exposed).filter(|name| !is_histogram(name)).collect();
    assert_eq!(missing, Vec::<&String>::new());
    assert_eq!(exposed.difference(&table).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// A counter ends in `_total`, and a unit is its last word.
#[test]
fn metric_names_follow_the_conventions() {
    for spec in METRICS {
        assert!(spec.name.starts_with("tidegate_"), "{}", spec.name);
        let is_counter = matches!(spec.kind, MetricKind::Counter);
        assert_eq!(spec.name.ends_with("_total"), is_counter, "{}", spec.name);
        assert!(spec.help.ends_with('.'), "{}", spec.name);
        assert!(!spec.labels.iter().any(|label| label.contains("exporter")), "{}", spec.name);
    }
}

/// The table of columns names elements as the registry does, and reads them as what they are.
#[test]
fn sources_of_columns_are_elements_of_the_registry_that_can_be_read_so() {
    let mut wrong = Vec::new();
    for source in COLUMNS.iter().flat_map(|spec| spec.sources) {
        let Some(element) = registry().find_source(source.enterprise, source.id) else {
            wrong.push(format!("{} is no element", source.id));
            continue;
        };
        if element.name != source.name {
            wrong.push(format!("{} is {}, not {}", source.id, element.name, source.name));
        }
        if !can_be_read(source, element.data_type) {
            let data_type = element.data_type.name();
            wrong.push(format!("{} is read as {:?}, and is {data_type}", source.name, source.read));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

fn can_be_read(source: &Source, data_type: DataType) -> bool {
    use DataType::{
        DateTimeMicroseconds, DateTimeMilliseconds, DateTimeNanoseconds, DateTimeSeconds,
        Ipv4Address, Ipv6Address, MacAddress, OctetArray, Unsigned8, Unsigned16, Unsigned32,
        Unsigned64,
    };
    match source.read {
        Read::Unsigned => {
            matches!(data_type, Unsigned8 | Unsigned16 | Unsigned32 | Unsigned64 | MacAddress)
        }
        Read::Address => matches!(data_type, Ipv4Address | Ipv6Address),
        Read::Uptime => matches!(source.id, 21 | 22) && data_type == Unsigned32,
        Read::Seconds => data_type == DateTimeSeconds,
        Read::Millis => data_type == DateTimeMilliseconds,
        Read::Ntp => matches!(data_type, DateTimeMicroseconds | DateTimeNanoseconds),
        Read::MicrosBefore => data_type == Unsigned32,
        Read::Direction => data_type == Unsigned8,
        Read::Rate => matches!(data_type, Unsigned32 | Unsigned64),
        Read::Sampler => matches!(data_type, Unsigned8 | Unsigned64),
        Read::Text => data_type == DataType::String,
        // forwardingStatus was widened to 32 bits; its meaning is in the last byte still.
        Read::LowByte => matches!(data_type, Unsigned16 | Unsigned32),
        Read::HighByte => data_type == Unsigned16,
        Read::ApplicationId | Read::Label => data_type == OctetArray,
        Read::SelectorAlgorithm => source.id == 304 && data_type == Unsigned16,
        Read::SamplerMode => matches!(source.id, 35 | 49) && data_type == Unsigned8,
    }
}

/// Stages and what each may use of the others: datagrams travel to the right, imports point to the left.
const ALLOWED_IMPORTS: &[(&str, &[&str])] = &[
    ("telemetry", &[]),
    ("elements", &[]),
    ("flow", &[]),
    ("capture", &[]),
    ("traffic", &["capture"]),
    ("devserver", &[]),
    ("patience", &[]),
    ("queue", &["flow", "config"]),
    ("decode", &["flow", "elements"]),
    ("inspect", &["elements", "flow", "capture", "decode"]),
    ("snmp", &["config", "decode", "state", "telemetry"]),
    ("enrich", &["flow", "config", "hostnames", "snmp", "telemetry"]),
    ("hostnames", &["config", "telemetry"]),
    ("tls", &[]),
    ("config", &["flow", "decode", "tls"]),
    ("clickhouse", &["flow", "config", "patience", "telemetry", "tls"]),
    ("spool", &["config", "telemetry"]),
    ("schema", &["clickhouse", "config", "flow"]),
    (
        "sink",
        &["flow", "config", "clickhouse", "patience", "queue", "schema", "spool", "telemetry"],
    ),
    ("receive", &["flow", "config", "decode", "enrich", "queue", "sink", "telemetry"]),
    ("state", &["flow", "decode", "telemetry"]),
    (
        "manage",
        &[
            "clickhouse",
            "config",
            "decode",
            "elements",
            "enrich",
            "sink",
            "snmp",
            "telemetry",
            "tls",
        ],
    ),
    (
        "app",
        &[
            "clickhouse",
            "config",
            "decode",
            "enrich",
            "hostnames",
            "manage",
            "patience",
            "queue",
            "receive",
            "sink",
            "snmp",
            "spool",
            "state",
            "telemetry",
            "tls",
        ],
    ),
    (
        "cli",
        &[
            "app",
            "capture",
            "clickhouse",
            "config",
            "decode",
            "devserver",
            "elements",
            "flow",
            "inspect",
            "sink",
            "schema",
            "spool",
            "telemetry",
            "tls",
            "traffic",
        ],
    ),
];

#[test]
fn stages_import_only_what_lies_before_them() {
    let mut wrong = Vec::new();
    for file in rust_files(&repository("src")) {
        let stage = stage_of(&file);
        let Some((_, allowed)) = ALLOWED_IMPORTS.iter().find(|(name, _)| *name == stage) else {
            assert!(["lib", "main"].contains(&stage.as_str()), "{stage} is not in the list");
            continue;
        };
        // Tests of a stage may build packets with `traffic`.
        let is_test = file.file_name().unwrap() == "tests.rs";
        let text = std::fs::read_to_string(&file).unwrap();
        for used in text.split("crate::").skip(1) {
            let used: String =
                used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let is_allowed =
                used == stage || allowed.contains(&used.as_str()) || is_test && used == "traffic";
            if !is_allowed {
                wrong.push(format!("{} uses {used}", file.display()));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// `unsafe` is in the two files that wrap system calls and the ClickHouse library, and nowhere else.
#[test]
fn unsafe_code_is_where_the_architecture_says() {
    let with_unsafe: Vec<String> = rust_files(&repository("src"))
        .into_iter()
        .filter(|file| std::fs::read_to_string(file).unwrap().contains("unsafe_code"))
        .map(|file| file.strip_prefix(repository("src")).unwrap().display().to_string())
        .collect();
    assert_eq!(with_unsafe, ["devserver/library.rs", "receive/sys.rs"]);
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut entries: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The folder or file directly below `src`.
fn stage_of(file: &Path) -> String {
    let below = file.strip_prefix(repository("src")).unwrap();
    let first = below.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}
