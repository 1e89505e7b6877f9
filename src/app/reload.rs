//! Another configuration for a running collector, and other contents of its tables.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use crate::config::{Config, ConfigErrors};
use crate::enrich::{TableFiles, Tables};
use crate::hostnames::HostNames;
use crate::manage::Reloads;
use crate::receive::BindError;
use crate::snmp::Interfaces;
use crate::telemetry::{Metrics, set_log_level};

use super::App;

/// The configuration cannot be followed; nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// It is wrong.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// A receiver's address cannot be used.
    #[error(transparent)]
    Receiver(#[from] BindError),
    /// A file that it names cannot be used.
    #[error("{}", .0.join("\n"))]
    Files(Vec<String>),
    /// The system gives no thread, or there is no DNS server.
    #[error("cannot be followed: {0}")]
    System(#[from] io::Error),
}

/// The files behind the tables, and when they are looked at.
#[derive(Debug)]
pub(super) struct Enrichment {
    files: TableFiles,
    snmp: Arc<Interfaces>,
    host_names: HostNames,
    pub(super) tables: Arc<Tables>,
    metrics: Arc<Metrics>,
    looked_at: Instant,
}

impl Enrichment {
    /// With what can be read; the rest is said, and looked for again.
    pub(super) fn start(
        config: &Config,
        snmp: Arc<Interfaces>,
        reloads: &Reloads,
        metrics: &Arc<Metrics>,
    ) -> io::Result<Self> {
        let mut files = TableFiles::new(metrics);
        files.take(files.follow(&config.enrichment));
        reloads.show_files(files.list());
        let host_names = HostNames::start(&config.hostnames, metrics)?;
        let (tables, metrics) = (Arc::default(), Arc::clone(metrics));
        let looked_at = Instant::now();
        let mut enrichment = Self { files, snmp, host_names, tables, metrics, looked_at };
        enrichment.rebuild(config);
        Ok(enrichment)
    }

    /// Makes new tables of what there is.
    fn rebuild(&mut self, config: &Config) {
        let snmp = Arc::clone(&self.snmp);
        let mut tables = Tables::new(&config.exporters, snmp, self.host_names.clone());
        self.files.fill(&config.enrichment, &mut tables);
        self.tables = Arc::new(tables);
    }
}

impl App {
    /// Follows a configuration as far as that goes without a restart. What cannot be followed changes nothing.
    ///
    /// # Errors
    ///
    /// It is wrong, or an address or a file that it names cannot be used.
    pub fn reload(&mut self, config: Result<Config, ConfigErrors>) -> Result<(), ReloadError> {
        let outcome = config.map_err(ReloadError::from).and_then(|config| self.follow(&config));
        if let Err(error) = &outcome {
            self.view.reloads.note_refused(&error.to_string());
            error!("Configuration not followed, the one of before stays:\n{error}");
        }
        outcome
    }

    fn follow(&mut self, config: &Config) -> Result<(), ReloadError> {
        let (config, needs_restart) = config.as_followed_by(&self.config);
        self.enrichment.files.refresh();
        let files = self.enrichment.files.follow(&config.enrichment);
        let mistakes = files.mistakes();
        if !mistakes.is_empty() && config.enrichment != self.config.enrichment {
            return Err(ReloadError::Files(mistakes));
        }
        let sockets = self.receivers.bind(&config.receivers)?;

        if config.hostnames != self.config.hostnames {
            let metrics = &self.enrichment.metrics;
            self.enrichment.host_names = HostNames::start(&config.hostnames, metrics)?;
        }
        self.enrichment.files.take(files);
        self.enrichment.rebuild(&config);
        self.receivers.change(&config, sockets, &self.enrichment.tables)?;
        self.sink.follow(&config);
        if config.snmp != self.config.snmp {
            self.snmp.reconfigure(config.snmp.clone());
        }
        // What is wrong with it is said there, and the one of before stays.
        drop(self.reload_certificate());
        set_log_level(config.log.level);
        self.config = config;
        self.view.show_receivers(&self.receivers());
        self.view.reloads.show_files(self.enrichment.files.list());
        for key in &needs_restart {
            warn!(key, "The key has changed and needs a restart.");
        }
        self.view.reloads.note_applied(needs_restart);
        info!("Configuration read anew.");
        Ok(())
    }

    /// Looks at the files of the tables when it is time for that.
    pub fn look_at_files(&mut self, now: Instant) {
        let interval = self.config.enrichment.files_interval;
        if now.saturating_duration_since(self.enrichment.looked_at) < interval {
            return;
        }
        self.enrichment.looked_at = now;
        if self.enrichment.files.refresh() {
            self.enrichment.rebuild(&self.config);
            self.receivers.use_tables(&self.config, &self.enrichment.tables);
        }
        self.view.reloads.show_files(self.enrichment.files.list());
    }

    /// How often the configuration is to be looked at, if so.
    #[must_use]
    pub fn reload_interval(&self) -> Option<Duration> {
        self.config.reload.interval
    }
}
