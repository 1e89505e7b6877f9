//! Tenants that share a database: who may write and read which rows, as SQL and as users.xml of ClickHouse.
//!
//! A tenant is a value of `tenant` and `organisation`. The name of its writer has both, and a CHECK of `flows` compares
//! them with each row, so there is no setting that could be lifted; its reader sees its own rows by row policies.
//! ClickHouse enforces all of it.

use crate::config::ClickHouseConfig;

use super::rollups;
use super::site::Site;
use super::ttl;

/// A quota counts by the hour.
const QUOTA_SECONDS: u32 = 3_600;

/// Longest name of a tenant or an organisation; names of users and policies are made of both.
const NAME_MAX: usize = 48;

/// A tenant in one database.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tenant {
    /// Stamped on its rows, `identity.tenant` of its collectors.
    pub name: String,
    /// The same, `identity.organisation`.
    pub organisation: String,
    database: String,
    rollups: Vec<String>,
}

/// What its two users need beside their names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Access {
    /// SHA-256 of the writer's password, in hexadecimal digits.
    pub writer_hash: String,
    /// Of the reader's.
    pub reader_hash: String,
    /// Bytes that the writer may insert in an hour, as ClickHouse counts them; without a limit if there is none.
    pub quota_bytes: Option<u64>,
}

/// Whether a name of a tenant or an organisation can be used in names of users, policies and XML elements. `_` stands
/// between the two there.
#[must_use]
pub fn is_tenant_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(is_allowed)
}

impl Tenant {
    /// A tenant in the database of the configuration; both names as [`is_tenant_name`] has them.
    #[must_use]
    pub fn new(name: &str, organisation: &str, config: &ClickHouseConfig) -> Self {
        Self {
            name: name.to_owned(),
            organisation: organisation.to_owned(),
            database: config.database.clone(),
            rollups: rollups(config).into_iter().map(|rollup| rollup.table).collect(),
        }
    }

    /// The user of its collectors. Names have the database, since users are of the whole server.
    #[must_use]
    pub fn writer(&self) -> String {
        self.named("writer")
    }

    /// The user of its dashboards.
    #[must_use]
    pub fn reader(&self) -> String {
        self.named("reader")
    }

    fn named(&self, what: &str) -> String {
        format!("{}_{what}_{}_{}", self.database, self.name, self.organisation)
    }

    /// What all writers may do. Readers have no role: a grant that they share would show a new table to those who have
    /// no row policy for it yet, and ClickHouse lets a user without one see all rows.
    fn writer_role(&self) -> String {
        format!("{}_flow_writer", self.database)
    }

    /// What its reader sees of a table.
    fn filter(&self, table: &str) -> String {
        let Self { name, organisation, .. } = self;
        let column = match table {
            "flows_dead_letter" => "JSONExtractString(payload, 'organisation')",
            _ => "organisation",
        };
        format!("tenant = '{name}' AND {column} = '{organisation}'")
    }

    fn quoted(&self, table: &str) -> String {
        Site { database: &self.database, cluster: None }.quoted(table)
    }

    /// Tables with rows of tenants.
    fn tables(&self) -> Vec<&str> {
        let rollups = self.rollups.iter().map(String::as_str);
        ["flows", "flows_dead_letter"].into_iter().chain(rollups).collect()
    }

    fn writer_grants(&self) -> Vec<String> {
        let grant = |table| format!("INSERT ON {}", self.quoted(table));
        ["flows", "flows_dead_letter"].map(grant).into()
    }

    fn reader_grants(&self) -> Vec<String> {
        let grant = |table| format!("SELECT ON {}", self.quoted(table));
        self.tables().into_iter().chain(["samples"]).map(grant).collect()
    }

    /// What `flows` needs for all tenants, once: a row must be of the writer that inserts it. Users who are no
    /// tenant's writer may write for every tenant.
    #[must_use]
    pub fn pin_statement(&self) -> String {
        let prefix = format!("{}_writer_", self.database);
        format!(
            "ALTER TABLE {} ADD CONSTRAINT IF NOT EXISTS tenant_pinned \
             CHECK NOT startsWith(currentUser(), '{prefix}') \
             OR currentUser() = concat('{prefix}', tenant, '_', organisation)",
            self.quoted("flows")
        )
    }

    /// Everything that makes the tenant, each of which can be repeated.
    #[must_use]
    pub fn onboard_statements(&self, access: &Access) -> Vec<String> {
        let (writer, reader) = (self.writer(), self.reader());
        let mut statements = vec![self.pin_statement()];
        let role = self.writer_role();
        statements.push(format!("CREATE ROLE IF NOT EXISTS `{role}`"));
        let grants = self.writer_grants().into_iter();
        statements.extend(grants.map(|grant| format!("GRANT {grant} TO `{role}`")));
        statements.push(format!(
            "CREATE USER IF NOT EXISTS `{writer}` IDENTIFIED WITH sha256_hash BY '{}'",
            access.writer_hash
        ));
        statements.push(format!(
            "CREATE USER IF NOT EXISTS `{reader}` IDENTIFIED WITH sha256_hash BY '{}' \
             SETTINGS readonly = 2",
            access.reader_hash
        ));
        statements.push(format!("GRANT `{role}` TO `{writer}`"));
        if let Some(bytes) = access.quota_bytes {
            statements.push(format!(
                "CREATE QUOTA OR REPLACE `{writer}` FOR INTERVAL {QUOTA_SECONDS} SECOND \
                 MAX written_bytes = {bytes} TO `{writer}`"
            ));
        }
        statements.extend(self.tables().into_iter().map(|table| {
            format!(
                "CREATE ROW POLICY IF NOT EXISTS `{reader}` ON {} FOR SELECT USING {} TO `{reader}`",
                self.quoted(table),
                self.filter(table)
            )
        }));
        // After the policies, so that it sees no other rows if a statement between fails.
        let grants = self.reader_grants().into_iter();
        statements.extend(grants.map(|grant| format!("GRANT {grant} TO `{reader}`")));
        statements
    }

    /// The statement that lets the rows of the tenant in a table go after so many days, beside the TTL that it has;
    /// none if that is so.
    #[must_use]
    pub fn ttl_statement(&self, table: &str, ttl: &str, days: usize) -> Option<String> {
        let Self { name, organisation, .. } = self;
        let rows = format!("(tenant = '{name}') AND (organisation = '{organisation}')");
        let own = format!("toDateTime(timestamp) + toIntervalDay({days}) WHERE {rows}");
        if ttl.contains(&own) {
            return None;
        }
        // One for the same tenant that is there makes way.
        let kept = ttl::parts(ttl).filter(|part| !part.ends_with(&rows));
        Some(ttl::modify_sql(&self.quoted(table), kept.chain([own.as_str()])))
    }

    /// Everything that ends the tenant; its rows go with their TTL, or at once.
    #[must_use]
    pub fn offboard_statements(&self, delete_data: bool) -> Vec<String> {
        let (writer, reader) = (self.writer(), self.reader());
        // The users first: a reader without its policies would see all rows.
        let mut statements = vec![
            format!("DROP USER IF EXISTS `{writer}`, `{reader}`"),
            format!("DROP QUOTA IF EXISTS `{writer}`"),
        ];
        statements.extend(self.tables().into_iter().map(|table| {
            let table = self.quoted(table);
            format!("DROP ROW POLICY IF EXISTS `{reader}` ON {table}")
        }));
        if delete_data {
            statements.extend(self.tables().into_iter().map(|table| {
                let filter = self.filter(table);
                format!("ALTER TABLE {} DELETE WHERE {filter}", self.quoted(table))
            }));
        }
        statements
    }

    /// The same as a file for `users.d` of ClickHouse, for servers whose users are not made by SQL. The CHECK of
    /// [`Self::pin_statement`] is no part of it.
    #[must_use]
    pub fn users_xml(&self, access: &Access) -> String {
        let (writer, reader) = (self.writer(), self.reader());
        let quota = access.quota_bytes.map_or_else(String::new, |bytes| {
            format!(
                "<interval><duration>{QUOTA_SECONDS}</duration>\
                 <written_bytes>{bytes}</written_bytes></interval>"
            )
        });
        let filters: String = self
            .tables()
            .into_iter()
            .map(|table| format!("<{table}><filter>{}</filter></{table}>", self.filter(table)))
            .collect();
        let (database, role) = (&self.database, self.writer_role());
        let lines = [
            "<clickhouse>".to_owned(),
            format!(" <profiles><{reader}><readonly>2</readonly></{reader}></profiles>"),
            format!(" <quotas><{writer}>{quota}</{writer}></quotas>"),
            format!(
                " <roles>\n  <{role}>{}</{role}>\n </roles>\n <users>",
                xml_grants(&self.writer_grants())
            ),
            xml_user(
                &writer,
                &access.writer_hash,
                "default",
                &writer,
                &xml_grants(&[format!("`{role}`")]),
            ),
            xml_user(
                &reader,
                &access.reader_hash,
                &reader,
                "default",
                &format!(
                    "{}<databases><{database}>{filters}</{database}></databases>",
                    xml_grants(&self.reader_grants())
                ),
            ),
            " </users>\n</clickhouse>".to_owned(),
        ];
        lines.join("\n") + "\n"
    }
}

fn xml_grants(grants: &[String]) -> String {
    let queries: String =
        grants.iter().map(|grant| format!("    <query>GRANT {grant}</query>\n")).collect();
    format!("<grants>\n{queries}   </grants>")
}

fn xml_user(name: &str, hash: &str, profile: &str, quota: &str, rights: &str) -> String {
    format!(
        "  <{name}>\n   <password_sha256_hex>{hash}</password_sha256_hex>\n   \
         <networks><ip>::/0</ip></networks><profile>{profile}</profile><quota>{quota}</quota>\n   \
         {rights}\n  </{name}>"
    )
}
