//! What templates cost, and how many there may be: of one exporter, and of all together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::template::Template;

/// Templates of one exporter over all its sessions and observation domains. Open vSwitch announces 89; the limit
/// keeps a spoofer who announces all 65,280 ids of many domains at bay.
pub(super) const TEMPLATES_PER_EXPORTER_MAX: usize = 4_096;

/// Memory of all templates of all exporters, beside the shares: 7,000 exporters with ten templates of 20
/// fields. However many fields the templates of spoofers have, they cost no more.
pub(super) const TEMPLATE_BYTES_IN_ALL_MAX: usize = 200 << 20;

/// Memory that each exporter has for itself when the others have all of the above: ten templates of 20
/// fields. Some spoofed addresses cannot take it away; all 16,384 exporters could have 512 MiB so.
pub(super) const TEMPLATE_BYTES_SHARE: usize = 32 << 10;

/// Memory of a template without its fields: the compiled plan, its place in the map, what allocations take.
const TEMPLATE_BYTES: usize = 900;

/// Memory of a field: the definition, the step that reads it. `tests/template_cost.rs` measures both.
const FIELD_BYTES: usize = 100;

/// What is counted against the limits.
#[derive(Clone, Debug, Default)]
pub(super) struct TemplateCounts {
    /// Templates of the exporter, against [`TEMPLATES_PER_EXPORTER_MAX`].
    pub(super) of_exporter: Arc<AtomicUsize>,
    /// Memory of the exporter's templates, against [`TEMPLATE_BYTES_SHARE`].
    bytes_of_exporter: Arc<AtomicUsize>,
    /// Memory of every exporter's templates, against [`TEMPLATE_BYTES_IN_ALL_MAX`].
    bytes_in_all: Arc<AtomicUsize>,
    /// Templates of every exporter that came, changed or went: what is kept over a restart is old then.
    pub(super) changes: Arc<AtomicU64>,
}

impl TemplateCounts {
    /// Counts of one more exporter.
    pub(super) fn of_new_exporter(
        bytes_in_all: &Arc<AtomicUsize>,
        changes: &Arc<AtomicU64>,
    ) -> Self {
        Self {
            bytes_in_all: Arc::clone(bytes_in_all),
            changes: Arc::clone(changes),
            ..Self::default()
        }
    }

    /// Whether there is room for a template of so many fields, in the place of `old`.
    pub(super) fn have_room(&self, fields: usize, old: Option<&Template>) -> bool {
        let added = cost(fields);
        let freed = old.map_or(0, cost_of);
        let is_below = |count: &AtomicUsize, max| {
            (count.load(Ordering::Relaxed) + added).saturating_sub(freed) <= max
        };
        let templates = self.of_exporter.load(Ordering::Relaxed) + usize::from(old.is_none());
        templates <= TEMPLATES_PER_EXPORTER_MAX
            && (is_below(&self.bytes_of_exporter, TEMPLATE_BYTES_SHARE)
                || is_below(&self.bytes_in_all, TEMPLATE_BYTES_IN_ALL_MAX))
    }

    pub(super) fn add(&self, template: &Template) {
        self.of_exporter.fetch_add(1, Ordering::Relaxed);
        self.bytes_of_exporter.fetch_add(cost_of(template), Ordering::Relaxed);
        self.bytes_in_all.fetch_add(cost_of(template), Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, template: &Template) {
        self.of_exporter.fetch_sub(1, Ordering::Relaxed);
        self.bytes_of_exporter.fetch_sub(cost_of(template), Ordering::Relaxed);
        self.bytes_in_all.fetch_sub(cost_of(template), Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
}

fn cost_of(template: &Template) -> usize {
    cost(template.definition.fields.len())
}

/// Memory of a template with so many fields.
pub(super) const fn cost(fields: usize) -> usize {
    TEMPLATE_BYTES + fields * FIELD_BYTES
}
