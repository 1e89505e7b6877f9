//! One walk: the columns of the interfaces of one agent, as one table.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use async_snmp::{Oid, UdpClient, Value, WalkMethod, WalkOptions};

use crate::config::SnmpAgentConfig;

use super::client::{Patience, connect};
use super::failure::Failure;
use super::interfaces::{Interface, InterfaceTable};
use super::text::clean;

/// Interfaces of one exporter. The largest routers of subscribers have some ten thousand.
pub(super) const ROWS_MAX: usize = 65_536;

/// Of a whole walk: 65,536 interfaces in three columns at 15 ms for each answer.
pub(super) const WALK_TIME_MAX: Duration = Duration::from_secs(120);

/// Rows in an answer to GETBULK, RFC 3416 section 4.2.3. With texts as they are they fit a datagram of
/// Ethernet; an agent answers fewer when they do not.
const REPETITIONS: u32 = 25;

/// A column of ifTable or ifXTable, RFC 2863. A row's object identifier is the column's and its ifIndex.
type Column = &'static [u32];

const IF_DESCR: Column = &[1, 3, 6, 1, 2, 1, 2, 2, 1, 2];
const IF_SPEED: Column = &[1, 3, 6, 1, 2, 1, 2, 2, 1, 5];
const IF_NAME: Column = &[1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 1];
const IF_HIGH_SPEED: Column = &[1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 15];
const IF_ALIAS: Column = &[1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 18];

/// What a walk brought.
#[derive(Debug)]
pub(super) struct Walked {
    pub(super) table: InterfaceTable,
    /// There are more than [`ROWS_MAX`].
    pub(super) is_cut: bool,
}

/// Asks the agent at `target` for all of its interfaces.
pub(super) async fn walk(
    target: SocketAddr,
    agent: &SnmpAgentConfig,
    patience: Patience,
) -> Result<Walked, Failure> {
    let walk = async { interfaces(&connect(target, agent, patience).await?).await };
    tokio::time::timeout(WALK_TIME_MAX, walk).await.unwrap_or(Err(Failure::TooSlow))
}

async fn interfaces(client: &UdpClient) -> Result<Walked, Failure> {
    let mut names = column(client, IF_NAME, text).await?;
    if names.rows.is_empty() || names.rows.values().any(String::is_empty) {
        let descriptions = column(client, IF_DESCR, text).await?;
        names.is_cut |= descriptions.is_cut;
        for (index, description) in descriptions.rows {
            let name = names.rows.entry(index).or_default();
            if name.is_empty() {
                *name = description;
            }
        }
    }
    let mut aliases = column(client, IF_ALIAS, text).await?.rows;
    let mut speeds = column(client, IF_HIGH_SPEED, Value::as_u32).await?.rows;
    let is_unknown = |index: &u32| speeds.get(index).is_none_or(|&speed| speed == 0);
    if names.rows.keys().any(is_unknown) {
        for (index, bits) in column(client, IF_SPEED, Value::as_u32).await?.rows {
            let speed = speeds.entry(index).or_default();
            if *speed == 0 {
                *speed = mbit_of(bits);
            }
        }
    }
    let interface = |(index, name): (u32, String)| {
        let alias = aliases.remove(&index).unwrap_or_default();
        let speed_mbit = speeds.get(&index).copied().unwrap_or_default();
        (index, Interface { name: name.into(), alias: alias.into(), speed_mbit })
    };
    // The union of two columns that were cut.
    let rows = names.rows.into_iter().take(ROWS_MAX);
    Ok(Walked { table: rows.map(interface).collect(), is_cut: names.is_cut })
}

/// The values of one column.
struct Values<T> {
    rows: HashMap<u32, T>,
    is_cut: bool,
}

async fn column<T>(
    client: &UdpClient,
    column: Column,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Values<T>, Failure> {
    let options = WalkOptions {
        method: WalkMethod::GetBulk,
        max_repetitions: REPETITIONS,
        result_limit: Some(ROWS_MAX),
        ..WalkOptions::default()
    };
    let mut stream =
        client.walk_with(Oid::from_slice(column), options).map_err(|error| Failure::of(&error))?;
    let mut rows = HashMap::new();
    while let Some(next) = stream.next().await {
        let row = match next.map_err(|error| Failure::of(&error)) {
            Ok(row) => row,
            Err(Failure::TooMany) => return Ok(Values { rows, is_cut: true }),
            Err(failure) => return Err(failure),
        };
        let wrong = |what: &str| Failure::WrongAnswer(format!("{} is {what}", row.oid));
        let Some(&[index]) = row.oid.arcs().strip_prefix(column) else {
            return Err(wrong("no row of an interface"));
        };
        let value = read(&row.value).ok_or_else(|| wrong("of another type"))?;
        rows.insert(index, value);
    }
    Ok(Values { rows, is_cut: false })
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::OctetString(bytes) => Some(clean(bytes)),
        _ => None,
    }
}

/// Rounded as ifHighSpeed is. The largest value means that only ifHighSpeed can say it, RFC 2863, `ifSpeed`.
fn mbit_of(bits: u32) -> u32 {
    if bits == u32::MAX { 0 } else { bits.saturating_add(500_000) / 1_000_000 }
}
