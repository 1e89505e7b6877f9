use std::time::Instant;

use super::*;
use crate::decode::exporters::EXPORTERS_MAX;
use crate::decode::template::FIELDS_MAX;
use crate::decode::template_counts::{TEMPLATE_BYTES_IN_ALL_MAX, TEMPLATES_PER_EXPORTER_MAX, cost};
use crate::decode::{Datagram, Decoder, DecoderOptions, Tally};
use crate::flow::ChunkWriter;
use crate::traffic::{self, IpfixHeader, MessageBuilder, V9Header};

const NOW_S: u32 = 1_800_000_000;
const NOW_MS: i64 = NOW_S as i64 * 1_000;
const ROUTER: [u8; 4] = [192, 0, 2, 1];

fn decode(exporters: &Arc<Exporters>, address: impl Into<IpAddr>, payload: &[u8]) -> Tally {
    let options = DecoderOptions::default();
    let mut decoder = Decoder::new(options, Arc::clone(exporters));
    let datagram =
        Datagram { exporter: address.into(), source_port: 0, received_ms: NOW_MS, payload };
    decoder.decode(&datagram, Instant::now(), &mut ChunkWriter::new(10)).1
}

fn ipfix(domain_id: u32) -> MessageBuilder {
    MessageBuilder::ipfix(IpfixHeader { export_time_s: NOW_S, sequence: 0, domain_id })
}

fn v9() -> MessageBuilder {
    let header = V9Header { export_time_s: NOW_S, source_id: 3, ..V9Header::default() };
    MessageBuilder::v9(header)
}

fn field(element: u16, octets: u16) -> traffic::Field {
    traffic::Field::new(element, octets)
}

/// Two exporters with every kind of thing that is kept.
fn announced() -> Arc<Exporters> {
    let exporters = Arc::new(Exporters::default());
    let enterprise = traffic::Field::enterprise(35_632, 118, 65_535);
    let message = ipfix(7)
        .template(256, &[field(1, 8), field(2, 4), enterprise])
        .options_template(257, &[field(302, 8)], &[field(305, 4), field(306, 4)])
        .data_set(257, &[&[0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 99][..]])
        .options_template(258, &[field(143, 4)], &[field(160, 8)])
        .data_set(258, &[&[&[0; 4][..], &(NOW_MS as u64 - 5_000).to_be_bytes()].concat()[..]])
        .finish();
    assert_eq!(decode(&exporters, ROUTER, &message).templates_learned, 3);
    let message = v9()
        .template(300, &[field(1, 4)])
        .options_template(301, &[field(1, 4)], &[field(34, 4)])
        .finish();
    let address: IpAddr = "2001:db8::1".parse().unwrap();
    assert_eq!(decode(&exporters, address, &message).templates_learned, 2);
    exporters
}

fn restored(bytes: &[u8], now_ms: i64) -> (Arc<Exporters>, Result<Restored, RestoreError>) {
    let exporters = Arc::new(Exporters::default());
    let result = exporters.restore(bytes, now_ms);
    (exporters, result)
}

/// Every exporter's part, in an order that does not depend on hashes.
fn parts(exporters: &Exporters) -> Vec<Vec<u8>> {
    let sorted = |exporter: &Arc<Exporter>| {
        let mut saved = SavedExporter::of(exporter, NOW_MS);
        for domain in &mut saved.domains {
            domain.templates.sort_by_key(|template| template.definition.id);
        }
        saved.domains.sort_by_key(|domain| domain.domain_id);
        saved.encode()
    };
    let mut parts: Vec<_> = exporters.known().iter().map(sorted).collect();
    parts.sort();
    parts
}

#[test]
fn what_was_announced_comes_back_and_decodes() {
    let before = announced();
    let snapshot = before.snapshot(NOW_MS);
    assert_eq!((snapshot.templates, snapshot.exporters_left_out), (5, 0));
    let (after, result) = restored(&snapshot.bytes, NOW_MS);
    let expected = Restored { exporters: 2, templates: 5, expired: 0, refused: 0 };
    assert_eq!(result, Ok(expected));
    assert_eq!(parts(&after), parts(&before));

    let data = ipfix(7).data_set(256, &[&[0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 2, b'h', b'i'][..]]);
    let tally = decode(&after, ROUTER, &data.finish());
    assert_eq!((tally.flows, tally.drops().count()), (1, 0));
    let exporter = after.get(ROUTER.into(), NOW_MS).unwrap();
    assert_eq!(exporter.announced.rates.lookup(7, NOW_MS).of_sampler(5).unwrap().interval, 100.0);
    assert_eq!(exporter.announced.boots.of_domain(7, NOW_MS), Some(NOW_MS - 5_000));
    // The scope fields of NetFlow v9 are not elements, and the same announcement is a refresh.
    let refresh = v9().options_template(301, &[field(1, 4)], &[field(34, 4)]).finish();
    let address: IpAddr = "2001:db8::1".parse().unwrap();
    assert_eq!(decode(&after, address, &refresh).templates_learned, 0);
}

#[test]
fn the_count_of_changes_grows_with_what_is_new_and_not_with_refreshes() {
    let exporters = Arc::new(Exporters::default());
    assert_eq!(exporters.changes(), 0);
    let template = ipfix(7).template(256, &[field(1, 8)]).finish();
    let mut changes = 0;
    for (payload, is_change) in [
        (template.clone(), true),
        (template, false),
        (ipfix(7).template(256, &[field(2, 8)]).finish(), true),
        (ipfix(7).template(256, &[field(2, 0)]).finish(), true),
        (ipfix(7).template(256, &[field(2, 0)]).finish(), false),
    ] {
        decode(&exporters, ROUTER, &payload);
        assert_eq!(exporters.changes() > changes, is_change);
        changes = exporters.changes();
    }
}

#[test]
fn a_start_that_was_not_announced_for_a_day_is_not_kept() {
    let exporters = announced();
    let router = exporters.get(ROUTER.into(), NOW_MS).unwrap();
    let boots = |age_ms| SavedExporter::of(&router, NOW_MS + age_ms).boots.len();
    assert_eq!((boots(TEMPLATE_AGE_MAX_MS - 1), boots(TEMPLATE_AGE_MAX_MS)), (1, 0));
}

#[test]
fn what_is_too_old_is_left_out_and_a_time_to_come_is_now() {
    let bytes = announced().snapshot(NOW_MS).bytes;
    let (_, result) = restored(&bytes, NOW_MS + TEMPLATE_AGE_MAX_MS - 1);
    assert_eq!(result.unwrap().templates, 5);
    let (exporters, result) = restored(&bytes, NOW_MS + TEMPLATE_AGE_MAX_MS);
    assert_eq!(result, Ok(Restored { expired: 5, ..Restored::default() }));
    assert_eq!(exporters.count(), 0);
    let (exporters, result) = restored(&bytes, NOW_MS - 3_600_000);
    assert_eq!(result.unwrap().templates, 5);
    for exporter in exporters.known() {
        assert_eq!(exporter.last_seen_ms(), NOW_MS - 3_600_000);
    }
    for now_ms in [0, i64::MAX] {
        assert!(restored(&bytes, now_ms).1.is_ok());
    }
}

#[test]
fn no_truncation_and_no_flipped_bit_is_taken_for_a_state() {
    let bytes = announced().snapshot(NOW_MS).bytes;
    for length in 0..bytes.len() {
        let (exporters, result) = restored(&bytes[..length], NOW_MS);
        assert_eq!(result, Err(RestoreError::Damaged), "{length}");
        assert_eq!(exporters.count(), 0);
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let (exporters, result) = restored(&flipped, NOW_MS);
        assert!(result.is_err(), "{bit}");
        assert_eq!(exporters.count(), 0);
    }
    assert_eq!(restored(&[&bytes[..], &[0]].concat(), NOW_MS).1, Err(RestoreError::Damaged));
    let newer = [&MAGIC[..], &(VERSION + 1).to_be_bytes(), b"whatever comes then"].concat();
    assert_eq!(restored(&newer, NOW_MS).1, Err(RestoreError::OtherVersion(VERSION + 1)));
}

/// Made by somebody who can make checksums.
#[test]
fn wrong_bytes_under_a_right_checksum_cause_no_panic_and_no_memory() {
    let bytes = announced().snapshot(NOW_MS).bytes;
    let content = &bytes[..bytes.len() - CHECKSUM_BYTES];
    let reseal = |content: &[u8]| [content, &Sha256::digest(content)].concat();
    for length in 0..content.len() {
        let (exporters, result) = restored(&reseal(&content[..length]), NOW_MS);
        assert!(result.is_err(), "{length}");
        assert_eq!(exporters.count(), 0);
    }
    for bit in 0..content.len() * 8 {
        let mut flipped = content.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let (exporters, result) = restored(&reseal(&flipped), NOW_MS);
        let templates = result.map_or(0, |restored| restored.templates);
        assert!(exporters.template_count() <= templates, "{bit}");
        assert_eq!(exporters.snapshot(NOW_MS).templates, exporters.template_count(), "{bit}");
    }
    // Counts of four thousand million, at the places of exporters, domains and templates.
    let bytes = sealed(1, &saved(1, vec![domain(1, 256..257)]).encode());
    let content = &bytes[..bytes.len() - CHECKSUM_BYTES];
    for place in [18, 35, 44] {
        let mut many = content.to_vec();
        assert_eq!(many[place..place + 4], [0, 0, 0, 1]);
        many[place..place + 4].fill(0xff);
        assert_eq!(restored(&reseal(&many), NOW_MS).1, Err(RestoreError::Damaged));
    }
}

fn saved(address: u32, domains: Vec<SavedDomain>) -> SavedExporter {
    let address = std::net::Ipv4Addr::from(address).into();
    let (boots, rates) = (Vec::new(), Vec::new());
    SavedExporter { address, last_seen_ms: NOW_MS, domains, boots, rates }
}

fn domain(domain_id: u32, ids: impl Iterator<Item = u16>) -> SavedDomain {
    let fields = vec![Field { enterprise: 0, id: 1, length: 8 }];
    let template = |id| SavedTemplate {
        seen_ms: NOW_MS,
        definition: Definition { id, fields: fields.clone(), is_options: false },
    };
    SavedDomain { protocol: Protocol::Ipfix, domain_id, templates: ids.map(template).collect() }
}

#[test]
fn limits_hold_for_restored_templates_too() {
    let many = saved(1, vec![domain(1, 256..5_256), domain(2, 256..257)]);
    let (exporters, result) = restored(&sealed(1, &many.encode()), NOW_MS);
    let refused = 5_001 - TEMPLATES_PER_EXPORTER_MAX;
    assert_eq!(
        result,
        Ok(Restored { exporters: 1, templates: TEMPLATES_PER_EXPORTER_MAX, expired: 0, refused })
    );
    assert_eq!(exporters.template_count(), TEMPLATES_PER_EXPORTER_MAX);

    let domains = saved(1, (0..1_030).map(|id| domain(id, 256..257)).collect());
    let (exporters, result) = restored(&sealed(1, &domains.encode()), NOW_MS);
    assert_eq!((result.unwrap().refused, exporters.template_count()), (6, 1_024));

    let rates = |address| SavedExporter {
        rates: (0..600)
            .map(|sampler_id| {
                let rate = Rate { interval: 2.0, algorithm: Algorithm(1), seen_ms: NOW_MS };
                (RateKey { domain_id: 1, sampler_id }, rate)
            })
            .collect(),
        boots: (0..2_000).map(|id| (id, Boot { boot_ms: 1, seen_ms: NOW_MS })).collect(),
        ..saved(address, Vec::new())
    };
    let (exporters, _) = restored(&sealed(1, &rates(1).encode()), NOW_MS);
    let announced = &exporters.known()[0].announced;
    assert_eq!((announced.rates.list(NOW_MS).len(), announced.boots.list().len()), (512, 1_024));

    let addresses = 1..=u32::try_from(EXPORTERS_MAX).unwrap() + 3;
    let each = |address| saved(address, vec![domain(1, 256..257)]).encode();
    let body: Vec<u8> = addresses.flat_map(each).collect();
    let (exporters, result) = restored(&sealed(EXPORTERS_MAX + 3, &body), NOW_MS);
    assert_eq!((result.unwrap().refused, exporters.count()), (3, EXPORTERS_MAX));
}

#[test]
fn the_limit_of_memory_in_all_holds_for_restored_templates_too() {
    let field = Field { enterprise: 0, id: 1, length: 8 };
    let wide = |address| {
        let mut domain = domain(1, 256..4_352);
        for template in &mut domain.templates {
            template.definition.fields = vec![field; FIELDS_MAX];
        }
        saved(address, vec![domain]).encode()
    };
    let (exporters, result) = restored(&sealed(2, &[wide(1), wide(2)].concat()), NOW_MS);
    let templates = TEMPLATE_BYTES_IN_ALL_MAX / cost(FIELDS_MAX);
    let refused = 2 * 4_096 - templates;
    assert_eq!(result, Ok(Restored { exporters: 2, templates, expired: 0, refused }));
    assert_eq!(exporters.template_count(), templates);
}

#[test]
fn templates_that_an_exporter_could_not_announce_are_not_taken() {
    let with = |id, fields: Vec<Field>| {
        let definition = Definition { id, fields, is_options: false };
        let templates = vec![SavedTemplate { seen_ms: NOW_MS, definition }];
        let domain = SavedDomain { protocol: Protocol::Ipfix, domain_id: 1, templates };
        restored(&sealed(1, &saved(1, vec![domain]).encode()), NOW_MS).1
    };
    let one = Field { enterprise: 0, id: 1, length: 8 };
    assert!(with(256, vec![one]).is_ok());
    for (id, fields) in [
        (255, vec![one]),
        (256, vec![]),
        (256, vec![Field { length: 0, ..one }]),
        (256, vec![one; 513]),
    ] {
        assert_eq!(with(id, fields), Err(RestoreError::Damaged));
    }
}
