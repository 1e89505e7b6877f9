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
         SELECT *, arrayJoin(range(intDiv(begins, width), intDiv(greatest(ends - 1, begins), width) + 1)) AS bucket\n    \
         FROM (\n        \
         SELECT *,\n            \
         toInt64(toUnixTimestamp64Milli(deltaSwitched)) AS begun,\n            \
         toInt64(toUnixTimestamp64Milli(lastSwitched)) AS ended,\n            \
         begun > 0 AND ended > begun AND ended - begun <= {DURATION_MAX_MS} AS isSpread,\n            \
         multiIf(isSpread, ended, ended > 0, ended, toUnixTimestamp64Milli(flows.timestamp)) AS ends,\n            \
         if(isSpread, begun, ends) AS begins\n        \
         FROM {} AS flows\n    )\n) AS f",
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
