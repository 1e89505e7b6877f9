//! The view `samples(ival)`: each flow spread over buckets of `ival` seconds, in proportion to its time in each.
//!
//! Shares are differences of what was sent up to the end of a bucket and up to its begin, rounded down. So they are
//! whole numbers, and those of a flow add up to exactly its counters.

use crate::flow::COLUMNS;

use super::site::Site;

/// What is spread.
const COUNTERS: [&str; 4] = ["bytes", "packets", "reverseBytes", "reversePackets"];

/// Flows that last longer are taken for a mistake of the exporter's clock, and are not spread. It bounds the buckets
/// of a flow, too: active timeouts are minutes.
const DURATION_MAX_MS: u32 = 86_400_000;

/// Buckets of a flow that are made at once. The server has the list of them for every flow of a block in memory:
/// for 65,000 flows of a day in seconds that would be 45 GB. So a flow is cut into runs first, and runs into buckets;
/// the square root of the most buckets that a flow can have keeps both lists short.
const RUN_BUCKETS: u32 = 256;

/// The statement that creates the view. It reads with the rights of who asks, so row policies hold.
#[must_use]
pub(super) fn create_view_sql(site: Site<'_>) -> String {
    let of_flows = COLUMNS.iter().map(|spec| spec.name).filter(|name| *name != "timestamp");
    let of_flows = of_flows.map(|name| match COUNTERS.contains(&name) {
        true => format!("{} AS {name}", share(name)),
        false => format!("f.{name} AS {name}"),
    });
    let scaled = [("scaledBytes", "bytes"), ("scaledPackets", "packets")];
    let scaled = scaled.map(|(name, counter)| {
        format!("{} * greatest(f.samplingInterval, 1) AS {name}", share(counter))
    });
    let columns: String = of_flows.chain(scaled).map(|column| format!(",\n    {column}")).collect();
    format!(
        "CREATE OR REPLACE VIEW {} SQL SECURITY INVOKER AS\n\
         WITH {{ival:UInt32}} * 1000 AS width\n\
         SELECT\n    \
         toDateTime(f.bucket * {{ival:UInt32}}, 'UTC') AS timestamp,\n    \
         f.timestamp AS `flow.timestamp`,\n    \
         if(f.bucket = intDiv(f.begins, width), 1, 0) AS flowCount{columns}\n\
         FROM (\n    \
         SELECT *, bucket\n    \
         FROM (\n        \
         SELECT *, run\n        \
         FROM (\n            \
         SELECT *,\n                \
         toInt64(toUnixTimestamp64Milli(deltaSwitched)) AS begun,\n                \
         toInt64(toUnixTimestamp64Milli(lastSwitched)) AS ended,\n                \
         begun > 0 AND ended > begun AND ended - begun <= {DURATION_MAX_MS} AS isSpread,\n                \
         multiIf(isSpread, ended, ended > 0, ended, toUnixTimestamp64Milli(flows.timestamp)) AS ends,\n                \
         if(isSpread, begun, ends) AS begins,\n                \
         intDiv(greatest(ends - 1, begins), width) + 1 AS behind\n            \
         FROM {} AS flows\n        )\n        \
         ARRAY JOIN range(intDiv(begins, width), behind, {RUN_BUCKETS}) AS run\n    )\n    \
         ARRAY JOIN range(run, least(run + {RUN_BUCKETS}, behind)) AS bucket\n) AS f",
        site.everywhere("samples"),
        site.quoted("flows"),
    )
}

/// The part of a counter that is of the bucket.
fn share(counter: &str) -> String {
    let until = |moment: &str| {
        format!(
            "intDiv(toUInt128(f.{counter}) * toUInt128({moment} - f.begins), f.ends - f.begins)"
        )
    };
    format!(
        "if(f.ends = f.begins, f.{counter}, toUInt64({} - {}))",
        until("least(f.ends, (f.bucket + 1) * width)"),
        until("greatest(f.begins, f.bucket * width)")
    )
}
