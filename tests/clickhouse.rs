//! The table and the inserts on a real ClickHouse.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::time::UNIX_EPOCH;

use common::{
    Scrape, clickhouse, clickhouse_with, config, config_text, query_number, query_row, start,
    stored_sums, target, wait_until,
};
use tidegate::app::App;
use tidegate::clickhouse::CODES;
use tidegate::devserver::{DevServer, DevServerOptions};
use tidegate::flow::{COLUMNS, Kind};
use tidegate::schema::create_table_sql;
use tidegate::traffic::{
    self, Field, IpfixHeader, MessageBuilder, Pace, Spec, Totals, variable_length,
};

/// Why the collector cannot go on.
fn fatal(app: App) -> String {
    let mut reason = None;
    wait_until("the collector says why", || {
        reason = app.fatal();
        reason.is_some()
    });
    app.stop();
    reason.unwrap().to_string()
}

fn wait_for_table(app: &App, server: &DevServer) {
    let is_prepared = "SELECT count() = 1 FROM system.columns WHERE database = 'tidegate' AND table = 'flows' AND name = 'extra'";
    wait_until("the table is there", || {
        app.fatal().is_none() && server.query(is_prepared).unwrap() == "1\n"
    });
}

#[test]
fn the_managed_table_has_every_column_and_survives_a_restart() {
    let server = clickhouse();
    for _ in 0..2 {
        let app = start(&server.http_url(), "");
        wait_for_table(&app, &server);
        app.stop();
    }
    let columns = server.query("SELECT name, type FROM system.columns WHERE database = 'tidegate' AND table = 'flows' ORDER BY position FORMAT TSVRaw").unwrap();
    let expected: String =
        COLUMNS.iter().map(|spec| format!("{}\t{}\n", spec.name, spec.kind.sql())).collect();
    assert_eq!(columns, expected);
}

#[test]
fn codes_have_the_names_that_the_server_gives_them() {
    let server = clickhouse();
    let numbers: Vec<_> = CODES.iter().map(|code| code.number.to_string()).collect();
    let sql = format!("SELECT errorCodeToName(arrayJoin([{}])) FORMAT TSV", numbers.join(", "));
    let names = server.query(&sql).unwrap();
    for (code, name) in CODES.iter().zip(names.lines()) {
        // Some codes are not used any more.
        assert!(name.is_empty() || name == code.name, "{}: {name}, not {}", code.number, code.name);
    }
}

/// Rows with lists, rows without, chunks with and without the column: all in one block.
#[test]
fn lists_are_read_back_row_by_row() {
    let server = clickhouse();
    let app = start(&server.http_url(), "");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // sFlow: a sample each of rate 1 to 4, with as many MPLS labels less one before an empty packet.
    for round in 0..3_u32 {
        let samples = (1..=4_u32).flat_map(|rate| {
            let bottom = |at| u32::from(at + 1 == rate - 1) << 8;
            let labels: Vec<u32> = (0..rate - 1)
                .map(|at| (1_000 * round + 10 * rate + at) << 12 | bottom(at))
                .collect();
            let bytes = u32::try_from(4 * labels.len()).unwrap();
            let head = [1, 32 + 24 + bytes, 1, 3, rate, 0, 0, 1, 2, 1];
            [&head[..], &[1, 16 + bytes, 13, 100, 0, bytes], &labels].concat()
        });
        let words = [5, 1, 0x0a01_0203, 7, round, 60_000, 4].into_iter().chain(samples);
        let datagram: Vec<u8> = words.flat_map(u32::to_be_bytes).collect();
        socket.send_to(&datagram, target(&app)).unwrap();
    }
    wait_until("all is received", || app.view().ledger.books().received == 12);
    assert_eq!(app.stop().books.stored, 12);
    let rows = server
        .query("SELECT samplingInterval, mplsLabels FROM tidegate.flows ORDER BY length(mplsLabels), mplsLabels FORMAT TSV")
        .unwrap();
    let mut expected = "1\t[]\n".repeat(3);
    for rate in 2..=4 {
        for round in 0..3 {
            let labels = (0..rate - 1).map(|at| (1_000 * round + 10 * rate + at).to_string());
            expected += &format!("{rate}\t[{}]\n", labels.collect::<Vec<_>>().join(","));
        }
    }
    assert_eq!(rows, expected);
}

/// Rows with and without entries, of a receiver that keeps them and of one that does not: all in one block.
#[test]
fn elements_without_a_column_are_read_back_row_by_row() {
    let server = clickhouse();
    let text = config_text(&server.http_url(), "[clickhouse.batch]\nmax-latency = \"2s\"").replace(
        "[management]",
        "keep-unknown-elements = true\n[receivers.plain]\nlisten = \"127.0.0.1:0\"\n[management]",
    );
    let app = App::start(&config(&text)).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // octetDeltaCount, userName, dot1qCustomerVlanId
    let fields = [Field::new(1, 1), Field::new(371, u16::MAX), Field::new(245, 2)];
    let record =
        |bytes: u8, user: &[u8]| [&[bytes][..], &variable_length(user), &[0, bytes]].concat();
    let long = [b'x'; 200];
    let records = [record(1, b"alice"), record(2, b""), record(3, &long)];
    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    let export_time_s = u32::try_from(UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
    let header = IpfixHeader { export_time_s, sequence: 0, domain_id: 0 };
    let message = MessageBuilder::ipfix(header).template(300, &fields).data_set(300, &records);
    let message = message.finish();
    for (_, receiver) in app.receivers() {
        socket.send_to(&message, receiver).unwrap();
    }
    wait_until("all is received", || app.view().ledger.books().received == 6);
    assert_eq!(app.stop().books.stored, 6);
    let rows = server
        .query("SELECT bytes, extra FROM tidegate.flows ORDER BY bytes, length(extra) FORMAT TSV")
        .unwrap();
    let expected = format!(
        "1\t{{}}\n1\t{{'userName':'alice','dot1qCustomerVlanId':'1'}}\n\
         2\t{{}}\n2\t{{'dot1qCustomerVlanId':'2'}}\n\
         3\t{{}}\n3\t{{'userName':'{}','dot1qCustomerVlanId':'3'}}\n",
        "x".repeat(200)
    );
    assert_eq!(rows, expected);
}

/// A receiver keeps elements without a column, but no record has a value of them.
#[test]
fn a_block_in_which_every_map_is_empty_is_stored() {
    let server = clickhouse();
    let text = config_text(&server.http_url(), "")
        .replace("[management]", "keep-unknown-elements = true\n[management]");
    let app = App::start(&config(&text)).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // octetDeltaCount, userName
    let fields = [Field::new(1, 1), Field::new(371, u16::MAX)];
    let export_time_s = u32::try_from(UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
    let header = IpfixHeader { export_time_s, sequence: 0, domain_id: 0 };
    let message = MessageBuilder::ipfix(header).template(300, &fields);
    let message = message.data_set(300, &[[1, 0], [2, 0]]).finish();
    socket.send_to(&message, target(&app)).unwrap();
    wait_until("all is received", || app.view().ledger.books().received == 2);
    assert_eq!(app.stop().books.stored, 2);
    let rows = server.query("SELECT bytes, extra FROM tidegate.flows ORDER BY bytes FORMAT TSV");
    assert_eq!(rows.unwrap(), "1\t{}\n2\t{}\n");
}

#[test]
fn a_column_of_a_later_version_is_added() {
    let server = clickhouse();
    let app = start(&server.http_url(), "");
    wait_for_table(&app, &server);
    app.stop();
    server.query("ALTER TABLE tidegate.flows DROP COLUMN extra").unwrap();
    let app = start(&server.http_url(), "");
    wait_for_table(&app, &server);
    app.stop();
}

#[test]
fn a_table_that_differs_stops_the_start_with_the_column_and_the_way_out() {
    let server = clickhouse();
    server.query("CREATE DATABASE tidegate").unwrap();
    server
        .query("CREATE TABLE tidegate.flows (timestamp DateTime, bytes String) ENGINE = Memory")
        .unwrap();
    let reason = fatal(start(&server.http_url(), ""));
    let endpoint = server.http_url();
    let expected = format!(
        "ClickHouse at {endpoint}: table tidegate.flows does not fit this version of tidegate: \
         timestamp is DateTime, must be DateTime64(3, 'UTC'), bytes is String, must be UInt64; \
         rename the table, and tidegate creates a new one"
    );
    assert_eq!(reason, expected);
}

#[test]
fn without_manage_schema_nothing_is_created_and_what_is_missing_is_said() {
    let server = clickhouse();
    let unmanaged = "manage-schema = false";
    let reason = fatal(start(&server.http_url(), unmanaged));
    assert!(reason.contains("refused with code 81"), "{reason}");
    assert!(
        reason.ends_with("create tidegate.flows, or set clickhouse.manage-schema = true"),
        "{reason}"
    );
    assert_eq!(
        query_number(&server, "SELECT count() FROM system.databases WHERE name = 'tidegate'"),
        0
    );

    let app = start(&server.http_url(), "");
    wait_for_table(&app, &server);
    app.stop();
    server.query("ALTER TABLE tidegate.flows DROP COLUMN extra, DROP COLUMN vlan").unwrap();
    let reason = fatal(start(&server.http_url(), unmanaged));
    assert!(
        reason.contains(": vlan is missing, extra is missing; let its owner change it"),
        "{reason}"
    );
}

/// `default` may do everything, `writer` only what a collector with `manage-schema = false` needs.
const WRITER_CONFIG: &str = "\
<clickhouse>
    <users_config>config.xml</users_config>
    <profiles><default/></profiles>
    <quotas><default/></quotas>
    <users>
        <default>
            <password></password>
            <networks><ip>127.0.0.1</ip></networks>
            <profile>default</profile>
            <quota>default</quota>
        </default>
        <writer>
            <password>secret</password>
            <networks><ip>127.0.0.1</ip></networks>
            <profile>default</profile>
            <quota>default</quota>
            <grants><query>GRANT INSERT ON tidegate.flows</query></grants>
        </writer>
    </users>
</clickhouse>
";

#[test]
fn an_insert_grant_is_enough_without_manage_schema_and_too_little_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let config_file = folder.path().join("config.xml");
    std::fs::write(&config_file, WRITER_CONFIG).unwrap();
    let server = clickhouse_with(&DevServerOptions {
        config_file: Some(config_file),
        ..DevServerOptions::default()
    });
    server.query("CREATE DATABASE tidegate").unwrap();
    server.query(&create_table_sql("tidegate", 30)).unwrap();
    let writer = "username = \"writer\"\npassword = \"secret\"\n";
    let app = start(&server.http_url(), &format!("{writer}manage-schema = false"));
    generate(&app, 1_000);
    assert_eq!(app.stop().books.stored, 1_000);

    let reason = fatal(start(&server.http_url(), writer));
    assert!(reason.contains("refused with code 497"), "{reason}");
    assert!(
        reason.ends_with("grant it to writer, or set clickhouse.manage-schema = false"),
        "{reason}"
    );
}

fn generate(app: &App, flows: u64) {
    let spec = Spec { flows: Some(flows), ..Spec::default() };
    let pace = Pace { flows_per_second: 20_000, duration: None };
    traffic::run(&spec, target(app), pace, &AtomicBool::new(false), &Totals::default()).unwrap();
}

#[test]
fn rows_are_stored_without_a_view_that_fails_and_other_views_have_them_too() {
    let server = clickhouse();
    server.query("CREATE DATABASE tidegate").unwrap();
    server.query(&create_table_sql("tidegate", 30)).unwrap();
    for (name, select) in [("good", "bytes"), ("bad", "throwIf(bytes >= 0, 'no')")] {
        let window =
            "ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 1000";
        server.query(&format!("CREATE TABLE tidegate.{name} (n UInt64) {window}")).unwrap();
        let view = format!(
            "CREATE MATERIALIZED VIEW tidegate.{name}_mv TO tidegate.{name} AS SELECT {select} AS n FROM tidegate.flows"
        );
        server.query(&view).unwrap();
    }
    let app = start(&server.http_url(), "");
    generate(&app, 3_000);
    wait_until("all is stored", || app.view().ledger.books().stored == 3_000);
    let count =
        |table: &str| query_number(&server, &format!("SELECT count() FROM tidegate.{table}"));
    assert_eq!([count("flows"), count("good"), count("bad")], [3_000, 3_000, 0]);
    let alarm =
        || Scrape::of(&app).sum("tidegate_clickhouse_alarm", &["table=\"tidegate.bad_mv\""]);
    let status = || common::get(app.management_address(), "/api/v1/status").1;
    assert!(alarm() == 1 && status().contains("\"table\":\"tidegate.bad_mv\""), "{}", status());

    server.query("DROP TABLE tidegate.bad_mv").unwrap();
    generate(&app, 1_000);
    wait_until("all is stored", || app.view().ledger.books().stored == 4_000);
    assert!(alarm() == 0 && status().contains("\"alarms\":[]"), "{}", status());
}

#[test]
fn a_view_whose_trouble_passes_gets_its_rows() {
    let server = clickhouse();
    server.query("CREATE DATABASE tidegate").unwrap();
    server.query(&create_table_sql("tidegate", 30)).unwrap();
    server
        .query(
            "CREATE TABLE tidegate.busy (n UInt64) ENGINE = MergeTree ORDER BY n \
             SETTINGS non_replicated_deduplication_window = 1000, parts_to_throw_insert = 1",
        )
        .unwrap();
    server
        .query(
            "CREATE MATERIALIZED VIEW tidegate.busy_mv TO tidegate.busy AS \
             SELECT bytes AS n FROM tidegate.flows",
        )
        .unwrap();
    server.query("SYSTEM STOP MERGES tidegate.busy").unwrap();
    let more = "[clickhouse.batch]\nmax-rows = 1000\n[clickhouse.retry]\ndelay = \"100ms\"\nmax-attempts = 1000";
    let app = start(&server.http_url(), more);
    generate(&app, 3_000);
    let refused = || Scrape::of(&app).sum("tidegate_batch_retries_total", &["reason=\"refused\""]);
    wait_until("its target has too many parts", || refused() > 3);
    server.query("ALTER TABLE tidegate.busy MODIFY SETTING parts_to_throw_insert = 3000").unwrap();
    wait_until("all is stored", || app.view().ledger.books().stored == 3_000);
    let count = |table: &str| query_number(&server, &format!("SELECT count() FROM {table}"));
    assert_eq!([count("tidegate.flows"), count("tidegate.busy")], [3_000, 3_000]);
}

#[test]
fn an_insert_that_takes_longer_than_the_response_timeout_is_waited_for_and_stored_once() {
    let server = clickhouse();
    server.query("CREATE DATABASE tidegate").unwrap();
    server.query(&create_table_sql("tidegate", 30)).unwrap();
    server.query("CREATE TABLE tidegate.slow (n UInt64) ENGINE = MergeTree ORDER BY n").unwrap();
    server.query("CREATE MATERIALIZED VIEW tidegate.slow_mv TO tidegate.slow AS SELECT sleep(1.5) + bytes AS n FROM tidegate.flows").unwrap();
    let more = "response-timeout = \"1s\"\n[clickhouse.batch]\nshutdown-grace-period = \"60s\"\n[clickhouse.retry]\ndelay = \"100ms\"";
    let app = start(&server.http_url(), more);
    generate(&app, 1_000);
    wait_until("the insert is acknowledged", || app.view().ledger.books().stored == 1_000);
    app.stop();
    assert_eq!(stored_sums(&server).0, 1_000);
}

#[test]
fn a_table_on_which_a_repeat_would_double_rows_is_mended_or_refused() {
    let server = clickhouse();
    server.query("CREATE DATABASE tidegate").unwrap();
    let window = "non_replicated_deduplication_window = 10000, ";
    let forgetful = create_table_sql("tidegate", 30).replace(window, "");
    server.query(&forgetful).unwrap();
    let reason = fatal(start(&server.http_url(), "manage-schema = false"));
    assert!(
        reason.contains("it must have the setting non_replicated_deduplication_window = 10000"),
        "{reason}"
    );
    let app = start(&server.http_url(), "");
    let is_mended = "SELECT position(engine_full, 'non_replicated_deduplication_window = 10000') > 0 FROM system.tables WHERE name = 'flows'";
    wait_until("the setting is there", || server.query(is_mended).unwrap() == "1\n");
    app.stop();

    server.query("DROP TABLE tidegate.flows").unwrap();
    let split = create_table_sql("tidegate", 30)
        .replace("toYYYYMMDD(timestamp)", "toStartOfHour(timestamp)");
    server.query(&split).unwrap();
    let reason = fatal(start(&server.http_url(), ""));
    assert!(
        reason.contains("partition key is toStartOfHour(timestamp), must be toYYYYMMDD(timestamp)"),
        "{reason}"
    );
}

#[test]
fn a_table_with_another_sort_key_and_without_codecs_goes_on_working() {
    let server = clickhouse();
    server.query("CREATE DATABASE tidegate").unwrap();
    let columns: Vec<_> =
        COLUMNS.iter().map(|spec| format!("{} {}", spec.name, spec.kind.sql())).collect();
    let older = format!(
        "CREATE TABLE tidegate.flows ({}) ENGINE = MergeTree PARTITION BY toYYYYMMDD(timestamp) \
         ORDER BY (tenant, timestamp, srcAddr) SETTINGS non_replicated_deduplication_window = 10000",
        columns.join(", ")
    );
    server.query(&older).unwrap();
    for manage in ["", "manage-schema = false"] {
        let app = start(&server.http_url(), manage);
        generate(&app, 1_000);
        assert_eq!(app.stop().books.stored, 1_000);
    }
}

#[test]
fn a_restart_of_clickhouse_in_the_middle_loses_and_doubles_nothing() {
    let data = tempfile::tempdir().unwrap();
    let options =
        DevServerOptions { path: Some(data.path().join("ch")), ..DevServerOptions::default() };
    let server = clickhouse_with(&options);
    let batch = "[clickhouse.batch]\nmax-rows = 2000\nmax-latency = \"50ms\"\n[clickhouse.retry]\ndelay = \"200ms\"";
    let app = start(&server.http_url(), batch);
    wait_for_table(&app, &server);
    let totals = Totals::default();
    let spec = Spec { flows: Some(150_000), ..Spec::default() };
    let pace = Pace { flows_per_second: 50_000, duration: None };
    let server = std::thread::scope(|scope| {
        let mut server = server;
        let sending = scope
            .spawn(|| traffic::run(&spec, target(&app), pace, &AtomicBool::new(false), &totals));
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(600));
            let again = server.options();
            server.kill().unwrap();
            server = clickhouse_with(&again);
        }
        sending.join().unwrap().unwrap();
        server
    });
    let sent = totals.read();
    wait_until("all is stored", || app.view().ledger.books().stored == 150_000);
    assert_eq!(app.stop().books.received, 150_000);
    assert_eq!(stored_sums(&server), (sent.flows, sent.bytes, sent.packets));
}

/// One record with every element that fills a column, each with a value of its own.
#[test]
fn every_element_arrives_in_its_column() {
    let server = clickhouse();
    let app = start(&server.http_url(), "");
    let mut fields = Vec::new();
    let mut record = Vec::new();
    let mut expected = Vec::new();
    for spec in COLUMNS {
        let Some(source) = spec.sources.first() else { continue };
        let number = u8::try_from(fields.len() + 1).unwrap();
        let (length, shown) = match spec.kind {
            Kind::UInt8 => (1, number.to_string()),
            Kind::UInt16 if source.id != 61 => (2, number.to_string()),
            Kind::UInt32 => (4, number.to_string()),
            Kind::UInt64 => (8, number.to_string()),
            Kind::Address => (4, format!("::ffff:0.0.0.{number}")),
            _ => continue, // times, rates and text are tested by themselves
        };
        if fields.iter().any(|field: &Field| {
            (field.enterprise.unwrap_or(0), field.element) == (source.enterprise, source.id)
        }) {
            continue; // one element that fills two columns
        }
        let mut field = Field::new(source.id, length);
        field.enterprise = (source.enterprise != 0).then_some(source.enterprise);
        fields.push(field);
        record.extend(vec![0; usize::from(length) - 1]);
        record.push(number);
        expected.push((spec.name, shown));
    }
    let export_time_s = u32::try_from(UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
    let message = MessageBuilder::ipfix(IpfixHeader { export_time_s, sequence: 0, domain_id: 7 })
        .template(300, &fields)
        .data_set(300, &[&record]);
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&message.finish(), target(&app)).unwrap();
    wait_until("it is stored", || app.view().ledger.books().stored == 1);
    app.stop();
    let names: Vec<_> = expected.iter().map(|(name, _)| format!("toString({name})")).collect();
    let row = query_row(&server, &format!("SELECT {} FROM tidegate.flows", names.join(", ")));
    let got: Vec<_> = expected.iter().map(|(name, _)| *name).zip(row).collect();
    assert!(expected.len() > 30);
    assert_eq!(got, expected);
}
