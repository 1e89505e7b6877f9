//! Sampling rates, wherever exporters say them.

use super::*;

#[test]
fn a_rate_in_the_record_wins_and_a_rate_of_zero_is_none() {
    let mut bench = Bench::new();
    let message =
        v9().template(300, &[Field::new(34, 4)]).data_set(300, &[&[0, 0, 0, 100], &[0; 4]]);
    bench.decode(&message.finish());
    assert_eq!(bench.column(Column::SamplingInterval), [100.0, 1.0]);
    assert_eq!(bench.column(Column::SamplingProvenance), ["record", "assumed"]);
}

/// A v9 exporter announces samplers 1 (1:100) and 2 (1:200), with the router as scope.
fn announce_samplers() -> MessageBuilder {
    v9().options_template(
        400,
        &[Field::new(1, 4)],
        &[Field::new(48, 1), Field::new(49, 1), Field::new(50, 4)],
    )
    .data_set(400, &[&[0, 0, 0, 0, 1, 2, 0, 0, 0, 100], &[0, 0, 0, 0, 2, 2, 0, 0, 0, 200]])
}

#[test]
fn records_that_name_a_sampler_get_its_rate() {
    let mut bench = Bench::new();
    bench.decode(&announce_samplers().finish());
    let data =
        v9().template(300, &[Field::new(48, 1)]).data_set(300, &[&[1], &[2], &[1], &[7], &[0]]);
    bench.decode(&data.declare(9).finish());
    let rates = bench.column(Column::SamplingInterval);
    assert_eq!(rates[..5], [100.0, 200.0, 100.0, 1.0, 1.0]);
    let provenance = bench.column(Column::SamplingProvenance);
    assert_eq!(provenance[..5], ["options", "options", "options", "assumed", "assumed"]);
}

#[test]
fn records_that_name_no_sampler_get_the_rate_of_their_domain() {
    let mut bench = Bench::new();
    let selector = ipfix()
        .options_template(400, &[Field::new(149, 4)], &[Field::new(305, 4), Field::new(306, 4)])
        .data_set(400, &[&[0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 63]]);
    bench.decode(&selector.finish());
    bench.decode(&ipfix().template(300, &COUNTERS).data_set(300, &[&[1, 1], &[1, 1]]).finish());
    assert_eq!(bench.column(Column::SamplingInterval), [64.0, 64.0]);
    assert_eq!(bench.column(Column::SamplingProvenance), ["options", "options"]);
}

#[test]
fn a_rate_in_the_record_wins_over_the_sampler() {
    let mut bench = Bench::new();
    bench.decode(&announce_samplers().finish());
    let fields = [Field::new(48, 1), Field::new(34, 2)];
    bench.decode(&v9().template(300, &fields).data_set(300, &[&[1, 0, 10], &[1, 0, 0]]).finish());
    assert_eq!(bench.column(Column::SamplingInterval)[..2], [10.0, 100.0]);
    assert_eq!(bench.column(Column::SamplingProvenance)[..2], ["record", "options"]);
}

#[test]
fn scope_fields_of_netflow_v9_are_not_taken_for_elements() {
    let mut bench = Bench::new();
    // Scope type 2 is an interface, element 2 a packet count; element 34 behind it is the rate.
    let message = v9()
        .options_template(400, &[Field::new(2, 4)], &[Field::new(34, 4), Field::new(35, 1)])
        .data_set(400, &[&[0, 0, 0, 9, 0, 0, 0, 10, 1]])
        .template(300, &COUNTERS)
        .data_set(300, &[&[1, 1], &[1, 1]]);
    bench.decode(&message.finish());
    assert_eq!(bench.column(Column::SamplingInterval), [10.0, 10.0]);
}

#[test]
fn a_netflow_v5_header_tells_the_sampling_rate() {
    let mut bench = Bench::new();
    let mut datagram = vec![0; 24 + 48];
    datagram[..4].copy_from_slice(&[0, 5, 0, 1]);
    datagram[22..24].copy_from_slice(&[0x40, 100]);
    bench.decode(&datagram);
    assert_eq!(bench.rows[0]["samplingInterval"], 100.0);
    assert_eq!(bench.rows[0]["samplingProvenance"], "header");
    assert_eq!(bench.rows[0]["samplingAlgorithm"], "SystematicCountBasedSampling");
}

#[test]
fn a_rate_in_two_numbers_of_the_record_is_computed() {
    let mut bench = Bench::new();
    let fields = [Field::new(305, 4), Field::new(306, 4)];
    let record = [0, 0, 0, 2, 0, 0, 0, 18];
    bench.decode(&ipfix().template(300, &fields).data_set(300, &[&record, &[0; 8]]).finish());
    assert_eq!(bench.column(Column::SamplingInterval), [10.0, 1.0]);
    assert_eq!(bench.column(Column::SamplingProvenance), ["record", "assumed"]);
}

#[test]
fn how_packets_are_chosen_is_told_by_records_options_and_headers() {
    let mut bench = Bench::new();
    let fields = [Field::new(34, 4), Field::new(35, 1)];
    bench.decode(&v9().template(300, &fields).data_set(300, &[&[0, 0, 0, 9, 2]]).finish());
    let selector = ipfix()
        .options_template(400, &[Field::new(302, 4)], &[Field::new(304, 2), Field::new(34, 4)])
        .data_set(400, &[&[0, 0, 0, 5, 0, 1, 0, 0, 0, 7]])
        .template(300, &[Field::new(302, 4)])
        .data_set(300, &[&[0, 0, 0, 5]]);
    bench.decode(&selector.finish());
    assert_eq!(
        bench.column(Column::SamplingAlgorithm),
        ["RandomNOutOfNSampling", "SystematicCountBasedSampling"]
    );
}

#[test]
fn the_fallback_is_for_exporters_that_say_nothing() {
    let mut bench =
        Bench::with(DecoderOptions { fallback_rate: Some(50.0), ..DecoderOptions::default() });
    bench.decode(&v9().template(300, &COUNTERS).data_set(300, &[&[1, 1], &[1, 1]]).finish());
    bench.decode(&announce_samplers().finish());
    let fields = [Field::new(48, 1), Field::new(34, 2)];
    let records: [&[u8]; 3] = [&[0, 0, 0], &[1, 0, 0], &[1, 0, 10]];
    bench.decode(&v9().template(300, &fields).data_set(300, &records).finish());
    let rates = bench.column(Column::SamplingInterval);
    assert_eq!(rates[..5], [50.0, 50.0, 50.0, 100.0, 10.0]);
    let provenance = bench.column(Column::SamplingProvenance);
    assert_eq!(provenance[..5], ["fallback", "fallback", "fallback", "options", "record"]);
}

#[test]
fn rates_in_the_wrong_byte_order_are_read_where_the_receiver_says_so() {
    for (has_little_endian_rates, expected) in [(true, 100.0), (false, 1_677_721_600.0)] {
        let options = DecoderOptions { has_little_endian_rates, ..DecoderOptions::default() };
        let mut bench = Bench::with(options);
        let options_record = v9()
            .options_template(400, &[Field::new(1, 4)], &[Field::new(34, 4)])
            .data_set(400, &[&[0, 0, 0, 0, 100, 0, 0, 0]]);
        bench.decode(&options_record.finish());
        bench.decode(&v9().template(300, &COUNTERS).data_set(300, &[&[1, 1], &[1, 1]]).finish());
        let in_record = v9().template(301, &[Field::new(34, 4)]);
        bench.decode(&in_record.data_set(301, &[&[100, 0, 0, 0]]).finish());
        assert_eq!(bench.column(Column::SamplingInterval), [expected; 3]);
    }
}

#[test]
fn a_record_of_an_unknown_sampler_never_gets_the_rate_of_another_one() {
    let mut bench = Bench::new();
    let announce = |builder: MessageBuilder, sampler: u8, rate: u8| {
        builder
            .options_template(400, &[Field::new(1, 4)], &[Field::new(48, 1), Field::new(50, 1)])
            .data_set(400, &[&[0, 0, 0, 0, sampler, rate]])
            .finish()
    };
    let flows =
        v9().template(300, &[Field::new(48, 1)]).data_set(300, &[&[0; 1], &[1], &[7], &[9]]);
    let flows = flows.finish();
    bench.decode(&announce(v9(), 1, 100));
    bench.decode(&flows);
    assert_eq!(bench.column(Column::SamplingInterval), [100.0, 100.0, 1.0, 1.0]);
    let provenance = bench.column(Column::SamplingProvenance);
    assert_eq!(provenance, ["options", "options", "assumed", "assumed"]);
    bench.rows.clear();
    bench.decode(&announce(v9(), 0, 50));
    bench.decode(&flows);
    assert_eq!(bench.column(Column::SamplingInterval), [50.0, 100.0, 50.0, 50.0]);
}

#[test]
fn a_domain_that_announces_the_rate_zero_is_not_sampled() {
    let options = DecoderOptions { fallback_rate: Some(512.0), ..DecoderOptions::default() };
    let mut bench = Bench::with(options);
    let of = |source_id| {
        let header = V9Header { uptime_ms: 1, export_time_s: NOW_S, sequence: 0, source_id };
        MessageBuilder::v9(header)
    };
    for (domain, rate) in [(1, 100), (2, 0)] {
        let fields = [Field::new(34, 1)];
        let options = of(domain).options_template(400, &[Field::new(1, 4)], &fields);
        bench.decode(&options.data_set(400, &[&[0, 0, 0, 0, rate]]).finish());
    }
    for domain in [1, 2] {
        bench.decode(
            &of(domain).template(300, &COUNTERS).data_set(300, &[&[1, 1]]).declare(1).finish(),
        );
    }
    let rates = bench.column(Column::SamplingInterval);
    assert_eq!((&rates[0], &rates[rates.len() - 1]), (&100.0.into(), &1.0.into()));
    assert!(bench.column(Column::SamplingProvenance).iter().all(|it| it == "options"));
}

#[test]
fn options_that_waited_hold_for_the_flows_behind_their_template() {
    let mut bench = Bench::new();
    bench
        .decode(&v9().template(300, &COUNTERS).data_set(400, &[[0, 0, 0, 0, 0, 0, 0, 9]]).finish());
    let options = v9().options_template(400, &[Field::new(1, 4)], &[Field::new(34, 4)]);
    bench.decode(&options.data_set_padded(300, &[[1, 1]], 0).finish());
    assert_eq!(bench.column(Column::SamplingInterval), [9.0]);
}
