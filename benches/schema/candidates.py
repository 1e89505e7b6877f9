"""What is compared: keys, codecs, indexes and settings of the table."""

HOUR, FIVE = "toStartOfHour(timestamp)", "toStartOfFiveMinutes(timestamp)"


# As in src/schema/flows.rs.
LARGER_WIDE_PARTS = f", min_bytes_for_wide_part = {128 << 20}"


class Candidate:
    def __init__(self, key, primary=None, codecs=None, indexes=(), settings=""):
        self.key, self.primary, self.codecs, self.indexes, self.settings = key, primary, codecs or {}, indexes, settings

    def create(self, table, columns):
        lines = []
        for name, kind in columns.items():
            codec = self.codecs.get(name) or self.codecs.get(kind)
            lines.append(f"`{name}` {kind}" + (f" CODEC({codec})" if codec else ""))
        primary = f" PRIMARY KEY ({self.primary})" if self.primary else ""
        return (
            f"CREATE TABLE {table} ({', '.join([*lines, *self.indexes])}) ENGINE = MergeTree PARTITION BY toYYYYMMDD(timestamp)"
            f"{primary} ORDER BY ({self.key}) SETTINGS non_replicated_deduplication_window = 10000, old_parts_lifetime = 1"
            f"{self.settings or LARGER_WIDE_PARTS}"
        )


EXPORTER_HOUR = f"tenant, organisation, {HOUR}, exporterAddr, srcAddr, dstAddr"
EXPORTER_FIVE = f"tenant, organisation, {FIVE}, exporterAddr, inputSnmp, outputSnmp"
TIME = "DateTime64(3, 'UTC')"

INTERFACE_HOUR = f"tenant, organisation, {HOUR}, exporterAddr, inputSnmp, outputSnmp"

# By type: what is in it tells more of how a column compresses than its name does.
TEXT = "LowCardinality(String)"
LZ4 = {TIME: "DoubleDelta, LZ4", "UInt64": "T64, LZ4", "UInt16": "T64, LZ4", "IPv6": "ZSTD(1)"}
WIDE = {TIME: "Delta, ZSTD(1)", "UInt64": "T64, ZSTD(1)", "IPv6": "ZSTD(1)"}
ZSTD = {**WIDE, "UInt32": "ZSTD(1)", "UInt16": "ZSTD(1)", "UInt8": "ZSTD(1)", "Float64": "ZSTD(1)", TEXT: "ZSTD(1)"}

CHOSEN = {kind: codec for kind, codec in ZSTD.items() if kind != "IPv6"}

BLOOM = (
    "INDEX src srcAddr TYPE bloom_filter(0.01) GRANULARITY 1",
    "INDEX dst dstAddr TYPE bloom_filter(0.01) GRANULARITY 1",
)
SMALLER_WIDE_PARTS = f", min_bytes_for_wide_part = {10 << 20}"

CANDIDATES = {
    # Keys.
    "exporter-hour": Candidate(EXPORTER_HOUR),
    "as-hour": Candidate(f"tenant, organisation, {HOUR}, srcAs, dstAs, srcAddr, dstAddr, srcPort, dstPort"),
    "interface-five": Candidate(EXPORTER_FIVE, primary=f"tenant, organisation, {FIVE}"),
    "interface-time": Candidate(f"{INTERFACE_HOUR}, timestamp"),
    "exporter-day": Candidate(f"tenant, organisation, exporterAddr, {HOUR}, inputSnmp"),
    "host-hour": Candidate(f"tenant, organisation, {HOUR}, srcAddr, dstAddr"),
    "time": Candidate("tenant, organisation, timestamp"),
    "interface-hour": Candidate(INTERFACE_HOUR),
    # Codecs, indexes and settings.
    "lz4": Candidate(INTERFACE_HOUR, codecs=LZ4),
    "wide": Candidate(INTERFACE_HOUR, codecs=WIDE),
    "zstd": Candidate(INTERFACE_HOUR, codecs=ZSTD),
    "chosen": Candidate(INTERFACE_HOUR, codecs=CHOSEN),
    "wide-bloom": Candidate(INTERFACE_HOUR, codecs=WIDE, indexes=BLOOM),
    "wide-10": Candidate(INTERFACE_HOUR, codecs=WIDE, settings=SMALLER_WIDE_PARTS),
}
