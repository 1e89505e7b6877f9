//! The decoder on packets built by hand.

use std::sync::Arc;
use std::time::Instant;

use crate::flow::{ChunkWriter, Column, Row};
use crate::traffic::{Field, IpfixHeader, MessageBuilder, V9Header, variable_length};

use super::*;
use crate::decode::template_counts::TEMPLATES_PER_EXPORTER_MAX;

mod fields;
mod limits;
mod names;
mod sampling;
mod sessions;
mod times;

const NOW_S: u32 = 1_800_000_000;
const NOW_MS: i64 = NOW_S as i64 * 1_000;

/// A decoder, its exporters and what it wrote.
struct Bench {
    decoder: Decoder,
    exporters: Arc<Exporters>,
    writer: ChunkWriter,
    rows: Vec<serde_json::Value>,
}

impl Bench {
    fn new() -> Self {
        Self::with(DecoderOptions::default())
    }

    /// A bench whose messages come over a connection.
    fn of_connection() -> Self {
        let mut bench = Self::new();
        let options = bench.decoder.options.clone();
        bench.decoder = Decoder::of_connection(options, Arc::clone(&bench.exporters));
        bench
    }

    fn with(options: DecoderOptions) -> Self {
        let exporters = Arc::new(Exporters::default());
        let decoder = Decoder::new(options, Arc::clone(&exporters));
        Self { decoder, exporters, writer: ChunkWriter::new(3), rows: Vec::new() }
    }

    fn decode(&mut self, payload: &[u8]) -> Tally {
        self.decode_from([192, 0, 2, 1].into(), payload)
    }

    fn decode_from(&mut self, exporter: IpAddr, payload: &[u8]) -> Tally {
        self.decode_at(exporter, NOW_MS, payload)
    }

    fn decode_at(&mut self, exporter: IpAddr, received_ms: i64, payload: &[u8]) -> Tally {
        let datagram = Datagram { exporter, source_port: 0, received_ms, payload };
        let (_, tally) = self.decoder.decode(&datagram, Instant::now(), &mut self.writer);
        self.writer.close_all();
        for chunk in self.writer.take_closed() {
            let rows = (0..chunk.rows()).map(|row| Row::new(&chunk, row));
            self.rows.extend(rows.map(|row| serde_json::to_value(row).unwrap()));
        }
        tally
    }

    /// What is lost of this datagram when no template comes any more.
    fn lost(&mut self, payload: &[u8]) -> Vec<(&'static str, u64)> {
        let mut tally = self.decode(payload);
        self.decoder.end_waiting(|_, waited| tally.add(waited));
        dropped(&tally)
    }

    /// A column of every row.
    fn column(&self, column: Column) -> Vec<serde_json::Value> {
        let value = |row: &serde_json::Value| row.get(column.name()).cloned().unwrap_or_default();
        self.rows.iter().map(value).collect()
    }
}

fn ipfix() -> MessageBuilder {
    MessageBuilder::ipfix(IpfixHeader { export_time_s: NOW_S, sequence: 0, domain_id: 7 })
}

fn v9() -> MessageBuilder {
    MessageBuilder::v9(V9Header {
        uptime_ms: 60_000,
        export_time_s: NOW_S,
        sequence: 0,
        source_id: 7,
    })
}

fn dropped(tally: &Tally) -> Vec<(&'static str, u64)> {
    tally.drops().map(|(reason, dropped)| (reason.label(), dropped.count)).collect()
}

/// Bytes and packets, one byte each.
const COUNTERS: [Field; 2] = [Field::new(1, 1), Field::new(2, 1)];

#[test]
fn integers_of_every_length_are_read() {
    for length in 1..=8_u16 {
        let mut bench = Bench::new();
        let record: Vec<u8> = (1..=8).take(length.into()).collect();
        bench.decode(
            &ipfix().template(300, &[Field::new(1, length)]).data_set(300, &[&record]).finish(),
        );
        let expected = record.iter().fold(0_u64, |sum, &byte| sum << 8 | u64::from(byte));
        assert_eq!(bench.rows[0]["bytes"], expected, "{length} bytes");
    }
}

#[test]
fn values_beyond_their_column_are_saturated_not_cut() {
    let mut bench = Bench::new();
    let message = ipfix().template(300, &[Field::new(7, 4)]).data_set(300, &[&[0, 1, 0, 80]]);
    bench.decode(&message.finish());
    assert_eq!(bench.rows[0]["srcPort"], 65_535);
}

#[test]
fn records_with_variable_length_fields_are_found_the_empty_value_included() {
    let mut bench = Bench::new();
    let fields = [Field::new(1, 1), Field::new(96, u16::MAX), Field::new(2, 1)];
    let record = |bytes: u8, name: &[u8]| [&[bytes][..], &variable_length(name), &[1]].concat();
    let long = vec![b'x'; 300];
    let records = [record(1, b"http"), record(2, b""), record(3, &long), record(4, b"http")];
    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    let tally = bench.decode(&ipfix().template(300, &fields).data_set(300, &records).finish());
    assert_eq!((tally.flows, dropped(&tally)), (4, vec![]));
    assert_eq!(bench.column(Column::Bytes), [1, 2, 3, 4]);
    let names = bench.column(Column::ApplicationName);
    assert_eq!((&names[0], &names[1], &names[3]), (&"http".into(), &().into(), &"http".into()));
    assert_eq!(names[2], format!("{}\u{2026}", "x".repeat(255)), "cut, and it shows");
}

#[test]
fn a_variable_length_that_reaches_beyond_the_set_keeps_the_records_before_it() {
    let mut bench = Bench::new();
    let fields = [Field::new(1, 1), Field::new(96, u16::MAX)];
    let set = [&[1, 2, b'o', b'k'][..], &[2, 200, b'n', b'o']].concat();
    let tally = bench.decode(&ipfix().template(300, &fields).raw_set(300, &set).finish());
    assert_eq!((tally.flows, dropped(&tally)), (1, vec![("bad_record", 1)]));
}

#[test]
fn a_bad_set_costs_that_set_and_the_ones_before_it_are_kept() {
    let mut bench = Bench::new();
    let message = ipfix()
        .template(300, &COUNTERS)
        .data_set(300, &[&[1, 1], &[2, 1]])
        .raw_set(17, &[0; 8])
        .raw_set(301, &[0; 8])
        .data_set(300, &[&[3, 1], &[4, 1]])
        .raw(&[1, 44, 0, 3]);
    let lost = bench.lost(&message.finish());
    assert_eq!(bench.column(Column::Bytes), [1, 2, 3, 4]);
    assert_eq!(lost, [("no_template", 1), ("bad_set_length", 1), ("reserved_set", 1)]);
}

#[test]
fn several_messages_in_one_datagram_are_all_decoded() {
    let mut bench = Bench::new();
    let first = ipfix().template(300, &COUNTERS).data_set(300, &[&[1, 1], &[2, 1]]).finish();
    let second = ipfix().data_set(300, &[&[3, 1], &[4, 1]]).finish();
    let tally = bench.decode(&[first, second, vec![0; 3]].concat());
    assert_eq!(
        (bench.column(Column::Bytes), dropped(&tally)),
        (vec![1.into(), 2.into(), 3.into(), 4.into()], vec![])
    );
    let tally = bench.decode(&[ipfix().finish(), vec![1, 2, 3]].concat());
    assert_eq!(dropped(&tally), [("trailing_bytes", 1)]);
}

#[test]
fn a_netflow_v9_datagram_filled_with_zeros_loses_nothing() {
    let mut bench = Bench::new();
    for zeros in 0..9 {
        let message = v9().template(300, &COUNTERS).data_set(300, &[&[1, 1], &[2, 1]]).declare(99);
        let tally = bench.decode(&[message.finish(), vec![0; zeros]].concat());
        assert_eq!((tally.flows, dropped(&tally)), (2, vec![]), "{zeros} zeros");
    }
}

#[test]
fn a_template_belongs_to_exporter_protocol_and_domain() {
    let mut bench = Bench::new();
    bench.decode(&ipfix().template(300, &COUNTERS).finish());
    let data = ipfix().data_set(300, &[&[1, 1], &[2, 1]]).finish();
    assert_eq!(bench.decode(&data).flows, 2);
    assert_eq!(bench.decode_from([192, 0, 2, 2].into(), &data).flows, 0);
    let header = IpfixHeader { export_time_s: NOW_S, sequence: 0, domain_id: 8 };
    let other_domain = MessageBuilder::ipfix(header).data_set(300, &[&[1, 1], &[2, 1]]).finish();
    assert_eq!(bench.decode(&other_domain).flows, 0);
    let other_protocol = v9().data_set(300, &[&[1, 1], &[2, 1]]).finish();
    assert_eq!(bench.decode(&other_protocol).flows, 0);
    assert_eq!(bench.exporters.waiting().0, 3);
}

#[test]
fn readers_share_the_templates_of_an_exporter() {
    let mut bench = Bench::new();
    bench.decode(&ipfix().template(300, &COUNTERS).finish());
    bench.decoder = Decoder::new(bench.decoder.options.clone(), Arc::clone(&bench.exporters));
    assert_eq!(bench.decode(&ipfix().data_set(300, &[&[1, 1], &[2, 1]]).finish()).flows, 2);
}

#[test]
fn a_redefined_template_is_used_at_once_and_a_refresh_learns_nothing() {
    let mut bench = Bench::new();
    let first = ipfix().template(300, &COUNTERS).finish();
    assert_eq!(bench.decode(&first).templates_learned, 1);
    let refresh = bench.decode(&first);
    assert_eq!((refresh.templates, refresh.templates_learned), (1, 0));
    let wider = ipfix().template(300, &[Field::new(1, 4)]).data_set(300, &[&[0, 0, 1, 0]]);
    assert_eq!(bench.decode(&wider.finish()).templates_learned, 1);
    assert_eq!(bench.rows[0]["bytes"], 256);
}

#[test]
fn withdrawals_forget_one_template_or_all_of_a_kind() {
    let mut bench = Bench::of_connection();
    let learn = ipfix()
        .templates(&[(300, &COUNTERS), (301, &COUNTERS)])
        .options_template(400, &[Field::new(149, 4)], &[Field::new(41, 4)])
        .finish();
    let has = |bench: &mut Bench, id, length| {
        bench.lost(&ipfix().raw_set(id, &vec![1; length]).finish()).is_empty()
    };
    bench.decode(&learn);
    bench.decode(&ipfix().raw_set(2, &[1, 44, 0, 0]).finish());
    assert_eq!(
        [has(&mut bench, 300, 4), has(&mut bench, 301, 4), has(&mut bench, 400, 8)],
        [false, true, true]
    );
    bench.decode(&ipfix().raw_set(3, &[0, 3, 0, 0]).finish());
    assert_eq!([has(&mut bench, 301, 4), has(&mut bench, 400, 8)], [true, false]);
    bench.decode(&ipfix().raw_set(2, &[0, 2, 0, 0]).finish());
    assert!(!has(&mut bench, 301, 4));
    let exporter = &bench.exporters.list()[0];
    assert_eq!(exporter.template_count(), 0);
}

#[test]
fn withdrawals_in_datagrams_are_ignored_and_counted() {
    let mut bench = Bench::new();
    bench.decode(&ipfix().template(300, &COUNTERS).finish());
    let withdrawals = ipfix().raw_set(2, &[1, 44, 0, 0, 0, 2, 0, 0]).finish();
    let tally = bench.decode(&withdrawals);
    assert_eq!((tally.withdrawals, tally.ignored_withdrawals), (0, 2));
    assert_eq!(bench.decode(&ipfix().data_set_padded(300, &[[1, 1]], 0).finish()).flows, 1);

    let mut connection = Bench::of_connection();
    let tally = connection.decode(&withdrawals);
    assert_eq!((tally.withdrawals, tally.ignored_withdrawals), (2, 0));
}

#[test]
fn templates_that_cannot_be_are_refused_and_their_neighbours_kept() {
    let mut bench = Bench::new();
    let reserved = ipfix().templates(&[(255, &COUNTERS), (300, &COUNTERS)]).finish();
    let tally = bench.decode(&reserved);
    assert_eq!((tally.templates_learned, dropped(&tally)), (1, vec![("bad_template", 1)]));
    let empty = v9().raw_set(0, &[1, 45, 0, 0]).finish();
    assert_eq!(dropped(&bench.decode(&empty)), [("bad_template", 1)]);
    let without_bytes = ipfix().template(302, &[Field::new(1, 0)]).finish();
    assert_eq!(dropped(&bench.decode(&without_bytes)), [("bad_template", 1)]);
    let cut = ipfix().raw_set(2, &[1, 47, 0, 9, 0, 1, 0, 4]).finish();
    assert_eq!(dropped(&bench.decode(&cut)), [("bad_template", 1)]);
    let wide = ipfix().template(304, &[Field::new(1, 1); 513]).finish();
    assert_eq!(dropped(&bench.decode(&wide)), [("bad_template", 1)]);
}

#[test]
fn one_exporter_has_a_limited_number_of_templates_and_takes_none_from_others() {
    let mut bench = Bench::new();
    let ids = 256..256 + u16::try_from(TEMPLATES_PER_EXPORTER_MAX).unwrap() + 5;
    let mut refused = 0;
    for id in ids {
        let tally = bench.decode(&ipfix().template(id, &COUNTERS).finish());
        refused += tally.dropped(DropReason::TemplateLimit).count;
    }
    assert_eq!(refused, 5);
    let other = ipfix().template(300, &COUNTERS).finish();
    assert_eq!(bench.decode_from([192, 0, 2, 9].into(), &other).templates_learned, 1);
}

#[test]
fn exporters_beyond_the_limit_are_accounted_together_until_idle_ones_make_room() {
    let mut bench = Bench::new();
    let address = |n: usize| IpAddr::from(u32::try_from(n).unwrap().to_be_bytes());
    let hello = ipfix().template(300, &COUNTERS).finish();
    let from = |bench: &mut Bench, n: usize, received_ms: i64| {
        let datagram =
            Datagram { exporter: address(n), source_port: 0, received_ms, payload: &hello };
        bench.decoder.decode(&datagram, Instant::now(), &mut bench.writer).1
    };
    for n in 1..=EXPORTERS_MAX {
        assert_eq!(from(&mut bench, n, NOW_MS).templates_learned, 1);
    }
    let refused = from(&mut bench, EXPORTERS_MAX + 1, NOW_MS);
    assert_eq!(dropped(&refused), [("exporter_limit", 1)]);
    assert_eq!((bench.exporters.count(), bench.exporters.refused()), (EXPORTERS_MAX, 1));
    assert_eq!(from(&mut bench, 1, NOW_MS + 300_000).templates_learned, 0, "known");
    let later = NOW_MS + 700_000;
    assert_eq!(from(&mut bench, EXPORTERS_MAX + 1, later).templates_learned, 1);
    assert_eq!(bench.exporters.count(), 2, "the active one and the new one");
    assert_eq!(from(&mut bench, 2, later).templates_learned, 1, "forgotten and heard again");
    assert_eq!(bench.exporters.template_count(), 3);
}

#[test]
fn a_set_before_its_template_is_decoded_with_the_times_of_its_own_message() {
    let mut bench = Bench::new();
    let header =
        |uptime_ms, export_time_s| V9Header { uptime_ms, export_time_s, sequence: 0, source_id: 7 };
    let early =
        MessageBuilder::v9(header(60_000, NOW_S - 100)).data_set(300, &[&[0, 0, 0xea, 0x60]]);
    assert_eq!(bench.decode(&early.finish()).flows, 0);
    assert_eq!(bench.exporters.waiting().0, 1);
    let fields = [Field::new(22, 4)];
    let late = MessageBuilder::v9(header(160_000, NOW_S)).template(300, &fields).finish();
    assert_eq!(bench.decode(&late).flows, 1);
    assert_eq!(bench.rows[0]["timestamp"], NOW_MS - 100_000);
    assert_eq!(
        bench.rows[0]["firstSwitched"],
        NOW_MS - 100_000,
        "uptime 60 s of the early message"
    );
    assert_eq!(bench.exporters.waiting(), (0, 0));
}

#[test]
fn sets_wait_for_a_limited_time_and_in_limited_memory() {
    let mut bench = Bench::new();
    let exporter = [192, 0, 2, 1].into();
    let orphan = ipfix().raw_set(300, &[7; 60_000]).finish();
    let mut tally = Tally::default();
    for _ in 0..80 {
        tally.add(&bench.decode(&orphan));
    }
    let kept = bench.exporters.waiting().0 as u64;
    assert_eq!(dropped(&tally), [("no_template", 80 - kept)]);
    assert_eq!(kept, 69, "of 60,064 bytes each");
    let mut expired = Tally::default();
    bench.decoder.expire(NOW_MS + WAITING_AGE_MAX_MS, |_, tally| expired.add(tally));
    assert_eq!(expired, Tally::default());
    bench.decoder.expire(NOW_MS + WAITING_AGE_MAX_MS + 1, |_, tally| expired.add(tally));
    assert_eq!(dropped(&expired), [("no_template", kept)]);
    assert_eq!(bench.exporters.waiting(), (0, 0));
    let template = ipfix().template(300, &COUNTERS).finish();
    assert_eq!(bench.decode_at(exporter, NOW_MS, &template).flows, 0);
    let account = bench.exporters.list()[0].account();
    assert_eq!(account.tally.dropped(DropReason::NoTemplate).count, 80);
}

#[test]
fn a_template_that_is_neither_announced_nor_used_for_a_day_is_forgotten() {
    let mut bench = Bench::new();
    let exporter = [192, 0, 2, 1].into();
    bench.decode(&ipfix().template(300, &COUNTERS).template(301, &COUNTERS).finish());
    let day_ms = 86_400_000;
    bench.decode_at(exporter, NOW_MS + 120_000, &ipfix().data_set(300, &[&[1, 1]]).finish());
    let mut expired = Tally::default();
    bench.decoder.expire(NOW_MS + day_ms - 60_001, |_, tally| expired.add(tally));
    assert_eq!((expired.templates_expired, bench.exporters.template_count()), (0, 2));
    bench.decoder.expire(NOW_MS + day_ms, |_, tally| expired.add(tally));
    assert_eq!((expired.templates_expired, bench.exporters.template_count()), (1, 1));
}

#[test]
fn a_step_of_the_clock_expires_nothing_that_is_announced_again() {
    let mut bench = Bench::new();
    let exporter = [192, 0, 2, 1].into();
    let template = ipfix().template(300, &COUNTERS).finish();
    bench.decode(&template);
    let mut expired = Tally::default();
    bench.decoder.expire(NOW_MS, |_, tally| expired.add(tally));
    let later_ms = NOW_MS + 2 * 86_400_000;
    bench.decoder.expire(later_ms, |_, tally| expired.add(tally));
    bench.decode_at(exporter, later_ms + 1_800_000, &template);
    for minute in 1..=120 {
        bench.decoder.expire(later_ms + minute * 60_000, |_, tally| expired.add(tally));
    }
    assert_eq!((expired.templates_expired, bench.exporters.template_count()), (0, 1));
    bench.decoder.expire(NOW_MS - 86_400_000, |_, tally| expired.add(tally));
    assert_eq!(bench.exporters.template_count(), 1, "set back");
}

#[test]
fn domains_that_are_not_used_any_more_make_room_for_others() {
    let mut bench = Bench::new();
    let of = |domain_id| {
        let header = IpfixHeader { export_time_s: NOW_S, sequence: 0, domain_id };
        MessageBuilder::ipfix(header).template(300, &COUNTERS)
    };
    for domain_id in 0..1_024 {
        bench.decode(&of(domain_id).finish());
    }
    assert_eq!(dropped(&bench.decode(&of(5_000).finish())), [("exporter_limit", 1)]);
    let two_days_ms = 2 * 86_400_000;
    for minute in 0..3 {
        bench.decoder.expire(NOW_MS + two_days_ms + minute * 60_000, |_, _| {});
    }
    let message = of(5_000).data_set(300, &[&[1, 1], &[2, 1]]).finish();
    assert_eq!(bench.decode(&message).flows, 2);
    assert_eq!(bench.decode(&of(7).data_set(300, &[&[1, 1]]).declare(26).finish()).templates, 1);
    assert_eq!(bench.exporters.template_count(), 2, "a reader that knew the domain looked again");
}

#[test]
fn an_options_record_is_counted_and_is_no_flow() {
    let mut bench = Bench::new();
    for builder in [ipfix(), v9()] {
        let message = builder
            .options_template(400, &[Field::new(1, 4)], &[Field::new(34, 4)])
            .data_set(400, &[&[0, 0, 0, 1, 0, 0, 0, 100]]);
        let tally = bench.decode(&message.finish());
        assert_eq!((tally.flows, tally.options_records), (0, 1));
    }
}

#[test]
fn an_address_of_zero_yields_to_the_other_family() {
    let mut bench = Bench::new();
    let fields = [Field::new(8, 4), Field::new(27, 16)];
    let v6 = [&[0; 4][..], &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]].concat();
    let v4 = [&[192, 0, 2, 7][..], &[0; 16]].concat();
    bench.decode(&ipfix().template(300, &fields).data_set(300, &[&v6, &v4]).finish());
    assert_eq!(bench.column(Column::SrcAddr), ["2001:db8::1", "192.0.2.7"]);
    assert_eq!(bench.column(Column::IpProtocolVersion), [6, 4]);
}

#[test]
fn a_packet_section_tells_what_the_record_does_not() {
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64)
        .tcp(1234, 443, 1, 1000)
        .write(&mut frame, b"data")
        .unwrap();
    for (element, section) in [(315, &frame[..]), (104, &frame), (313, &frame[14..])] {
        let mut bench = Bench::new();
        let fields = [Field::new(element, u16::MAX), Field::new(312, 2)];
        let record = [variable_length(section), vec![0x05, 0xdc]].concat();
        bench.decode(&ipfix().template(300, &fields).data_set(300, &[&record]).finish());
        let row = &bench.rows[0];
        assert_eq!(
            (&row["srcAddr"], &row["dstPort"]),
            (&"192.0.2.1".into(), &443.into()),
            "{element}"
        );
        assert_eq!((&row["bytes"], &row["packets"]), (&1500.into(), &1.into()), "{element}");
        assert_eq!(row["ipProtocolVersion"], 4, "{element}");
    }
    let mut bench = Bench::new();
    let fields = [Field::new(8, 4), Field::new(315, u16::MAX)];
    let record = [vec![10, 0, 0, 1], variable_length(&frame)].concat();
    bench.decode(&ipfix().template(300, &fields).data_set(300, &[&record]).finish());
    assert_eq!(
        (&bench.rows[0]["srcAddr"], bench.rows[0].get("dstPort")),
        (&"10.0.0.1".into(), None)
    );
}

#[test]
fn the_reverse_direction_of_a_biflow_has_columns_of_its_own() {
    let mut bench = Bench::new();
    let fields = [
        Field::new(1, 2),
        Field::new(2, 1),
        Field::enterprise(29_305, 1, 2),
        Field::enterprise(29_305, 2, 1),
    ];
    bench.decode(&ipfix().template(300, &fields).data_set(300, &[&[1, 0, 2, 3, 0, 4]]).finish());
    let row = &bench.rows[0];
    assert_eq!((&row["bytes"], &row["packets"]), (&256.into(), &2.into()));
    assert_eq!((&row["reverseBytes"], &row["reversePackets"]), (&768.into(), &4.into()));
}

#[test]
fn a_set_larger_than_a_chunk_goes_on_in_the_next() {
    let mut bench = Bench::new();
    let records: Vec<[u8; 2]> = (0..100).map(|n| [n, 1]).collect();
    let records: Vec<&[u8]> = records.iter().map(<[u8; 2]>::as_slice).collect();
    let tally = bench.decode(&ipfix().template(300, &COUNTERS).data_set(300, &records).finish());
    assert_eq!((tally.flows, bench.rows.len()), (100, 100));
    assert_eq!(bench.column(Column::Bytes)[99], 99);
}

#[test]
fn a_netflow_v5_count_is_checked_against_the_bytes() {
    let mut bench = Bench::new();
    let mut datagram = vec![0; 24 + 30 * 48];
    datagram[..4].copy_from_slice(&[0, 5, 0, 31]);
    assert_eq!(dropped(&bench.decode(&datagram)), [("bad_count", 1)]);
    datagram[3] = 30;
    assert_eq!(bench.decode(&datagram).flows, 30);
    datagram.extend([1; 5]);
    assert_eq!(dropped(&bench.decode(&datagram)), [("trailing_bytes", 1)]);
    datagram[3] = 0;
    assert_eq!(dropped(&bench.decode(&datagram)), [("bad_count", 1)]);
}

#[test]
fn a_protocol_that_the_receiver_leaves_out_is_refused_and_counted() {
    let mut bench = Bench::new();
    bench.decoder.options.protocols = vec![Protocol::NetflowV5];
    let tally = bench.decode(&ipfix().template(300, &COUNTERS).finish());
    assert_eq!((tally.templates, dropped(&tally)), (0, vec![("protocol_refused", 1)]));
}

#[test]
fn what_never_came_is_counted_in_the_unit_of_its_protocol() {
    let mut bench = Bench::new();
    let mut total = Tally::default();
    // NetFlow v9 numbers datagrams; IPFIX records, those of options templates too.
    let v9 = |sequence| {
        let header = V9Header { uptime_ms: 1, export_time_s: NOW_S, sequence, source_id: 7 };
        MessageBuilder::v9(header).finish()
    };
    let ipfix = |sequence| IpfixHeader { export_time_s: NOW_S, sequence, domain_id: 7 };
    let template = MessageBuilder::ipfix(ipfix(0))
        .template(300, &COUNTERS)
        .options_template(400, &[Field::new(149, 4)], &[Field::new(34, 4)])
        .data_set(400, &[&[0; 8]]);
    total.add(&bench.decode(&template.finish()));
    let two_records = |sequence| {
        MessageBuilder::ipfix(ipfix(sequence)).data_set(300, &[&[1, 1], &[1, 1]]).finish()
    };
    for number in (0..3).chain(5..150) {
        total.add(&bench.decode(&v9(number)));
        total.add(&bench.decode(&two_records(1 + 2 * number)));
    }
    assert_eq!((total.lost_datagrams, total.lost_records), (2, 4));
    assert_eq!((total.late_datagrams, total.restarts), (0, 0));
    (0..3).for_each(|number| total.add(&bench.decode(&v9(number))));
    assert_eq!((total.duplicate_datagrams, total.restarts), (0, 1));
    // A set without template has an unknown number of records: no gap follows from it.
    let unknown = MessageBuilder::ipfix(ipfix(301)).raw_set(999, &[1; 40]).finish();
    total.add(&bench.decode(&unknown));
    for number in 0..150 {
        total.add(&bench.decode(&two_records(340 + 2 * number)));
    }
    assert_eq!(total.lost_records, 4);
}

#[test]
fn processes_behind_one_address_are_told_apart_by_their_ports() {
    let mut bench = Bench::new();
    let mut total = Tally::default();
    for number in 0..200 {
        for (source_port, sequence) in [(1_111, number), (2_222, 1_000_000 + number)] {
            let header = V9Header { uptime_ms: 1, export_time_s: NOW_S, sequence, source_id: 7 };
            let payload = &MessageBuilder::v9(header).finish();
            let exporter = [192, 0, 2, 1].into();
            let datagram = Datagram { exporter, source_port, received_ms: NOW_MS, payload };
            // One of them comes twice.
            for _ in 0..=u32::from(number == 100) {
                let (_, tally) = bench.decoder.decode(&datagram, Instant::now(), &mut bench.writer);
                total.add(&tally);
            }
        }
    }
    assert_eq!(total.duplicate_datagrams, 2);
    assert_eq!((total.lost_datagrams, total.late_datagrams, total.restarts), (0, 0, 0));
}

#[test]
fn no_prefix_of_a_datagram_panics_and_none_is_uncounted() {
    let whole = ipfix()
        .template(300, &[Field::new(8, 4), Field::new(96, u16::MAX), Field::enterprise(9, 1, 2)])
        .data_set(300, &[&[192, 0, 2, 1, 2, b'o', b'k', 0, 0]])
        .finish();
    for length in 0..whole.len() {
        let tally = Bench::new().decode(&whole[..length]);
        assert_eq!((tally.flows, dropped(&tally).len()), (0, 1), "{length} bytes");
    }
}
