//! Every class of error, provoked on a real ClickHouse: the code that it answers with, and what follows.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::time::Duration;

use common::{clickhouse_with, config, config_text, generated_chunks, wait_until};
use tidegate::clickhouse::{
    Class, ClickHouseError, Connection, Insert, InsertSettings, Method, Views, encode_batch,
};
use tidegate::config::ErrorsConfig;
use tidegate::devserver::{DevServer, DevServerOptions};
use tidegate::flow::Chunk;
use tidegate::schema::create_table_sql;

const LIMIT: Duration = Duration::from_secs(60);

/// A user of each limit that a server can set.
const CONFIG: &str = "\
<clickhouse>
    <users_config>config.xml</users_config>
    <profiles>
        <default/>
        <reader><readonly>1</readonly></reader>
        <fixed><constraints><max_insert_threads><const/></max_insert_threads></constraints></fixed>
        <poor><max_memory_usage>100000</max_memory_usage><max_untracked_memory>1</max_untracked_memory></poor>
        <hurried><max_execution_time>0.001</max_execution_time></hurried>
        <lonely><max_concurrent_queries_for_user>1</max_concurrent_queries_for_user></lonely>
    </profiles>
    <quotas>
        <default/>
        <short><interval><duration>3600</duration><queries>1</queries></interval></short>
    </quotas>
    <users>
        <default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default>
        USERS
    </users>
</clickhouse>
";

const USERS: [(&str, &str, &str); 6] = [
    ("reader", "reader", "default"),
    ("fixed", "fixed", "default"),
    ("poor", "poor", "default"),
    ("hurried", "hurried", "default"),
    ("lonely", "lonely", "default"),
    ("short", "default", "short"),
];

struct Bench {
    server: DevServer,
    settings: InsertSettings,
    chunks: Vec<Chunk>,
    inserts: std::cell::Cell<u32>,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.xml");
        let user = |(name, profile, quota): (&str, &str, &str)| {
            format!(
                "<{name}><password>secret</password><networks><ip>127.0.0.1</ip></networks>\
                 <profile>{profile}</profile><quota>{quota}</quota></{name}>"
            )
        };
        let nobody = "<nobody><password>secret</password><networks><ip>127.0.0.1</ip></networks>\
                      <profile>default</profile><quota>default</quota>\
                      <grants><query>GRANT SELECT ON system.settings</query></grants></nobody>";
        let users = USERS.map(user).concat() + nobody;
        std::fs::write(&file, CONFIG.replace("USERS", &users)).unwrap();
        let options = DevServerOptions { config_file: Some(file), ..DevServerOptions::default() };
        let server = clickhouse_with(&options);
        server.query("CREATE DATABASE tidegate").unwrap();
        server.query(&create_table_sql("tidegate", 30)).unwrap();
        let settings = InsertSettings::probe(&connect(&server, "default", "")).unwrap();
        Self {
            server,
            settings,
            chunks: generated_chunks(2_000, &[]),
            inserts: std::cell::Cell::new(0),
        }
    }

    fn query(&self, sql: &str) {
        self.server.query(sql).unwrap();
    }

    /// A table like `flows`.
    fn table(&self, name: &str, more: &str) {
        self.query(&format!("CREATE TABLE tidegate.{name} AS tidegate.flows {more}"));
    }

    fn insert_as(&self, user: &str, table: &str) -> Result<(), ClickHouseError> {
        let password = if user == "default" { "" } else { "secret" };
        self.insert(&connect(&self.server, user, password), table, |bytes| bytes)
    }

    fn insert(
        &self,
        connection: &Connection,
        table: &str,
        spoil: impl Fn(Vec<u8>) -> Vec<u8>,
    ) -> Result<(), ClickHouseError> {
        self.inserts.set(self.inserts.get() + 1);
        connection.insert(
            &Insert {
                sql: &format!("INSERT INTO {table} FORMAT Native"),
                settings: &self.settings,
                token: &format!("t-{}", self.inserts.get()),
                body: &spoil(encode_batch(&self.chunks, Method::Lz4).to_vec()).into(),
                views: Views::Required,
            },
            LIMIT,
        )
    }
}

fn connect(server: &DevServer, user: &str, password: &str) -> Connection {
    let more = format!("username = \"{user}\"\npassword = \"{password}\"");
    Connection::new(&config(&config_text(&server.http_url(), &more)).clickhouse).unwrap()
}

/// The code and class of a refusal.
fn told(result: Result<(), ClickHouseError>) -> (u32, Class) {
    let error = result.unwrap_err();
    (error.code().0, error.class(&ErrorsConfig::default()))
}

#[test]
fn configuration_errors_are_told_from_data_errors_and_from_what_may_pass() {
    let bench = Bench::new();
    let flows = "tidegate.flows";
    let wrong = connect(&bench.server, "reader", "wrong");
    assert_eq!(told(bench.insert(&wrong, flows, |it| it)), (516, Class::Configuration));
    assert_eq!(told(bench.insert_as("nobody", flows)), (497, Class::Configuration));
    assert_eq!(told(bench.insert_as("fixed", flows)), (452, Class::Configuration));
    assert_eq!(told(bench.insert_as("default", "tidegate.none")), (60, Class::Configuration));
    assert_eq!(told(bench.insert_as("default", "nowhere.flows")), (81, Class::Configuration));
    assert_eq!(told(bench.insert_as("reader", flows)), (164, Class::Configuration));

    bench.table("frozen", "ENGINE = MergeTree ORDER BY () SETTINGS table_readonly = 1");
    assert_eq!(told(bench.insert_as("default", "tidegate.frozen")), (774, Class::Configuration));
    bench.table("checked", "");
    bench.query("ALTER TABLE tidegate.checked ADD CONSTRAINT c CHECK bytes < 1");
    assert_eq!(told(bench.insert_as("default", "tidegate.checked")), (469, Class::Data));
    bench.table("narrow", "");
    bench.query("ALTER TABLE tidegate.narrow DROP COLUMN packets");
    assert_eq!(told(bench.insert_as("default", "tidegate.narrow")), (117, Class::Data));
    bench.table(
        "split",
        "ENGINE = MergeTree PARTITION BY cityHash64(srcPort, dstPort) % 1000 ORDER BY ()",
    );
    assert_eq!(told(bench.insert_as("default", "tidegate.split")), (252, Class::Data));
    let own = connect(&bench.server, "default", "");
    let cut = |mut bytes: Vec<u8>| {
        bytes.truncate(bytes.len() - 7);
        bytes
    };
    assert_eq!(told(bench.insert(&own, flows, cut)), (33, Class::Data));
    let flipped = |mut bytes: Vec<u8>| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        bytes
    };
    let (code, class) = told(bench.insert(&own, flows, flipped));
    assert!([40, 271].contains(&code), "{code}");
    assert_eq!(class, Class::Retryable);

    assert!(bench.insert_as("short", flows).is_ok());
    assert_eq!(told(bench.insert_as("short", flows)), (201, Class::Retryable));
    assert_eq!(told(bench.insert_as("poor", flows)), (241, Class::Retryable));
    bench.table("full", "ENGINE = MergeTree ORDER BY () SETTINGS parts_to_throw_insert = 1");
    bench.query("SYSTEM STOP MERGES tidegate.full");
    assert!(bench.insert_as("default", "tidegate.full").is_ok());
    assert_eq!(told(bench.insert_as("default", "tidegate.full")), (252, Class::Retryable));

    let stored = bench.server.query("SELECT count() FROM tidegate.flows").unwrap();
    assert_eq!(stored.trim(), "2000", "the one insert that was taken");
}

/// An insert that goes on for long, since a view of its table sleeps.
fn slow_table(bench: &Bench) {
    bench.table("slow", "");
    bench.query("CREATE TABLE tidegate.slow_rollup (n UInt64) ENGINE = MergeTree ORDER BY n");
    bench.query(
        "CREATE MATERIALIZED VIEW tidegate.slow_mv TO tidegate.slow_rollup AS \
         SELECT sleepEachRow(0.001) AS n FROM tidegate.slow",
    );
}

#[test]
fn an_insert_that_is_killed_or_takes_too_long_or_finds_the_server_busy_may_pass_later() {
    let bench = Bench::new();
    slow_table(&bench);
    std::thread::scope(|scope| {
        let inserting = scope.spawn({
            let server = &bench.server;
            let (chunks, settings) = (&bench.chunks, &bench.settings);
            move || {
                let connection = connect(server, "lonely", "secret");
                let insert = Insert {
                    sql: "INSERT INTO tidegate.slow FORMAT Native",
                    settings,
                    token: "slow",
                    body: &encode_batch(chunks, Method::Lz4),
                    views: Views::Required,
                };
                connection.insert(&insert, LIMIT)
            }
        });
        let running = "SELECT count() FROM system.processes WHERE user = 'lonely'";
        wait_until("the insert runs", || bench.server.query(running).unwrap().trim() == "1");
        let busy = told(bench.insert_as("lonely", "tidegate.flows"));
        assert_eq!(busy, (202, Class::Retryable));
        bench.query("KILL QUERY WHERE user = 'lonely' ASYNC");
        let error = inserting.join().unwrap().unwrap_err();
        assert_eq!(error.code().0, 394, "{error}");
        // The view was at work: the table may have the rows already.
        assert!(
            matches!(error.class(&ErrorsConfig::default()), Class::Retryable | Class::BrokenView),
            "{error}"
        );
    });
    let (code, class) = told(bench.insert_as("hurried", "tidegate.slow"));
    assert_eq!(code, 159);
    assert!(matches!(class, Class::Retryable | Class::BrokenView), "{class:?}");
}

#[test]
fn a_server_that_is_gone_is_an_outage() {
    let bench = Bench::new();
    let connection = connect(&bench.server, "default", "");
    assert!(bench.insert(&connection, "tidegate.flows", |it| it).is_ok());
    let Bench { server, settings, chunks, .. } = bench;
    drop(server);
    let insert = Insert {
        sql: "INSERT INTO tidegate.flows FORMAT Native",
        settings: &settings,
        token: "t",
        body: &encode_batch(&chunks, Method::Lz4),
        views: Views::Required,
    };
    assert_eq!(told(connection.insert(&insert, LIMIT)), (0, Class::Outage));
}
