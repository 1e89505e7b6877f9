//! Templates of one session and observation domain. Those of an exporter's datagrams are shared by every
//! reader of the process.
//!
//! Readers look a template up once per set. A refresh that changes nothing writes nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use super::options::OptionsReader;
use super::plan::Plan;
use super::tally::Protocol;
use super::template_counts::TemplateCounts;
use super::waiting::{Waiting, WaitingCounts, give_back};

/// Fields of one template. The widest of the captures that decoding is tested on has 89; a template's
/// cost for the sets that use it grows with its fields.
pub(super) const FIELDS_MAX: usize = 512;

/// Enterprise number of scope fields of NetFlow v9: their types are numbers of their own, not elements
/// (RFC 3954 section 6.1). No enterprise has it.
pub const NETFLOW_V9_SCOPE: u32 = u32::MAX;

/// One field of a template: RFC 3954 section 5.2, RFC 7011 section 3.2.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Field {
    /// Private enterprise number; 0 for IANA elements and for NetFlow v9.
    pub(super) enterprise: u32,
    pub(super) id: u16,
    /// Bytes, or [`VARIABLE_LENGTH`].
    pub(super) length: u16,
}

impl Field {
    /// Whether it is one of these elements of IANA, whose numbers NetFlow v9 shares.
    pub(super) fn is_iana(&self, ids: &[u16]) -> bool {
        self.enterprise == 0 && ids.contains(&self.id)
    }

    /// Whether its length is one of an integer (RFC 7011 section 6.2), or each record's own.
    pub(super) fn is_integer(&self) -> bool {
        (1..=8).contains(&self.length) || self.length == VARIABLE_LENGTH
    }
}

/// Field length that announces a length in each record, RFC 7011 section 7.
pub const VARIABLE_LENGTH: u16 = 65_535;

/// What was not announced or used for this long is forgotten, and not restored. Exporters repeat templates
/// every 30 minutes at least, or announce them once and use them; they are idle for a night at most. After a
/// longer time one is more likely to have been given another configuration, and data under an old template
/// would become wrong flows.
pub(super) const TEMPLATE_AGE_MAX_MS: i64 = 24 * 3_600_000;

/// When a template was last seen is noted again after this, so that most sets only read it.
const SEEN_REFRESH_MS: u64 = 60_000;

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
    /// When it was last announced or used, milliseconds since 1970, to the minute.
    seen_ms: AtomicI64,
}

/// A template, for people.
#[derive(Clone, Debug)]
pub struct TemplateInfo {
    /// Of which its records are.
    pub protocol: Protocol,
    /// Observation domain or source id.
    pub domain_id: u32,
    /// Its id.
    pub id: u16,
    /// Its records describe the exporter.
    pub is_options: bool,
    /// When it was last announced or used, milliseconds since 1970, to the minute.
    pub seen_ms: i64,
    /// Its fields, in order: enterprise number or [`NETFLOW_V9_SCOPE`], id, length in bytes or
    /// [`VARIABLE_LENGTH`].
    pub fields: Vec<(u32, u16, u16)>,
}

impl TemplateInfo {
    pub(super) fn of(protocol: Protocol, domain_id: u32, template: &Template) -> Self {
        let Definition { id, fields, is_options } = &template.definition;
        Self {
            protocol,
            domain_id,
            id: *id,
            is_options: *is_options,
            seen_ms: template.seen_ms(),
            fields: fields.iter().map(|field| (field.enterprise, field.id, field.length)).collect(),
        }
    }
}

/// The templates of one (session, protocol, observation domain or source id).
#[derive(Debug)]
pub(super) struct Templates {
    /// Held for a lookup or one change, never while records are decoded or a plan is compiled.
    table: RwLock<Table>,
    counts: TemplateCounts,
    /// Data sets that came before their template.
    pub(super) waiting: Waiting,
    /// There was nothing in it at the last look.
    was_empty: AtomicBool,
    /// The session has forgotten it: readers that still know it must look again.
    is_forgotten: AtomicBool,
}

#[derive(Debug, Default)]
struct Table {
    by_id: HashMap<u16, Arc<Template>>,
    /// How many of them are options templates.
    options: usize,
}

/// What learning a template changed.
#[derive(Debug)]
pub(super) enum Learned {
    /// A new template, or one that differs from the known one of the same id.
    Changed(Arc<Template>),
    /// A refresh.
    Known,
    /// The exporter has too many, or all exporters have.
    LimitReached,
}

impl Templates {
    pub(super) fn new(counts: TemplateCounts, waiting: WaitingCounts) -> Self {
        Self {
            table: RwLock::default(),
            counts,
            waiting: Waiting::new(waiting),
            was_empty: AtomicBool::new(false),
            is_forgotten: AtomicBool::new(false),
        }
    }

    pub(super) fn is_forgotten(&self) -> bool {
        self.is_forgotten.load(Ordering::Relaxed)
    }

    /// Whether there was neither a template nor a waiting set at this look and the one before; then it counts
    /// as forgotten. Two looks, since a reader may be about to learn a template.
    pub(super) fn forget_if_empty(&self) -> bool {
        let is_empty = self.list().is_empty() && self.waiting.is_empty();
        let is_forgotten = is_empty && self.was_empty.load(Ordering::Relaxed);
        self.was_empty.store(is_empty, Ordering::Relaxed);
        self.is_forgotten.store(is_forgotten, Ordering::Relaxed);
        is_forgotten
    }

    pub(super) fn get(&self, id: u16) -> Option<Arc<Template>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).by_id.get(&id).map(Arc::clone)
    }

    pub(super) fn learn(&self, definition: Definition, now_ms: i64) -> Learned {
        let id = definition.id;
        let known = self.get(id);
        if let Some(template) = known.as_ref().filter(|known| known.definition == definition) {
            template.note_seen(now_ms);
            return Learned::Known;
        }
        if !self.counts.have_room(definition.fields.len(), known.as_deref()) {
            // Sets of this id follow the new definition.
            self.forget(id);
            return Learned::LimitReached;
        }
        let template = Arc::new(Template::compile(definition, now_ms));
        let mut table = self.write();
        table.remove(id, &self.counts);
        table.insert(id, Arc::clone(&template), &self.counts);
        Learned::Changed(template)
    }

    /// Forgets one template, of whatever kind.
    pub(super) fn forget(&self, id: u16) {
        self.write().remove(id, &self.counts);
    }

    /// Forgets one template of a kind, RFC 7011 section 8.1.
    pub(super) fn withdraw(&self, id: u16, is_options: bool) {
        self.forget_if(id, |template| template.definition.is_options == is_options);
    }

    /// Forgets all templates of a kind, RFC 7011 section 8.1.
    pub(super) fn withdraw_all(&self, is_options: bool) {
        let mut table = self.write();
        let data = table.by_id.len() - table.options;
        // A datagram can ask for this thousands of times: only look for what is there.
        if if is_options { table.options } else { data } == 0 {
            return;
        }
        let is_meant = |template: &Template| template.definition.is_options == is_options;
        let ids: Vec<u16> =
            table.by_id.iter().filter(|(_, t)| is_meant(t)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| table.remove(id, &self.counts));
    }

    /// Forgets templates that were not seen for [`TEMPLATE_AGE_MAX_MS`]; returns how many.
    pub(super) fn expire(&self, now_ms: i64) -> u64 {
        let is_old = |template: &Template| now_ms - template.seen_ms() >= TEMPLATE_AGE_MAX_MS;
        let old: Vec<u16> = self
            .list()
            .iter()
            .filter(|template| is_old(template))
            .map(|template| template.definition.id)
            .collect();
        old.iter().filter(|id| self.forget_if(**id, is_old)).count() as u64
    }

    /// Forgets a template that is as asked for, with the lock held: another reader may have learned a new
    /// one meanwhile.
    fn forget_if(&self, id: u16, is_meant: impl Fn(&Template) -> bool) -> bool {
        let mut table = self.write();
        let is_there = table.by_id.get(&id).is_some_and(|template| is_meant(template));
        if is_there {
            table.remove(id, &self.counts);
        }
        is_there
    }

    /// Every template.
    pub(super) fn list(&self) -> Vec<Arc<Template>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.by_id.values().map(Arc::clone).collect()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Templates {
    fn drop(&mut self) {
        let table = self.table.get_mut().unwrap_or_else(PoisonError::into_inner);
        table.by_id.values().for_each(|template| self.counts.remove(template));
    }
}

impl Table {
    fn insert(&mut self, id: u16, template: Arc<Template>, counts: &TemplateCounts) {
        self.options += usize::from(template.definition.is_options);
        counts.add(&template);
        self.by_id.insert(id, template);
    }

    fn remove(&mut self, id: u16, counts: &TemplateCounts) {
        if let Some(template) = self.by_id.remove(&id) {
            self.options -= usize::from(template.definition.is_options);
            counts.remove(&template);
            give_back(&mut self.by_id);
        }
    }
}

impl Template {
    /// It was announced again, or a set of it came.
    pub(super) fn note_seen(&self, now_ms: i64) {
        if self.seen_ms().abs_diff(now_ms) >= SEEN_REFRESH_MS {
            self.seen_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    pub(super) fn seen_ms(&self) -> i64 {
        self.seen_ms.load(Ordering::Relaxed)
    }

    fn compile(mut definition: Definition, now_ms: i64) -> Self {
        definition.fields.shrink_to_fit();
        let plan = Plan::compile(&definition.fields);
        let options = if definition.is_options {
            OptionsReader::compile(&definition.fields)
        } else {
            OptionsReader::default()
        };
        Self { definition, plan, options, seen_ms: AtomicI64::new(now_ms) }
    }
}
