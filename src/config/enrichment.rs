//! `[enrichment]`: the files that say what addresses and flows are, and `[reload]`.

use std::path::PathBuf;
use std::time::Duration;

use super::section::Section;

/// `[enrichment]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EnrichmentConfig {
    /// Databases in MaxMind's format; of each field the last one that has it wins.
    pub geoip: Vec<PathBuf>,
    /// Prefixes with AS, name, country, site and role, CSV.
    pub prefixes: Option<PathBuf>,
    /// Rules for applications, CSV.
    pub applications: Option<PathBuf>,
    /// Ports that nothing else knows are called what IANA calls them.
    pub iana_services: bool,
    /// Who is believed first about an address's AS.
    pub as_order: Vec<AsSource>,
    /// How often the files are looked at.
    pub files_interval: Duration,
}

/// Who may say which AS an address is of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AsSource {
    /// The exporter in its record, unless it says 0 or a private number.
    Exporter,
    /// The file of prefixes.
    Prefixes,
    /// The databases.
    Geoip,
}

impl AsSource {
    const ALL: [Self; 3] = [Self::Exporter, Self::Prefixes, Self::Geoip];

    /// The name in the configuration.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Exporter => "exporter",
            Self::Prefixes => "prefixes",
            Self::Geoip => "geoip",
        }
    }
}

/// `[reload]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ReloadConfig {
    /// How often the configuration is looked at; without, only SIGHUP reads it anew.
    pub interval: Option<Duration>,
}

/// Databases that are asked for an address. More than country, city and AS of two makers nobody has.
const GEOIP_FILES_MAX: usize = 8;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// Reads `[enrichment]`.
pub(super) fn read(section: Section<'_>) -> EnrichmentConfig {
    let file = |key| Some(section.text(key, "")).filter(|path| !path.is_empty());
    let geoip = section.list("geoip", Vec::new(), "paths of .mmdb files", |text| {
        (!text.is_empty()).then(|| PathBuf::from(text))
    });
    if geoip.len() > GEOIP_FILES_MAX {
        section.mistake("geoip", format!("has more than {GEOIP_FILES_MAX} files"));
    }
    let config = EnrichmentConfig {
        geoip,
        prefixes: file("prefixes").map(PathBuf::from),
        applications: file("applications").map(PathBuf::from),
        iana_services: section.bool("iana-services", true),
        as_order: as_order(&section),
        files_interval: section.duration("files-interval", 60 * SECOND, SECOND..=DAY),
    };
    section.finish();
    config
}

fn as_order(section: &Section<'_>) -> Vec<AsSource> {
    let names = AsSource::ALL.map(|source| format!("\"{}\"", source.label())).join(", ");
    let order = section.list("as-order", AsSource::ALL.into(), &names, |text| {
        AsSource::ALL.into_iter().find(|source| source.label() == text)
    });
    if (1..order.len()).any(|index| order[..index].contains(&order[index])) {
        section.mistake("as-order", "has a name twice");
    }
    order
}

/// Reads `[reload]`.
pub(super) fn read_reload(section: Section<'_>) -> ReloadConfig {
    let interval = section.duration("interval", Duration::ZERO, Duration::ZERO..=DAY);
    if !interval.is_zero() && interval < SECOND {
        section.mistake("interval", "must be \"0s\", which is never, or a second at least");
    }
    section.finish();
    ReloadConfig { interval: (!interval.is_zero()).then_some(interval) }
}
