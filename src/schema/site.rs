//! Where the schema is: a database of one server, or of every server of a cluster.

use crate::config::ClickHouseConfig;

/// Tokens that the server remembers for a table, of all collectors that write to it: at one batch a
/// second each, ten collectors can send the last 16 minutes' batches again without doubling.
pub(super) const DEDUPLICATION_WINDOW: usize = 10_000;

/// How long replicated tables remember them. The default of an hour is less than an outage that a spool survives.
const DEDUPLICATION_SECONDS: usize = 7 * 86_400;

/// A database, on one server or on a cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site<'a> {
    pub(super) database: &'a str,
    pub(super) cluster: Option<&'a str>,
}

impl<'a> Site<'a> {
    pub(super) fn of(config: &'a ClickHouseConfig) -> Self {
        Self { database: &config.database, cluster: config.schema.cluster.as_deref() }
    }

    /// A table or view, quoted.
    pub(super) fn quoted(self, name: &str) -> String {
        format!("`{}`.`{name}`", self.database)
    }

    /// The same in a statement that every server of the cluster is to run.
    pub(super) fn everywhere(self, name: &str) -> String {
        self.quoted(name) + &self.on_cluster()
    }

    pub(super) fn on_cluster(self) -> String {
        self.cluster.map_or_else(String::new, |cluster| format!(" ON CLUSTER `{cluster}`"))
    }

    /// An engine of the MergeTree family, replicated on a cluster. Where replicas meet is the server's own setting,
    /// `default_replica_path`.
    pub(super) fn engine(self, engine: &str) -> String {
        let replicated = if self.cluster.is_some() { "Replicated" } else { "" };
        format!("{replicated}{engine}")
    }

    /// The settings by which a table remembers tokens.
    pub(super) fn deduplication(self) -> String {
        if self.cluster.is_none() {
            return format!("non_replicated_deduplication_window = {DEDUPLICATION_WINDOW}");
        }
        format!(
            "replicated_deduplication_window = {DEDUPLICATION_WINDOW}, \
             replicated_deduplication_window_seconds = {DEDUPLICATION_SECONDS}"
        )
    }

    /// On a cluster: the statement that makes the table over the same table of all shards, for queries.
    pub(super) fn distributed(self, table: &str) -> Option<String> {
        let cluster = self.cluster?;
        Some(format!(
            "CREATE TABLE IF NOT EXISTS {} AS {}\nENGINE = Distributed(`{cluster}`, `{}`, `{table}`)",
            self.everywhere(&format!("{table}_all")),
            self.quoted(table),
            self.database
        ))
    }
}
