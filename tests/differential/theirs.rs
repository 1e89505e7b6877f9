//! What the crate `netflow_parser` reads.

use std::net::IpAddr;

use netflow_parser::variable_versions::field_value::FieldValue;
use netflow_parser::variable_versions::ipfix::FlowSetBody as IpfixBody;
use netflow_parser::variable_versions::ipfix::lookup::IPFixField;
use netflow_parser::variable_versions::v9::FlowSetBody as V9Body;
use netflow_parser::variable_versions::v9::lookup::V9Field;
use netflow_parser::{NetflowPacket, NetflowParser, RouterScopedParser, ScopingInfo};

use crate::columns::{self, Expected};

/// Enough for anything in a datagram: the defaults drop what is beyond 1,024 records of a set.
const EVERYTHING: usize = 1 << 24;

pub(crate) struct Theirs {
    parser: RouterScopedParser<(IpAddr, u16, u32)>,
}

/// What a header says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) export_ms: i64,
    /// Of NetFlow.
    pub(crate) uptime_ms: Option<u32>,
    pub(crate) domain_id: u32,
    pub(crate) protocol: &'static str,
}

pub(crate) struct Set {
    pub(crate) header: Header,
    pub(crate) id: u16,
    pub(crate) length: usize,
    pub(crate) body: Body,
}

pub(crate) enum Body {
    Templates(usize),
    Options(usize),
    Records(Vec<Record>),
    Nothing,
}

pub(crate) type Record = Vec<(Key, FieldValue)>;

/// The crate's name of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Key {
    V9(V9Field),
    Ipfix(IPFixField),
}

impl Default for Theirs {
    fn default() -> Self {
        let builder = NetflowParser::builder()
            .with_max_records_per_flowset(65_535)
            .with_max_decoded_field_values_per_message(EVERYTHING)
            .with_max_decoded_field_payload_bytes_per_message(EVERYTHING);
        Self { parser: RouterScopedParser::try_with_builder(builder).unwrap() }
    }
}

impl Theirs {
    /// The sets of a datagram of NetFlow v9 or IPFIX, as far as the crate gives them.
    pub(crate) fn sets(&mut self, exporter: IpAddr, payload: &[u8]) -> Vec<Set> {
        let mut sets = Vec::new();
        for packet in self.packets(exporter, payload) {
            match packet {
                NetflowPacket::V9(packet) => {
                    let header = Header {
                        export_ms: i64::from(packet.header.unix_secs) * 1_000,
                        uptime_ms: Some(packet.header.sys_up_time),
                        domain_id: packet.header.source_id,
                        protocol: "NetflowV9",
                    };
                    sets.extend(packet.flowsets.into_iter().map(|set| Set {
                        header,
                        id: set.header.flowset_id,
                        length: set.header.length.into(),
                        body: of_v9(set.body),
                    }));
                }
                NetflowPacket::IPFix(packet) => {
                    let header = Header {
                        export_ms: i64::from(packet.header.export_time) * 1_000,
                        uptime_ms: None,
                        domain_id: packet.header.observation_domain_id,
                        protocol: "IPFIX",
                    };
                    sets.extend(packet.flowsets.into_iter().map(|set| Set {
                        header,
                        id: set.header.header_id,
                        length: set.header.length.into(),
                        body: of_ipfix(set.body),
                    }));
                }
                _ => {}
            }
        }
        sets
    }

    /// The records of a datagram of NetFlow v5 or v7.
    pub(crate) fn fixed_records(&mut self, exporter: IpAddr, payload: &[u8]) -> Vec<Expected> {
        let packet = self.packets(exporter, payload).into_iter().next();
        packet.map(columns::expected_of_fixed).unwrap_or_default()
    }

    fn packets(&mut self, exporter: IpAddr, payload: &[u8]) -> Vec<NetflowPacket> {
        let scope = match netflow_parser::extract_scoping_info(payload) {
            ScopingInfo::V9 { source_id } => (9, source_id),
            ScopingInfo::IPFix { observation_domain_id } => (10, observation_domain_id),
            _ => (0, 0),
        };
        self.parser.parse_from_source((exporter, scope.0, scope.1), payload).packets
    }
}

fn of_v9(body: V9Body) -> Body {
    match body {
        V9Body::Template(set) => Body::Templates(set.templates.len()),
        V9Body::OptionsTemplate(set) => Body::Templates(set.templates.len()),
        V9Body::OptionsData(data) => Body::Options(data.fields.len()),
        V9Body::Data(data) => Body::Records(keyed(data.fields, Key::V9)),
        V9Body::NoTemplate(_) | V9Body::Empty => Body::Nothing,
    }
}

fn of_ipfix(body: IpfixBody) -> Body {
    match body {
        IpfixBody::Template(_) | IpfixBody::OptionsTemplate(_) => Body::Templates(1),
        IpfixBody::Templates(templates) => Body::Templates(templates.len()),
        IpfixBody::OptionsTemplates(templates) => Body::Templates(templates.len()),
        IpfixBody::OptionsData(data) => Body::Options(data.fields.len()),
        IpfixBody::Data(data) => Body::Records(keyed(data.fields, Key::Ipfix)),
        _ => Body::Nothing,
    }
}

fn keyed<F>(records: Vec<Vec<(F, FieldValue)>>, key: impl Fn(F) -> Key) -> Vec<Record> {
    let keyed = |record: Vec<(F, FieldValue)>| {
        record.into_iter().map(|(field, value)| (key(field), value)).collect()
    };
    records.into_iter().map(keyed).collect()
}

impl Key {
    /// The crate's name of an element that a column names. NetFlow v9 has none of enterprises.
    pub(crate) fn of(protocol: &str, enterprise: u32, id: u16) -> Option<Self> {
        match (protocol, enterprise) {
            ("NetflowV9", 0) => Some(Self::V9(V9Field::from(id))),
            ("NetflowV9", _) => None,
            (_, 0) => Some(Self::Ipfix(IPFixField::new(id, None))),
            (_, enterprise) => Some(Self::Ipfix(IPFixField::new(id, Some(enterprise)))),
        }
    }
}
