//! Which schema a database has: a number in the comment of `flows`.

use crate::clickhouse::{ClickHouseError, Connection};

use super::site::Site;

/// Of this program. It grows with every change of the schema, so that an older program leaves a newer one alone.
pub(super) const VERSION: u32 = 4;

/// Before the number.
const COMMENT: &str = "tidegate schema ";

/// The version of the schema; 0 when there is none, or it has no number.
pub(super) fn read(connection: &Connection, database: &str) -> Result<u32, ClickHouseError> {
    let answer = connection.query(&format!(
        "SELECT comment FROM system.tables WHERE database = '{database}' AND name = 'flows'"
    ))?;
    let number = answer.trim().strip_prefix(COMMENT).and_then(|number| number.parse().ok());
    Ok(number.unwrap_or(0))
}

/// Notes that the schema is of this version.
pub(super) fn write(connection: &Connection, site: Site<'_>) -> Result<(), ClickHouseError> {
    let table = site.everywhere("flows");
    connection.execute(&format!("ALTER TABLE {table} MODIFY COMMENT '{COMMENT}{VERSION}'"))
}
