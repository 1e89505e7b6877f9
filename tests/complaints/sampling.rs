//! Sampling rates: the wrong one multiplies every figure.

use tidegate::decode::DecoderOptions;
use tidegate::traffic::{Field, MessageBuilder};

use super::{Collector, ipfix, v9, v9_of};

const RATE: &str = "samplingInterval";
const PROVENANCE: &str = "samplingProvenance";

/// Two flows of one byte.
fn two_flows(builder: MessageBuilder) -> Vec<u8> {
    builder.template(300, &[Field::new(1, 4)]).data_set(300, &[[0, 0, 0, 1]; 2]).finish()
}

/// An options record that announces 1 in `rate`, with the router as scope.
fn announce(builder: MessageBuilder, rate: u32) -> MessageBuilder {
    let record = [[0; 4], rate.to_be_bytes()].concat();
    builder
        .options_template(400, &[Field::new(1, 4)], &[Field::new(34, 4)])
        .data_set(400, &[record])
}

/// A record of a flow through a sampler, and that sampler's announcement.
fn announce_samplers(builder: MessageBuilder, samplers: &[(u8, u32)]) -> MessageBuilder {
    let record = |&(id, rate): &(u8, u32)| [&[0, 0, 0, 0, id][..], &rate.to_be_bytes()].concat();
    let records: Vec<_> = samplers.iter().map(record).collect();
    let fields = [Field::new(48, 1), Field::new(50, 4)];
    builder.options_template(401, &[Field::new(1, 4)], &fields).data_set(401, &records)
}

fn flows_of_samplers(builder: MessageBuilder, samplers: &[u8]) -> Vec<u8> {
    let records: Vec<_> = samplers.iter().map(|id| [*id, 0, 0, 0, 1]).collect();
    let fields = [Field::new(48, 1), Field::new(1, 4)];
    builder.template(301, &fields).data_set(301, &records).finish()
}

/// akvorado#841: Huawei NetStream has the rate in each data record, and announces none.
#[test]
fn the_rate_is_in_the_data_record() {
    let mut collector = Collector::new();
    let record = [0, 0, 0, 1, 0, 0, 0x27, 0x10];
    let fields = [Field::new(1, 4), Field::new(34, 4)];
    collector.receive(&v9().template(300, &fields).data_set(300, &[record]).finish());
    assert_eq!(
        (collector.numbers(RATE), collector.texts(PROVENANCE)),
        (vec![10_000.0], vec!["record"])
    );
}

/// akvorado#89: Cisco 9300 sends options under another source id than flows, in one packet with their template.
#[test]
fn the_rate_is_announced_under_another_source_id() {
    let mut collector = Collector::new();
    collector.receive(&announce(v9_of(0), 1_000).finish()).receive(&two_flows(v9_of(256)));
    assert_eq!(collector.numbers(RATE), [1_000.0; 2]);
}

/// akvorado#997, nfdump#101: NCS 5500 and ASR 9000 have several samplers, and flows name theirs.
#[test]
fn each_flow_has_the_rate_of_its_sampler() {
    let mut collector = Collector::new();
    collector.receive(&announce_samplers(v9(), &[(1, 30_000), (2, 100)]).finish());
    collector.receive(&flows_of_samplers(v9(), &[2, 1, 2]));
    assert_eq!(collector.numbers(RATE), [100.0, 30_000.0, 100.0]);
}

/// nfdump#187: of two samplers of a PTX one has the interval 0, and bytes became zero.
#[test]
fn a_sampler_with_interval_zero_does_not_make_bytes_zero() {
    let mut collector = Collector::new();
    collector.receive(&announce_samplers(v9(), &[(1, 1_000), (2, 0)]).finish());
    collector.receive(&flows_of_samplers(v9(), &[1, 2]));
    assert_eq!(collector.numbers(RATE), [1_000.0, 1.0]);
    assert_eq!(collector.texts(PROVENANCE), ["options", "assumed"]);
    assert_eq!(collector.numbers("bytes"), [1.0; 2]);
}

/// goflow2#170: softflowd announces the rate 0 when it does not sample.
#[test]
fn the_rate_zero_means_one() {
    let mut collector = Collector::new();
    collector.receive(&announce(v9(), 0).finish()).receive(&two_flows(v9()));
    assert_eq!(
        (collector.numbers(RATE), collector.texts(PROVENANCE)),
        (vec![1.0; 2], vec!["options"; 2])
    );
}

/// akvorado#169, akvorado#2145: flows were thrown away since nobody had said a rate.
#[test]
fn flows_without_a_rate_are_kept() {
    let mut collector = Collector::new();
    collector.receive(&two_flows(v9()));
    assert_eq!((collector.rows.len(), collector.texts(PROVENANCE)), (2, vec!["assumed"; 2]));
}

/// akvorado#1524, cloudflare/goflow#87: pfSense says no rate, so the operator must.
#[test]
fn the_operator_says_the_rate_that_the_exporter_does_not() {
    let options = DecoderOptions { fallback_rate: Some(512.0), ..DecoderOptions::default() };
    let mut collector = Collector::with(options);
    collector.receive(&two_flows(ipfix()));
    assert_eq!(
        (collector.numbers(RATE), collector.texts(PROVENANCE)),
        (vec![512.0; 2], vec!["fallback"; 2])
    );
}

/// akvorado#417, goflow2#113: MikroTik sends the rate with the least significant byte first.
#[test]
fn the_rate_comes_in_little_endian_order() {
    let options = DecoderOptions { has_little_endian_rates: true, ..DecoderOptions::default() };
    let mut collector = Collector::with(options);
    collector.receive(&announce(v9(), 100_u32.swap_bytes()).finish()).receive(&two_flows(v9()));
    assert_eq!(collector.numbers(RATE), [100.0; 2]);
}

/// goflow2#440, nfdump#410: Nokia announces how many packets are taken and how many left out.
#[test]
fn interval_and_space_make_the_rate() {
    let mut collector = Collector::new();
    let fields = [Field::new(305, 4), Field::new(306, 4)];
    let record = [0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 3, 0xe7];
    let options = ipfix().options_template(400, &[Field::new(143, 4)], &fields);
    collector.receive(&options.data_set(400, &[record]).finish()).receive(&two_flows(ipfix()));
    assert_eq!(collector.numbers(RATE), [1_000.0; 2]);
}

/// pmacct#663: a selector announced as size and population.
#[test]
fn size_and_population_make_the_rate() {
    let mut collector = Collector::new();
    let fields = [Field::new(309, 4), Field::new(310, 4)];
    let record = [0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 4, 0, 0, 0x10, 0];
    let options = ipfix().options_template(400, &[Field::new(302, 8)], &fields);
    collector.receive(&options.data_set(400, &[record]).finish());
    let flow = [0, 0, 0, 0, 0, 0, 0, 9];
    collector
        .receive(&ipfix().template(300, &[Field::new(302, 8)]).data_set(300, &[flow]).finish());
    assert_eq!(collector.numbers(RATE), [1_024.0]);
}

/// nfdump#231, fastnetmon#695: Juniper MX announces it as element 34 of an options record of IPFIX.
#[test]
fn juniper_announces_the_rate_in_options_of_ipfix() {
    let mut collector = Collector::new();
    let fields = [Field::new(160, 8), Field::new(130, 4), Field::new(34, 4), Field::new(36, 2)];
    let mut record = vec![0; 4 + 8 + 4 + 4 + 2];
    record[4 + 8 + 4..][..4].copy_from_slice(&2_000_u32.to_be_bytes());
    let options = ipfix().options_template(512, &[Field::new(144, 4)], &fields);
    collector.receive(&options.data_set(512, &[record]).finish()).receive(&two_flows(ipfix()));
    assert_eq!(collector.numbers(RATE), [2_000.0; 2]);
}

/// nfdump#335: a switch adapts its rate to the load; the newest announcement counts.
#[test]
fn a_rate_that_changes_counts_at_once() {
    let mut collector = Collector::new();
    collector.receive(&announce(v9(), 100).finish()).receive(&two_flows(v9()));
    collector.receive(&announce(v9(), 4_000).finish()).receive(&two_flows(v9()));
    assert_eq!(collector.numbers(RATE), [100.0, 100.0, 4_000.0, 4_000.0]);
}
