//! Templates: whose they are, and what comes before them.

use tidegate::traffic::Field;

use super::{Collector, NOW_MS, ROUTER, ipfix, ipfix_of, v9, v9_of};

const BYTES: [Field; 1] = [Field::new(1, 4)];
const PACKETS: [Field; 1] = [Field::new(2, 4)];
const FIVE: [[u8; 4]; 1] = [[0, 0, 0, 5]];

/// akvorado#697, goflow2#168: the data set comes before its template in one packet.
#[test]
fn data_ahead_of_its_template_in_the_same_packet_is_decoded() {
    let mut collector = Collector::new();
    collector.receive(&v9().data_set(300, &FIVE).template(300, &BYTES).finish());
    assert_eq!((collector.numbers("bytes"), collector.drops()), (vec![5.0], vec![]));
}

/// netflow_parser#134, Graylog plugin#18: data comes minutes before the template, after a restart of the
/// collector (RFC 3954 section 9 has the collector keep it).
#[test]
fn data_waits_for_its_template() {
    let mut collector = Collector::new();
    collector.receive(&ipfix().data_set(300, &FIVE).finish());
    assert_eq!(collector.rows.len(), 0);
    collector.receive(&ipfix().template(300, &BYTES).finish());
    assert_eq!((collector.numbers("bytes"), collector.drops()), (vec![5.0], vec![]));
}

/// elastiflow#483, pmacct#107: Calix sends its template once for each session, so a collector that was
/// started again is blind.
#[test]
fn templates_survive_a_restart() {
    let mut before = Collector::new();
    before.receive(&ipfix().template(300, &BYTES).finish());
    let state = before.exporters.snapshot(NOW_MS).bytes;

    let mut after = Collector::new();
    after.exporters.restore(&state, NOW_MS).unwrap();
    after.receive(&ipfix().data_set(300, &FIVE).finish());
    assert_eq!(after.numbers("bytes"), [5.0]);
}

/// vflow#94: several source ids of one exporter use one template id, each for its own layout.
#[test]
fn source_ids_of_one_exporter_have_templates_of_their_own() {
    let mut collector = Collector::new();
    collector.receive(&v9_of(1).template(300, &BYTES).finish());
    collector.receive(&v9_of(2).template(300, &PACKETS).finish());
    collector.receive(&v9_of(1).data_set(300, &FIVE).finish());
    collector.receive(&v9_of(2).data_set(300, &FIVE).finish());
    assert_eq!(collector.numbers("bytes"), [5.0, 0.0]);
    assert_eq!(collector.numbers("packets"), [0.0, 5.0]);
}

/// logstash-codec-netflow#129: several ASAs use template 263 with different layouts.
#[test]
fn exporters_have_templates_of_their_own() {
    let mut collector = Collector::new();
    let other = [192, 0, 2, 2];
    collector.receive(&v9().template(263, &BYTES).finish());
    collector.receive_from(other, &v9().template(263, &PACKETS).finish());
    collector.receive(&v9().data_set(263, &FIVE).finish());
    collector.receive_from(other, &v9().data_set(263, &FIVE).finish());
    assert_eq!(
        (collector.numbers("bytes"), collector.numbers("packets")),
        (vec![5.0, 0.0], vec![0.0, 5.0])
    );
}

/// netflow_parser#303, #304: an id is used for a data template, and later for an options template.
#[test]
fn an_id_changes_from_a_data_template_to_an_options_template_and_back() {
    let mut collector = Collector::new();
    collector.receive(&ipfix().template(300, &BYTES).data_set(300, &FIVE).finish());
    let options = ipfix().options_template(300, &[Field::new(143, 2)], &[Field::new(34, 2)]);
    collector.receive(&options.data_set(300, &[[0, 7, 0, 100]]).finish());
    collector.receive(&ipfix().template(300, &BYTES).data_set(300, &FIVE).finish());
    assert_eq!((collector.numbers("bytes"), collector.tally.options_records), (vec![5.0, 5.0], 1));
    assert_eq!(collector.numbers("samplingInterval"), [1.0, 100.0]);
}

/// netflow_parser#121, #123: a template and an options template in one message.
#[test]
fn a_template_and_an_options_template_come_in_one_message() {
    let mut collector = Collector::new();
    let message = v9()
        .options_template(400, &[Field::new(1, 4)], &[Field::new(34, 4)])
        .template(300, &BYTES)
        .data_set(400, &[[0, 0, 0, 0, 0, 0, 0, 9]])
        .data_set(300, &FIVE);
    collector.receive(&message.finish());
    assert_eq!(
        (collector.numbers("bytes"), collector.numbers("samplingInterval")),
        (vec![5.0], vec![9.0])
    );
}

/// netflow_parser#325: several IPFIX messages in one datagram, each of another domain.
#[test]
fn messages_of_several_domains_come_in_one_datagram() {
    let mut collector = Collector::new();
    let of = |domain| ipfix_of(domain).template(300, &BYTES).data_set(300, &FIVE).finish();
    collector.receive(&[of(1), of(2), of(3)].concat());
    assert_eq!(collector.numbers("observationDomainId"), [1.0, 2.0, 3.0]);
}

/// pktvisor#796, akvorado: one set without template cost the whole datagram.
#[test]
fn one_unknown_template_does_not_cost_the_datagram() {
    let mut collector = Collector::new();
    let message =
        v9().template(300, &BYTES).data_set(300, &FIVE).data_set(999, &FIVE).data_set(300, &FIVE);
    collector.receive(&message.finish());
    assert_eq!(collector.numbers("bytes"), [5.0, 5.0]);
    assert_eq!(collector.exporters.waiting().0, 1, "the set that has none waits");
}

/// pmacct#439: without a template rows of garbage came.
#[test]
fn without_a_template_there_is_no_row() {
    let mut collector = Collector::new();
    collector.receive(&v9().data_set(300, &[[0xab; 200]]).finish());
    assert_eq!(collector.rows.len(), 0);
    collector.decoder.end_waiting(|_, tally| collector.tally.add(tally));
    assert_eq!(collector.drops(), [("no_template", 1)]);
}

/// nfdump#610, nfdump#676: Juniper's domains made thousands of exporters, and the collector ended.
#[test]
fn thousands_of_domains_cost_a_limited_number_of_entries_and_no_neighbour() {
    let mut collector = Collector::new();
    for domain in 0..5_000 {
        collector.receive(&ipfix_of(domain).template(300, &BYTES).finish());
    }
    assert_eq!((collector.exporters.count(), collector.exporters.template_count()), (1, 1_024));
    assert_eq!(collector.drops(), [("exporter_limit", 5_000 - 1_024)]);
    collector.receive_from([192, 0, 2, 9], &ipfix().template(300, &BYTES).finish());
    assert_eq!(collector.exporters.template_count(), 1_025);
}

/// goflow2: a withdrawn template was kept as one without fields, and its data never ended.
#[test]
fn a_withdrawn_template_is_gone() {
    let mut collector = Collector::of_connection();
    collector
        .receive(&ipfix().template(300, &BYTES).template(300, &[]).data_set(300, &FIVE).finish());
    let exporter = collector.exporters.list().remove(0);
    assert_eq!((exporter.address(), exporter.template_count()), (ROUTER.into(), 0));
    assert_eq!(collector.rows.len(), 0);
}
