//! The table of metrics: the source of `/metrics`, of `docs/metrics.md` and of the checks on dashboards.
//!
//! Labels come from closed sets; an exporter's address is never a label (it is a column, and a row of
//! `/api/v1/exporters`).

/// What a metric measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Distribution over these buckets.
    Histogram(&'static [f64]),
}

impl MetricKind {
    /// The word for it in the exposition format.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct MetricSpec {
    /// The whole name; the unit is its last word but `_total`.
    pub name: &'static str,
    /// What it measures.
    pub kind: MetricKind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// What it means.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($variant:ident $name:literal $kind:expr, [$($label:literal),*] $help:literal;)*) => {
        /// A metric, in the order of the table.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        #[repr(usize)]
        pub enum MetricName { $(#[doc = $help] $variant,)* }

        impl MetricName {
            /// Every metric.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
        }

        /// The table, indexed by [`MetricName`].
        pub const METRICS: &[MetricSpec] = &[$(MetricSpec {
            name: $name, kind: $kind, labels: &[$($label),*], help: $help,
        },)*];
    };
}

const SECONDS: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
const MICROS: &[f64] = &[1e-6, 5e-6, 25e-6, 100e-6, 500e-6, 2.5e-3, 10e-3];
const ROWS: &[f64] = &[10.0, 100.0, 1e3, 5e3, 10e3, 25e3, 50e3, 100e3, 250e3, 500e3, 1e6];

use MetricKind::{Counter, Gauge, Histogram};

metrics! {
    BuildInfo "tidegate_build_info" Gauge, ["version"] "Always 1; the label tells the version.";

    ReceiveDatagrams "tidegate_receive_datagrams_total" Counter, ["receiver"] "Datagrams received; over TCP, messages.";
    ReceiveBytes "tidegate_receive_bytes_total" Counter, ["receiver"] "Bytes of the datagrams received, UDP payload; over TCP, of the messages, and of what is none.";
    ReceiveKernelDropped "tidegate_receive_kernel_dropped_datagrams_total" Counter, ["receiver"] "Datagrams that the kernel dropped, above all because the receive buffer was full.";
    ReceiveErrors "tidegate_receive_errors_total" Counter, ["receiver"] "Failed reads of a UDP socket, and connections that could not be accepted.";
    ReceiveBuffer "tidegate_receive_buffer_bytes" Gauge, ["receiver"] "Receive buffer that the kernel grants each socket.";
    ReceiveConnections "tidegate_receive_connections" Gauge, ["receiver"] "Open connections of a TCP receiver.";
    ReceiveConnectionsAccepted "tidegate_receive_connections_accepted_total" Counter, ["receiver"] "Connections that were accepted.";
    ReceiveConnectionsRefused "tidegate_receive_connections_refused_total" Counter, ["receiver"] "Connections that were closed at once, since there were `max-connections`.";
    ReceiveConnectionsClosed "tidegate_receive_connections_closed_total" Counter, ["receiver", "reason"] "Connections that ended: `exporter` (it closed), `garbage` (what came is no IPFIX message), `idle` (no byte for `idle-timeout`), `error` (of the network) or `stop`.";
    ReceivePaused "tidegate_receive_paused_milliseconds_total" Counter, ["receiver"] "Time that a TCP receiver read nothing because the queue was full; its exporters had to wait as long.";

    DecodeDatagrams "tidegate_decode_datagrams_total" Counter, ["protocol"] "Datagrams, and messages over TCP, by protocol; `unknown` for those of none.";
    DecodeFlows "tidegate_decode_flows_total" Counter, ["protocol"] "Flows decoded.";
    DecodeLostRecords "tidegate_decode_lost_records_total" Counter, ["protocol"] "Records that exporters sent and that never came, by their sequence numbers: flows of NetFlow v5 and v7, data records of IPFIX.";
    DecodeLostDatagrams "tidegate_decode_lost_datagrams_total" Counter, ["protocol"] "Datagrams that exporters sent and that never came, by their sequence numbers: NetFlow v9 and sFlow.";
    DecodeLateDatagrams "tidegate_decode_late_datagrams_total" Counter, ["protocol"] "Datagrams that came behind later ones of the same exporter.";
    DecodeDuplicateDatagrams "tidegate_decode_duplicate_datagrams_total" Counter, ["protocol"] "Datagrams that came before, by their sequence numbers; their flows are stored again.";
    DecodeRestarts "tidegate_decode_exporter_restarts_total" Counter, ["protocol"] "New starts of exporters, by their sequence numbers.";
    DecodeOptionsRecords "tidegate_decode_options_records_total" Counter, ["protocol"] "Records of options templates decoded.";
    DecodeTemplatesLearned "tidegate_decode_templates_learned_total" Counter, ["protocol"] "Templates that were new or had changed.";
    DecodeWithdrawals "tidegate_decode_withdrawals_total" Counter, ["protocol"] "Withdrawals of templates over TCP, which were obeyed.";
    DecodeIgnoredWithdrawals "tidegate_decode_ignored_withdrawals_total" Counter, ["protocol"] "Withdrawals of templates over UDP, which mean nothing there (RFC 7011 section 8.4).";
    DecodeCounterSamples "tidegate_decode_counter_samples_total" Counter, ["protocol"] "sFlow counter samples decoded; the last values of each interface are at `/api/v1/interfaces`.";
    DecodeDropEvents "tidegate_decode_drop_events_total" Counter, ["protocol"] "sFlow notifications of packets that exporters discarded.";
    DecodeSkippedRecords "tidegate_decode_skipped_records_total" Counter, ["protocol"] "Records of sFlow samples that no column takes.";
    DecodeReversedFlows "tidegate_decode_reversed_flows_total" Counter, ["protocol"] "Flows that began after they ended; their end is taken for both.";
    DecodeOddLengthValues "tidegate_decode_odd_length_values_total" Counter, ["protocol"] "Values of elements with a column, in a length that the element cannot have; stepped over.";
    DecodeListValues "tidegate_decode_list_values_total" Counter, ["protocol"] "Values that are structured data (RFC 6313); stepped over.";
    DecodeLeftOutValues "tidegate_decode_left_out_values_total" Counter, ["protocol"] "Values that the column `extra` had no room for: a row has at most 64, a chunk 65,535 different keys.";
    DecodeTemplatesExpired "tidegate_decode_templates_expired_total" Counter, ["protocol"] "Templates that were neither announced nor used for 24 hours.";
    DecodeTunnelFlows "tidegate_decode_tunnel_flows_total" Counter, ["protocol", "tunnel"] "Flows made of a packet header that carries another packet: `gre`, `vxlan` or `ipip`. The row is about the outer packet.";
    DecodeDroppedDatagrams "tidegate_decode_dropped_datagrams_total" Counter, ["protocol", "reason"] "Datagrams of which nothing was decoded.";
    DecodeDroppedSets "tidegate_decode_dropped_sets_total" Counter, ["protocol", "reason"] "Sets, and samples of sFlow, that were not decoded; the rest of their datagram was.";
    DecodeDroppedBytes "tidegate_decode_dropped_bytes_total" Counter, ["protocol", "reason"] "Bytes of the datagrams, sets and samples that were not decoded.";
    DecodeExporters "tidegate_decode_exporters" Gauge, [] "Exporters that state is kept for.";
    DecodeExportersRefused "tidegate_decode_exporters_refused_datagrams_total" Counter, [] "Datagrams of exporters beyond the number that state is kept for.";
    DecodeWaitingSets "tidegate_decode_waiting_sets" Gauge, [] "Data sets that wait for their template.";
    DecodeWaitingBytes "tidegate_decode_waiting_bytes" Gauge, [] "Memory of the data sets that wait for their template.";
    DecodeTemplates "tidegate_decode_templates" Gauge, [] "Templates of all exporters.";

    StateWriteFailures "tidegate_state_write_failures_total" Counter, [] "Times that the templates could not be written to `state.directory`.";
    StateLastSuccess "tidegate_state_last_success_timestamp_seconds" Gauge, [] "When the templates were last written, seconds since 1970; 0 before the first time and without `state.directory`.";
    StateTemplates "tidegate_state_templates" Gauge, [] "Templates that were last written.";

    BatchReceivedRows "tidegate_batch_received_rows_total" Counter, [] "Rows that readers handed to the queue, or inserted themselves; dropped ones included.";
    BatchEnqueueSeconds "tidegate_batch_enqueue_seconds" Histogram(MICROS), [] "Time to hand a chunk of rows to the queue.";
    BatchQueueRows "tidegate_batch_queue_rows" Gauge, [] "Rows in the queue.";
    BatchQueueCapacity "tidegate_batch_queue_capacity_rows" Gauge, [] "Rows that the queue takes.";
    BatchDroppedRows "tidegate_batch_dropped_rows_total" Counter, ["reason"] "Rows lost: `queue_full`, `dead_letter_failed` (refused by ClickHouse, and their dead letters too), `spool_full` (not delivered, and the spool had no room or failed), `spool_damaged` (their file was not what was written, or was removed), `view_failed` (a view failed though it was to be left out; the table may have them), `dispatch_error` (the insert of a datagram failed, without batching) or `shutdown` (left when the grace period ended).";
    DeadLetterRows "tidegate_dead_letter_rows_total" Counter, [] "Rows that ClickHouse refused and that are kept in `flows_dead_letter`.";
    DeadLetterFailedRows "tidegate_dead_letter_failed_rows_total" Counter, [] "Rows that ClickHouse refused and that could not be kept as dead letters either; also in `tidegate_batch_dropped_rows_total`.";
    QuarantineInserts "tidegate_quarantine_inserts_total" Counter, [] "Inserts of parts of refused batches, with `on-row-error = \"quarantine\"`.";
    QuarantineExhausted "tidegate_quarantine_exhausted_batches_total" Counter, [] "Batches of which refused rows were not told apart from others within `clickhouse.quarantine.max-inserts`; what was left became dead letters.";
    DispatchErrors "tidegate_dispatch_errors_total" Counter, [] "Rows lost because the insert of their datagram failed, with `clickhouse.batch.enabled = false`.";
    BatchFailedRows "tidegate_batch_failed_rows_total" Counter, [] "Rows of batches that ClickHouse refused for good; charges the whole batch.";
    BatchStoredRows "tidegate_batch_stored_rows_total" Counter, [] "Rows that ClickHouse acknowledged.";
    BatchStored "tidegate_batch_stored_batches_total" Counter, [] "Batches that ClickHouse acknowledged.";
    BatchRows "tidegate_batch_rows" Histogram(ROWS), [] "Rows of a batch.";
    BatchEncodedBytes "tidegate_batch_encoded_bytes_total" Counter, [] "Bytes of encoded batches, after compression.";
    BatchFlushSeconds "tidegate_batch_flush_seconds" Histogram(SECONDS), [] "Time of one insert, from the request to the answer or its lack.";
    BatchRetries "tidegate_batch_retries_total" Counter, ["reason"] "Inserts sent again with the same bytes: `refused` (ClickHouse answered), `no_answer` or `broken_view` (stored without a view that fails).";
    BatchUnclassifiedErrors "tidegate_batch_unclassified_errors_total" Counter, [] "Batches refused with an error code that nobody has classified; the log has it under `needs_classification`.";
    BatchLastSuccess "tidegate_batch_last_success_timestamp_seconds" Gauge, [] "When the last batch was acknowledged, seconds since 1970; 0 before the first.";

    SpoolBatches "tidegate_spool_batches" Gauge, [] "Batches that wait on disk; 0 without `spool.directory`.";
    SpoolRows "tidegate_spool_rows" Gauge, [] "Rows of the batches that wait on disk.";
    SpoolBytes "tidegate_spool_bytes" Gauge, [] "Disk that the spool takes, in whole blocks, files that were set aside included.";
    SpoolMaxBytes "tidegate_spool_max_bytes" Gauge, [] "Disk that it may take, `spool.max-size`; 0 without `spool.directory`.";
    SpoolAppendedRows "tidegate_spool_appended_rows_total" Counter, ["reason"] "Rows that went to disk: `outage` (ClickHouse was away), `refused` (until somebody mends the cause) or `shutdown`.";
    SpoolDrainedRows "tidegate_spool_drained_rows_total" Counter, [] "Rows that left the spool because their batch has another outcome.";
    SpoolRefusedRows "tidegate_spool_refused_rows_total" Counter, ["reason"] "Rows that the spool did not take: `max_size`, `disk_full` or `error` (of the disk).";
    SpoolDamagedRows "tidegate_spool_damaged_rows_total" Counter, [] "Rows of damaged batches, as far as their number is known.";
    SpoolDamagedBatches "tidegate_spool_damaged_batches_total" Counter, [] "Batches that were set aside because their file is not what was written, or that somebody removed.";
    SpoolErrors "tidegate_spool_errors_total" Counter, [] "Files of the spool that could not be read, removed or set aside.";

    SnmpWalks "tidegate_snmp_walks_total" Counter, ["outcome"] "Times that an exporter was asked for its interfaces: `ok`, `timeout` (no answer), `authentication` (user or password of SNMPv3), `wrong_answer`, `limit` (more than 65,536 interfaces, 2 minutes, or the memory for those of all exporters) or `network` (nothing could be sent).";
    SnmpWalkSeconds "tidegate_snmp_walk_seconds" Histogram(SECONDS), [] "Time to ask an exporter for its interfaces, failed tries included.";
    SnmpExporters "tidegate_snmp_exporters" Gauge, [] "Exporters that are asked for their interfaces: they send flows, and are in a range of `[[snmp.agents]]`.";
    SnmpFailingExporters "tidegate_snmp_failing_exporters" Gauge, [] "Those whose last answer is missing or of no use.";
    SnmpInterfaces "tidegate_snmp_interfaces" Gauge, [] "Interfaces that are known by SNMP.";
    SnmpBytes "tidegate_snmp_memory_bytes" Gauge, [] "Memory of these interfaces, 256 MiB at most.";
    SnmpLastSuccess "tidegate_snmp_last_success_timestamp_seconds" Gauge, [] "When an exporter last answered in full, seconds since 1970; 0 before the first time.";
    SnmpWriteFailures "tidegate_snmp_write_failures_total" Counter, [] "Times that the names of interfaces could not be written to `state.directory`.";

    ClickHouseEndpointInUse "tidegate_clickhouse_endpoint_in_use" Gauge, ["endpoint"] "1 for the endpoint that batches are sent to, 0 for the others of the list.";
    ClickHouseAlarm "tidegate_clickhouse_alarm" Gauge, ["alarm", "table"] "1 while it lasts: `no_answer`, `refusal` (ClickHouse takes no rows for the table now), `configuration` (nor before an operator changes something) or `broken_view` (batches are stored without the materialized view `table`); `/api/v1/status` has the error.";
    ClickHouseFailovers "tidegate_clickhouse_failovers_total" Counter, [] "Times that the next endpoint was chosen, since the one in use did not answer or could not be used.";
}

impl MetricName {
    /// Its line in the table.
    #[must_use]
    pub const fn spec(self) -> &'static MetricSpec {
        &METRICS[self as usize]
    }
}
