//! Makes a rollup anew from the flows, while collectors go on inserting.
//!
//! The new table stands beside the old one until it is complete, so readers see no gap. What makes it exact are two
//! moments in which no insert is under way: in the first all flows so far are set aside (as links to the same
//! files) and a second view begins to fill the new table; in the last one the tables change their names. During them
//! ClickHouse refuses inserts as "too many parts", and collectors send them again.

use std::time::{Duration, Instant};

use crate::clickhouse::{ClickHouseError, Connection};
use crate::config::ClickHouseConfig;

use super::Rollup;
use super::site::Site;

/// A statement may read all flows of a day.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Inserts that are under way when they are held end within this, or the repair is given up.
const INSERTS_END: Duration = Duration::from_secs(60);

/// While inserts are held any number of parts is too many, however large they are: up to this size.
const HELD: i64 = i64::MAX;

/// A rollup that is made anew.
#[derive(Debug)]
pub struct Repair<'a> {
    connection: &'a Connection,
    site: Site<'a>,
    rollup: &'a Rollup,
    ttl_days: usize,
    rollup_ttl_days: usize,
    /// Only say what would be done.
    is_dry: bool,
    statements: Vec<String>,
}

/// What a repair has done.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Repaired {
    /// Days that were summed from flows.
    pub days: usize,
    /// Rows of the old table that are older than the flows, and were kept.
    pub kept_rows: u64,
    /// Every statement, in order.
    pub statements: Vec<String>,
}

impl<'a> Repair<'a> {
    /// A repair of one rollup of the configuration; a dry one changes nothing.
    #[must_use]
    pub fn new(
        connection: &'a Connection,
        config: &'a ClickHouseConfig,
        rollup: &'a Rollup,
        is_dry: bool,
    ) -> Self {
        Self {
            connection,
            site: Site::of(config),
            rollup,
            ttl_days: config.schema.ttl_days,
            rollup_ttl_days: config.schema.rollup_ttl_days,
            is_dry,
            statements: Vec::new(),
        }
    }

    /// Does it.
    ///
    /// # Errors
    ///
    /// ClickHouse refused or does not answer. The rollup is as it was then, and inserts are not held.
    pub fn run(mut self) -> Result<Repaired, ClickHouseError> {
        if self.site.cluster.is_some() {
            let why = "rollups of a cluster cannot be repaired: inserts would have to be held on all servers";
            return Err(ClickHouseError::Unusable(why.to_owned()));
        }
        self.drop_leftovers()?;
        let made_anew = Rollup { table: self.new_table(), ..self.rollup.clone() };
        self.execute(&made_anew.create_table_sql(self.site, self.rollup_ttl_days))?;
        self.execute(&format!(
            "CREATE TABLE {} AS {}",
            self.quoted(&self.snapshot()),
            self.quoted("flows")
        ))?;
        let days = self.partitions()?;
        self.while_held(|repair| {
            // Once more: there may be a new one.
            for partition in repair.partitions()? {
                repair.execute(&format!(
                    "ALTER TABLE {} ATTACH PARTITION ID '{partition}' FROM {}",
                    repair.quoted(&repair.snapshot()),
                    repair.quoted("flows")
                ))?;
            }
            repair.execute(&made_anew.create_view_sql(repair.site))
        })?;
        let mut repaired = self.fill()?;
        repaired.days = days.len();
        let old_view = self.quoted(&self.rollup.view());
        self.while_held(|repair| {
            repair.execute(&format!("DROP TABLE IF EXISTS {old_view}"))?;
            repair.execute(&format!("DROP TABLE {}", repair.quoted(&made_anew.view())))?;
            let (old, new) =
                (repair.quoted(&repair.rollup.table), repair.quoted(&repair.new_table()));
            if repair.has_table(&repair.rollup.table)? {
                repair.execute(&format!("EXCHANGE TABLES {old} AND {new}"))?;
            } else {
                repair.execute(&format!("RENAME TABLE {new} TO {old}"))?;
            }
            repair.execute(&repair.rollup.create_view_sql(repair.site))
        })?;
        self.drop_leftovers()?;
        repaired.statements = self.statements;
        Ok(repaired)
    }

    /// What an earlier repair has left that ended in the middle.
    fn drop_leftovers(&mut self) -> Result<(), ClickHouseError> {
        let is_held = self.query(&format!(
            "SELECT count() FROM system.tables WHERE database = '{}' AND name = 'flows' \
             AND position(engine_full, 'max_avg_part_size_for_too_many_parts = {HELD}') > 0",
            self.site.database
        ))?;
        if is_held.trim() != "0" {
            self.release()?;
        }
        let view = format!("{}_mv", self.new_table());
        for name in [view, self.new_table(), self.snapshot()] {
            self.execute(&format!("DROP TABLE IF EXISTS {} SYNC", self.quoted(&name)))?;
        }
        Ok(())
    }

    /// Sums the flows that were set aside, day by day, and keeps what is older than they are.
    fn fill(&mut self) -> Result<Repaired, ClickHouseError> {
        let (new, snapshot) = (self.quoted(&self.new_table()), self.snapshot());
        let first_day = self.first_day()?;
        for day in self.days()?.into_iter().filter(|day| first_day.as_ref() <= Some(day)) {
            let select = self.rollup.select_sql(self.site, &snapshot);
            let of_day = format!("WHERE toDate(f.timestamp) = '{day}'\nGROUP BY");
            let select = select.replacen("GROUP BY", &of_day, 1);
            let columns = self.columns().join(", ");
            self.execute(&format!("INSERT INTO {new} ({columns})\n{select}"))?;
        }
        let kept_rows = match first_day {
            Some(first_day) if self.has_table(&self.rollup.table)? => {
                self.keep_older(&first_day)?
            }
            _ => 0,
        };
        Ok(Repaired { kept_rows, ..Repaired::default() })
    }

    /// Copies the rows of the old table from before that day, with the columns that it has.
    fn keep_older(&mut self, first_day: &str) -> Result<u64, ClickHouseError> {
        let (old, new) = (self.quoted(&self.rollup.table), self.quoted(&self.new_table()));
        let known = self.query(&format!("DESCRIBE TABLE {old}"))?;
        let known: Vec<_> = known.lines().filter_map(|line| line.split('\t').next()).collect();
        let columns = self.columns();
        let columns: Vec<_> =
            columns.iter().map(String::as_str).filter(|name| known.contains(name)).collect();
        let is_older = format!("timestamp < toDateTime('{first_day} 00:00:00', 'UTC')");
        let count = self.query(&format!("SELECT count() FROM {old} WHERE {is_older}"))?;
        let columns = columns.join(", ");
        self.execute(&format!(
            "INSERT INTO {new} ({columns}) SELECT {columns} FROM {old} WHERE {is_older}"
        ))?;
        Ok(count.trim().parse().unwrap_or(0))
    }

    /// The first day that is summed from flows. The oldest day of flows that are about to expire is not whole
    /// any more.
    fn first_day(&self) -> Result<Option<String>, ClickHouseError> {
        let answer = self.query(&format!(
            "SELECT if(count() = 0, '', toString(if(min(toDate(timestamp)) <= today() - {}, \
             min(toDate(timestamp)) + 1, min(toDate(timestamp))))) FROM {}",
            self.ttl_days.saturating_sub(1),
            self.quoted("flows")
        ))?;
        Ok(Some(answer.trim().to_owned()).filter(|day| !day.is_empty()))
    }

    fn days(&self) -> Result<Vec<String>, ClickHouseError> {
        let flows = self.quoted("flows");
        let days = self.query(&format!(
            "SELECT DISTINCT toString(toDate(timestamp)) AS day FROM {flows} ORDER BY day"
        ))?;
        Ok(days.lines().map(ToOwned::to_owned).collect())
    }

    fn partitions(&self) -> Result<Vec<String>, ClickHouseError> {
        let partitions = self.query(&format!(
            "SELECT DISTINCT partition_id FROM system.parts \
             WHERE database = '{}' AND table = 'flows' AND active ORDER BY partition_id",
            self.site.database
        ))?;
        Ok(partitions.lines().map(ToOwned::to_owned).collect())
    }

    /// Does something while no insert is under way.
    fn while_held(
        &mut self,
        action: impl FnOnce(&mut Self) -> Result<(), ClickHouseError>,
    ) -> Result<(), ClickHouseError> {
        let flows = self.quoted("flows");
        self.execute(&format!(
            "ALTER TABLE {flows} MODIFY SETTING parts_to_throw_insert = 1, \
             max_avg_part_size_for_too_many_parts = {HELD}"
        ))?;
        let done = self.wait_for_inserts().and_then(|()| action(self));
        let released = self.release();
        done.and(released)
    }

    fn release(&mut self) -> Result<(), ClickHouseError> {
        let flows = self.quoted("flows");
        self.execute(&format!(
            "ALTER TABLE {flows} RESET SETTING parts_to_throw_insert, \
             max_avg_part_size_for_too_many_parts"
        ))
    }

    fn wait_for_inserts(&self) -> Result<(), ClickHouseError> {
        let start = Instant::now();
        loop {
            let inserts = self.query(&format!(
                "SELECT count() FROM system.processes WHERE query_kind = 'Insert' \
                 AND position(query, '`{}`.flows ') > 0",
                self.site.database
            ))?;
            if inserts.trim() == "0" {
                return Ok(());
            }
            if start.elapsed() > INSERTS_END {
                return Err(ClickHouseError::Unusable(
                    "inserts into flows do not end, nothing was changed".to_owned(),
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn has_table(&self, name: &str) -> Result<bool, ClickHouseError> {
        Ok(self.query(&format!("EXISTS TABLE {}", self.quoted(name)))?.trim() == "1")
    }

    fn columns(&self) -> Vec<String> {
        self.rollup.columns().into_iter().map(|(name, _)| name).collect()
    }

    fn new_table(&self) -> String {
        format!("{}_repair", self.rollup.table)
    }

    fn snapshot(&self) -> String {
        format!("{}_repair_flows", self.rollup.table)
    }

    fn quoted(&self, name: &str) -> String {
        self.site.quoted(name)
    }

    fn query(&self, sql: &str) -> Result<String, ClickHouseError> {
        self.connection.query_as(sql, "TSV", PATIENCE)
    }

    fn execute(&mut self, sql: &str) -> Result<(), ClickHouseError> {
        self.statements.push(sql.to_owned());
        if self.is_dry { Ok(()) } else { self.connection.execute_within(sql, PATIENCE) }
    }
}
