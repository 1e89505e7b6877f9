//! One exporter's domain: a parser of the crate, and the templates that it and tidegate's decoder have learned.

use std::collections::HashMap;
use std::sync::Arc;

use netflow_parser::variable_versions::ipfix::{self, FlowSetBody as IpfixBody};
use netflow_parser::variable_versions::v9::{self, FlowSetBody as V9Body};
use netflow_parser::{NetflowPacket, NetflowParser};

use crate::decode::{NETFLOW_V9_SCOPE, Protocol, SeenSet, TemplateInfo};

use super::convert::{bytes_of, bytes_of_scope, ipfix_fields, v9_fields, v9_options_fields};
use super::field::{Field, Owner, cut_record};
use super::header::Message;
use super::library::{Contents, Template, said_by_library};

/// Bytes of a set header, RFC 3954 section 5.2 and RFC 7011 section 3.3.2.
const SET_HEADER_BYTES: usize = 4;

/// More records than the longest set can hold; the crate's own limit drops those beyond it.
const RECORDS_MAX: usize = 65_535;

#[derive(Debug)]
pub(super) struct Domain {
    parser: NetflowParser,
    templates: HashMap<u16, Known>,
}

/// What is known of a template.
#[derive(Debug)]
struct Known {
    fields: Arc<[Field]>,
    /// The crate has it. It may have an older one otherwise.
    is_of_library: bool,
}

impl Domain {
    pub(super) fn new() -> Self {
        let parser = NetflowParser::builder().with_max_records_per_flowset(RECORDS_MAX).build();
        // The limits above are valid; the crate's own are too.
        Self { parser: parser.unwrap_or_default(), templates: HashMap::new() }
    }

    /// What the crate says.
    pub(super) fn ask(&mut self, message: &Message<'_>, set: &[u8]) -> Contents {
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
            V9Body::Data(data) => {
                let record = |record: v9::V9FlowRecord| {
                    record.iter().map(|(_, value)| bytes_of(value)).collect()
                };
                self.records_of_library(id, set, data.fields.into_iter().map(record).collect())
            }
            V9Body::OptionsData(data) => {
                let record = |record: v9::OptionsDataFields| {
                    let scope = record.scope_fields.into_iter().map(bytes_of_scope);
                    let options = record.options_fields.iter().map(|(_, value)| bytes_of(value));
                    scope.chain(options).collect()
                };
                self.records_of_library(id, set, data.fields.into_iter().map(record).collect())
            }
            V9Body::NoTemplate(_) => unread("no template"),
            V9Body::Empty => unread("empty for netflow_parser"),
        }
    }

    fn of_ipfix(&mut self, id: u16, body: IpfixBody, set: &[u8]) -> Contents {
        let values = |records: Vec<ipfix::IPFixFlowRecord>| {
            let record = |record: ipfix::IPFixFlowRecord| {
                record.iter().map(|(_, value)| bytes_of(value)).collect()
            };
            records.into_iter().map(record).collect::<Vec<Vec<Vec<u8>>>>()
        };
        match body {
            IpfixBody::Template(template) => self.learn_ipfix(vec![template]),
            IpfixBody::Templates(templates) => self.learn_ipfix(templates),
            IpfixBody::OptionsTemplate(template) => self.learn_ipfix_options(vec![template]),
            IpfixBody::OptionsTemplates(templates) => self.learn_ipfix_options(templates),
            IpfixBody::Data(data) => self.records_of_library(id, set, values(data.fields)),
            IpfixBody::OptionsData(data) => self.records_of_library(id, set, values(data.fields)),
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
        let templates = templates.map(|(id, fields)| self.learn_one(id, fields, is_options, true));
        Contents::Templates(templates.collect())
    }

    fn learn_one(
        &mut self,
        id: u16,
        fields: Vec<Field>,
        is_options: bool,
        is_of_library: bool,
    ) -> Template {
        let fields: Arc<[Field]> = fields.into();
        let known = Known { fields: Arc::clone(&fields), is_of_library };
        let is_redefined = self.templates.insert(id, known).is_some();
        Template { id, fields, is_options, is_redefined, is_of_library }
    }

    /// Adds the templates that tidegate learned of a set and the crate did not.
    pub(super) fn learn_others(
        &mut self,
        mut templates: Vec<Template>,
        seen: &SeenSet,
    ) -> Contents {
        for other in &seen.learned {
            if !templates.iter().any(|template| template.id == other.id) {
                let fields = fields_of_tidegate(other);
                templates.push(self.learn_one(other.id, fields, other.is_options, false));
            }
        }
        Contents::Templates(templates)
    }

    fn records_of_library(&self, id: u16, set: &[u8], records: Vec<Vec<Vec<u8>>>) -> Contents {
        self.records(id, set, records).unwrap_or_else(|| unread("no template"))
    }

    /// The records that the crate read, and those behind them as far as their template fits.
    pub(super) fn records(
        &self,
        id: u16,
        set: &[u8],
        mut records: Vec<Vec<Vec<u8>>>,
    ) -> Option<Contents> {
        let Known { fields, is_of_library } = self.templates.get(&id)?;
        if !is_of_library {
            records.clear();
        }
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
        let (fields, rest_bytes) = (Arc::clone(fields), rest.len());
        Some(Contents::Records { fields, records, read_by_library, rest_bytes })
    }
}

fn fields_of_tidegate(template: &TemplateInfo) -> Vec<Field> {
    let field = |&(enterprise, id, length): &(u32, u16, u16)| {
        let owner = match (template.protocol, enterprise) {
            (Protocol::NetflowV9, NETFLOW_V9_SCOPE) => Owner::NetflowV9Scope,
            (Protocol::NetflowV9, _) => Owner::NetflowV9,
            _ => Owner::Enterprise(enterprise),
        };
        Field { owner, id, length, is_scope: owner == Owner::NetflowV9Scope }
    };
    template.fields.iter().map(field).collect()
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

fn unread(why: &str) -> Contents {
    Contents::Unread(why.to_owned())
}
