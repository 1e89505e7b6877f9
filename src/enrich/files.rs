//! The files behind the tables: read at the start, and again when what is in them has changed.
//!
//! A file with mistakes leaves what was read before in place, and is said in the log, a metric and the status. Files
//! are looked at by their stamps first; what counts is their content.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use metrics::{Counter, Gauge};
use sha2::{Digest, Sha256};
use tracing::{error, info};

use crate::config::EnrichmentConfig;
use crate::telemetry::{MetricName, Metrics, unix_ms};

use super::applications::Rules;
use super::autonomous_systems::AsOrder;
use super::geoip::Database;
use super::prefixes::Prefixes;
use super::tables::Tables;

/// The largest databases have 500 MB; whatever is larger is another file.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Every file of `[enrichment]`, as it was last read.
#[derive(Debug)]
pub struct TableFiles {
    prefixes: Vec<TableFile<Prefixes>>,
    applications: Vec<TableFile<Rules>>,
    geoip: Vec<TableFile<Database>>,
    metrics: [TableMetrics; 3],
}

/// What is known of one file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileState {
    /// `prefixes`, `applications` or `geoip`.
    pub table: &'static str,
    /// Its path.
    pub path: PathBuf,
    /// Prefixes, rules, or 1 of a database; of the last content that was right.
    pub entries: usize,
    /// When that was read, milliseconds since 1970.
    pub loaded_ms: Option<i64>,
    /// What is wrong with it now.
    pub error: Option<String>,
}

/// What a file can hold.
trait Content: Sized {
    /// The name of the table.
    const TABLE: &'static str;

    fn parse(bytes: Vec<u8>) -> Result<Self, String>;

    fn entries(&self) -> usize;
}

#[derive(Debug)]
struct TableFile<T> {
    path: PathBuf,
    stamp: Option<Stamp>,
    hash: Option<[u8; 32]>,
    content: Option<Arc<T>>,
    loaded_ms: Option<i64>,
    error: Option<String>,
}

/// Changes whenever a file is written or replaced, as a rule: what it does not tell, the next look does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

#[derive(Debug)]
struct TableMetrics {
    entries: Gauge,
    failures: Counter,
    last_success: Gauge,
}

impl TableFiles {
    /// No files yet.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        let metrics = [Prefixes::TABLE, Rules::TABLE, Database::TABLE].map(|table| TableMetrics {
            entries: metrics.gauge(MetricName::EnrichTableEntries, &[table]),
            failures: metrics.counter(MetricName::EnrichTableFailures, &[table]),
            last_success: metrics.gauge(MetricName::EnrichTableLastSuccess, &[table]),
        });
        let files =
            Self { prefixes: Vec::new(), applications: Vec::new(), geoip: Vec::new(), metrics };
        files.show();
        files
    }

    /// The files of a configuration, those that it had before as they are. What cannot be read stays empty.
    #[must_use]
    pub fn follow(&self, config: &EnrichmentConfig) -> Followed {
        let paths = |path: &Option<PathBuf>| path.iter().cloned().collect::<Vec<_>>();
        Followed {
            prefixes: TableFile::follow(&self.prefixes, paths(&config.prefixes)),
            applications: TableFile::follow(&self.applications, paths(&config.applications)),
            geoip: TableFile::follow(&self.geoip, config.geoip.clone()),
        }
    }

    /// Takes over the files of another configuration.
    pub fn take(&mut self, followed: Followed) {
        let Followed { prefixes, applications, geoip } = followed;
        (self.prefixes, self.applications, self.geoip) = (prefixes, applications, geoip);
        self.show();
    }

    /// Looks at every file; returns whether any content has changed.
    pub fn refresh(&mut self) -> bool {
        let [prefixes, applications, geoip] = &self.metrics;
        let has_changed = [
            refresh(&mut self.prefixes, prefixes),
            refresh(&mut self.applications, applications),
            refresh(&mut self.geoip, geoip),
        ];
        self.show();
        has_changed.contains(&true)
    }

    /// Puts the contents into `tables`.
    pub fn fill(&self, config: &EnrichmentConfig, tables: &mut Tables) {
        let prefixes = self.prefixes.first().and_then(|file| file.content.clone());
        tables.prefixes = prefixes.unwrap_or_default();
        tables.rules = self.applications.first().and_then(|file| file.content.clone());
        tables.geoip = self.geoip.iter().filter_map(|file| file.content.clone()).collect();
        tables.as_order = AsOrder::new(&config.as_order);
        tables.has_iana_services = config.iana_services;
    }

    /// What is known of each file.
    #[must_use]
    pub fn list(&self) -> Vec<FileState> {
        let prefixes = self.prefixes.iter().map(TableFile::state);
        let applications = self.applications.iter().map(TableFile::state);
        prefixes.chain(applications).chain(self.geoip.iter().map(TableFile::state)).collect()
    }

    fn show(&self) {
        let [prefixes, applications, geoip] = &self.metrics;
        prefixes.show(&self.prefixes);
        applications.show(&self.applications);
        geoip.show(&self.geoip);
    }
}

/// The files of a configuration that is not in use yet.
#[derive(Debug)]
pub struct Followed {
    prefixes: Vec<TableFile<Prefixes>>,
    applications: Vec<TableFile<Rules>>,
    geoip: Vec<TableFile<Database>>,
}

impl Followed {
    /// What is wrong with files that were not in use before.
    #[must_use]
    pub fn mistakes(&self) -> Vec<String> {
        let prefixes = self.prefixes.iter().filter_map(TableFile::mistake);
        let applications = self.applications.iter().filter_map(TableFile::mistake);
        prefixes
            .chain(applications)
            .chain(self.geoip.iter().filter_map(TableFile::mistake))
            .collect()
    }
}

fn refresh<T: Content>(files: &mut [TableFile<T>], metrics: &TableMetrics) -> bool {
    let mut has_changed = false;
    for file in files {
        match file.refresh() {
            Outcome::Same => {}
            Outcome::Changed => has_changed = true,
            Outcome::Failed => metrics.failures.increment(1),
        }
    }
    has_changed
}

enum Outcome {
    Same,
    Changed,
    Failed,
}

impl<T: Content> TableFile<T> {
    fn follow(known: &[Self], paths: Vec<PathBuf>) -> Vec<Self> {
        let of_path = |path: PathBuf| match known.iter().find(|file| file.path == path) {
            Some(file) => file.copy(),
            None => {
                let mut file = Self::new(path);
                file.refresh();
                file
            }
        };
        paths.into_iter().map(of_path).collect()
    }

    fn new(path: PathBuf) -> Self {
        Self { path, stamp: None, hash: None, content: None, loaded_ms: None, error: None }
    }

    fn copy(&self) -> Self {
        let Self { path, stamp, hash, content, loaded_ms, error } = self;
        Self {
            path: path.clone(),
            stamp: *stamp,
            hash: *hash,
            content: content.clone(),
            loaded_ms: *loaded_ms,
            error: error.clone(),
        }
    }

    /// Reads the file if it seems to have changed.
    fn refresh(&mut self) -> Outcome {
        let stamp = Stamp::of(&self.path).ok();
        if stamp.is_some() && stamp == self.stamp {
            return Outcome::Same;
        }
        let was_there = self.stamp.is_some();
        self.stamp = stamp;
        let bytes = match read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) => {
                // Said once, not each minute.
                let is_news = was_there || self.error.is_none();
                return if is_news { self.fail(error.to_string()) } else { Outcome::Same };
            }
        };
        let hash = Some(Sha256::digest(&bytes).into());
        if hash == self.hash {
            self.error = None;
            return Outcome::Same;
        }
        match T::parse(bytes) {
            Ok(content) => {
                info!(table = T::TABLE, path = %self.path.display(), entries = content.entries(), "Table read.");
                self.content = Some(Arc::new(content));
                self.hash = hash;
                self.loaded_ms = Some(unix_ms());
                self.error = None;
                Outcome::Changed
            }
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: String) -> Outcome {
        let in_use = if self.content.is_some() { "as it was before" } else { "nothing" };
        error!(table = T::TABLE, path = %self.path.display(), error, in_use, "Table cannot be read.");
        self.error = Some(error);
        Outcome::Failed
    }

    fn state(&self) -> FileState {
        FileState {
            table: T::TABLE,
            path: self.path.clone(),
            entries: self.content.as_ref().map_or(0, |content| content.entries()),
            loaded_ms: self.loaded_ms,
            error: self.error.clone(),
        }
    }

    fn mistake(&self) -> Option<String> {
        let error = self.error.as_ref().filter(|_| self.content.is_none())?;
        Some(format!("{}: {error}", self.path.display()))
    }
}

impl TableMetrics {
    fn show<T: Content>(&self, files: &[TableFile<T>]) {
        let states: Vec<FileState> = files.iter().map(TableFile::state).collect();
        self.entries.set(as_f64(states.iter().map(|state| state.entries).sum()));
        let last = states.iter().filter_map(|state| state.loaded_ms).max();
        #[expect(clippy::cast_precision_loss, reason = "seconds are far below 2^53")]
        self.last_success.set((last.unwrap_or(0) / 1_000) as f64);
    }
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        let of = fs::metadata(path)?;
        Ok(Self { inode: of.ino(), bytes: of.len(), changed: (of.ctime(), of.ctime_nsec()) })
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| format!("is no UTF-8: {error}"))
}

impl Content for Prefixes {
    const TABLE: &'static str = "prefixes";

    fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        Self::parse(&text(bytes)?).map_err(|mistakes| mistakes.to_string())
    }

    fn entries(&self) -> usize {
        self.len()
    }
}

impl Content for Rules {
    const TABLE: &'static str = "applications";

    fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        Self::parse(&text(bytes)?).map_err(|mistakes| mistakes.to_string())
    }

    fn entries(&self) -> usize {
        self.len()
    }
}

impl Content for Database {
    const TABLE: &'static str = "geoip";

    fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        Self::parse(bytes).map_err(|error| error.to_string())
    }

    fn entries(&self) -> usize {
        1
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn as_f64(count: usize) -> f64 {
    count as f64
}
