//! Profiles of a server that cut an insert into pieces, run the pieces side by side, or forgive errors: with the
//! settings of every insert a batch is all or nothing and stored once all the same, rollups included.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;

use common::rollups::{self, Sums};
use common::{PATIENCE, clickhouse_with, config, config_text, generated_chunks};
use tidegate::clickhouse::{
    ClickHouseError, Connection, Insert, InsertSettings, Method, Views, encode_batch,
};
use tidegate::devserver::{DevServer, DevServerOptions};

/// What an insert that says nothing about itself suffers under a profile.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Harm {
    /// Nothing that one block of Native suffers from.
    None,
    /// A refused one leaves rows behind.
    Prefix,
    /// A repeated one doubles rows, in the table or in a rollup.
    Double,
    /// One that a view refused is acknowledged.
    Silence,
}

/// A user of its own with these settings.
struct Profile {
    name: &'static str,
    settings: &'static [(&'static str, &'static str)],
    harm: Harm,
}

const SMALL_BLOCKS: [(&str, &str); 7] = [
    ("max_block_size", "10000"),
    ("max_insert_block_size", "10000"),
    ("max_insert_block_size_bytes", "1000000"),
    ("min_insert_block_size_rows", "10000"),
    ("min_insert_block_size_bytes", "1000000"),
    ("min_insert_block_size_rows_for_materialized_views", "1000"),
    ("min_insert_block_size_bytes_for_materialized_views", "100000"),
];

const PROFILES: [Profile; 7] = [
    Profile { name: "stock", settings: &[], harm: Harm::None },
    Profile { name: "small_blocks", settings: &SMALL_BLOCKS, harm: Harm::None },
    Profile {
        name: "strict_blocks",
        settings: &[
            SMALL_BLOCKS[0],
            SMALL_BLOCKS[1],
            SMALL_BLOCKS[2],
            SMALL_BLOCKS[3],
            SMALL_BLOCKS[4],
            SMALL_BLOCKS[5],
            SMALL_BLOCKS[6],
            ("use_strict_insert_block_limits", "1"),
        ],
        harm: Harm::Prefix,
    },
    Profile {
        name: "parallel",
        settings: &[
            ("max_threads", "8"),
            ("max_insert_threads", "8"),
            ("max_insert_delayed_streams_for_parallel_write", "100"),
            ("input_format_parallel_parsing", "1"),
            ("min_chunk_bytes_for_parallel_parsing", "100000"),
            ("parallel_view_processing", "1"),
            ("materialized_views_squash_parallel_inserts", "0"),
            SMALL_BLOCKS[0],
            SMALL_BLOCKS[5],
            SMALL_BLOCKS[6],
        ],
        harm: Harm::None,
    },
    Profile {
        name: "forgetful",
        settings: &[
            ("insert_deduplicate", "0"),
            ("deduplicate_insert", "disable"),
            ("deduplicate_blocks_in_dependent_materialized_views", "0"),
        ],
        harm: Harm::Double,
    },
    Profile {
        name: "forgiving",
        settings: &[
            ("async_insert", "1"),
            ("wait_for_async_insert", "0"),
            ("async_insert_deduplicate", "0"),
            ("materialized_views_ignore_errors", "1"),
            ("input_format_skip_unknown_fields", "1"),
            ("input_format_allow_errors_num", "2000000"),
            ("input_format_allow_errors_ratio", "1"),
        ],
        harm: Harm::Silence,
    },
    Profile {
        name: "one_partition",
        settings: &[
            ("max_partitions_per_insert_block", "1"),
            ("throw_on_max_partitions_per_insert_block", "1"),
            ("optimize_on_insert", "0"),
        ],
        harm: Harm::None,
    },
];

const CONFIG: &str = "\
<clickhouse>
    <users_config>config.xml</users_config>
    <profiles><default/>PROFILES</profiles>
    <quotas><default/></quotas>
    <users>
        <default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default>
        USERS
    </users>
</clickhouse>
";

/// A server with a user for each profile, the table and both rollups.
fn server() -> DevServer {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.xml");
    let profile = |profile: &Profile| {
        let settings = profile.settings.iter();
        let settings: String =
            settings.map(|(name, value)| format!("<{name}>{value}</{name}>")).collect();
        format!("<{0}>{settings}</{0}>", profile.name)
    };
    let user = |profile: &Profile| {
        format!(
            "<{0}><password></password><networks><ip>127.0.0.1</ip></networks>\
             <profile>{0}</profile><quota>default</quota></{0}>",
            profile.name
        )
    };
    let (profiles, users): (String, String) =
        (PROFILES.iter().map(profile).collect(), PROFILES.iter().map(user).collect());
    let text = CONFIG.replace("PROFILES", &profiles).replace("USERS", &users);
    std::fs::write(&file, text).unwrap();
    let options = DevServerOptions { config_file: Some(file), ..DevServerOptions::default() };
    let server = clickhouse_with(&options);
    rollups::create(&server);
    for profile in &PROFILES {
        for (name, value) in profile.settings {
            let sql = format!("SELECT value FROM system.settings WHERE name = '{name}'");
            let used = server.query_as(profile.name, "", &sql).unwrap();
            assert_eq!(used.trim(), *value, "{name} of {}", profile.name);
        }
    }
    server
}

/// A batch whose last row has one byte.
fn poisoned(rows: u64) -> bytes::Bytes {
    let mut chunks = generated_chunks(rows, &[]);
    chunks.extend(generated_chunks(0, &[1]));
    encode_batch(&chunks, Method::Lz4)
}

/// Inserts of one user as the collector does them.
struct Writer {
    connection: Connection,
    settings: InsertSettings,
}

impl Writer {
    fn new(server: &DevServer, user: &str) -> Self {
        let more = format!("username = \"{user}\"");
        let config = config(&config_text(&server.http_url(), &more)).clickhouse;
        let connection = Connection::new(&config).unwrap();
        let settings = InsertSettings::probe(&connection).unwrap();
        Self { connection, settings }
    }

    fn insert(
        &self,
        body: &bytes::Bytes,
        token: &str,
        views: Views,
    ) -> Result<(), ClickHouseError> {
        let sql = "INSERT INTO tidegate.flows FORMAT Native";
        let settings = &self.settings;
        self.connection.insert(&Insert { sql, settings, token, body, views }, PATIENCE)
    }
}

/// The same insert without the settings that a collector sends; whether it is acknowledged.
fn insert_bare(server: &DevServer, user: &str, body: &[u8], token: &str) -> bool {
    let mut stream = TcpStream::connect(server.http_address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "POST /?user={user}&decompress=1&insert_deduplication_token={token}\
         &query=INSERT%20INTO%20tidegate.flows%20FORMAT%20Native HTTP/1.1\r\n\
         Host: test\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .unwrap();
    stream.write_all(body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.starts_with("HTTP/1.1 200 ")
}

/// Runs `part` while the table refuses rows of one byte.
fn while_bad_rows_are_refused<T>(server: &DevServer, part: impl FnOnce() -> T) -> T {
    server.query("ALTER TABLE tidegate.flows ADD CONSTRAINT c CHECK bytes != 1").unwrap();
    let result = part();
    server.query("ALTER TABLE tidegate.flows DROP CONSTRAINT c").unwrap();
    result
}

/// How the rollup of conversations comes to refuse a batch with a row of one byte.
#[derive(Clone, Copy, Debug)]
enum Failing {
    View,
    Rollup,
}

impl Failing {
    /// Statements that break it, and that mend it.
    fn statements(self) -> [String; 2] {
        let view = |bytes: &str| {
            format!(
                "ALTER TABLE tidegate.by_conversation_mv MODIFY QUERY \
                 SELECT srcAddr, dstAddr, countState() AS flows, sumState({bytes}) AS bytes, \
                 sumState(packets) AS packets FROM tidegate.flows GROUP BY srcAddr, dstAddr"
            )
        };
        let rollup = |change: &str| format!("ALTER TABLE tidegate.by_conversation {change}");
        match self {
            Self::View => [view("bytes + throwIf(bytes = 1, 'no')"), view("bytes")],
            Self::Rollup => [
                rollup("ADD CONSTRAINT c CHECK finalizeAggregation(bytes) != 1"),
                rollup("DROP CONSTRAINT c"),
            ],
        }
    }

    /// What ClickHouse answers then.
    const fn code(self) -> u32 {
        match self {
            Self::View => 395,
            Self::Rollup => 469,
        }
    }

    /// Runs `part` while it fails.
    fn during<T>(self, server: &DevServer, part: impl FnOnce() -> T) -> T {
        let [broken, mended] = self.statements();
        server.query(&broken).unwrap();
        let result = part();
        server.query(&mended).unwrap();
        result
    }
}

const NOTHING: Sums = (0, 0, 0);

/// The profiles are what they are here for: without the settings of the collector they do harm.
#[test]
fn an_insert_without_settings_suffers_from_its_profile() {
    let server = server();
    let body = poisoned(100_000);
    for Profile { name, harm, .. } in &PROFILES {
        let refused = while_bad_rows_are_refused(&server, || {
            assert!(!insert_bare(&server, name, &body, "refused"), "{name}");
            rollups::totals(&server)
        });
        rollups::truncate(&server);
        let is_silent =
            Failing::View.during(&server, || insert_bare(&server, name, &body, "a-view-fails"));
        rollups::truncate(&server);
        for _ in 0..2 {
            assert!(insert_bare(&server, name, &body, "twice"), "{name}");
        }
        let twice = rollups::totals(&server);
        rollups::truncate(&server);
        println!("{name}: refused {refused:?}, a view fails: {is_silent}, twice {twice:?}");
        let found = match () {
            () if refused != [NOTHING; 3] => Harm::Prefix,
            () if twice.iter().any(|sums| sums.0 != 100_001) => Harm::Double,
            () if is_silent => Harm::Silence,
            () => Harm::None,
        };
        assert_eq!(found, *harm, "{name}");
    }
}

#[test]
fn a_bad_row_at_the_end_of_a_million_leaves_nothing_behind() {
    const ROWS: u64 = 1_000_000;
    let server = server();
    let body = poisoned(ROWS);
    for Profile { name, .. } in &PROFILES {
        let writer = Writer::new(&server, name);
        while_bad_rows_are_refused(&server, || {
            let error = writer.insert(&body, "poisoned", Views::Required).unwrap_err();
            assert_eq!(error.code(), (469, "VIOLATED_CONSTRAINT"), "{name}: {error}");
            assert_eq!(rollups::totals(&server), [NOTHING; 3], "{name}");
        });
        // Mended, the same bytes with the same token are stored, and once.
        for _ in 0..2 {
            writer.insert(&body, "poisoned", Views::Required).unwrap();
        }
        assert_stored_once(&rollups::totals(&server), ROWS + 1, name);
        rollups::truncate(&server);
    }
}

/// One of two rollups fails at the end of a batch: the table and the other one have the batch, once, and the failing
/// one gets it with the same token when it is mended.
#[test]
fn a_view_that_fails_hurts_no_other_and_gets_the_batch_when_it_is_mended() {
    const ROWS: u64 = 200_000;
    let server = server();
    let body = poisoned(ROWS);
    for Profile { name, .. } in &PROFILES {
        let writer = Writer::new(&server, name);
        for failing in [Failing::View, Failing::Rollup] {
            failing.during(&server, || {
                let error = writer.insert(&body, "failing", Views::Required).unwrap_err();
                assert_eq!(error.code().0, failing.code(), "{name}: {error}");
                writer.insert(&body, "failing", Views::Optional).unwrap();
                let [table, good, bad] = rollups::totals(&server);
                assert_eq!(table.0, ROWS + 1, "{name}, {failing:?}");
                assert_eq!((good, bad), (table, NOTHING), "{name}, {failing:?}");
            });
            writer.insert(&body, "failing", Views::Required).unwrap();
            assert_stored_once(&rollups::totals(&server), ROWS + 1, name);
            rollups::truncate(&server);
        }
    }
}

fn assert_stored_once(totals: &[Sums; 3], rows: u64, profile: &str) {
    assert_eq!(totals[0].0, rows, "{profile}");
    assert_eq!(totals, &[totals[0]; 3], "{profile}");
}
