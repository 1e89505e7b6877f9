//! What some exporters can take from the others.

use super::*;
use crate::decode::template::FIELDS_MAX;
use crate::decode::template_counts::{TEMPLATE_BYTES_IN_ALL_MAX, cost};

/// Announces so many templates with the most fields, from an address of its own for each 4,096.
fn fill(bench: &mut Bench, templates: usize) {
    let wide = vec![Field::new(1, 4); FIELDS_MAX];
    let ids: Vec<u16> = (256..).take(TEMPLATES_PER_EXPORTER_MAX).collect();
    for (nth, id) in ids.iter().cycle().take(templates).enumerate() {
        let address = u32::try_from(nth / ids.len()).unwrap().to_be_bytes();
        bench.decode_from(address.into(), &ipfix().template(*id, &wide).finish());
    }
}

#[test]
fn exporters_have_a_share_of_templates_that_others_cannot_take() {
    let mut bench = Bench::new();
    let room = TEMPLATE_BYTES_IN_ALL_MAX / cost(FIELDS_MAX);
    fill(&mut bench, room + 10);
    assert_eq!(bench.exporters.template_count(), room);

    let router = [192, 0, 2, 50].into();
    let fields = [Field::new(1, 4); 20];
    let templates: Vec<(u16, &[Field])> = (300..310).map(|id| (id, &fields[..])).collect();
    let tally = bench.decode_from(router, &ipfix().templates(&templates).finish());
    assert_eq!((tally.templates_learned, dropped(&tally)), (10, vec![]));

    // A definition that does not fit any more takes the old one with it.
    let wide = vec![Field::new(1, 4); FIELDS_MAX];
    let tally = bench.decode_from(router, &ipfix().template(300, &wide).finish());
    assert_eq!(dropped(&tally), [("template_limit", 1)]);
    let data = ipfix().data_set(300, &[[0; 80]]).finish();
    assert_eq!(bench.decode_from(router, &data).flows, 0);
    let data = ipfix().data_set(301, &[[0; 80]]).finish();
    assert_eq!(bench.decode_from(router, &data).flows, 1);
}

#[test]
fn exporters_have_a_share_of_waiting_sets_that_others_cannot_take() {
    let mut bench = Bench::new();
    let set = |bytes| ipfix().raw_set(999, &vec![1; bytes]).finish();
    for nth in 0..17 * 70_u32 {
        bench.decode_from((nth / 70).to_be_bytes().into(), &set(60_000));
    }
    for _ in 0..100 {
        bench.decode_from(99_u32.to_be_bytes().into(), &set(1_000));
    }
    let router = [192, 0, 2, 50].into();
    assert_eq!(dropped(&bench.decode_from(router, &set(14_000))), []);
    assert_eq!(dropped(&bench.decode_from(router, &set(14_000))), [("no_template", 1)]);
}

#[test]
fn a_set_that_waited_in_vain_is_dropped_with_its_header() {
    let mut bench = Bench::new();
    bench.decode(&ipfix().raw_set(999, &[1; 8]).finish());
    let mut tally = Tally::default();
    bench.decoder.end_waiting(|_, waited| tally.add(waited));
    assert_eq!(tally.dropped(DropReason::NoTemplate).bytes, 4 + 8);
}

#[test]
fn sets_that_wait_for_a_forgotten_exporter_are_counted() {
    let mut bench = Bench::new();
    bench.decode(&ipfix().raw_set(999, &[1; 8]).finish());
    for n in 1..u32::try_from(EXPORTERS_MAX).unwrap() {
        bench.decode_from(n.to_be_bytes().into(), &[0]);
    }
    bench.decode_at([192, 0, 2, 9].into(), NOW_MS + 3_600_000, &[0]);
    assert_eq!(bench.exporters.waiting(), (0, 0));
    let mut tally = Tally::default();
    bench.decoder.expire(NOW_MS + 3_600_000, |_, it| tally.add(it));
    assert_eq!(dropped(&tally), [("no_template", 1)]);
}
