//! Valid datagrams to begin with: those of the generator, and by hand what it does not send.

use tidegate::traffic::{
    Field, Generator, IpfixHeader, MessageBuilder, Protocol, Spec, V9Header, variable_length,
};

use super::sflow;
use super::trial::{NOW_MS, Trial};

/// Datagrams that belong together: templates before the data that need them.
pub struct Stream {
    /// The fuzz target that they are seeds of.
    pub target: &'static str,
    pub datagrams: Vec<Vec<u8>>,
}

const NOW_S: u32 = 1_800_000_000;

/// Everything, in an order that does not change.
pub fn streams() -> Vec<Stream> {
    let generated = [
        ("netflow_fixed", Protocol::V5),
        ("netflow_v9", Protocol::V9),
        ("ipfix", Protocol::Ipfix),
        ("sflow", Protocol::Sflow),
    ];
    let generated = generated
        .map(|(target, protocol)| Stream { target, datagrams: generated_datagrams(protocol) });
    let by_hand = [
        ("netflow_fixed", vec![fixed(1, 16, 48), fixed(7, 24, 52)]),
        ("netflow_v9", v9()),
        ("ipfix", ipfix_templates()),
        ("ipfix", ipfix_options()),
        ("ipfix", ipfix_variable()),
        ("ipfix", ipfix_sections()),
        ("ipfix", ipfix_extra()),
        ("ipfix", vec![every_element()]),
        ("sflow", sflow::datagrams()),
    ];
    let by_hand = by_hand.map(|(target, datagrams)| Stream { target, datagrams });
    generated.into_iter().chain(by_hand).collect()
}

/// What is kept over a restart of the exporters that sent `stream`: without magic and version before it
/// (18 bytes), and the checksum behind it (32 bytes).
pub fn state(stream: &Stream) -> Vec<u8> {
    let mut trial = Trial::new(false, false);
    for (number, datagram) in stream.datagrams.iter().enumerate() {
        trial.decode(number, datagram);
    }
    let bytes = trial.snapshot().bytes;
    bytes[18..bytes.len() - 32].to_vec()
}

/// A capture file of the datagrams, from 192.0.2.1 to port 2055 of 198.51.100.2, without a link layer.
pub fn pcap(stream: &Stream) -> Vec<u8> {
    const LINK_TYPE_RAW: u32 = 101;
    let head = [0xa1b2_c3d4, 0x0002_0004, 0, 0, 65_535, LINK_TYPE_RAW];
    let mut file: Vec<u8> = head.into_iter().flat_map(u32::to_be_bytes).collect();
    for datagram in &stream.datagrams {
        let [high, low] = u16::try_from(datagram.len() + 8).unwrap().to_be_bytes();
        let total = u16::try_from(datagram.len() + 28).unwrap();
        let record = [NOW_S, 0, total.into(), total.into()];
        file.extend(record.into_iter().flat_map(u32::to_be_bytes));
        file.extend([0x45, 0]);
        file.extend(total.to_be_bytes());
        file.extend([0, 0, 0, 0, 63, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2]);
        file.extend([0x30, 0x39, 8, 7, high, low, 0, 0]);
        file.extend_from_slice(datagram);
    }
    file
}

/// Of four exporters, one of them with IPv6: templates and the data of a second.
fn generated_datagrams(protocol: Protocol) -> Vec<Vec<u8>> {
    let mut generator = Generator::new(&Spec { protocol, exporters: 4, ..Spec::default() });
    let now_ms = NOW_MS.unsigned_abs();
    (0..12).map(|_| generator.next(now_ms).unwrap().payload.clone()).collect()
}

/// Three records of NetFlow v1 or v7.
fn fixed(version: u8, header_bytes: usize, record_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0, version, 0, 3, 0, 0, 0xea, 0x60];
    bytes.extend_from_slice(&NOW_S.to_be_bytes());
    bytes.resize(header_bytes, 0);
    bytes.extend((0..3 * record_bytes).map(|index| index.to_le_bytes()[0]));
    bytes
}

fn ipfix(domain_id: u32) -> MessageBuilder {
    MessageBuilder::ipfix(IpfixHeader { export_time_s: NOW_S, sequence: 0, domain_id })
}

fn v9() -> Vec<Vec<u8>> {
    let message = |source_id| {
        let header = V9Header { uptime_ms: 60_000, export_time_s: NOW_S, sequence: 0, source_id };
        MessageBuilder::v9(header)
    };
    let counters = [Field::new(8, 4), Field::new(12, 4), Field::new(1, 4), Field::new(48, 1)];
    let sampler = [Field::new(48, 1), Field::new(34, 4), Field::new(49, 1)];
    let interface = [Field::new(82, 8), Field::new(83, 8)];
    vec![
        message(1)
            .options_template(257, &[Field::new(1, 4)], &sampler)
            .data_set(257, &[[0, 0, 0, 1, 5, 0, 0, 0, 100, 2]])
            .finish(),
        message(1)
            .options_template(258, &[Field::new(2, 2)], &interface)
            .data_set(258, &[[0, 7, b'e', b't', b'h', 0, 0, 0, 0, 0, b'u', b'p', 0, 0, 0, 0, 0, 0]])
            .finish(),
        // Data before its template.
        message(1).data_set(256, &[[1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 1, 0, 5]; 3]).finish(),
        message(1).template(256, &counters).finish(),
        message(1).data_set(256, &[[1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 1, 0, 5]; 7]).finish(),
        // Of another source id, and a redefinition in mid-message.
        message(2)
            .template(256, &counters[..2])
            .data_set(256, &[[9; 8]; 2])
            .template(256, &counters[1..])
            .data_set(256, &[[9; 9]; 2])
            .finish(),
    ]
}

fn ipfix_templates() -> Vec<Vec<u8>> {
    let small = [Field::new(1, 1), Field::new(2, 1)];
    let biflow = [Field::new(8, 4), Field::new(1, 8), Field::enterprise(29_305, 1, 8)];
    let record = [&[192, 0, 2, 1][..], &[0; 7], &[9], &[0; 7], &[3]].concat();
    vec![
        ipfix(7).templates(&[(256, &small), (257, &biflow)]).finish(),
        ipfix(7).data_set(256, &[[1, 2], [3, 4]]).data_set(257, &[&record, &record]).finish(),
        // Withdrawals of one, of all, and of all options templates (RFC 7011 section 8.1).
        ipfix(7).template(256, &[]).data_set(256, &[[1, 2]]).template(256, &biflow).finish(),
        ipfix(7).template(2, &[]).raw_set(3, &[0, 3, 0, 0]).template(256, &small).finish(),
        // Two messages in one datagram, and a set that its message cuts.
        [ipfix(7).data_set(256, &[[1, 2]]).finish(), ipfix(8).data_set(256, &[[1, 2]]).finish()]
            .concat(),
        ipfix(7).data_set(256, &[[5, 6]; 6]).declare(30).finish(),
    ]
}

fn ipfix_options() -> Vec<Vec<u8>> {
    let selector = [Field::new(302, 8)];
    let systematic = [Field::new(305, 4), Field::new(306, 4)];
    let named = [Field::new(234, 4), Field::new(236, u16::MAX)];
    let application = [Field::new(95, 4), Field::new(96, 16)];
    let vrf = [&[0, 0, 0, 9][..], &variable_length(b"customer")].concat();
    let http = [&[3, 0, 0, 80][..], b"http\0\0\0\0\0\0\0\0\0\0\0\0"].concat();
    let flows = [Field::new(302, 8), Field::new(234, 4), Field::new(95, 4), Field::new(1, 4)];
    let flow = [&[0, 0, 0, 0, 0, 0, 0, 3][..], &[0, 0, 0, 9], &[3, 0, 0, 80], &[0, 0, 1, 0]];
    vec![
        ipfix(7)
            .options_template(300, &selector, &systematic)
            .data_set(300, &[[0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 99]])
            .options_template(303, &[Field::new(149, 4)], &[Field::new(160, 8)])
            .data_set(303, &[[0, 0, 0, 7, 0, 0, 1, 0xa3, 0x18, 0, 0, 0]])
            .finish(),
        ipfix(7)
            .options_template(301, &named[..1], &named[1..])
            .data_set(301, &[&vrf])
            .options_template(302, &application[..1], &application[1..])
            .data_set(302, &[&http])
            .finish(),
        ipfix(7).template(256, &flows).data_set(256, &[flow.concat(), flow.concat()]).finish(),
    ]
}

fn ipfix_variable() -> Vec<Vec<u8>> {
    let fields = [Field::new(1, 2), Field::new(96, u16::MAX), Field::new(371, u16::MAX)];
    let record = |name: &[u8], user: &[u8]| {
        [&[0, 9][..], &variable_length(name), &variable_length(user)].concat()
    };
    let records = [record(b"http", b""), record(b"", b"me"), record(&[b'x'; 300], &[0xff; 9])];
    vec![
        ipfix(9).template(256, &fields).finish(),
        ipfix(9).data_set(256, &records).finish(),
        ipfix(9).data_set_padded(256, &records[..2], 3).finish(),
    ]
}

/// Records that carry the first bytes of packets.
fn ipfix_sections() -> Vec<Vec<u8>> {
    let frame = sflow::udp_frame();
    let (with_link, without) = (variable_length(&frame), variable_length(&frame[18..]));
    let section = |element| [Field::new(element, u16::MAX)];
    vec![
        ipfix(5)
            .templates(&[(256, &section(315)), (257, &section(313))])
            .data_set(256, &[&with_link, &with_link])
            .data_set(257, &[&without])
            .finish(),
    ]
}

/// Elements without a column: of IANA, of an enterprise and of nobody, with values and without any.
fn ipfix_extra() -> Vec<Vec<u8>> {
    let user = [Field::new(1, 1), Field::new(371, u16::MAX)];
    let named = [Field::new(245, 2), Field::new(311, 8), Field::enterprise(999_999, 7, 3)];
    let record = [&[0, 42][..], &0.25_f64.to_be_bytes(), &[1, 2, 3]].concat();
    vec![
        ipfix(4).template(256, &user).data_set(256, &[[1, 0], [2, 0]]).finish(),
        ipfix(4).template(257, &named).data_set(257, &[&record]).finish(),
        ipfix(4).data_set(256, &[[1, 0]]).finish(),
    ]
}

/// One template with every element that fills a column, in the longest form.
fn every_element() -> Vec<u8> {
    use tidegate::flow::{COLUMNS, Read, Source};
    let field = |source: &Source| {
        let octets = match (source.read, source.name.contains("IPv4")) {
            (Read::Address, true) => 4,
            (Read::Address, false) => 16,
            (Read::Uptime | Read::MicrosBefore, _) => 4,
            (Read::Text, _) => 12,
            _ => 8,
        };
        match source.enterprise {
            0 => Field::new(source.id, octets),
            enterprise => Field::enterprise(enterprise, source.id, octets),
        }
    };
    // Above 32767 the bit of enterprises is set: only NetFlow v9 has those.
    let sources = COLUMNS.iter().flat_map(|column| column.sources);
    let fields: Vec<_> = sources.filter(|source| source.id < 0x8000).map(field).collect();
    let bytes: usize = fields.iter().map(|field| usize::from(field.octets)).sum();
    let record: Vec<u8> = (0..bytes).map(|index| index.to_le_bytes()[0]).collect();
    ipfix(6).template(400, &fields).data_set(400, &[&record, &record]).finish()
}
