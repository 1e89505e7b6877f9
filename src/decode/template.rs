//! Templates of one exporter and observation domain, shared by every reader of the process.
//!
//! Readers look a template up once per set, without a lock; learning one copies the table and swaps it
//! (templates are refreshed every few minutes, and a refresh that changes nothing does not copy).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use super::options::OptionsReader;
use super::plan::Plan;

/// Fields of one template. The widest of the captures that decoding is tested on has 89; a template's
/// cost for the sets that use it grows with its fields.
pub(super) const FIELDS_MAX: usize = 512;

/// Templates of one exporter over all its observation domains. Open vSwitch announces 89; the limit
/// keeps a spoofer who announces all 65,280 ids of many domains below 50 MiB.
pub(super) const TEMPLATES_PER_EXPORTER_MAX: usize = 4_096;

/// Enterprise number of scope fields of NetFlow v9: their types are numbers of their own, not elements
/// (RFC 3954 section 6.1). No enterprise has it.
pub(super) const NETFLOW_V9_SCOPE: u32 = u32::MAX;

/// One field of a template: RFC 3954 section 5.2, RFC 7011 section 3.2.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Field {
    /// Private enterprise number; 0 for IANA elements and for NetFlow v9.
    pub(super) enterprise: u32,
    pub(super) id: u16,
    /// Bytes, or [`VARIABLE_LENGTH`].
    pub(super) length: u16,
}

/// Field length that announces a length in each record, RFC 7011 section 7.
pub(super) const VARIABLE_LENGTH: u16 = 65_535;

/// What a template says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Definition {
    pub(super) id: u16,
    pub(super) fields: Vec<Field>,
    /// An options template: its records describe the exporter.
    pub(super) is_options: bool,
}

/// A template and what was compiled from it.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) definition: Definition,
    pub(super) plan: Plan,
    /// Reads the records of an options template; finds nothing in others.
    pub(super) options: OptionsReader,
}

type Table = HashMap<u16, Arc<Template>>;

/// The templates of one (exporter, protocol, observation domain or source id).
#[derive(Debug)]
pub(super) struct Templates {
    table: ArcSwap<Table>,
    learning: Mutex<()>,
    /// Templates of the whole exporter, against [`TEMPLATES_PER_EXPORTER_MAX`].
    exporter_templates: Arc<AtomicUsize>,
}

/// What learning a template changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Learned {
    /// A new template, or one that differs from the known one of the same id.
    Changed,
    /// A refresh.
    Known,
    /// The exporter has too many.
    LimitReached,
}

impl Templates {
    pub(super) fn new(exporter_templates: Arc<AtomicUsize>) -> Self {
        Self { table: ArcSwap::default(), learning: Mutex::new(()), exporter_templates }
    }

    pub(super) fn with<T>(&self, id: u16, use_it: impl FnOnce(Option<&Template>) -> T) -> T {
        let table = self.table.load();
        use_it(table.get(&id).map(|template| &**template))
    }

    pub(super) fn learn(&self, definition: Definition) -> Learned {
        let is_same = |known: Option<&Template>| known.is_some_and(|t| t.definition == definition);
        if self.with(definition.id, is_same) {
            return Learned::Known;
        }
        let _learning = self.learning.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = Table::clone(&self.table.load());
        if !table.contains_key(&definition.id) {
            if self.exporter_templates.load(Ordering::Relaxed) >= TEMPLATES_PER_EXPORTER_MAX {
                return Learned::LimitReached;
            }
            self.exporter_templates.fetch_add(1, Ordering::Relaxed);
        }
        let plan = Plan::compile(&definition.fields);
        let options = OptionsReader::compile(&definition.fields);
        table.insert(definition.id, Arc::new(Template { definition, plan, options }));
        self.table.store(Arc::new(table));
        Learned::Changed
    }

    /// Forgets the templates that `is_withdrawn` names, RFC 7011 section 8.1.
    pub(super) fn withdraw(&self, is_withdrawn: impl Fn(&Definition) -> bool) {
        let _learning = self.learning.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = Table::clone(&self.table.load());
        let before = table.len();
        table.retain(|_, template| !is_withdrawn(&template.definition));
        self.exporter_templates.fetch_sub(before - table.len(), Ordering::Relaxed);
        self.table.store(Arc::new(table));
    }
}
