//! Rollups beside `flows`, as operators have them: few sums of an exporter, and many states of a conversation.

use tidegate::devserver::DevServer;
use tidegate::schema::create_table_sql;

use super::query_row;

/// The table `flows` and what its views feed; each column is one of [`Sums`].
const TOTALS: [(&str, &str); 3] = [
    ("flows", "count(), sum(bytes), sum(packets)"),
    ("by_exporter", "sum(flows), sum(bytes), sum(packets)"),
    ("by_conversation", "countMerge(flows), sumMerge(bytes), sumMerge(packets)"),
];

const STATEMENTS: [&str; 4] = [
    "CREATE TABLE tidegate.by_exporter (exporterAddr IPv6, flows UInt64, bytes UInt64, packets UInt64) \
     ENGINE = SummingMergeTree ORDER BY exporterAddr \
     SETTINGS non_replicated_deduplication_window = 10000",
    "CREATE MATERIALIZED VIEW tidegate.by_exporter_mv TO tidegate.by_exporter AS \
     SELECT exporterAddr, count() AS flows, sum(bytes) AS bytes, sum(packets) AS packets \
     FROM tidegate.flows GROUP BY exporterAddr",
    "CREATE TABLE tidegate.by_conversation (srcAddr IPv6, dstAddr IPv6, flows AggregateFunction(count), \
     bytes AggregateFunction(sum, UInt64), packets AggregateFunction(sum, UInt64)) \
     ENGINE = AggregatingMergeTree ORDER BY (srcAddr, dstAddr) \
     SETTINGS non_replicated_deduplication_window = 10000",
    "CREATE MATERIALIZED VIEW tidegate.by_conversation_mv TO tidegate.by_conversation AS \
     SELECT srcAddr, dstAddr, countState() AS flows, sumState(bytes) AS bytes, sumState(packets) AS packets \
     FROM tidegate.flows GROUP BY srcAddr, dstAddr",
];

/// Rows, bytes and packets.
pub type Sums = (u64, u64, u64);

/// Creates the table and both rollups.
pub fn create(server: &DevServer) {
    server.query("CREATE DATABASE tidegate").unwrap();
    server.query(&create_table_sql("tidegate", 30)).unwrap();
    for statement in STATEMENTS {
        server.query(statement).unwrap();
    }
}

/// What the table, the sums and the states say was stored.
pub fn totals(server: &DevServer) -> [Sums; 3] {
    TOTALS.map(|(table, columns)| {
        let row = query_row(server, &format!("SELECT {columns} FROM tidegate.{table}"));
        (row[0].parse().unwrap(), row[1].parse().unwrap(), row[2].parse().unwrap())
    })
}

/// Empties all three; their tokens are forgotten with the rows.
pub fn truncate(server: &DevServer) {
    for (table, _) in TOTALS {
        server.query(&format!("TRUNCATE TABLE tidegate.{table}")).unwrap();
    }
}
