//! Template and options template sets: RFC 3954 sections 5.2 and 6.1, RFC 7011 sections 3.4.1 and 3.4.2.

use super::decoder::Domain;
use super::tally::{DropReason, Tally};
use super::template::{
    Definition, FIELDS_MAX, Field, Learned, NETFLOW_V9_SCOPE, Templates, VARIABLE_LENGTH,
};
use super::wire::Wire;

/// Lowest id of a template; the ids below are set ids, RFC 7011 section 3.4.1.
pub(super) const TEMPLATE_ID_MIN: u16 = 256;

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

enum Record {
    Template(Definition),
    Withdrawal(u16),
    /// Zeros up to the end of the set.
    Padding,
}

/// Reads every template record of a set. A record that is cut or malformed ends the set: where the next
/// one would begin is not known.
pub(super) fn learn_set(
    set: &[u8],
    layout: Layout,
    domain: Option<&Domain<'_>>,
    tally: &mut Tally,
) {
    let Some(Domain { templates, .. }) = domain else {
        return tally.drop(DropReason::ExporterLimit, set.len());
    };
    let mut wire = Wire(set);
    while wire.len() >= 4 {
        let before = wire;
        match read_record(&mut wire, layout) {
            None => return tally.drop(DropReason::BadTemplate, before.len()),
            Some(Record::Padding) => return,
            Some(Record::Withdrawal(id)) => withdraw(id, layout, templates),
            Some(Record::Template(definition)) => {
                let bytes = before.len() - wire.len();
                learn(definition, bytes, templates, tally);
            }
        }
    }
}

fn learn(definition: Definition, bytes: usize, templates: &Templates, tally: &mut Tally) {
    tally.templates += 1;
    if definition.id < TEMPLATE_ID_MIN || !is_usable(&definition.fields) {
        return tally.drop(DropReason::BadTemplate, bytes);
    }
    match templates.learn(definition) {
        Learned::Changed => tally.templates_learned += 1,
        Learned::Known => {}
        Learned::LimitReached => tally.drop(DropReason::TemplateLimit, bytes),
    }
}

/// A record must take at least one byte, or a set would hold endless records; and fit a datagram.
fn is_usable(fields: &[Field]) -> bool {
    let bytes: usize = fields
        .iter()
        .map(|field| if field.length == VARIABLE_LENGTH { 1 } else { field.length.into() })
        .sum();
    fields.len() <= FIELDS_MAX && (1..=usize::from(u16::MAX)).contains(&bytes)
}

fn withdraw(id: u16, layout: Layout, templates: &Templates) {
    templates.withdraw(|definition| {
        definition.is_options == layout.is_options()
            && (definition.id == id || id == layout.withdraw_all_id())
    });
}

fn read_record(wire: &mut Wire<'_>, layout: Layout) -> Option<Record> {
    if wire.is_all_zero() {
        return Some(Record::Padding);
    }
    let id = wire.u16()?;
    let mut scope_count = 0;
    let field_count = match layout {
        Layout::NetflowV9Data => usize::from(wire.u16()?),
        // Lengths in bytes of the scope fields and the option fields; a field takes 4.
        Layout::NetflowV9Options => {
            scope_count = usize::from(wire.u16()?) / 4;
            scope_count + usize::from(wire.u16()?) / 4
        }
        Layout::IpfixData | Layout::IpfixOptions => {
            let count = wire.u16()?;
            if count == 0 {
                return Some(Record::Withdrawal(id));
            }
            if layout == Layout::IpfixOptions {
                wire.u16()?; // how many of the fields are scope fields
            }
            usize::from(count)
        }
    };
    let fields = (0..field_count).map(|_| read_field(wire, layout)).collect::<Option<Vec<_>>>();
    let mut fields = fields?;
    for scope in fields.iter_mut().take(scope_count) {
        scope.enterprise = NETFLOW_V9_SCOPE;
    }
    Some(Record::Template(Definition { id, fields, is_options: layout.is_options() }))
}

fn read_field(wire: &mut Wire<'_>, layout: Layout) -> Option<Field> {
    let (id, length) = (wire.u16()?, wire.u16()?);
    if layout.is_ipfix() && id & ENTERPRISE_BIT != 0 {
        return Some(Field { enterprise: wire.u32()?, id: id & !ENTERPRISE_BIT, length });
    }
    Some(Field { enterprise: 0, id, length })
}
