//! The crate `netflow_parser`, asked for one set at a time.
//!
//! It is general and slow, and what it cannot read it drops without a word: a bad set takes the others of its
//! datagram along, an empty field of variable length the rest of its set. So it is asked for single sets, and the
//! records that it leaves are cut out by the lengths of its template.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use netflow_parser::variable_versions::field_value::FieldValue;
use netflow_parser::variable_versions::ipfix::{self, FlowSetBody as IpfixBody};
use netflow_parser::variable_versions::v9::{self, FlowSetBody as V9Body, ScopeDataField};
use netflow_parser::{NetflowError, NetflowPacket, NetflowParser};

use crate::decode::Protocol;

use super::field::{Field, Owner};
use super::header::Message;

/// Bytes of a set header, RFC 3954 section 5.2 and RFC 7011 section 3.3.2.
const SET_HEADER_BYTES: usize = 4;

/// Observation domains that templates are kept of. A capture with more is of spoofers: all are forgotten.
const DOMAINS_MAX: usize = 10_000;

/// More records than the longest set can hold; the crate's own limit drops those beyond it.
const RECORDS_MAX: usize = 65_535;

/// Characters of an error that are shown: the crate puts the datagram in it.
const ERROR_CHARS_MAX: usize = 120;

/// One exporter's domain.
type Key = (IpAddr, Protocol, u32);

/// The crate's parsers, and the templates that they have learned: it does not show them, and its names of
/// elements lead back to no number.
#[derive(Debug, Default)]
pub(super) struct Library {
    domains: HashMap<Key, Domain>,
}

#[derive(Debug)]
struct Domain {
    parser: NetflowParser,
    templates: HashMap<u16, Arc<[Field]>>,
}

/// What is in a set.
#[derive(Debug)]
pub(super) enum Contents {
    Templates(Vec<Template>),
    Records {
        fields: Arc<[Field]>,
        /// The bytes of each field of each record.
        records: Vec<Vec<Vec<u8>>>,
        /// So many the crate read; the others were cut out by the lengths of the template.
        read_by_library: usize,
        /// What lies behind the last of them.
        rest_bytes: usize,
    },
    /// Nothing that the crate reads, and why.
    Unread(String),
}

#[derive(Debug)]
pub(super) struct Template {
    pub(super) id: u16,
    pub(super) fields: Arc<[Field]>,
    pub(super) is_options: bool,
    /// Another one had its id.
    pub(super) is_redefined: bool,
}

impl Library {
    /// Reads one set of a message, header included.
    pub(super) fn read(&mut self, exporter: IpAddr, message: &Message<'_>, set: &[u8]) -> Contents {
        let key = (exporter, message.protocol, message.domain_id);
        if self.domains.len() >= DOMAINS_MAX && !self.domains.contains_key(&key) {
            self.domains.clear();
        }
        self.domains.entry(key).or_insert_with(Domain::new).read(message, set)
    }
}

impl Domain {
    fn new() -> Self {
        let parser = NetflowParser::builder().with_max_records_per_flowset(RECORDS_MAX).build();
        // The limits above are valid; the crate's own are too.
        Self { parser: parser.unwrap_or_default(), templates: HashMap::new() }
    }

    fn read(&mut self, message: &Message<'_>, set: &[u8]) -> Contents {
        let id = set.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
        let result = self.parser.parse_bytes(&with_header(message, set));
        match (result.packets.into_iter().next(), result.error) {
            (Some(NetflowPacket::V9(packet)), _) => match packet.flowsets.into_iter().next() {
                Some(set_of_crate) => self.of_v9(id, set_of_crate.body, set),
                None => unread("not read by netflow_parser"),
            },
            (Some(NetflowPacket::IPFix(packet)), _) => match packet.flowsets.into_iter().next() {
                Some(set_of_crate) => self.of_ipfix(id, set_of_crate.body, set),
                None => unread("not read by netflow_parser"),
            },
            (_, Some(error)) => Contents::Unread(said_by_library(&error)),
            (_, None) => unread("not read by netflow_parser"),
        }
    }

    fn of_v9(&mut self, id: u16, body: V9Body, set: &[u8]) -> Contents {
        match body {
            V9Body::Template(set) => self.learn(
                set.templates.into_iter().map(|t| (t.template_id, v9_fields(&t.fields))),
                false,
            ),
            V9Body::OptionsTemplate(set) => self.learn(
                set.templates.into_iter().map(|t| (t.template_id, v9_options_fields(&t))),
                true,
            ),
            V9Body::Data(data) => self.records(id, set, data.fields, |record| {
                record.into_iter().map(|(_, value)| bytes_of(&value)).collect()
            }),
            V9Body::OptionsData(data) => self.records(id, set, data.fields, |record| {
                let scope = record.scope_fields.into_iter().map(bytes_of_scope);
                scope
                    .chain(record.options_fields.iter().map(|(_, value)| bytes_of(value)))
                    .collect()
            }),
            V9Body::NoTemplate(_) => unread("no template"),
            V9Body::Empty => unread("empty for netflow_parser"),
        }
    }

    fn of_ipfix(&mut self, id: u16, body: IpfixBody, set: &[u8]) -> Contents {
        let values = |record: Vec<(_, FieldValue)>| {
            record.iter().map(|(_, value)| bytes_of(value)).collect()
        };
        match body {
            IpfixBody::Template(template) => self.learn_ipfix(vec![template]),
            IpfixBody::Templates(templates) => self.learn_ipfix(templates),
            IpfixBody::OptionsTemplate(template) => self.learn_ipfix_options(vec![template]),
            IpfixBody::OptionsTemplates(templates) => self.learn_ipfix_options(templates),
            IpfixBody::Data(data) => self.records(id, set, data.fields, values),
            IpfixBody::OptionsData(data) => self.records(id, set, data.fields, values),
            IpfixBody::NoTemplate(_) => unread("no template"),
            IpfixBody::Empty => unread("empty for netflow_parser"),
            _ => unread("set of NetFlow v9"),
        }
    }

    fn learn_ipfix(&mut self, templates: Vec<ipfix::Template>) -> Contents {
        self.learn(
            templates.into_iter().map(|t| (t.template_id, ipfix_fields(&t.fields, 0))),
            false,
        )
    }

    fn learn_ipfix_options(&mut self, templates: Vec<ipfix::OptionsTemplate>) -> Contents {
        let fields = |t: ipfix::OptionsTemplate| {
            (t.template_id, ipfix_fields(&t.fields, t.scope_field_count.into()))
        };
        self.learn(templates.into_iter().map(fields), true)
    }

    fn learn(
        &mut self,
        templates: impl Iterator<Item = (u16, Vec<Field>)>,
        is_options: bool,
    ) -> Contents {
        let mut learn = |(id, fields): (u16, Vec<Field>)| {
            let fields: Arc<[Field]> = fields.into();
            let before = self.templates.insert(id, Arc::clone(&fields));
            Template { id, fields, is_options, is_redefined: before.is_some() }
        };
        Contents::Templates(templates.map(&mut learn).collect())
    }

    fn records<R>(
        &self,
        id: u16,
        set: &[u8],
        records: Vec<R>,
        values: impl Fn(R) -> Vec<Vec<u8>>,
    ) -> Contents {
        let Some(fields) = self.templates.get(&id) else { return unread("no template") };
        let mut records: Vec<_> = records.into_iter().map(values).collect();
        let read_by_library = records.len();
        let mut rest = set.get(SET_HEADER_BYTES..).unwrap_or_default();
        for _ in 0..read_by_library {
            rest = cut_record(fields, rest).map_or(&[], |(_, behind)| behind);
        }
        while rest.iter().any(|&byte| byte != 0) {
            let Some((record, behind)) = cut_record(fields, rest) else { break };
            records.push(record);
            rest = behind;
        }
        let rest_bytes = rest.len();
        Contents::Records { fields: Arc::clone(fields), records, read_by_library, rest_bytes }
    }
}

/// A message of this set alone.
fn with_header(message: &Message<'_>, set: &[u8]) -> Vec<u8> {
    let mut bytes = [message.header, set].concat();
    if message.protocol == Protocol::Ipfix {
        let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_be_bytes();
        bytes.iter_mut().skip(2).zip(length).for_each(|(byte, length)| *byte = length);
    }
    bytes
}

/// The fields of the record that `bytes` begin with, and what lies behind it.
fn cut_record<'a>(fields: &[Field], mut bytes: &'a [u8]) -> Option<(Vec<Vec<u8>>, &'a [u8])> {
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

fn v9_fields(fields: &[v9::TemplateField]) -> Vec<Field> {
    let field = |field: &v9::TemplateField| Field {
        owner: Owner::NetflowV9,
        id: field.field_type_number,
        length: field.field_length,
        is_scope: false,
    };
    fields.iter().map(field).collect()
}

fn v9_options_fields(template: &v9::OptionsTemplate) -> Vec<Field> {
    let scope = template.scope_fields.iter().map(|field| Field {
        owner: Owner::NetflowV9Scope,
        id: field.field_type_number,
        length: field.field_length,
        is_scope: true,
    });
    scope.chain(v9_fields(&template.option_fields)).collect()
}

fn ipfix_fields(fields: &[ipfix::TemplateField], scope_count: usize) -> Vec<Field> {
    let field = |(position, field): (usize, &ipfix::TemplateField)| Field {
        owner: Owner::Enterprise(field.enterprise_number.unwrap_or(0)),
        id: field.field_type_number,
        length: field.field_length,
        is_scope: position < scope_count,
    };
    fields.iter().enumerate().map(field).collect()
}

fn bytes_of(value: &FieldValue) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.byte_len());
    // Fails for values of a width that is never read.
    match value.write_be_bytes(&mut bytes) {
        Ok(()) => bytes,
        Err(_) => Vec::new(),
    }
}

fn bytes_of_scope(field: ScopeDataField) -> Vec<u8> {
    match field {
        ScopeDataField::System(bytes)
        | ScopeDataField::Interface(bytes)
        | ScopeDataField::LineCard(bytes)
        | ScopeDataField::NetFlowCache(bytes)
        | ScopeDataField::Template(bytes)
        | ScopeDataField::Unknown(_, bytes) => bytes,
    }
}

fn unread(why: &str) -> Contents {
    Contents::Unread(why.to_owned())
}

/// An error of the crate, cut.
pub(super) fn said_by_library(error: &NetflowError) -> String {
    let whole = error.to_string();
    let shown: String = whole.chars().take(ERROR_CHARS_MAX).collect();
    let cut = if shown.len() < whole.len() { "..." } else { "" };
    format!("not read by netflow_parser ({}{cut})", shown.escape_debug())
}
