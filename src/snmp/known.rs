//! The walker's own copy of the table: with ages, and bounded.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::interfaces::{Interface, InterfaceTable, Tables};

/// Memory of all tables together, as [`bytes_of`] has it: over a million interfaces.
pub(super) const MEMORY_BYTES_MAX: usize = 256 << 20;

/// What an interface takes beside its texts: its place in a table that is half full, and two allocations.
const INTERFACE_BYTES: usize = 160;

/// Names that were not confirmed are kept for so many intervals,
const INTERVALS_KEPT: u32 = 3;

/// and for a day at least: an exporter that answers nobody is mended by then.
const KEPT_MIN: Duration = Duration::from_secs(86_400);

/// What is known of each exporter.
#[derive(Debug)]
pub(super) struct Known {
    by_exporter: HashMap<IpAddr, Confirmed>,
    bytes: usize,
    bytes_max: usize,
}

/// What an exporter answered last.
#[derive(Clone, Debug)]
pub(super) struct Confirmed {
    pub(super) table: Arc<InterfaceTable>,
    /// Milliseconds since 1970.
    pub(super) confirmed_ms: i64,
}

/// There is no memory for the interfaces of another exporter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct NoRoom;

impl Known {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { by_exporter: HashMap::new(), bytes: 0, bytes_max }
    }

    /// Takes what an exporter answered in place of what it answered before, which stays when there is no room.
    pub(super) fn confirm(&mut self, exporter: IpAddr, new: Confirmed) -> Result<(), NoRoom> {
        let bytes_before =
            self.by_exporter.get(&exporter).map_or(0, |before| bytes_of(&before.table));
        let bytes = self.bytes - bytes_before + bytes_of(&new.table);
        if bytes > self.bytes_max {
            return Err(NoRoom);
        }
        self.bytes = bytes;
        self.by_exporter.insert(exporter, new);
        Ok(())
    }

    /// Forgets what is too old at `now_ms`, and exporters that are not `wanted`; says whether there were any.
    pub(super) fn expire(
        &mut self,
        now_ms: i64,
        interval: Duration,
        wanted: impl Fn(IpAddr) -> bool,
    ) -> bool {
        let before = self.by_exporter.len();
        let age_max = KEPT_MIN.max(interval * INTERVALS_KEPT).as_millis();
        let age_max_ms = i64::try_from(age_max).unwrap_or(i64::MAX);
        self.by_exporter.retain(|&exporter, it| {
            now_ms.saturating_sub(it.confirmed_ms) <= age_max_ms && wanted(exporter)
        });
        let is_less = self.by_exporter.len() < before;
        if is_less {
            self.bytes = self.by_exporter.values().map(|it| bytes_of(&it.table)).sum();
        }
        is_less
    }

    /// When an exporter last answered.
    pub(super) fn confirmed_ms(&self, exporter: IpAddr) -> Option<i64> {
        self.by_exporter.get(&exporter).map(|it| it.confirmed_ms)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (IpAddr, &Confirmed)> {
        self.by_exporter.iter().map(|(&exporter, it)| (exporter, it))
    }

    pub(super) fn interface_count(&self) -> usize {
        self.by_exporter.values().map(|it| it.table.len()).sum()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// For readers.
    pub(super) fn tables(&self) -> Tables {
        self.iter().map(|(exporter, it)| (exporter, Arc::clone(&it.table))).collect()
    }
}

fn bytes_of(table: &InterfaceTable) -> usize {
    let bytes = |it: &Interface| INTERFACE_BYTES + it.name.len() + it.alias.len();
    table.values().map(bytes).sum()
}
