//! The queries of docs/queries.md on a real ClickHouse with flows in it: each has an answer.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::atomic::AtomicBool;

use common::{clickhouse, start, target, wait_until};
use tidegate::app::App;
use tidegate::traffic::{self, Pace, Spec, Totals};

fn generate(app: &App, flows: u64) {
    let spec = Spec { flows: Some(flows), ..Spec::default() };
    let pace = Pace { flows_per_second: 20_000, duration: None };
    traffic::run(&spec, target(app), pace, &AtomicBool::new(false), &Totals::default()).unwrap();
}

/// Title and statement of each.
fn queries() -> Vec<(String, String)> {
    let document = include_str!("../docs/queries.md");
    let sections = document.split("\n## ").skip(1);
    let query = |section: &str| {
        let title = section.lines().next().unwrap().to_owned();
        let sql = section.split_once("```sql\n").unwrap().1.split_once("```").unwrap().0;
        (title, sql.to_owned())
    };
    sections.map(query).collect()
}

#[test]
fn every_query_of_the_document_has_rows() {
    let server = clickhouse();
    let app = start(&server.http_url(), "");
    generate(&app, 20_000);
    wait_until("all is stored", || app.view().ledger.books().stored == 20_000);
    let queries = queries();
    assert_eq!(queries.len(), 10);
    let host = server.query("SELECT any(srcAddr) FROM tidegate.flows").unwrap();
    for (title, sql) in queries {
        let sql = sql.replace("10.0.0.1", host.trim());
        let rows = server.query(&sql).unwrap_or_else(|error| panic!("{title}: {error:?}"));
        assert!(rows.lines().count() >= 1, "{title}: no rows");
        assert!(
            rows.split(['\t', '\n']).any(|it| it.parse::<f64>().is_ok_and(|it| it > 0.0)),
            "{title}: {rows}"
        );
    }
}
