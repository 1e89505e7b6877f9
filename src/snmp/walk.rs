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

/// Texts of a walk under way, which are not among those that [`super::known`] counts: of 65,536 interfaces with
/// 256 bytes each.
pub(super) const TEXT_BYTES_MAX: usize = 16 << 20;

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
    let walk = async { interfaces(connect(target, agent, patience).await?).await };
    tokio::time::timeout(WALK_TIME_MAX, walk).await.unwrap_or(Err(Failure::TooSlow))
}

async fn interfaces(client: UdpClient) -> Result<Walked, Failure> {
    let mut agent = Agent { client, text_bytes_left: TEXT_BYTES_MAX };
    let mut names = agent.texts(IF_NAME).await?;
    if names.rows.is_empty() || names.rows.values().any(String::is_empty) {
        let descriptions = agent.texts(IF_DESCR).await?;
        names.is_cut |= descriptions.is_cut;
        for (index, description) in descriptions.rows {
            let name = names.rows.entry(index).or_default();
            if name.is_empty() {
                *name = description;
            }
        }
    }
    let mut aliases = agent.texts(IF_ALIAS).await?.rows;
    let mut speeds = agent.numbers(IF_HIGH_SPEED).await?.rows;
    let is_unknown = |index: &u32| speeds.get(index).is_none_or(|&speed| speed == 0);
    if names.rows.keys().any(is_unknown) {
        for (index, bits) in agent.numbers(IF_SPEED).await?.rows {
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
    // Two columns that were cut may have more rows together.
    let rows = names.rows.into_iter().take(ROWS_MAX);
    Ok(Walked { table: rows.map(interface).collect(), is_cut: names.is_cut })
}

/// The agent that is asked.
struct Agent {
    client: UdpClient,
    text_bytes_left: usize,
}

/// The values of one column, by ifIndex.
struct Values<T> {
    rows: HashMap<u32, T>,
    is_cut: bool,
}

impl Agent {
    async fn texts(&mut self, column: Column) -> Result<Values<String>, Failure> {
        let mut left = self.text_bytes_left;
        let read = |value: &Value| {
            let Value::OctetString(bytes) = value else { return Err(Failure::another_type()) };
            let text = clean(bytes);
            left = left.checked_sub(text.len()).ok_or(Failure::TooLarge)?;
            Ok(text)
        };
        let values = self.column(column, read).await;
        self.text_bytes_left = left;
        values
    }

    async fn numbers(&self, column: Column) -> Result<Values<u32>, Failure> {
        let read = |value: &Value| value.as_u32().ok_or_else(Failure::another_type);
        self.column(column, read).await
    }

    async fn column<T>(
        &self,
        column: Column,
        mut read: impl FnMut(&Value) -> Result<T, Failure>,
    ) -> Result<Values<T>, Failure> {
        let options = WalkOptions {
            method: WalkMethod::GetBulk,
            max_repetitions: REPETITIONS,
            result_limit: Some(ROWS_MAX),
            ..WalkOptions::default()
        };
        let stream = self.client.walk_with(Oid::from_slice(column), options);
        let mut stream = stream.map_err(|error| Failure::of(&error))?;
        let mut rows = HashMap::new();
        while let Some(next) = stream.next().await {
            let row = match next.map_err(|error| Failure::of(&error)) {
                Ok(row) => row,
                Err(Failure::TooMany) => return Ok(Values { rows, is_cut: true }),
                Err(failure) => return Err(failure),
            };
            let Some(&[index]) = row.oid.arcs().strip_prefix(column) else {
                return Err(Failure::WrongAnswer("a row is that of no interface".to_owned()));
            };
            rows.insert(index, read(&row.value)?);
        }
        Ok(Values { rows, is_cut: false })
    }
}

/// Rounded as ifHighSpeed is. The largest value means that only ifHighSpeed can say it, RFC 2863, `ifSpeed`.
fn mbit_of(bits: u32) -> u32 {
    if bits == u32::MAX { 0 } else { bits.saturating_add(500_000) / 1_000_000 }
}
