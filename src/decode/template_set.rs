//! Template and options template sets: RFC 3954 sections 5.2 and 6.1, RFC 7011 sections 3.4.1 and 3.4.2.

use std::sync::Arc;

use super::tally::{DropReason, Tally};
use super::template::{
    Definition, FIELDS_MAX, Field, Learned, NETFLOW_V9_SCOPE, Template, Templates, VARIABLE_LENGTH,
};
use super::wire::Wire;

/// Lowest id of a template; the ids below are set ids, RFC 7011 section 3.4.1.
pub(super) const TEMPLATE_ID_MIN: u16 = 256;

/// A withdrawal: id and field count 0, RFC 7011 section 8.1. Fewer bytes are padding.
const SHORTEST_RECORD_BYTES: usize = 4;

/// Bit that announces an enterprise number behind the field's length, RFC 7011 section 3.2.
const ENTERPRISE_BIT: u16 = 0x8000;

/// How a template set is laid out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Layout {
    NetflowV9Data,
    NetflowV9Options,
    IpfixData,
    IpfixOptions,
}

impl Layout {
    fn is_options(self) -> bool {
        matches!(self, Self::NetflowV9Options | Self::IpfixOptions)
    }

    fn is_ipfix(self) -> bool {
        matches!(self, Self::IpfixData | Self::IpfixOptions)
    }

    /// The id under which a withdrawal means all templates of the kind, RFC 7011 section 8.1.
    fn withdraw_all_id(self) -> u16 {
        if self.is_options() { 3 } else { 2 }
    }
}

/// What a set came in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    /// When it came, milliseconds since 1970.
    pub(super) received_ms: i64,
    /// A connection keeps the order in which it was sent. A withdrawal in a datagram, which may be late or
    /// anybody's, is ignored, RFC 7011 section 8.4.
    pub(super) is_connection: bool,
}

enum Record {
    Template(Definition),
    /// Of one template, or of all of a kind.
    Withdrawal(u16),
    /// Zeros up to the end of the set.
    Padding,
    /// Where the next record would begin is not known. What the id meant before is not known either.
    Bad {
        id: u16,
    },
}

/// Reads every template record of a set; returns the templates that are new or have changed.
pub(super) fn learn_set(
    set: &[u8],
    layout: Layout,
    templates: &Templates,
    source: Source,
    tally: &mut Tally,
) -> Vec<Arc<Template>> {
    let mut learned = Vec::new();
    let mut wire = Wire(set);
    while wire.len() >= SHORTEST_RECORD_BYTES {
        let before = wire.len();
        match read_record(&mut wire, layout) {
            Record::Padding => return learned,
            Record::Bad { id } => {
                templates.forget(id);
                tally.drop(DropReason::BadTemplate, before);
                return learned;
            }
            Record::Withdrawal(_) if !source.is_connection => tally.ignored_withdrawals += 1,
            Record::Withdrawal(id) if id == layout.withdraw_all_id() => {
                tally.withdrawals += 1;
                templates.withdraw_all(layout.is_options());
            }
            Record::Withdrawal(id) => {
                tally.withdrawals += 1;
                templates.withdraw(id, layout.is_options());
            }
            Record::Template(definition) => {
                let bytes = before - wire.len();
                learned.extend(learn(definition, bytes, templates, source.received_ms, tally));
            }
        }
    }
    tally.note_rest(wire.0);
    learned
}

fn learn(
    definition: Definition,
    bytes: usize,
    templates: &Templates,
    now_ms: i64,
    tally: &mut Tally,
) -> Option<Arc<Template>> {
    tally.templates += 1;
    if !definition.is_usable() {
        // Sets of this id follow the new definition, so the old one would make flows of anything.
        templates.forget(definition.id);
        tally.drop(DropReason::BadTemplate, bytes);
        return None;
    }
    match templates.learn(definition, now_ms) {
        Learned::Changed(template) => {
            tally.templates_learned += 1;
            return Some(template);
        }
        Learned::Known => {}
        Learned::LimitReached => tally.drop(DropReason::TemplateLimit, bytes),
    }
    None
}

impl Definition {
    /// A record must take at least one byte, or a set would hold endless records; and fit a datagram.
    pub(super) fn is_usable(&self) -> bool {
        let bytes: usize = self
            .fields
            .iter()
            .map(|field| if field.length == VARIABLE_LENGTH { 1 } else { field.length.into() })
            .sum();
        self.id >= TEMPLATE_ID_MIN
            && self.fields.len() <= FIELDS_MAX
            && (1..=usize::from(u16::MAX)).contains(&bytes)
    }
}

fn read_record(wire: &mut Wire<'_>, layout: Layout) -> Record {
    let whole = *wire;
    let id = wire.u16().unwrap_or(0);
    // No template has id 0. The set ends here, so this looks at the rest only once.
    if id == 0 {
        return if whole.is_all_zero() { Record::Padding } else { Record::Bad { id } };
    }
    match read_fields(wire, layout) {
        None => Record::Bad { id },
        Some(fields) if fields.is_empty() && layout.is_ipfix() => Record::Withdrawal(id),
        Some(fields) => {
            Record::Template(Definition { id, fields, is_options: layout.is_options() })
        }
    }
}

/// Reads counts and fields; an IPFIX record without fields is a withdrawal and ends there.
fn read_fields(wire: &mut Wire<'_>, layout: Layout) -> Option<Vec<Field>> {
    let mut scope_count = 0;
    let field_count = match layout {
        Layout::NetflowV9Data => usize::from(wire.u16()?),
        // Lengths in bytes of the scope fields and the option fields; a field takes 4.
        Layout::NetflowV9Options => {
            scope_count = usize::from(wire.u16()?) / 4;
            scope_count + usize::from(wire.u16()?) / 4
        }
        Layout::IpfixData | Layout::IpfixOptions => {
            let count = usize::from(wire.u16()?);
            if count > 0 && layout == Layout::IpfixOptions {
                wire.u16()?; // how many of the fields are scope fields
            }
            count
        }
    };
    let read = |position| {
        let mut field = read_field(wire, layout)?;
        if position < scope_count {
            field.enterprise = NETFLOW_V9_SCOPE;
        }
        Some(field)
    };
    (0..field_count).map(read).collect()
}

fn read_field(wire: &mut Wire<'_>, layout: Layout) -> Option<Field> {
    let (id, length) = (wire.u16()?, wire.u16()?);
    if layout.is_ipfix() && id & ENTERPRISE_BIT != 0 {
        return Some(Field { enterprise: wire.u32()?, id: id & !ENTERPRISE_BIT, length });
    }
    Some(Field { enterprise: 0, id, length })
}
