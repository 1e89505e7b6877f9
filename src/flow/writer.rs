//! The open chunks of one reader: one for each day that its flows carry.
//!
//! A chunk never spans two partitions of `flows` (one a day), so that a batch of chunks of one day is an
//! insert into one partition. Exporters with a skewed clock make a reader write to two days around
//! midnight; more than [`OPEN_DAYS_MAX`] at a time closes the oldest.

use std::time::{Duration, Instant};

use super::{CHUNK_ROWS_MAX, Chunk};

/// Milliseconds of a day: `flows` has one partition a day.
pub const DAY_MS: i64 = 86_400_000;

/// Days with an open chunk: yesterday, today and tomorrow around midnight, and one to spare.
const OPEN_DAYS_MAX: usize = 4;

/// Collects flows into chunks of one day each.
#[derive(Debug)]
pub struct ChunkWriter {
    rows_max: usize,
    open: Vec<OpenChunk>,
    closed: Vec<Chunk>,
}

#[derive(Debug)]
struct OpenChunk {
    day: i64,
    opened: Instant,
    chunk: Chunk,
}

impl ChunkWriter {
    /// A writer whose chunks hold at most `rows_max` rows, and never more than [`CHUNK_ROWS_MAX`].
    #[must_use]
    pub fn new(rows_max: usize) -> Self {
        Self { rows_max: rows_max.clamp(1, CHUNK_ROWS_MAX), open: Vec::new(), closed: Vec::new() }
    }

    /// The chunk for flows of `timestamp_ms` and the number of rows that it still takes, at least 1.
    pub(crate) fn chunk_for(&mut self, timestamp_ms: i64, now: Instant) -> (&mut Chunk, usize) {
        let day = timestamp_ms.div_euclid(DAY_MS);
        let position = self.open.iter().position(|open| open.day == day);
        let index = match position {
            Some(index) if self.open[index].chunk.rows() < self.rows_max => index,
            Some(index) => {
                self.close(index);
                self.open_chunk(day, now)
            }
            None => {
                if self.open.len() == OPEN_DAYS_MAX {
                    self.close(0);
                }
                self.open_chunk(day, now)
            }
        };
        let chunk = &mut self.open[index].chunk;
        let room = self.rows_max - chunk.rows();
        (chunk, room)
    }

    /// Closes chunks that were opened at least `age` ago.
    pub fn close_older_than(&mut self, age: Duration, now: Instant) {
        while let Some(index) =
            self.open.iter().position(|open| now.saturating_duration_since(open.opened) >= age)
        {
            self.close(index);
        }
    }

    /// Takes the chunks that are full or were closed.
    pub fn take_closed(&mut self) -> std::vec::Drain<'_, Chunk> {
        for index in (0..self.open.len()).rev() {
            if self.open[index].chunk.rows() == self.rows_max {
                self.close(index);
            }
        }
        self.closed.drain(..)
    }

    /// Closes every chunk.
    pub fn close_all(&mut self) {
        while !self.open.is_empty() {
            self.close(0);
        }
    }

    fn open_chunk(&mut self, day: i64, now: Instant) -> usize {
        self.open.push(OpenChunk { day, opened: now, chunk: Chunk::default() });
        self.open.len() - 1
    }

    fn close(&mut self, index: usize) {
        let chunk = self.open.remove(index).chunk;
        if chunk.rows() > 0 {
            self.closed.push(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(writer: &mut ChunkWriter, timestamp_ms: i64, rows: usize) {
        let (chunk, room) = writer.chunk_for(timestamp_ms, Instant::now());
        assert!(rows <= room);
        chunk.finish(rows);
    }

    #[test]
    fn a_chunk_holds_flows_of_one_day() {
        let mut writer = ChunkWriter::new(100);
        write(&mut writer, DAY_MS - 1, 2);
        write(&mut writer, DAY_MS, 3);
        write(&mut writer, -1, 1);
        writer.close_all();
        let rows: Vec<usize> = writer.take_closed().map(|chunk| chunk.rows()).collect();
        assert_eq!(rows, [2, 3, 1]);
    }

    #[test]
    fn a_full_chunk_is_closed_and_followed_by_another() {
        let mut writer = ChunkWriter::new(3);
        write(&mut writer, 0, 3);
        write(&mut writer, 0, 1);
        assert_eq!(writer.take_closed().map(|chunk| chunk.rows()).sum::<usize>(), 3);
        writer.close_all();
        assert_eq!(writer.take_closed().map(|chunk| chunk.rows()).sum::<usize>(), 1);
    }

    #[test]
    fn the_oldest_day_gives_way_when_too_many_are_open() {
        let mut writer = ChunkWriter::new(10);
        for day in 0..=OPEN_DAYS_MAX {
            write(&mut writer, day as i64 * DAY_MS, day + 1);
        }
        assert_eq!(writer.take_closed().map(|chunk| chunk.rows()).collect::<Vec<_>>(), [1]);
    }
}
