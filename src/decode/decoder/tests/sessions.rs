//! Connections: what is theirs alone, and what they share with the datagrams of their exporter.

use super::*;

/// A bench that decodes the messages of one connection, among the exporters of another bench.
fn connect(other: &Bench) -> Bench {
    let exporters = Arc::clone(&other.exporters);
    let decoder = Decoder::of_connection(other.decoder.options.clone(), Arc::clone(&exporters));
    Bench { decoder, exporters, ..Bench::new() }
}

fn template() -> Vec<u8> {
    ipfix().template(300, &COUNTERS).finish()
}

fn data(bytes: u8) -> Vec<u8> {
    ipfix().data_set_padded(300, &[[bytes, 1]], 0).finish()
}

#[test]
fn templates_of_a_connection_are_its_own_and_end_with_it() {
    let mut udp = Bench::new();
    let (mut one, mut two) = (connect(&udp), connect(&udp));
    one.decode(&template());
    two.decode(&ipfix().template(300, &[Field::new(2, 1), Field::new(1, 1)]).finish());
    one.decode(&data(7));
    two.decode(&data(7));
    assert_eq!((one.rows[0]["bytes"].clone(), two.rows[0]["bytes"].clone()), (7.into(), 1.into()));
    assert_eq!(udp.lost(&data(7)), [("no_template", 1)]);
    assert_eq!(udp.exporters.template_count(), 2);
    drop(one);
    assert_eq!(udp.exporters.template_count(), 1);
    assert_eq!(connect(&udp).lost(&data(7)), [("no_template", 1)]);
    drop(two);
    assert_eq!(udp.exporters.template_count(), 0);
}

#[test]
fn nothing_of_a_connection_is_kept_over_a_restart() {
    let udp = Bench::new();
    let mut connection = connect(&udp);
    let before = udp.exporters.changes();
    connection.decode(&template());
    assert_eq!(udp.exporters.changes(), before);
    assert_eq!(udp.exporters.snapshot(NOW_MS).templates, 0);
}

#[test]
fn connections_count_against_the_limits_of_their_exporter() {
    let mut udp = Bench::new();
    let mut connection = connect(&udp);
    let templates: Vec<(u16, &[Field])> =
        (300..).map(|id| (id, &COUNTERS[..])).take(4_095).collect();
    connection.decode(&ipfix().templates(&templates).finish());
    udp.decode(&template());
    assert_eq!(dropped(&connect(&udp).decode(&template())), [("template_limit", 1)]);
    drop(connection);
    assert_eq!(dropped(&connect(&udp).decode(&template())), []);
}

#[test]
fn sets_that_wait_at_the_end_of_a_connection_are_dropped_and_those_of_others_are_not() {
    let mut udp = Bench::new();
    let mut connection = connect(&udp);
    udp.decode(&data(1));
    connection.decode(&data(2));
    assert_eq!(connection.lost(&data(3)), [("no_template", 2)]);
    assert_eq!(udp.exporters.waiting().0, 1);
    let account = udp.exporters.list()[0].account();
    assert_eq!(account.tally.dropped(DropReason::NoTemplate).count, 2);
}

#[test]
fn each_connection_numbers_its_messages_from_the_start() {
    let mut udp = Bench::new();
    let numbered = |sequence| {
        let header = IpfixHeader { export_time_s: NOW_S, sequence, domain_id: 7 };
        MessageBuilder::ipfix(header)
            .template(300, &COUNTERS)
            .data_set_padded(300, &[[1, 1]], 0)
            .finish()
    };
    let mut sum = udp.decode(&numbered(5_000));
    for _ in 0..2 {
        let mut connection = connect(&udp);
        for sequence in 0..100 {
            sum.add(&connection.decode(&numbered(sequence)));
        }
    }
    sum.add(&udp.decode(&numbered(5_001)));
    assert_eq!((sum.lost_records, sum.late_datagrams, sum.restarts), (0, 0, 0));
}

#[test]
fn an_exporter_is_not_forgotten_while_it_is_connected() {
    let mut udp = Bench::new();
    let mut connection = connect(&udp);
    connection.decode(&template());
    let address = |n: u32| IpAddr::from((0x0a00_0000 + n).to_be_bytes());
    for n in 1..u32::try_from(EXPORTERS_MAX).unwrap() {
        udp.decode_from(address(n), &[0]);
    }
    let later = NOW_MS + 3_600_000;
    udp.decode_at(address(0), later, &[0]);
    assert_eq!(udp.exporters.count(), 2, "it and the new one");
    assert_eq!(connection.decode(&data(7)).flows, 1);
}

#[test]
fn templates_of_a_connection_do_not_age() {
    let mut udp = Bench::new();
    let mut connection = connect(&udp);
    udp.decode(&template());
    connection.decode(&template());
    let day_later = NOW_MS + 24 * 3_600_000;
    let mut expired = 0;
    connection.decoder.expire(day_later, |_, tally| expired += tally.templates_expired);
    assert_eq!((expired, udp.exporters.template_count()), (1, 1));
    assert_eq!(connection.decode(&data(7)).flows, 1);
}
