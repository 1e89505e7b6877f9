//! A field of a template: what it is called, and how its values are shown.

use std::fmt;

use crate::decode::VARIABLE_LENGTH;
use crate::elements::{Element, registry};

use super::{count, value};

/// Scope types of NetFlow v9, RFC 3954 section 6.1, from 1 on.
const NETFLOW_V9_SCOPES: [&str; 5] = ["System", "Interface", "LineCard", "Cache", "Template"];

/// Whose number a field has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Owner {
    /// IPFIX; 0 is IANA.
    Enterprise(u32),
    NetflowV9,
    /// A scope type of NetFlow v9, which is no element.
    NetflowV9Scope,
}

/// One field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Field {
    pub(super) owner: Owner,
    pub(super) id: u16,
    /// Bytes, or [`VARIABLE_LENGTH`]; exporters of NetFlow v9 use that too.
    pub(super) length: u16,
    /// It says what the other fields of an options record are about.
    pub(super) is_scope: bool,
}

impl Field {
    /// Its element, if the registry has it.
    fn element(self) -> Option<&'static Element> {
        match self.owner {
            Owner::Enterprise(number) => registry().find(number, self.id),
            Owner::NetflowV9 => registry().find_netflow_v9(self.id),
            Owner::NetflowV9Scope => None,
        }
    }

    /// Whether each record says how long it is.
    pub(super) fn is_variable(self) -> bool {
        self.length == VARIABLE_LENGTH
    }

    /// How long it is.
    pub(super) fn length_text(self) -> String {
        if self.is_variable() {
            return "variable length".to_owned();
        }
        count(self.length, "byte")
    }

    /// Its value in a record, readable.
    pub(super) fn show(self, bytes: &[u8]) -> String {
        match self.owner {
            // Ids, whatever the scope.
            Owner::NetflowV9Scope => value::show_number(bytes),
            _ => value::show(bytes, self.element().map(|element| element.data_type)),
        }
    }
}

/// Name and number: `octetDeltaCount(1)`, `reverseOctetDeltaCount(29305/1)`, `unknown(9/12232)`.
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_scope {
            f.write_str("scope ")?;
        }
        let scope_name = || NETFLOW_V9_SCOPES.get(usize::from(self.id).checked_sub(1)?);
        match (self.element(), self.owner) {
            (Some(element), _) => write!(f, "{}({})", element.name, element.number()),
            (None, Owner::NetflowV9Scope) => {
                write!(f, "{}({})", scope_name().unwrap_or(&"unknown"), self.id)
            }
            (None, Owner::Enterprise(0) | Owner::NetflowV9) => write!(f, "unknown({})", self.id),
            (None, Owner::Enterprise(number)) => write!(f, "unknown({number}/{})", self.id),
        }
    }
}

/// The fields of the record that `bytes` begin with, and what lies behind it.
pub(super) fn cut_record<'a>(
    fields: &[Field],
    mut bytes: &'a [u8],
) -> Option<(Vec<Vec<u8>>, &'a [u8])> {
    let whole = bytes.len();
    let mut record = Vec::with_capacity(fields.len());
    for field in fields {
        let mut length = usize::from(field.length);
        // RFC 7011 section 7: one byte of length, or 255 and two.
        if field.is_variable() {
            let (&first, behind) = bytes.split_first()?;
            (length, bytes) = (first.into(), behind);
            if first == u8::MAX {
                let (long, behind) = bytes.split_first_chunk()?;
                (length, bytes) = (u16::from_be_bytes(*long).into(), behind);
            }
        }
        let (value, behind) = bytes.split_at_checked(length)?;
        record.push(value.to_vec());
        bytes = behind;
    }
    // A record without a byte would come again and again.
    (bytes.len() < whole).then_some((record, bytes))
}
