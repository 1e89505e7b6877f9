//! Rows say who, where and what: from files, the configuration and what exporters send, seen in ClickHouse.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::net::{IpAddr, UdpSocket};
use std::path::Path;

use common::flows::{FLOW, Flow, row, send, wait_for_rows};
use common::mmdb::{Mmdb, Value};
use common::{Scrape, clickhouse, config, config_text, get, start, target};
use serde_json::Value as Json;
use tidegate::app::App;
use tidegate::traffic::{Field, IpfixHeader, MessageBuilder};

fn city_database(country: &str, city: &str) -> Vec<u8> {
    let mut mmdb = Mmdb::new();
    let names = Value::Map(vec![("de", Value::Text("Stadt")), ("en", Value::Text(city))]);
    let record = Value::Map(vec![
        ("country", Value::Map(vec![("iso_code", Value::Text(country))])),
        ("city", Value::Map(vec![("names", names)])),
    ]);
    mmdb.insert("203.0.113.0".parse().unwrap(), 24, &record);
    mmdb.finish("GeoLite2-City")
}

fn as_database() -> Vec<u8> {
    let mut mmdb = Mmdb::new();
    let system = |number: &'static str, name| {
        Value::Map(vec![
            ("asn", Value::Text(number)),
            ("as_name", Value::Text(name)),
            ("country_code", Value::Text("AT")),
        ])
    };
    mmdb.insert("203.0.113.0".parse().unwrap(), 24, &system("AS100", "Hundred"));
    mmdb.insert("2001:db8::".parse().unwrap(), 32, &system("AS200", "Two Hundred"));
    mmdb.finish("ipinfo lite")
}

fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    // As careful operators do it: beside, then in its place.
    let (path, new) = (folder.join(name), folder.join(format!("{name}.new")));
    std::fs::write(&new, content).unwrap();
    std::fs::rename(&new, &path).unwrap();
    path.display().to_string()
}

#[test]
fn rows_say_which_network_country_and_as_from_databases_and_prefixes() {
    let (server, folder) = (clickhouse(), tempfile::tempdir().unwrap());
    let city = write(folder.path(), "city.mmdb", city_database("DE", "Cologne"));
    let lite = write(folder.path(), "lite.mmdb", as_database());
    let prefixes = write(
        folder.path(),
        "prefixes.csv",
        "prefix,as,name,country,site,role\n10.0.0.0/8,64500,Ours,DE,,\n10.1.0.0/16,,Office,DE,BER,office\n",
    );
    let more = format!("[enrichment]\ngeoip = [{city:?}, {lite:?}]\nprefixes = {prefixes:?}\n");
    let app = start(&server.http_url(), &more);
    let to_outside = Flow { systems: (64_512, 3_320), ..FLOW };
    let from_outside = Flow { from: FLOW.to, to: [10, 2, 0, 1], bytes: 2_000, ..FLOW };
    send(target(&app), &[FLOW, Flow { bytes: 1_001, ..to_outside }, from_outside]);
    wait_for_rows(&server, &app, 3);
    let source = "srcAs, srcAsOrg, srcCountry, srcCity, srcSite, srcRole, srcLocality";
    let destination = "dstAs, dstAsOrg, dstCountry, dstCity, dstSite, dstRole, dstLocality";
    assert_eq!(row(&server, source, 1_000), ["0", "Office", "DE", "", "BER", "office", "PRIVATE"]);
    // The later database has the country, the earlier one the city.
    let outside = ["100", "Hundred", "AT", "Cologne", "", "", "PUBLIC"];
    assert_eq!(row(&server, destination, 1_000), outside);
    assert_eq!(row(&server, source, 2_000), outside);
    assert_eq!(row(&server, destination, 2_000), ["64500", "Ours", "DE", "", "", "", "PRIVATE"]);
    // A private number is kept when nobody knows better, and a public one is believed.
    assert_eq!(row(&server, "srcAs, dstAs, dstAsOrg", 1_001), ["64512", "3320", ""]);
    assert_eq!(row(&server, "flowLocality", 1_000), ["PUBLIC"]);
    app.stop();
}

#[test]
fn rows_say_which_exporter_and_interface_and_from_there_the_direction_and_the_rate() {
    let server = clickhouse();
    let more = "[identity]\ntenant = \"all\"\nzone = \"here\"\n\
        [[exporters]]\naddress = \"127.0.0.0/8\"\nname = \"loopbacks\"\n\
        [[exporters]]\naddress = \"127.0.0.1\"\nname = \"edge1\"\ntenant = \"blue\"\nsampling-interval = 100\n\
        [[exporters.interfaces]]\nindex = 1\nname = \"xe-0/0/0\"\nalias = \"transit\"\nspeed = 10000\n\
        boundary = \"external\"\n\
        [[exporters.interfaces]]\nindex = 2\nname = \"ae1\"\nboundary = \"internal\"\n";
    let app = start(&server.http_url(), more);
    let flow = |interfaces, bytes| Flow { interfaces, bytes, ..FLOW };
    send(
        target(&app),
        &[flow((1, 2), 1), flow((2, 1), 2), flow((1, 1), 3), flow((3, 2), 4), flow((3, 1), 5)],
    );
    wait_for_rows(&server, &app, 5);
    let columns = "exporterName, tenant, organisation, zone, samplingInterval, samplingProvenance";
    assert_eq!(row(&server, columns, 1), ["edge1", "blue", "default", "here", "100", "fallback"]);
    let columns =
        "inputSnmpIfName, inputSnmpIfAlias, inputSnmpIfSpeed, outputSnmpIfName, outputSnmpIfSpeed";
    assert_eq!(row(&server, columns, 1), ["xe-0/0/0", "transit", "10000", "ae1", "0"]);
    assert_eq!(row(&server, columns, 4), ["", "", "0", "ae1", "0"]);
    let direction = |bytes| row(&server, "direction", bytes).remove(0);
    assert_eq!([1, 2, 3, 4, 5].map(direction), ["INGRESS", "EGRESS", "", "", "EGRESS"]);
    app.stop();
}

#[test]
fn a_file_that_changes_is_read_again_and_a_bad_one_leaves_the_old_in_place() {
    let (server, folder) = (clickhouse(), tempfile::tempdir().unwrap());
    let prefixes = write(folder.path(), "prefixes.csv", "prefix,site\n10.1.0.0/16,old\n");
    let city = write(folder.path(), "city.mmdb", city_database("DE", "Cologne"));
    let more = format!(
        "[enrichment]\nprefixes = {prefixes:?}\ngeoip = [{city:?}]\nfiles-interval = \"1s\"\n"
    );
    let mut app = start(&server.http_url(), &more);
    let mut bytes = 0;
    let mut sites = |app: &App| {
        bytes += 1;
        send(target(app), &[Flow { bytes, ..FLOW }]);
        wait_for_rows(&server, app, u64::from(bytes));
        row(&server, "srcSite, dstCity", bytes)
    };
    let look = |app: &mut App| {
        app.look_at_files(std::time::Instant::now() + std::time::Duration::from_secs(3_600));
    };
    assert_eq!(sites(&app), ["old", "Cologne"]);

    write(folder.path(), "prefixes.csv", "prefix,site\n10.1.0.0/16,new\n");
    write(folder.path(), "city.mmdb", city_database("DE", "Bonn"));
    look(&mut app);
    assert_eq!(sites(&app), ["new", "Bonn"]);

    write(folder.path(), "prefixes.csv", "prefix,site\n10.1.0.0/33,worse\n");
    write(folder.path(), "city.mmdb", "no database");
    look(&mut app);
    look(&mut app);
    assert_eq!(sites(&app), ["new", "Bonn"]);
    let failures = "tidegate_enrich_table_failures_total";
    assert_eq!(Scrape::of(&app).sum(failures, &["table=\"prefixes\""]), 1, "once a content");
    assert_eq!(Scrape::of(&app).sum(failures, &["table=\"geoip\""]), 1);
    let files = &status(&app)["configuration"]["files"];
    assert_eq!(
        files[0]["error"],
        "line 2: prefix \"10.1.0.0/33\" is none, or has bits behind its length"
    );
    assert_eq!(files[0]["entries"], 1);
    assert!(files[1]["error"].is_string());

    std::fs::remove_file(&prefixes).unwrap();
    write(folder.path(), "city.mmdb", city_database("DE", "Essen"));
    look(&mut app);
    assert_eq!(sites(&app), ["new", "Essen"]);
    write(folder.path(), "prefixes.csv", "prefix,site\n10.1.0.0/16,newest\n");
    look(&mut app);
    assert_eq!(sites(&app), ["newest", "Essen"]);
    assert!(status(&app)["configuration"]["files"][0]["error"].is_null());
    app.stop();
}

#[test]
fn a_start_without_its_files_takes_flows_and_says_what_is_missing() {
    let (server, folder) = (clickhouse(), tempfile::tempdir().unwrap());
    let missing = folder.path().join("later.csv").display().to_string();
    let more = format!("[enrichment]\nprefixes = {missing:?}\ngeoip = [\"/no/such/file.mmdb\"]\n");
    let mut app = start(&server.http_url(), &more);
    send(target(&app), &[FLOW]);
    wait_for_rows(&server, &app, 1);
    assert_eq!(row(&server, "srcSite, srcLocality", 1_000), ["", "PRIVATE"]);
    let files = status(&app)["configuration"]["files"].clone();
    assert!(files[0]["error"].as_str().unwrap().contains("No such file"), "{files}");
    // It is found when it comes.
    write(folder.path(), "later.csv", "prefix,site\n10.0.0.0/8,here\n");
    app.look_at_files(std::time::Instant::now() + std::time::Duration::from_secs(3_600));
    send(target(&app), &[Flow { bytes: 2, ..FLOW }]);
    wait_for_rows(&server, &app, 2);
    assert_eq!(row(&server, "srcSite", 2), ["here"]);
    app.stop();
}

/// A database whose records are garbage answers some lookups with an error.
#[test]
fn a_database_that_is_damaged_inside_costs_its_columns_and_is_counted() {
    let (server, folder) = (clickhouse(), tempfile::tempdir().unwrap());
    let mut damaged = city_database("DE", "Cologne");
    let record = damaged.windows(7).position(|it| it == b"country").unwrap() - 1;
    damaged[record..record + 7].fill(0xff);
    let city = write(folder.path(), "city.mmdb", damaged);
    let app = start(&server.http_url(), &format!("[enrichment]\ngeoip = [{city:?}]\n"));
    send(target(&app), &[FLOW]);
    wait_for_rows(&server, &app, 1);
    assert_eq!(row(&server, "dstCountry, dstCity, dstLocality", 1_000), ["", "", "PUBLIC"]);
    assert_eq!(Scrape::of(&app).sum("tidegate_enrich_lookup_failures_total", &[]), 1);
    app.stop();
}

#[test]
fn a_configuration_that_cannot_be_followed_changes_nothing_and_is_shown() {
    let server = clickhouse();
    let text = |more: &str| config_text(&server.http_url(), more);
    let mut app = App::start(&config(&text("[identity]\nzone = \"a\"\n"))).unwrap();
    let address = target(&app);
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = format!("[receivers.more]\nlisten = \"{}\"\n", taken.local_addr().unwrap());
    let parse = |text: &str| tidegate::config::Config::parse(text, Path::new("t.toml"), Vec::new());
    for (more, expected) in [
        ("[identity]\nzonw = \"b\"\n", "unknown key"),
        (&taken, "cannot listen"),
        (
            "[enrichment]\nprefixes = \"/no/such/file\"\n[identity]\nzone = \"b\"\n",
            "/no/such/file: No such",
        ),
    ] {
        let error = app.reload(parse(&text(more))).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let configuration = &status(&app)["configuration"];
        assert!(configuration["mistakes"].to_string().contains(expected), "{configuration}");
        assert!(configuration["refusedMs"].is_u64());
        assert_eq!(app.receivers(), [("test".to_owned(), address)]);
    }
    assert_eq!(Scrape::of(&app).sum("tidegate_reloads_total", &["outcome=\"refused\""]), 3);
    app.reload(parse(&text("[identity]\nzone = \"c\"\n[spool]\ndirectory = \"/tmp/x\"\n")))
        .unwrap();
    let configuration = &status(&app)["configuration"];
    assert_eq!(configuration["mistakes"].as_array().unwrap().len(), 0);
    assert_eq!(configuration["needsRestart"], serde_json::json!(["spool"]));
    let scrape = Scrape::of(&app);
    assert_eq!(scrape.sum("tidegate_reloads_total", &["outcome=\"applied\""]), 1);
    assert_eq!(scrape.sum("tidegate_reload_needs_restart", &[]), 1);
    send(address, &[FLOW]);
    wait_for_rows(&server, &app, 1);
    assert_eq!(row(&server, "zone", 1_000), ["c"]);
    app.stop();
}

#[test]
fn rows_say_the_application_of_the_exporter_else_of_a_rule_else_of_iana() {
    let (server, folder) = (clickhouse(), tempfile::tempdir().unwrap());
    let rules = write(
        folder.path(),
        "applications.csv",
        "application,protocol,ports,prefixes,peer-prefixes,exporter\n\
         elsewhere,tcp,443,,,192.0.2.1\n\
         intranet,tcp,443|8443,10.0.0.0/8,,127.0.0.0/8\n\
         backup,,,203.0.113.9,10.1.2.3,\n",
    );
    let more = format!("[enrichment]\napplications = {rules:?}\n");
    let app = start(&server.http_url(), &more);
    let flow = |from, to, ports, protocol, bytes| Flow { from, to, ports, protocol, bytes, ..FLOW };
    let (inside, other, outside) = ([10, 1, 2, 3], [10, 9, 9, 9], [203, 0, 113, 9]);
    send(
        target(&app),
        &[
            flow(outside, other, (51_000, 443), 6, 1),
            // The answer: the service is the source.
            flow(other, outside, (443, 51_000), 6, 2),
            flow(inside, outside, (51_000, 52_000), 17, 3),
            flow(other, outside, (51_000, 53), 17, 4),
            flow(other, outside, (53, 443), 17, 5),
            // No ports: type and code of ICMP are not a service.
            flow(other, outside, (0, 443), 1, 6),
            flow(other, outside, (51_000, 60_000), 6, 7),
        ],
    );
    let fields = [(8, 4), (12, 4), (7, 2), (11, 2), (4, 1), (1, 4), (96, 8)];
    let fields = fields.map(|(element, octets)| Field::new(element, octets));
    let mut record = [inside, outside].concat();
    record.extend_from_slice(&[0xc7, 0x38, 0x01, 0xbb, 6, 0, 0, 0, 8]);
    record.extend_from_slice(b"webex\0\0\0");
    let now_s = u32::try_from(tidegate::telemetry::unix_ms() / 1_000).unwrap();
    let header = IpfixHeader { export_time_s: now_s, ..IpfixHeader::default() };
    let message = MessageBuilder::ipfix(header).template(300, &fields).data_set(300, &[record]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&message.finish(), target(&app)).unwrap();
    wait_for_rows(&server, &app, 8);
    let application = |bytes| row(&server, "application", bytes).remove(0);
    let expected = ["intranet", "intranet", "backup", "domain", "domain", "", "", "webex"];
    assert_eq!([1, 2, 3, 4, 5, 6, 7, 8].map(application), expected);
    app.stop();
}

fn status(app: &App) -> Json {
    serde_json::from_str(&get(app.management_address(), "/api/v1/status").1).unwrap()
}

#[test]
fn a_database_for_both_families_is_built_as_readers_expect() {
    let reader = maxminddb::Reader::from_source(as_database()).unwrap();
    reader.verify().unwrap();
    let name = |address: &str| {
        let address: IpAddr = address.parse().unwrap();
        let record: Option<Json> = reader.lookup(address).unwrap().decode().unwrap();
        record.map(|record| record["as_name"].as_str().unwrap().to_owned())
    };
    assert_eq!(name("203.0.113.200").as_deref(), Some("Hundred"));
    assert_eq!(name("2001:db8:1::1").as_deref(), Some("Two Hundred"));
    assert_eq!(name("203.0.114.1"), None);
}
