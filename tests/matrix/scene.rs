//! What a case has for itself: a database with a rollup, a proxy, a spool.

use tidegate::app::App;
use tidegate::schema::create_table_sql;

use crate::common::config;
use crate::common::proxy::{Fault as Way, Proxy};
use crate::faults::{Fault, Trouble, Until};
use crate::server::Server;
use crate::spool_place::SpoolPlace;
use crate::traffic::BAD_BYTES;

pub struct Scene<'a> {
    pub server: &'a Server,
    pub database: String,
    pub proxy: Proxy,
    trouble: Trouble,
    text: String,
    _spool: Option<SpoolPlace>,
}

impl<'a> Scene<'a> {
    /// `None` when this machine cannot have the fault.
    pub fn set(
        server: &'a Server,
        fault: &Fault,
        database: &str,
        on_row_error: &str,
        has_spool: bool,
    ) -> Option<Self> {
        let spool = if has_spool { Some(SpoolPlace::new(fault.trouble)?) } else { None };
        let proxy = Proxy::start(server.address());
        create(server, database, fault.trouble);
        let max_attempts = match fault.until {
            Until::Ended => 3,
            _ => 1_000,
        };
        let spooled = spool.as_ref().map_or_else(String::new, |place| {
            let path = place.path();
            format!(
                "[spool]\ndirectory = \"{}\"\nmax-size = \"16MiB\"\nfsync = false\n",
                path.display()
            )
        });
        // What is compressed is too small to fill a disk.
        let compress = !matches!(fault.trouble, Trouble::SpoolFull | Trouble::DiskFull);
        let text = format!(
            "[receivers.test]\nlisten = \"127.0.0.1:0\"\ntransport = \"tcp\"\n\
             [management]\nlisten = \"127.0.0.1:0\"\n\
             [clickhouse]\nendpoint = \"{}\"\ndatabase = \"{database}\"\n\
             username = \"writer\"\npassword = \"right\"\n\
             compress-requests = {compress}\nresponse-timeout = \"1s\"\non-row-error = \"{on_row_error}\"\n\
             [clickhouse.schema]\nrollups = []\n\
             [clickhouse.batch]\nmax-rows = 1000\nmax-latency = \"100ms\"\nshutdown-grace-period = \"30s\"\n\
             [clickhouse.retry]\ndelay = \"50ms\"\nmax-attempts = {max_attempts}\n{spooled}",
            proxy.url()
        );
        let (trouble, database) = (fault.trouble, database.to_owned());
        Some(Self { server, database, proxy, trouble, text, _spool: spool })
    }

    /// A collector, with the spool that an earlier one has left.
    pub fn collector(&self) -> App {
        App::start(&config(&self.text)).unwrap()
    }

    /// The fault begins.
    pub fn hurt(&self) {
        match self.trouble {
            Trouble::Way(way) => self.proxy.begin(way),
            Trouble::SpoolFull | Trouble::DiskFull => self.proxy.begin(Way::Refused),
            Trouble::Killed => self.server.kill_with_others(),
            _ => self.run(self.statements().0),
        }
    }

    /// The fault ends.
    pub fn mend(&self) {
        match self.trouble {
            Trouble::Way(_) | Trouble::SpoolFull | Trouble::DiskFull => self.proxy.end(),
            Trouble::Killed => self.server.start_again_with_others(),
            _ => self.run(self.statements().1),
        }
    }

    fn run(&self, statements: &[&str]) {
        for sql in statements {
            self.server.query(&sql.replace("DB", &self.database));
        }
    }

    /// What makes the fault, and what mends it.
    fn statements(&self) -> (&'static [&'static str], &'static [&'static str]) {
        match self.trouble {
            Trouble::TooManyParts => (
                &[
                    "SYSTEM STOP MERGES DB.flows",
                    "ALTER TABLE DB.flows MODIFY SETTING parts_to_throw_insert = 1",
                ],
                &[
                    "ALTER TABLE DB.flows RESET SETTING parts_to_throw_insert",
                    "SYSTEM START MERGES DB.flows",
                ],
            ),
            Trouble::BadRow => (&[], &[]),
            Trouble::NoTable => (&["DROP TABLE DB.flows"], &["UNDROP TABLE DB.flows"]),
            Trouble::BrokenView => (
                &[
                    "CREATE TABLE DB.other (n UInt64) ENGINE = MergeTree ORDER BY n \
                     SETTINGS non_replicated_deduplication_window = 10000",
                    "CREATE MATERIALIZED VIEW DB.broken_mv TO DB.other AS \
                     SELECT throwIf(bytes >= 0, 'no') AS n FROM DB.flows",
                ],
                &["DROP VIEW DB.broken_mv"],
            ),
            Trouble::Way(_) | Trouble::SpoolFull | Trouble::DiskFull | Trouble::Killed => {
                (&[], &[])
            }
        }
    }
}

/// Creates the database with a rollup.
fn create(server: &Server, database: &str, trouble: Trouble) {
    server.query(&format!("CREATE DATABASE {database}"));
    server.query(&create_table_sql(database, 30));
    if trouble == Trouble::BadRow {
        server.query(&format!(
            "ALTER TABLE {database}.flows ADD CONSTRAINT c CHECK bytes != {BAD_BYTES}"
        ));
    }
    server.query(&format!(
        "CREATE TABLE {database}.rollup \
         (exporterAddr String, flows UInt64, bytes UInt64, packets UInt64) \
         ENGINE = SummingMergeTree ORDER BY exporterAddr \
         SETTINGS non_replicated_deduplication_window = 10000"
    ));
    server.query(&format!(
        "CREATE MATERIALIZED VIEW {database}.rollup_mv TO {database}.rollup AS \
         SELECT toString(exporterAddr) AS exporterAddr, count() AS flows, sum(bytes) AS bytes, \
         sum(packets) AS packets FROM {database}.flows GROUP BY exporterAddr"
    ));
}
