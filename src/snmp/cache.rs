//! Names kept over a restart: one file, written after walks and read before the first one.
//!
//! The file: a line with [`MAGIC`], version and SHA-256 of the rest; the rest is JSON.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tracing::{info, warn};

use crate::state::KeptFile;

use super::interfaces::Interface;
use super::known::{Confirmed, Known, MEMORY_BYTES_MAX};

/// The file in `state.directory`.
const FILE_NAME: &str = "interfaces";

/// How its first line begins; another layout has another number.
const MAGIC: &str = "tidegate interfaces 1 ";

/// Of the file. A byte of a text takes two at most, and numbers less than [`MEMORY_BYTES_MAX`] counts for them.
const FILE_BYTES_MAX: usize = 2 * MEMORY_BYTES_MAX;

/// Between writes. A crash costs the walks of so long, which come again.
const WRITE_PAUSE: Duration = Duration::from_secs(300);

/// The file, and what of it is not written yet.
#[derive(Debug)]
pub(super) struct Cache {
    file: KeptFile,
    is_changed: bool,
    written: Option<Instant>,
    /// The last write failed.
    is_failing: bool,
}

/// An exporter in the file.
#[derive(Deserialize, Serialize)]
struct KeptExporter {
    exporter: IpAddr,
    confirmed_ms: i64,
    /// ifIndex, name, alias, speed.
    interfaces: Vec<(u32, String, String, u32)>,
}

impl Cache {
    pub(super) fn new(directory: &Path) -> Self {
        let file = KeptFile::new(directory, FILE_NAME);
        Self { file, is_changed: false, written: None, is_failing: false }
    }

    /// Gives `known` what an earlier run wrote. A file that cannot be used is set aside.
    pub(super) fn restore(&self, known: &mut Known) {
        let exporters = match self.file.read(FILE_BYTES_MAX) {
            Ok(bytes) => parse(&bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => Err(error.to_string()),
        };
        let exporters = match exporters {
            Ok(exporters) => exporters,
            Err(error) => return self.set_aside(&error),
        };
        let in_file = exporters.len();
        let restored = exporters.into_iter().filter_map(|exporter| {
            let (address, confirmed) = exporter.into_confirmed();
            known.confirm(address, confirmed).ok()
        });
        let restored = restored.count();
        info!(
            exporters = restored,
            over_limit = in_file - restored,
            "Names of interfaces restored."
        );
    }

    /// What is known is not what is in the file any more.
    pub(super) fn note_change(&mut self) {
        self.is_changed = true;
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.is_changed && self.written.is_none_or(|written| now - written >= WRITE_PAUSE)
    }

    /// Writes what is not written yet; whether that went well.
    pub(super) fn write(&mut self, known: &Known) -> bool {
        if !self.is_changed {
            return true;
        }
        self.is_changed = false;
        self.written = Some(Instant::now());
        let result = bytes_of(known).and_then(|bytes| self.file.replace(&bytes));
        if let Err(error) = &result
            && !self.is_failing
        {
            let file = self.file.path();
            warn!(
                file = %file.display(),
                %error,
                "Names of interfaces cannot be written and would be asked for after a restart; trying on."
            );
        }
        self.is_failing = result.is_err();
        self.is_changed |= self.is_failing;
        !self.is_failing
    }

    fn set_aside(&self, error: &str) {
        let file = self.file.path();
        let set_aside = self.file.set_aside().map(|damaged| damaged.display().to_string());
        warn!(
            file = %file.display(),
            error,
            ?set_aside,
            "Kept names of interfaces cannot be used, exporters are asked."
        );
    }
}

impl KeptExporter {
    fn into_confirmed(self) -> (IpAddr, Confirmed) {
        let interface = |(index, name, alias, speed_mbit): (u32, String, String, u32)| {
            (index, Interface { name: name.into(), alias: alias.into(), speed_mbit })
        };
        let table = self.interfaces.into_iter().map(interface).collect();
        let confirmed = Confirmed { table: Arc::new(table), confirmed_ms: self.confirmed_ms };
        (self.exporter, confirmed)
    }
}

fn bytes_of(known: &Known) -> io::Result<Vec<u8>> {
    let interface = |(&index, it): (&u32, &Interface)| {
        (index, it.name.to_string(), it.alias.to_string(), it.speed_mbit)
    };
    let exporter = |(exporter, it): (IpAddr, &Confirmed)| KeptExporter {
        exporter,
        confirmed_ms: it.confirmed_ms,
        interfaces: it.table.iter().map(interface).collect(),
    };
    let exporters: Vec<_> = known.iter().map(exporter).collect();
    let body = serde_json::to_vec(&exporters)?;
    let mut bytes = first_line(&body).into_bytes();
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> Result<Vec<KeptExporter>, String> {
    let end = bytes.iter().position(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    let (line, body) = bytes.split_at(end);
    if line != first_line(body).as_bytes() {
        return Err("the file is damaged, or of another version of tidegate".to_owned());
    }
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

fn first_line(body: &[u8]) -> String {
    let digest = Sha256::digest(body);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{MAGIC}{hex}\n")
}
