//! Tenants on a real ClickHouse whose users are in a file: what each may write and see.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use common::{
    TIDEGATE, clickhouse, clickhouse_with, config, config_text, query_number, tidegate, wait_until,
};
use tidegate::app::App;
use tidegate::clickhouse::Connection;
use tidegate::devserver::{DevServer, DevServerOptions};
use tidegate::schema::ensure;
use tidegate::traffic::{self, Pace, Spec, Totals};

/// What the embedded server needs beside the users of tenants.
const SERVER: &str = "\
<clickhouse>
    <users_config>config.xml</users_config>
    <profiles><default/>PROFILES</profiles>
    <quotas><default/>QUOTAS</quotas>
    <roles>ROLES</roles>
    <users>
        <default>
            <password></password><networks><ip>127.0.0.1</ip></networks>
            <profile>default</profile><quota>default</quota>
        </default>USERS
    </users>
</clickhouse>
";

const ALL: [&str; 6] = [
    "flows",
    "flows_dead_letter",
    "flows_by_application_1m",
    "flows_by_conversation_1m",
    "flows_by_exporter_iface_1m",
    "flows_by_geo_asn_1m",
];

/// A rollup that some sites have and others do not.
const OWN: &str = "[clickhouse.rollups.own]\ndimensions = [\"nextHop\"]";

/// The file that `tenant onboard` prints by a configuration with `more` in it.
fn users_xml(tenant: &str, more: &str) -> String {
    let (_folder, file) = config_file(more);
    let output = Command::new(TIDEGATE)
        .args(["tenant", "onboard", "--tenant", tenant, "--organisation", "acme", "--format"])
        .args(["users-xml", "--quota", "1GiB", "-c", file.to_str().unwrap()])
        .args(["--writer-password", "env:WRITER", "--reader-password", "env:READER"])
        .env("WRITER", "write")
        .env("READER", "read")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn config_file(more: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidegate.toml");
    std::fs::write(&file, config_text("http://127.0.0.1:1", more)).unwrap();
    (folder, file)
}

/// What is within an element of several files.
fn within(files: &[String], element: &str) -> String {
    let part = |file: &String| {
        let (_, rest) = file.split_once(&format!("<{element}>")).unwrap();
        rest.split_once(&format!("</{element}>")).unwrap().0.to_owned()
    };
    files.iter().map(part).collect()
}

/// A server with the users of files, whose owner has a configuration with `more` in it.
fn server(folder: &std::path::Path, files: &[String], more: &str) -> DevServer {
    // Those of all tenants are in each file, and the last one has the newest.
    let roles = within(&files[files.len() - 1..], "roles");
    let text = SERVER
        .replace("PROFILES", &within(files, "profiles"))
        .replace("QUOTAS", &within(files, "quotas"))
        .replace("ROLES", &roles)
        .replace("USERS", &within(files, "users"));
    let file = folder.join("config.xml");
    std::fs::write(&file, text).unwrap();
    let options = DevServerOptions { config_file: Some(file), ..DevServerOptions::default() };
    let server = clickhouse_with(&options);
    let owner = config(&config_text(&server.http_url(), more)).clickhouse;
    ensure(&Connection::new(&owner).unwrap(), &owner).unwrap();
    let pin = tidegate::schema::Tenant::new("any", "any", &owner).pin_statement();
    server.query(&pin).unwrap();
    server
}

/// A collector that says it is of a tenant, with the credential of another or the same one.
fn collector(server: &DevServer, identity: &str, credential: &str) -> App {
    let more = format!(
        "username = \"tidegate_writer_{credential}_acme\"\npassword = \"write\"\n\
         manage-schema = false\n[clickhouse.batch]\nmax-latency = \"100ms\"\n\
         [identity]\ntenant = \"{identity}\"\norganisation = \"acme\""
    );
    common::start(&server.http_url(), &more)
}

fn generate(app: &App, flows: u64) {
    let spec = Spec { flows: Some(flows), ..Spec::default() };
    let pace = Pace { flows_per_second: 20_000, duration: None };
    let target = common::target(app);
    traffic::run(&spec, target, pace, &AtomicBool::new(false), &Totals::default()).unwrap();
    wait_until("all rows have their end", || {
        let books = app.view().ledger.books();
        books.received == flows && books.pending() == 0
    });
}

fn ask(server: &DevServer, user: &str, password: &str, sql: &str) -> Result<String, String> {
    let more = format!("username = \"{user}\"\npassword = \"{password}\"");
    let config = config(&config_text(&server.http_url(), &more)).clickhouse;
    let answer = Connection::new(&config).unwrap().query(sql);
    answer.map(|text| text.trim().to_owned()).map_err(|error| error.to_string())
}

#[test]
fn a_tenant_writes_and_sees_its_own_rows_only() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["north", "south"].map(|tenant| users_xml(tenant, ""));
    let server = server(folder.path(), &files, "");
    for (tenant, flows) in [("north", 3_000), ("south", 2_000)] {
        let app = collector(&server, tenant, tenant);
        generate(&app, flows);
        assert_eq!(app.stop().books.stored, flows, "{tenant}");
    }
    // With the credential of one it can write nothing for the other.
    let app = collector(&server, "south", "north");
    generate(&app, 1_000);
    let books = app.stop().books;
    assert_eq!((books.stored, books.dead_lettered), (0, 1_000));
    assert_eq!(query_number(&server, "SELECT any(errorCode) FROM tidegate.flows_dead_letter"), 469);
    let read = "SELECT count() FROM tidegate.flows";
    let refused = ask(&server, "tidegate_writer_north_acme", "write", read).unwrap_err();
    assert!(refused.contains("code 497"), "{refused}");

    // The pin is its name: it has no setting to change, and may not touch the table.
    let lift = "ALTER TABLE tidegate.flows DROP CONSTRAINT tenant_pinned";
    let refused = ask(&server, "tidegate_writer_north_acme", "write", lift).unwrap_err();
    assert!(refused.contains("code 497"), "{refused}");

    for (tenant, flows) in [("north", 3_000), ("south", 2_000)] {
        let reader = format!("tidegate_reader_{tenant}_acme");
        for table in ALL {
            let sql =
                format!("SELECT count() > 0, uniqExact(tenant), any(tenant) FROM tidegate.{table}");
            let seen = ask(&server, &reader, "read", &sql).unwrap();
            let expected = match (table, tenant) {
                // The letters of who claimed to be the other one.
                ("flows_dead_letter", "north") => "0\t0\t".to_owned(),
                _ => format!("1\t1\t{tenant}"),
            };
            assert_eq!(seen, expected.trim(), "{reader} {table}");
        }
        assert_eq!(ask(&server, &reader, "read", read), Ok(flows.to_string()));
        let samples = "SELECT sum(flowCount) FROM tidegate.samples(ival = 60)";
        assert_eq!(ask(&server, &reader, "read", samples), Ok(flows.to_string()), "{reader}");
        let write = "INSERT INTO tidegate.flows (tenant) VALUES ('north')";
        assert!(ask(&server, &reader, "read", write).is_err());
    }
    assert_eq!(query_number(&server, read), 5_000, "who is no tenant sees all");
}

#[test]
fn a_rollup_that_came_after_a_tenant_shows_it_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // South was made after the rollup, north before it and not again since.
    let server = server(folder.path(), &[users_xml("north", ""), users_xml("south", OWN)], OWN);
    let app = collector(&server, "south", "south");
    generate(&app, 1_000);
    assert_eq!(app.stop().books.stored, 1_000);
    let read = "SELECT sum(flowCount) FROM tidegate.flows_by_own_1m";
    let seen = |tenant: &str| ask(&server, &format!("tidegate_reader_{tenant}_acme"), "read", read);
    assert_eq!(seen("south"), Ok("1000".to_owned()));
    let refused = seen("north").unwrap_err();
    assert!(refused.contains("code 497"), "{refused}");
}

#[test]
fn a_tenant_may_have_a_ttl_of_its_own() {
    let server = clickhouse();
    let owner = config(&config_text(&server.http_url(), "")).clickhouse;
    ensure(&Connection::new(&owner).unwrap(), &owner).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidegate.toml");
    std::fs::write(&file, config_text(&server.http_url(), "")).unwrap();
    let statements = |tenant: &str, days: &str| -> Vec<String> {
        let file = file.to_str().unwrap();
        let onboard = ["tenant", "onboard", "--tenant", tenant, "--ttl-days", days, "-c", file];
        let printed = String::from_utf8(tidegate(&onboard).stdout).unwrap();
        let is_ttl = |line: &&str| line.contains("MODIFY TTL");
        printed.lines().filter(is_ttl).map(|it| it.trim_end_matches(';').to_owned()).collect()
    };
    for (tenant, days) in [("north", "9"), ("south", "5"), ("north", "7")] {
        let all = statements(tenant, days);
        assert_eq!(all.len(), 5, "flows and rollups");
        all.iter().for_each(|statement| drop(server.query(statement).unwrap()));
        assert_eq!(statements(tenant, days), Vec::<String>::new(), "it is so already");
    }
    for (tenant, age) in [("north", 8), ("north", 6), ("south", 6), ("other", 8)] {
        let sql = format!(
            "INSERT INTO tidegate.flows (timestamp, tenant, organisation, bytes) \
             VALUES (now() - INTERVAL {age} DAY, '{tenant}', 'default', 1)"
        );
        server.query(&sql).unwrap();
    }
    server.query("OPTIMIZE TABLE tidegate.flows FINAL").unwrap();
    let left = "SELECT arrayStringConcat(arraySort(groupArray(tenant)), ' ') FROM tidegate.flows";
    assert_eq!(server.query(left).unwrap().trim(), "north other");
    ensure(&Connection::new(&owner).unwrap(), &owner).unwrap();
    assert_eq!(statements("north", "7"), Vec::<String>::new(), "a start changes nothing");
    let other = config_text(&server.http_url(), "[clickhouse.schema]\nttl-days = 20");
    let other = config(&other).clickhouse;
    ensure(&Connection::new(&other).unwrap(), &other).unwrap();
    assert_eq!(statements("north", "7"), Vec::<String>::new(), "nor does another TTL of all");
    let of_all = "SELECT position(engine_full, 'toIntervalDay(20)') > 0 FROM system.tables \
                  WHERE database = 'tidegate' AND name = 'flows'";
    assert_eq!(query_number(&server, of_all), 1);
}

#[test]
fn a_password_is_shown_though_a_statement_fails() {
    let server = clickhouse();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidegate.toml");
    std::fs::write(&file, config_text(&server.http_url(), "")).unwrap();
    let onboard = ["tenant", "onboard", "--tenant", "north", "--apply", "-c"];
    let output = tidegate(&[&onboard[..], &[file.to_str().unwrap()]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("the statement that failed"), "{said}");
    for user in ["writer", "reader"] {
        assert!(said.contains(&format!("password of tidegate_{user}_north_default: ")), "{said}");
    }
}

#[test]
fn the_statements_are_those_of_clickhouse_and_hold_no_password() {
    let (_folder, file) = config_file(OWN);
    let run = |action: &[&str]| {
        let mut all = vec!["tenant"];
        all.extend(action);
        all.extend(["--tenant", "north", "--organisation", "acme", "-c", file.to_str().unwrap()]);
        let output = tidegate(&all);
        assert!(output.status.success(), "{output:?}");
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (onboard, said) = run(&["onboard", "--quota", "50GiB"]);
    let password = said.split("password of tidegate_writer_north_acme: ").nth(1).unwrap();
    let password = password.lines().next().unwrap();
    assert!(password.len() == 32 && !onboard.contains(password), "{said}");
    let (offboard, _) = run(&["offboard", "--delete-data"]);
    let server = clickhouse();
    for statement in onboard.lines().chain(offboard.lines()) {
        let statement = statement.trim_end_matches(';').replace('\'', "\\'");
        server.query(&format!("SELECT formatQuery('{statement}')")).unwrap();
    }
    let hash = |line: &str| match line.split_once("BY '") {
        Some((before, rest)) => format!("{before}BY '...{}", rest.split_once('\'').unwrap().1),
        None => line.to_owned(),
    };
    let lines: Vec<_> = onboard.lines().chain(offboard.lines()).map(hash).collect();
    insta::assert_snapshot!(lines.join("\n"));
    let wrong = tidegate(&["tenant", "onboard", "--tenant", "a'b", "-c", file.to_str().unwrap()]);
    assert!(String::from_utf8(wrong.stderr).unwrap().contains("1 to 48 letters"));
}
