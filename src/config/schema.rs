//! `[clickhouse.schema]` and `[clickhouse.rollups.NAME]`: what there is in ClickHouse beside the flows.

use crate::flow::COLUMNS;

use super::section::Section;
use super::values::is_short_name;

/// `[clickhouse.schema]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SchemaConfig {
    /// The cluster that the schema is made on; otherwise it is of one server.
    pub cluster: Option<String>,
    /// Days that flows are kept.
    pub ttl_days: usize,
    /// Days that rollups are kept.
    pub rollup_ttl_days: usize,
    /// The rollups that there are.
    pub rollups: Vec<RollupConfig>,
}

/// A rollup: sums of flows by minute and these dimensions.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RollupConfig {
    /// Its table is `flows_by_NAME_1m`.
    pub name: String,
    /// Columns of flows, beside the minute, tenant, organisation and zone.
    pub dimensions: Vec<String>,
}

/// The rollups that come with tidegate.
const STANDARD: [(&str, &[&str]); 4] = [
    ("application", &["application", "protocol"]),
    ("conversation", &["srcAddr", "dstAddr", "application"]),
    ("exporter-iface", &["exporterAddr", "exporterName", "inputSnmp", "outputSnmp"]),
    ("geo-asn", &["srcAs", "dstAs", "srcCountry", "dstCountry"]),
];

/// Dimensions of a rollup. One with more has hardly fewer rows than the flows.
const DIMENSIONS_MAX: usize = 16;

/// What no rollup is made by: they are dimensions of all, or sums.
const NOT_DIMENSIONS: [&str; 6] =
    ["tenant", "organisation", "zone", "timestamp", "bytes", "packets"];

impl SchemaConfig {
    /// What an operator will hardly want.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let Self { ttl_days, rollup_ttl_days, .. } = self;
        (rollup_ttl_days < ttl_days).then(|| {
            format!(
                "rollups are gone after {rollup_ttl_days} days, before the flows ({ttl_days} days)"
            )
        })
    }
}

const CLUSTER_RULE: &str = "a name of letters, digits, _ and -, at most 32, or \"\"";

/// Reads both sections.
pub(super) fn read(section: Section<'_>, own: Section<'_>) -> SchemaConfig {
    let own = own_rollups(own);
    let names: Vec<_> = STANDARD.iter().map(|(name, _)| *name).collect();
    let expected = format!("{}, or names of [clickhouse.rollups.NAME]", names.join(", "));
    let by_default = names.iter().map(|&name| name.to_owned()).chain(own.iter().map(name_of));
    let chosen = section.list("rollups", by_default.collect(), &expected, |text| {
        let is_known = names.contains(&text) || own.iter().any(|rollup| rollup.name == text);
        is_known.then(|| text.to_owned())
    });
    let standard = STANDARD.iter().map(|(name, dimensions)| RollupConfig {
        name: (*name).to_owned(),
        dimensions: dimensions.iter().map(|&it| it.to_owned()).collect(),
    });
    let cluster = section.parsed("cluster", None, CLUSTER_RULE, |text| {
        (text.is_empty() || is_short_name(&text.to_ascii_lowercase()))
            .then(|| text.to_owned())
            .map(|text| Some(text).filter(|text| !text.is_empty()))
    });
    let config = SchemaConfig {
        cluster,
        ttl_days: section.count("ttl-days", 30, 1..=36_500),
        rollup_ttl_days: section.count("rollup-ttl-days", 365, 1..=36_500),
        rollups: standard.chain(own).filter(|rollup| chosen.contains(&rollup.name)).collect(),
    };
    section.finish();
    config
}

fn name_of(rollup: &RollupConfig) -> String {
    rollup.name.clone()
}

fn own_rollups(section: Section<'_>) -> Vec<RollupConfig> {
    let rollups: Vec<_> = section
        .sections(&["_DIMENSIONS"])
        .into_iter()
        .map(|(name, keys)| {
            let dimensions = dimensions(&keys);
            keys.finish();
            RollupConfig { name, dimensions }
        })
        .collect();
    for RollupConfig { name, .. } in &rollups {
        if STANDARD.iter().any(|(standard, _)| standard == name) {
            section.mistake(name, "is the name of a rollup that comes with tidegate");
        } else if !is_short_name(name) {
            section.mistake(name, "a rollup's name has 1 to 32 characters of a-z, 0-9, _ and -");
        }
    }
    section.finish();
    rollups
}

fn dimensions(section: &Section<'_>) -> Vec<String> {
    let dimensions =
        section.list("dimensions", Vec::new(), "columns of flows, docs/columns.md", |text| {
            let is_column = COLUMNS.iter().any(|spec| spec.name == text && spec.kind.is_plain());
            (is_column && !NOT_DIMENSIONS.contains(&text)).then(|| text.to_owned())
        });
    let is_twice =
        |(index, name): (usize, &String)| dimensions.iter().take(index).any(|it| it == name);
    if !section.has("dimensions") {
        section.mistake("dimensions", "is missing; for example [\"srcAs\", \"dstAs\"]");
    } else if dimensions.len() > DIMENSIONS_MAX {
        section.mistake("dimensions", format!("has more than {DIMENSIONS_MAX} columns"));
    } else if dimensions.iter().enumerate().any(is_twice) {
        section.mistake("dimensions", "has a column twice");
    }
    dimensions
}
