//! A decoder under hostile datagrams, and what must hold whatever it is given.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::clickhouse::{Method, encode_batch};
use tidegate::decode::{
    Datagram, Decoder, DecoderOptions, DropScope, Exporters, Protocol, Snapshot, Tally,
};
use tidegate::flow::{CHUNK_ROWS_MAX, Chunk, ChunkWriter, Column, DAY_MS, Row};

use super::native;

/// When the first datagram comes, milliseconds since 1970.
pub const NOW_MS: i64 = 1_800_000_000_000;

/// Bytes of the labels of one row, ten at most.
const LABEL_BYTES_MAX: usize = 40;

/// Texts of one row: 255 bytes and an ellipsis, in eight columns, and short ones that all rows share.
const ROW_TEXT_BYTES_MAX: usize = 8 * (255 + 3) + 512;

/// Elements without a column of one row: 64, each with a name of the registry and a text.
const EXTRA_BYTES_MAX: usize = 64 * 512;

/// What waits for templates: 4 MiB of an exporter, 64 MiB in all (docs/decoding.md).
const WAITING_BYTES_OF_EXPORTER_MAX: usize = 4 << 20;

/// Exporters that a trial sends from, of both families.
pub const EXPORTERS: usize = 4;

/// The exporter that sends over a connection, from the address of the first one.
pub const CONNECTED: usize = EXPORTERS - 1;

/// Templates that were not seen for a day are forgotten; their times are kept to the minute.
const TEMPLATE_AGE_MAX: Duration = Duration::from_secs(24 * 3_600 + 60);

/// The decoders of a receiver and of a connection, what they were sent and what they made of it.
#[derive(Debug)]
pub struct Trial {
    options: DecoderOptions,
    decoder: Decoder,
    connection: Decoder,
    exporters: Arc<Exporters>,
    writer: ChunkWriter,
    now: Instant,
    now_ms: i64,
    datagrams: u64,
    bytes: u64,
    tally: Tally,
    rows: u64,
    chunk_bytes: u64,
}

impl Trial {
    /// Nothing is known yet.
    pub fn new(keep_unknown_elements: bool, has_little_endian_rates: bool) -> Self {
        let exporters = Arc::new(Exporters::default());
        let default = DecoderOptions::default();
        let options = DecoderOptions { keep_unknown_elements, has_little_endian_rates, ..default };
        Self {
            decoder: Decoder::new(options.clone(), Arc::clone(&exporters)),
            connection: Decoder::of_connection(options.clone(), Arc::clone(&exporters)),
            options,
            exporters,
            writer: ChunkWriter::new(CHUNK_ROWS_MAX),
            now: Instant::now(),
            now_ms: NOW_MS,
            datagrams: 0,
            bytes: 0,
            tally: Tally::default(),
            rows: 0,
            chunk_bytes: 0,
        }
    }

    /// Decodes one datagram of the exporter with this number, and checks what became of it.
    pub fn decode(&mut self, exporter: usize, payload: &[u8]) -> Tally {
        let waiting_bytes = self.exporters.waiting().1.min(WAITING_BYTES_OF_EXPORTER_MAX);
        let datagram = Datagram {
            exporter: address(exporter),
            source_port: 0,
            received_ms: self.now_ms,
            payload,
        };
        let is_connected = exporter % EXPORTERS == CONNECTED;
        let decoder = if is_connected { &mut self.connection } else { &mut self.decoder };
        let (protocol, tally) = decoder.decode(&datagram, self.now, &mut self.writer);
        check_datagram(protocol, payload, waiting_bytes, &tally);
        self.datagrams += 1;
        self.bytes += payload.len() as u64;
        self.tally.add(&tally);
        let closed: Vec<_> = self.writer.take_closed().collect();
        closed.iter().for_each(|chunk| self.check_chunk(chunk));
        tally
    }

    /// Time goes by; what has waited too long is dropped, and templates that are too old are forgotten.
    pub fn wait(&mut self, time: Duration) {
        // More at a time would be a clock that was set.
        let step = Duration::from_secs(300);
        let mut left = time;
        while !left.is_zero() {
            let passed = left.min(step);
            left -= passed;
            self.now += passed;
            self.now_ms += i64::try_from(passed.as_millis()).unwrap();
            let tally = &mut self.tally;
            for decoder in [&self.decoder, &self.connection] {
                decoder.expire(self.now_ms, |_, dropped| tally.add(dropped));
            }
        }
        if time > TEMPLATE_AGE_MAX {
            assert_eq!((self.templates_of_datagrams(), self.exporters.waiting()), (0, (0, 0)));
        }
    }

    /// The connection ends, with its templates and what waits for some, and another one begins.
    pub fn reconnect(&mut self) {
        let tally = &mut self.tally;
        self.connection.end_waiting(|_, dropped| tally.add(dropped));
        let (options, exporters) = (self.options.clone(), Arc::clone(&self.exporters));
        self.connection = Decoder::of_connection(options, exporters);
        assert_eq!(self.exporters.template_count(), self.templates_of_datagrams());
    }

    fn templates_of_datagrams(&self) -> usize {
        self.exporters.list().iter().map(|exporter| exporter.templates().len()).sum()
    }

    /// Closes the open chunks, and compares the rows with the flows.
    pub fn settle(&mut self) {
        self.writer.close_all();
        let closed: Vec<_> = self.writer.take_closed().collect();
        closed.iter().for_each(|chunk| self.check_chunk(chunk));
        assert_eq!(self.rows, self.tally.flows, "every flow is a row");
        let (sets, bytes) = self.exporters.waiting();
        assert!(bytes <= EXPORTERS * WAITING_BYTES_OF_EXPORTER_MAX, "{bytes} bytes wait");
        assert_eq!(sets == 0, bytes == 0);
    }

    /// What is kept over a restart.
    pub fn snapshot(&self) -> Snapshot {
        self.exporters.snapshot(self.now_ms)
    }

    /// What is kept over a restart can be restored, and is the same then.
    pub fn restart(&self) {
        let kept = self.snapshot();
        let restored = Exporters::default();
        let counts = restored.restore(&kept.bytes, self.now_ms).unwrap();
        assert_eq!((counts.templates + counts.expired, counts.refused), (kept.templates, 0));
        if counts.expired == 0 {
            let again = restored.snapshot(self.now_ms);
            assert_eq!((again.bytes.len(), again.templates), (kept.bytes.len(), kept.templates));
        }
    }

    /// The end: nothing waits any more, and the exporters' accounts are the sum of all tallies.
    pub fn finish(mut self) -> Tally {
        self.settle();
        self.reconnect();
        let tally = &mut self.tally;
        self.decoder.end_waiting(|_, dropped| tally.add(dropped));
        assert_eq!(self.exporters.waiting(), (0, 0));
        let (mut datagrams, mut bytes, mut total) = (0, 0, Tally::default());
        for exporter in self.exporters.list() {
            let account = exporter.account();
            datagrams += account.datagrams;
            bytes += account.bytes;
            total.add(&account.tally);
        }
        assert_eq!((datagrams, bytes), (self.datagrams, self.bytes));
        assert_eq!(total, self.tally);
        self.tally
    }

    /// Bytes of the columns of the chunks that were closed.
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    fn check_chunk(&mut self, chunk: &Chunk) {
        let rows = chunk.rows();
        self.rows += rows as u64;
        self.chunk_bytes += chunk.bytes() as u64;
        assert!((1..=CHUNK_ROWS_MAX).contains(&rows));
        let widths: usize = Column::ALL.iter().map(|column| column.width_bytes()).sum();
        assert!(
            chunk.bytes()
                <= rows * (widths + LABEL_BYTES_MAX + ROW_TEXT_BYTES_MAX + EXTRA_BYTES_MAX)
        );
        let day = |row| chunk.value(Column::Timestamp, row);
        let day = |row| i64::from_le_bytes(day(row)).div_euclid(DAY_MS);
        assert_eq!(day(0), day(rows - 1), "a chunk is of one day");
        serde_json::to_string(&Row::new(chunk, rows - 1)).unwrap();
        let block = native::read(&encode_batch(std::slice::from_ref(chunk), Method::None));
        assert_eq!(block.rows, rows);
    }
}

/// What holds for a single datagram.
fn check_datagram(protocol: Option<Protocol>, payload: &[u8], waiting_bytes: usize, tally: &Tally) {
    assert_eq!(protocol, Protocol::of(payload));
    let of_scope = |scope| {
        let drops = tally.drops().filter(move |(reason, _)| reason.scope() == scope);
        drops.fold((0, 0), |sum, (_, d)| (sum.0 + d.count, sum.1 + d.bytes))
    };
    let decoded = tally.flows + tally.options_records + tally.templates + tally.counter_samples;
    let length = payload.len() as u64;
    let (dropped_whole, dropped_bytes) = of_scope(DropScope::Datagram);
    if dropped_whole > 0 || protocol.is_none() {
        assert_eq!((dropped_whole, dropped_bytes, decoded), (1, length, 0), "dropped as a whole");
        assert_eq!(of_scope(DropScope::Set), (0, 0));
    }
    let there = length + waiting_bytes as u64;
    let (sets, set_bytes) = of_scope(DropScope::Set);
    assert!(set_bytes <= there, "{set_bytes} of {there} bytes dropped");
    assert!(sets <= there + 1);
    assert!(tally.flows + tally.options_records <= there, "a record takes at least a byte");
    assert!(tally.templates <= length / 4);
    let fixed = match protocol {
        Some(Protocol::NetflowV1) => (16, 48),
        Some(Protocol::NetflowV5) => (24, 48),
        Some(Protocol::NetflowV7) => (24, 52),
        _ => return,
    };
    if dropped_whole == 0 {
        let records_end = fixed.0 + fixed.1 * usize::try_from(tally.flows).unwrap();
        let behind = &payload[records_end..];
        let trailing = if behind.iter().all(|&byte| byte == 0) { 0 } else { behind.len() as u64 };
        assert_eq!(set_bytes, trailing, "every byte is in a flow, zero or dropped");
    }
}

/// The address of the exporter with this number.
fn address(exporter: usize) -> IpAddr {
    let number = u8::try_from(exporter % CONNECTED).unwrap();
    if number % 2 == 0 {
        [192, 0, 2, number].into()
    } else {
        [0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(number)].into()
    }
}
