//! The worst datagrams that we could think of, as long as UDP allows.

use tidegate::decode::DecoderOptions;
use tidegate::flow::COLUMNS;
use tidegate::traffic::{Field, IpfixHeader, MessageBuilder, V9Header, variable_length};

use super::sflow;

/// No UDP payload is longer than 65,507 bytes; a message header and a set header are beside this.
const BYTES: usize = 65_400;

const NOW_S: u32 = 1_800_000_000;

/// Datagrams to measure, and those that come before them.
pub struct Case {
    pub name: &'static str,
    pub before: Vec<Vec<u8>>,
    pub datagrams: Vec<Vec<u8>>,
    pub options: DecoderOptions,
    /// They are messages of a connection.
    pub is_connection: bool,
}

pub fn case(name: &'static str, before: Vec<Vec<u8>>, datagrams: Vec<Vec<u8>>) -> Case {
    let options = DecoderOptions::default();
    Case { name, before, datagrams, options, is_connection: false }
}

fn ipfix(domain_id: u32) -> MessageBuilder {
    MessageBuilder::ipfix(IpfixHeader { export_time_s: NOW_S, sequence: 0, domain_id })
}

fn v9() -> MessageBuilder {
    let header = V9Header { uptime_ms: 60_000, export_time_s: NOW_S, sequence: 0, source_id: 7 };
    MessageBuilder::v9(header)
}

pub fn all() -> Vec<Case> {
    [records(), extra(), templates(), sets(), options(), waiting(), connections(), samples()]
        .into_iter()
        .flatten()
        .collect()
}

/// Records that are shorter than what they become.
fn records() -> Vec<Case> {
    let one_byte = ipfix(7).template(256, &[Field::new(4, 1)]).finish();
    let mut wide = vec![Field::new(4, 1)];
    wide.extend((0..511).map(|id| Field::new(id, 0)));
    let empty_texts = [Field::new(96, u16::MAX)];
    let unique = |index: usize| variable_length(&index.to_be_bytes()[5..]);
    let unique_texts: Vec<_> = (0..BYTES / 4).map(unique).collect();
    let every: Vec<_> = every_element(1);
    let every_record = vec![7; every.len()];
    vec![
        case(
            "records of one byte",
            vec![one_byte],
            vec![ipfix(7).data_set(256, &vec![[6]; BYTES]).finish()],
        ),
        case(
            "records of one byte, 512 fields",
            vec![ipfix(7).template(256, &wide).finish()],
            vec![ipfix(7).data_set(256, &vec![[6]; BYTES]).finish()],
        ),
        case(
            "empty fields of variable length",
            vec![ipfix(7).template(256, &empty_texts).finish()],
            vec![ipfix(7).data_set(256, &vec![[0]; BYTES]).finish()],
        ),
        case(
            "512 empty fields of variable length",
            vec![ipfix(7).template(256, &[Field::new(500, u16::MAX); 512]).finish()],
            vec![ipfix(7).data_set(256, &vec![[0; 512]; BYTES / 512]).finish()],
        ),
        case(
            "texts that are all different",
            vec![ipfix(7).template(256, &empty_texts).finish()],
            vec![ipfix(7).data_set(256, &unique_texts).finish()],
        ),
        case(
            "texts that are no UTF-8",
            vec![ipfix(7).template(256, &[Field::new(96, 255)]).finish()],
            vec![{
                let text = |n: usize| [&[0xff; 253][..], &n.to_be_bytes()[6..]].concat();
                ipfix(7).data_set(256, &(0..256).map(text).collect::<Vec<_>>()).finish()
            }],
        ),
        case(
            "every element in a byte",
            vec![ipfix(7).template(256, &every).finish()],
            vec![ipfix(7).data_set(256, &vec![&every_record; BYTES / every.len()]).finish()],
        ),
    ]
}

/// Elements without a column, for a receiver that keeps them.
fn extra() -> Vec<Case> {
    let options = DecoderOptions { keep_unknown_elements: true, ..DecoderOptions::default() };
    let keeping = |case: Case| Case { options: options.clone(), ..case };
    let nobodys = |enterprise: u32, octets| -> Vec<Field> {
        (1..=64).map(|id| Field::enterprise(enterprise, id, octets)).collect()
    };
    let empty = [&[Field::new(4, 1)][..], &nobodys(999_999, 0)].concat();
    // samplingProbability, a double of 324 digits behind the point.
    let floats = ipfix(7).template(256, &[Field::new(311, 8); 64]).finish();
    let changing: Vec<u8> = (0..u32::try_from(BYTES / 600).unwrap())
        .map(|n| ipfix(7).template(256, &nobodys(999_000 + n, 1)).data_set(256, &[&[7; 64]]))
        .flat_map(MessageBuilder::finish)
        .collect();
    let text = ipfix(7).template(256, &[Field::enterprise(999_999, 1, u16::MAX)]).finish();
    vec![
        keeping(case(
            "elements of nobody, a byte each",
            vec![ipfix(7).template(256, &nobodys(999_999, 1)).finish()],
            vec![ipfix(7).data_set(256, &vec![[7; 64]; BYTES / 64]).finish()],
        )),
        keeping(case(
            "elements of nobody without content",
            vec![ipfix(7).template(256, &empty).finish()],
            vec![ipfix(7).data_set(256, &vec![[6]; BYTES]).finish()],
        )),
        keeping(case("elements of nobody that change", vec![], vec![changing])),
        keeping(case(
            "elements of nobody, empty or not",
            vec![text],
            vec![ipfix(7).data_set(256, &vec![&[0, 1, 7][..]; BYTES / 3]).finish()],
        )),
        keeping(case(
            "numbers of many digits",
            vec![floats],
            vec![{
                let tiny = 5e-324_f64.to_be_bytes().repeat(64);
                ipfix(7).data_set(256, &vec![&tiny; BYTES / tiny.len()]).finish()
            }],
        )),
    ]
}

/// A field for each element that fills a column, as short as it may be.
fn every_element(octets: u16) -> Vec<Field> {
    let sources = COLUMNS.iter().flat_map(|column| column.sources);
    let plain = sources.filter(|source| source.enterprise == 0 && source.id < 0x8000);
    plain.map(|source| Field::new(source.id, octets)).collect()
}

/// Templates that are learned, refused and forgotten.
fn templates() -> Vec<Case> {
    // Each template twice in turn with different fields, so that each is compiled.
    let changing = |fields: [&[Field]; 2]| {
        let size = 4 + 4 * fields[0].len();
        let templates: Vec<_> = (0..BYTES / size).map(|n| (256, fields[n % 2])).collect();
        ipfix(7).templates(&templates).finish()
    };
    let wide: Vec<_> = (0..511).map(|id| Field::new(id, 1)).collect();
    let wider: Vec<_> = (0..511).map(|id| Field::new(id, 2)).collect();
    let every = [every_element(1), every_element(2)];
    let small = changing([&[Field::new(8, 4)], &[Field::new(12, 4)]]);
    let withdrawals = [1, 0, 0, 0, 0, 2, 0, 0].repeat(BYTES / 8);
    let v9_empty = [&[0; BYTES - 1][..], &[1]].concat();
    let many: Vec<_> = (0..4_096).map(|n| (256 + n, ONE_BYTE)).collect();
    let learn_and_forget = [&[0, 2, 0, 12, 1, 0, 0, 1, 0, 1, 0, 1][..], &[0, 2, 0, 8, 0, 2, 0, 0]];
    vec![
        case("templates of one field that change", vec![], vec![small]),
        case("templates of 511 fields that change", vec![], vec![changing([&wide, &wider])]),
        case(
            "templates of all elements that change",
            vec![],
            vec![changing([&every[0], &every[1]])],
        ),
        case("withdrawals", vec![], vec![ipfix(7).raw_set(2, &withdrawals).finish()]),
        case(
            "withdrawals of all, 4,095 known",
            vec![ipfix(7).templates(&many[..4_095]).finish()],
            vec![ipfix(7).raw(&learn_and_forget.concat().repeat(BYTES / 20)).finish()],
        ),
        case("templates without id", vec![], vec![v9().raw_set(0, &v9_empty).finish()]),
        case("withdrawals without id", vec![], vec![ipfix(7).raw_set(2, &v9_empty).finish()]),
    ]
}

const ONE_BYTE: &[Field] = &[Field::new(4, 1)];

/// Sets and messages that hold nothing, or a single record.
fn sets() -> Vec<Case> {
    let one_byte = || vec![ipfix(7).template(256, &[Field::new(4, 1)]).finish()];
    let message = ipfix(7).data_set_padded(256, &[[6]], 0).finish();
    let empty_set = [1, 0, 0, 4];
    let tiny_set = [1, 0, 0, 5, 6];
    let domains = (0..u32::try_from(BYTES).unwrap() / 16).flat_map(|domain| ipfix(domain).finish());
    vec![
        case("empty sets", one_byte(), vec![ipfix(7).raw(&empty_set.repeat(BYTES / 4)).finish()]),
        case(
            "sets of one record of one byte",
            one_byte(),
            vec![ipfix(7).raw(&tiny_set.repeat(BYTES / 5)).finish()],
        ),
        case("messages of one record", one_byte(), vec![message.repeat(BYTES / message.len())]),
        case("messages of many domains", vec![], vec![domains.collect()]),
        case(
            "set id of no kind",
            vec![],
            vec![ipfix(7).raw(&[0, 9, 0, 4].repeat(BYTES / 4)).finish()],
        ),
    ]
}

/// Rates and names as many as are kept, and records that look for them.
fn options() -> Vec<Case> {
    let u24 = |n: usize| n.to_be_bytes()[5..].to_vec();
    let id = Field::new(10, 3);
    let names = |first: usize, count: usize| -> Vec<Vec<u8>> {
        (first..first + count).map(|n| [u24(n + 1), vec![b'x']].concat()).collect()
    };
    let names_template = || ipfix(7).options_template(300, &[id], &[Field::new(82, 1)]);
    let full_of_names = || {
        let sets =
            (0..2).map(|n| names_template().data_set(300, &names(n * 8_192, 8_192)).finish());
        sets.collect::<Vec<_>>()
    };
    // One set for each name that is one too many.
    let too_many: Vec<u8> = names(20_000, BYTES / 8)
        .iter()
        .flat_map(|record| [&[1, 44, 0, 8][..], record].concat())
        .collect();
    let rates = |domain: u32, first: usize, count: usize| {
        let records: Vec<_> =
            (first..first + count).map(|n| [u24(n + 1), vec![9]].concat()).collect();
        ipfix(domain)
            .options_template(301, &[Field::new(302, 3)], &[Field::new(34, 1)])
            .data_set(301, &records)
            .finish()
    };
    let tiny_rates: Vec<u8> = (0..BYTES / 8)
        .flat_map(|n| [&[1, 45, 0, 8][..], &u24(n % 512 + 1), &[7 + n.to_le_bytes()[1]]].concat())
        .collect();
    let sampled = || ipfix(8).template(256, &[Field::new(302, 1)]).finish();
    let unknown_samplers: Vec<_> = (0..BYTES).map(|n| [n.to_le_bytes()[0] | 1]).collect();
    let few_rates_of_many = |value: u8| -> Vec<Vec<u8>> {
        let rate = |domain| {
            ipfix(domain)
                .options_template(301, &[Field::new(302, 1)], &[Field::new(34, 1)])
                .data_set(301, &[[1, value], [2, value]])
                .finish()
        };
        (100..356).map(rate).collect()
    };
    let one_name_of_many = || {
        let name = |domain: u32| {
            ipfix(domain)
                .options_template(300, &[Field::new(10, 1)], &[Field::new(82, 1)])
                .data_set(300, &[[1, b'x'], [2, b'x']])
                .finish()
        };
        (100..1_100).map(name).collect::<Vec<_>>()
    };
    let interfaces = |fields: &[Field]| ipfix(8).template(256, fields).finish();
    let in_turn: Vec<_> = (0..BYTES).map(|n| [1 + n.to_le_bytes()[0] % 2]).collect();
    // Interfaces have a name and a description.
    let long_name = |n: usize| format!("{n:0255}").into_bytes();
    let long_names = |id: u16, texts: &[u16]| {
        let texts: Vec<_> = texts.iter().map(|&text| Field::new(text, 255)).collect();
        let record = |n: usize| [u24(n + 1), long_name(n).repeat(texts.len())].concat();
        let message = |first: usize| {
            let records: Vec<_> = (first..first + 100).map(record).collect();
            ipfix(8)
                .options_template(302, &[Field::new(id, 3)], &texts)
                .data_set(302, &records)
                .finish()
        };
        (0..90).map(|n| message(100 * n)).collect::<Vec<_>>()
    };
    let named = [10, 14, 95, 234, 235].map(|id| Field::new(id, 2));
    let long_names = [long_names(10, &[82, 83]), long_names(95, &[96]), long_names(234, &[236])];
    let rows: Vec<_> = (0..BYTES / 10).map(|n| u24(n + 1)[1..].repeat(5)).collect();
    let has_little_endian_rates = true;
    let swapped = DecoderOptions { has_little_endian_rates, ..DecoderOptions::default() };
    vec![
        case(
            "names beyond the limit, one a set",
            full_of_names(),
            vec![ipfix(7).raw(&too_many).finish()],
        ),
        case(
            "rates beyond the limit",
            vec![rates(7, 0, 512)],
            vec![rates(7, 1_000, BYTES / 4 - 20)],
        ),
        case(
            "rates that change, one a set",
            vec![rates(7, 0, 512)],
            vec![ipfix(7).raw(&tiny_rates).finish()],
        ),
        Case {
            options: swapped,
            ..case(
                "rates that change, little-endian",
                vec![rates(7, 0, 512)],
                vec![ipfix(7).raw(&tiny_rates).finish()],
            )
        },
        case(
            "samplers of no domain",
            [vec![rates(7, 70_000, 512)], vec![sampled()]].concat(),
            vec![ipfix(8).data_set(256, &unknown_samplers).finish()],
        ),
        case(
            "samplers of many domains that agree",
            [few_rates_of_many(9), vec![sampled()]].concat(),
            vec![ipfix(8).data_set(256, &in_turn).finish()],
        ),
        case(
            "messages with many rates",
            [vec![rates(7, 0, 512)], vec![sampled()]].concat(),
            vec![ipfix(8).data_set_padded(256, &[[6]], 0).finish().repeat(BYTES / 21)],
        ),
        case(
            "names of many domains that agree",
            [one_name_of_many(), vec![interfaces(&[Field::new(10, 1)])]].concat(),
            vec![ipfix(8).data_set(256, &in_turn).finish()],
        ),
        case(
            "flows with long names",
            [long_names.concat(), vec![interfaces(&named)]].concat(),
            vec![ipfix(8).data_set(256, &rows).finish()],
        ),
    ]
}

/// Sets that wait for a template, which comes, is withdrawn and comes again.
fn waiting() -> Vec<Case> {
    let tiny: Vec<u8> = (0..BYTES / 5)
        .flat_map(|n| [&u16::try_from(256 + n).unwrap().to_be_bytes()[..], &[0, 5, 6]].concat())
        .collect();
    let ids: Vec<_> = (0..4_000).map(|n| (256 + n, ONE_BYTE)).collect();
    let set = [1, 0, 0, 5, 6].repeat(BYTES / 5);
    let full: Vec<_> =
        (0..63).map(|_| ipfix(7).data_set(256, &vec![[6]; BYTES]).finish()).collect();
    let template = ipfix(7).template(256, &[Field::new(4, 1)]).finish();
    let again =
        [&[0, 2, 0, 8, 1, 0, 0, 0][..], &[1, 0, 0, 5, 6], &[0, 2, 0, 12, 1, 0, 0, 1, 0, 4, 0, 1]];
    vec![
        case("tiny sets that wait", vec![], vec![ipfix(7).raw(&tiny).finish()]),
        case(
            "tiny sets whose templates come",
            vec![ipfix(7).raw(&tiny).finish()],
            vec![ipfix(7).templates(&ids).finish()],
        ),
        case(
            "many sets whose template comes",
            vec![ipfix(7).raw(&set).finish()],
            vec![template.clone()],
        ),
        case("4 MiB whose template comes", full, vec![template]),
        case(
            "template withdrawn and learned again",
            vec![],
            vec![ipfix(7).raw(&again.concat().repeat(BYTES / 25)).finish()],
        ),
    ]
}

/// Messages of a connection, whose templates and numbers are its own.
fn connections() -> Vec<Case> {
    let connected = |case: Case| Case { is_connection: true, ..case };
    let one_byte = ipfix(7).template(256, ONE_BYTE).finish();
    let message = ipfix(7).data_set_padded(256, &[[6]], 0).finish();
    let domains = (0..u32::try_from(BYTES).unwrap() / 28)
        .flat_map(|domain| ipfix(domain).template(256, ONE_BYTE).finish());
    vec![
        connected(case(
            "messages of one record, connected",
            vec![one_byte],
            vec![message.clone(); BYTES / message.len()],
        )),
        connected(case("templates of many domains, connected", vec![], vec![domains.collect()])),
    ]
}

/// sFlow.
fn samples() -> Vec<Case> {
    let of = |sample: Vec<u8>| vec![sflow::datagram(&vec![sample.clone(); BYTES / sample.len()])];
    let udp = sflow::packet(1, &[]);
    let nothing = sflow::opaque(9, &[]);
    let records = |record: &[u8]| of(sflow::flow_sample(&vec![record.to_vec(); 8_000]));
    let deep = sflow::packet(12, &sflow::extended_packet(2_000));
    let labels = sflow::packet(13, &sflow::labelled_packet(10));
    let segments = [&sflow::words(&[1, 1, 1, 1, 1, 7_000])[..], &[0; 56_000]].concat();
    let mut counters = Vec::new();
    for index in 0..u32::try_from(BYTES).unwrap() / 188 {
        counters.push(sflow::counter_sample(index));
    }
    vec![
        case("samples without content", vec![], of(nothing.clone())),
        case("samples of an empty packet", vec![], of(sflow::flow_sample(&[udp]))),
        case("records without content", vec![], records(&nothing)),
        case("records that are too short", vec![], records(&sflow::opaque(1, &[]))),
        case("2,000 extension headers", vec![], of(sflow::flow_sample(&[deep]))),
        case("stacks of ten labels", vec![], of(sflow::flow_sample(&[labels]))),
        case(
            "empty segments of an AS path",
            vec![],
            of(sflow::flow_sample(&[sflow::opaque(1003, &segments)])),
        ),
        case("counters of new interfaces", vec![], vec![sflow::datagram(&counters)]),
    ]
}
