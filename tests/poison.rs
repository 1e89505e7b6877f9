//! One bad row in a large batch: nothing of the batch is stored, and all of it when the table takes the row.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{PATIENCE, clickhouse, generated_chunks, query_number, wait_until};
use tidegate::clickhouse::{
    Connection, Insert, InsertSettings, Method, Views, create_table_sql, encode_batch,
};
use tidegate::devserver::DevServer;

/// A rollup that counts what the table has.
fn with_rollup(server: &DevServer) {
    server.query("CREATE DATABASE tidegate").unwrap();
    server.query(&create_table_sql("tidegate")).unwrap();
    server
        .query(
            "CREATE TABLE tidegate.rollup (exporterAddr String, bytes UInt64, flows UInt64) \
             ENGINE = SummingMergeTree ORDER BY exporterAddr \
             SETTINGS non_replicated_deduplication_window = 10000",
        )
        .unwrap();
    server
        .query(
            "CREATE MATERIALIZED VIEW tidegate.rollup_mv TO tidegate.rollup AS \
             SELECT toString(exporterAddr) AS exporterAddr, sum(bytes) AS bytes, count() AS flows \
             FROM tidegate.flows GROUP BY exporterAddr",
        )
        .unwrap();
}

/// The last row of a batch of a million is refused: nothing of it may be in the table or the rollup, whatever
/// the server's profile says about blocks.
#[test]
fn a_bad_row_at_the_end_of_a_million_leaves_nothing_behind() {
    let server = clickhouse();
    with_rollup(&server);
    server.query("ALTER TABLE tidegate.flows ADD CONSTRAINT c CHECK bytes != 1").unwrap();
    let config = common::config(&common::config_text(&server.http_url(), "")).clickhouse;
    let connection = Connection::new(&config).unwrap();
    let settings = InsertSettings::probe(&connection).unwrap();
    let mut chunks = generated_chunks(1_000_000, &[]);
    chunks.extend(generated_chunks(0, &[1]));
    let insert = Insert {
        sql: "INSERT INTO tidegate.flows FORMAT Native",
        settings: &settings,
        token: "poisoned",
        body: &encode_batch(&chunks, Method::Lz4),
        views: Views::Required,
    };
    let error = connection.insert(&insert, PATIENCE).unwrap_err();
    assert_eq!(error.code(), (469, "VIOLATED_CONSTRAINT"), "{error}");
    let counts = || {
        ["flows", "rollup"]
            .map(|it| query_number(&server, &format!("SELECT count() FROM tidegate.{it}")))
    };
    assert_eq!(counts(), [0, 0]);
    // Mended, the same bytes with the same token are stored, and once.
    server.query("ALTER TABLE tidegate.flows DROP CONSTRAINT c").unwrap();
    for _ in 0..2 {
        connection.insert(&insert, PATIENCE).unwrap();
    }
    wait_until("all is there", || counts()[0] == 1_000_001);
    assert_eq!(query_number(&server, "SELECT sum(flows) FROM tidegate.rollup"), 1_000_001);
}
