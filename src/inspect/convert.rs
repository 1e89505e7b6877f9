//! From the types of `netflow_parser` to fields, and to the bytes of their values.

use netflow_parser::variable_versions::field_value::FieldValue;
use netflow_parser::variable_versions::v9::ScopeDataField;
use netflow_parser::variable_versions::{ipfix, v9};

use super::field::{Field, Owner};

pub(super) fn v9_fields(fields: &[v9::TemplateField]) -> Vec<Field> {
    let field = |field: &v9::TemplateField| Field {
        owner: Owner::NetflowV9,
        id: field.field_type_number,
        length: field.field_length,
        is_scope: false,
    };
    fields.iter().map(field).collect()
}

pub(super) fn v9_options_fields(template: &v9::OptionsTemplate) -> Vec<Field> {
    let scope = template.scope_fields.iter().map(|field| Field {
        owner: Owner::NetflowV9Scope,
        id: field.field_type_number,
        length: field.field_length,
        is_scope: true,
    });
    scope.chain(v9_fields(&template.option_fields)).collect()
}

pub(super) fn ipfix_fields(fields: &[ipfix::TemplateField], scope_count: usize) -> Vec<Field> {
    let field = |(position, field): (usize, &ipfix::TemplateField)| Field {
        owner: Owner::Enterprise(field.enterprise_number.unwrap_or(0)),
        id: field.field_type_number,
        length: field.field_length,
        is_scope: position < scope_count,
    };
    fields.iter().enumerate().map(field).collect()
}

pub(super) fn bytes_of(value: &FieldValue) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.byte_len());
    // Fails for values of a width that is never read.
    match value.write_be_bytes(&mut bytes) {
        Ok(()) => bytes,
        Err(_) => Vec::new(),
    }
}

pub(super) fn bytes_of_scope(field: ScopeDataField) -> Vec<u8> {
    match field {
        ScopeDataField::System(bytes)
        | ScopeDataField::Interface(bytes)
        | ScopeDataField::LineCard(bytes)
        | ScopeDataField::NetFlowCache(bytes)
        | ScopeDataField::Template(bytes)
        | ScopeDataField::Unknown(_, bytes) => bytes,
    }
}
