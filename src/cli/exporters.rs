//! `tidegate exporters`: what each exporter of a running collector sent, as a table.

use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Result;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::management::ManagementArgs;

/// Show the exporters of a running collector: what they sent, and what of it was lost
///
/// FLOWS/S is the mean of the last whole ten seconds. SAMPLING is what options records announce; rates in
/// records and headers are in the column samplingInterval. SKEW is how far the clock of the exporter is
/// behind, network delay included, "none" without a clock. LOST is what never came, by the exporter's sequence numbers: records (NetFlow v5 and v7, IPFIX) and
/// datagrams (NetFlow v9, sFlow). DROPPED is what came and could not be decoded: datagrams and sets.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    management: ManagementArgs,
}

/// An entry of `/api/v1/exporters`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Exporter {
    address: String,
    protocols: BTreeMap<String, u64>,
    domains: Vec<IgnoredAny>,
    last_seen_ms: u64,
    flows_per_second: f64,
    flows: u64,
    templates: u64,
    sampling: Vec<Rate>,
    clock_skew_ms: Option<i64>,
    lost_records: u64,
    lost_datagrams: u64,
    restarts: u64,
    dropped: BTreeMap<String, Dropped>,
}

#[derive(Debug, Deserialize)]
struct Rate {
    interval: f64,
}

#[derive(Debug, Deserialize)]
struct Dropped {
    count: u64,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        let management = match self.management.read()? {
            Ok(management) => management,
            Err(exit_code) => return Ok(exit_code),
        };
        let exporters: Vec<Exporter> = serde_json::from_str(&management.get("/api/v1/exporters")?)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let now_ms = u64::try_from(now.as_millis())?;
        let mut out = stdout().lock();
        writeln!(out, "{HEAD}")?;
        for exporter in &exporters {
            writeln!(out, "{}", exporter.line(now_ms))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A clock that is off by ten years was never set.
const NO_CLOCK_MS: u64 = 10 * 365 * 86_400_000;

const HEAD: &str = "\
EXPORTER                                 PROTOCOL    DOMAINS SEEN S AGO   FLOWS/S        FLOWS TEMPLATES  SAMPLING SKEW S  LOST REC LOST DGRAM RESTARTS  DROPPED";

impl Exporter {
    fn line(&self, now_ms: u64) -> String {
        let dropped: u64 = self.dropped.values().map(|dropped| dropped.count).sum();
        format!(
            "{:<40} {:<11} {:>7} {:>10} {:>9.0} {:>12} {:>9} {:>9} {:>6} {:>9} {:>10} {:>8} {:>8}",
            self.address,
            self.protocol(),
            self.domains.len(),
            now_ms.saturating_sub(self.last_seen_ms) / 1_000,
            self.flows_per_second,
            self.flows,
            self.templates,
            self.rate(),
            self.skew(),
            self.lost_records,
            self.lost_datagrams,
            self.restarts,
            dropped,
        )
    }

    /// Seconds, unless it has no clock.
    fn skew(&self) -> String {
        match self.clock_skew_ms {
            None => "-".to_owned(),
            Some(skew_ms) if skew_ms.unsigned_abs() >= NO_CLOCK_MS => "none".to_owned(),
            Some(skew_ms) => format!("{:.1}", skew_ms as f64 / 1_000.0),
        }
    }

    /// The protocol of most of its datagrams, with a mark when there are others.
    fn protocol(&self) -> String {
        let most = self.protocols.iter().max_by_key(|(_, datagrams)| **datagrams);
        let others = if self.protocols.len() > 1 { "+" } else { "" };
        most.map_or_else(|| "-".to_owned(), |(protocol, _)| format!("{protocol}{others}"))
    }

    /// The rate that it announced, or how many.
    fn rate(&self) -> String {
        match &self.sampling[..] {
            [] => "-".to_owned(),
            [first, others @ ..] if others.iter().all(|rate| rate.interval == first.interval) => {
                format!("1:{}", first.interval)
            }
            rates => format!("{} rates", rates.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exporter_is_a_line_under_its_heads() {
        let exporter = Exporter {
            address: "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff".to_owned(),
            protocols: [("ipfix".to_owned(), 9), ("netflow-v9".to_owned(), 1)].into(),
            domains: vec![IgnoredAny, IgnoredAny],
            last_seen_ms: 1_000,
            flows_per_second: 123_456.7,
            flows: 2_345_678_901,
            templates: 12,
            sampling: vec![Rate { interval: 1_000.0 }, Rate { interval: 1_000.0 }],
            clock_skew_ms: Some(-1_250),
            lost_records: 3,
            lost_datagrams: 4,
            restarts: 1,
            dropped: [("no_template".to_owned(), Dropped { count: 7 })].into(),
        };
        insta::assert_snapshot!(format!("{HEAD}\n{}", exporter.line(6_500)));
    }
}
