//! Statements about the table `flows_dead_letter`: rows that ClickHouse refused, as text, until somebody sees to
//! them.

/// Dead letters in one database, for people.
#[derive(Clone, Debug)]
pub struct DeadLetters {
    database: String,
    /// An SQL condition on the columns of the table.
    condition: String,
    /// Replay rows too that may be in the table already.
    is_bold: bool,
}

/// Letters that are inserted together: of one refused batch and one day.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unit {
    /// The refused batch.
    pub batch_id: String,
    /// Of the rows' `timestamp`, as 20261130.
    pub day: u32,
    /// Which ten thousand rows of the batch.
    pub part: u32,
    /// Its letters.
    pub letters: usize,
    /// Of the insert, when an earlier replay has begun with it.
    pub token: Option<String>,
}

/// Rows of a batch that are one unit.
const UNIT_ROWS: usize = 10_000;

/// The day of a letter's row.
const DAY: &str = "toYYYYMMDD(parseDateTime64BestEffortOrZero(JSONExtractString(payload, 'timestamp'), 3, 'UTC'))";

/// Not replayed yet.
const IS_OPEN: &str = "toUnixTimestamp64Milli(replayedAt) = 0";

impl DeadLetters {
    /// All of them, or those that `condition`, an SQL expression, is true for.
    #[must_use]
    pub fn new(database: &str, condition: Option<&str>) -> Self {
        let condition = condition.map_or_else(|| "1".to_owned(), |text| format!("({text})"));
        Self { database: database.to_owned(), condition, is_bold: false }
    }

    /// The same with rows that the table may have already: an insert of theirs had no answer.
    #[must_use]
    pub fn even_if_stored(self) -> Self {
        Self { is_bold: true, ..self }
    }

    fn table(&self) -> String {
        format!("`{}`.flows_dead_letter", self.database)
    }

    /// How many there are of each error, exporter and hour, the newest first.
    #[must_use]
    pub fn list_sql(&self) -> String {
        format!(
            "SELECT toStartOfHour(failedAt) AS hour, errorClass, errorCode, errorName, exporterAddr, \
             count() AS letters, countIf(NOT {IS_OPEN}) AS replayed, \
             countIf(mayBeStored) AS mayBeStored, \
             arrayStringConcat(arrayDistinct(arrayFlatten(groupArray(5)(failedColumns))), ' ') AS columns, \
             concat(argMin(batchId, rowIndex), ':', toString(min(rowIndex))) AS example \
             FROM {} WHERE {} GROUP BY hour, errorClass, errorCode, errorName, exporterAddr \
             ORDER BY hour DESC, letters DESC LIMIT 1000",
            self.table(),
            self.condition
        )
    }

    /// The letters of a batch, or one of them.
    #[must_use]
    pub fn show_sql(&self, batch_id: &str, row: Option<u32>) -> String {
        let of_row = row.map_or_else(String::new, |row| format!(" AND rowIndex = {row}"));
        format!(
            "SELECT * FROM {} WHERE {} AND batchId = {}{of_row} ORDER BY rowIndex LIMIT 100",
            self.table(),
            self.condition,
            quoted(batch_id)
        )
    }

    /// How many there are.
    #[must_use]
    pub fn count_sql(&self) -> String {
        format!("SELECT count() FROM {} WHERE {}", self.table(), self.condition)
    }

    /// Deletes them.
    #[must_use]
    pub fn purge_sql(&self) -> String {
        format!(
            "ALTER TABLE {} DELETE WHERE {} SETTINGS mutations_sync = 1",
            self.table(),
            self.condition
        )
    }

    /// What is to be replayed, the oldest first; [`units`] reads the answer.
    #[must_use]
    pub fn units_sql(&self) -> String {
        format!(
            "SELECT batchId, {DAY} AS day, intDiv(rowIndex, {UNIT_ROWS}) AS part, count(), replayToken \
             FROM {} WHERE {} GROUP BY batchId, day, part, replayToken \
             ORDER BY min(failedAt), batchId, day, part",
            self.table(),
            self.replayable()
        )
    }

    /// How many are left out, since the table may have their rows.
    #[must_use]
    pub fn left_out_sql(&self) -> String {
        let of_all = Self { is_bold: true, ..self.clone() }.replayable();
        format!(
            "SELECT count() FROM {} WHERE {of_all} AND NOT ({})",
            self.table(),
            self.replayable()
        )
    }

    /// Binds the letters of a unit to an insert before it is sent: what comes later is another unit, and a replay
    /// that ended early is repeated with the same rows.
    #[must_use]
    pub fn bind_sql(&self, unit: &Unit, token: &str) -> String {
        format!(
            "ALTER TABLE {} UPDATE replayToken = {} WHERE {} AND replayToken = '' AND batchId = {} \
             AND {DAY} = {} AND intDiv(rowIndex, {UNIT_ROWS}) = {} SETTINGS mutations_sync = 1",
            self.table(),
            quoted(token),
            self.replayable(),
            quoted(&unit.batch_id),
            unit.day,
            unit.part
        )
    }

    /// The rows that are bound to an insert, in their order, one JSON object a line.
    #[must_use]
    pub fn payloads_sql(&self, token: &str) -> String {
        let (table, token) = (self.table(), quoted(token));
        format!("SELECT payload FROM {table} WHERE replayToken = {token} ORDER BY rowIndex")
    }

    /// Notes that the letters of an insert were replayed.
    #[must_use]
    pub fn mark_sql(&self, token: &str) -> String {
        format!(
            "ALTER TABLE {} UPDATE replayedAt = now64(3) WHERE replayToken = {} \
             SETTINGS mutations_sync = 1",
            self.table(),
            quoted(token)
        )
    }

    fn replayable(&self) -> String {
        let certain = if self.is_bold { "" } else { " AND NOT mayBeStored" };
        format!("{IS_OPEN}{certain} AND {}", self.condition)
    }
}

/// Reads the answer to [`DeadLetters::units_sql`].
#[must_use]
pub fn units(answer: &str) -> Vec<Unit> {
    let unit = |line: &str| {
        let mut fields = line.split('\t');
        let batch_id = fields.next()?.to_owned();
        let mut number = || fields.next()?.parse::<u32>().ok();
        let (day, part, letters) = (number()?, number()?, usize::try_from(number()?).ok()?);
        let token = fields.next().filter(|token| !token.is_empty()).map(ToOwned::to_owned);
        Some(Unit { batch_id, day, part, letters, token })
    };
    answer.lines().filter_map(unit).collect()
}

/// A text as an SQL literal.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_end_their_literal() {
        assert_eq!(quoted(r"a'b\"), r"'a\'b\\'");
    }
}
