//! What the management server says of exporters.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::net::UdpSocket;
use std::time::UNIX_EPOCH;

use common::{get, start, target, wait_until};
use serde_json::{Value, json};
use tidegate::app::App;
use tidegate::traffic::{Field, IpfixHeader, MessageBuilder};

/// Nobody answers there; the management server does not care.
const NO_CLICKHOUSE: &str = "http://127.0.0.1:1";

fn api(app: &App, path: &str) -> Value {
    let (status, body) = get(app.management_address(), path);
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// A collector that has received a flow, a sampler and statistics of one exporter, whose clock is 90 s behind.
fn collector() -> App {
    let batch = "[clickhouse.batch]\nmax-latency = \"10ms\"\nshutdown-grace-period = \"20ms\"";
    let app = start(NO_CLICKHOUSE, batch);
    let now_s = UNIX_EPOCH.elapsed().unwrap().as_secs();
    let export_time_s = u32::try_from(now_s - 90).unwrap();
    let header = IpfixHeader { export_time_s, sequence: 0, domain_id: 7 };
    let sampler = [Field::new(305, 4), Field::new(306, 4), Field::new(304, 2)];
    let statistics = [Field::new(41, 8), Field::new(166, 8)];
    let sampler_record = [0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 99, 0, 1];
    let statistics_record = [&[0, 0, 0, 1][..], &[0; 7], &[200], &[0; 7], &[5]].concat();
    let message = MessageBuilder::ipfix(header)
        .template(
            300,
            &[Field::new(1, 4), Field::enterprise(29_305, 1, 4), Field::new(96, u16::MAX)],
        )
        .data_set(300, &[[0, 0, 0, 9, 0, 0, 0, 1, 0]])
        .options_template(400, &[Field::new(302, 4)], &sampler)
        .data_set(400, &[sampler_record])
        .options_template(401, &[Field::new(144, 4)], &statistics)
        .data_set(401, &[statistics_record]);
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&message.finish(), target(&app)).unwrap();
    wait_until("it is received", || app.view().ledger.books().received == 1);
    app
}

#[test]
fn an_exporter_is_shown_with_what_it_is_sent_and_announced() {
    let app = collector();
    let exporters = api(&app, "/api/v1/exporters");
    let exporter = &exporters[0];
    assert_eq!(exporter["address"], "127.0.0.1");
    assert_eq!(exporter["protocols"], json!({"ipfix": 1}));
    assert_eq!(exporter["domains"], json!([{"protocol": "ipfix", "id": 7}]));
    assert_eq!((&exporter["flows"], &exporter["optionsRecords"]), (&json!(1), &json!(2)));
    assert_eq!(exporter["templates"], 3);
    let skew_ms = exporter["clockSkewMs"].as_i64().unwrap();
    assert!((90_000..100_000).contains(&skew_ms), "{skew_ms}");
    let sampler = json!({
        "domain": 7, "sampler": 3, "interval": 100.0, "algorithm": "SystematicCountBasedSampling",
    });
    assert_eq!(exporter["sampling"], json!([sampler]));
    let statistics =
        json!({"domain": 7, "exportedMessageTotalCount": 200, "notSentFlowTotalCount": 5});
    assert_eq!(exporter["statistics"], json!([statistics]));
    assert_eq!(exporter["firstSeenMs"], exporter["lastSeenMs"]);
    assert_eq!(exporter["dropped"], json!({}));
    app.stop();
}

#[test]
fn templates_are_shown_by_exporter() {
    let app = collector();
    let templates = api(&app, "/api/v1/templates?exporter=127.0.0.1");
    let ids: Vec<_> =
        templates.as_array().unwrap().iter().map(|t| t["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [300, 400, 401]);
    let fields = json!([
        {"enterprise": 0, "id": 1, "name": "octetDeltaCount", "length": 4},
        {"enterprise": 29_305, "id": 1, "name": "reverseOctetDeltaCount", "length": 4},
        {"enterprise": 0, "id": 96, "name": "applicationName", "length": null},
    ]);
    assert_eq!(templates[0]["fields"], fields);
    assert_eq!(
        (&templates[0]["isOptions"], &templates[1]["isOptions"]),
        (&json!(false), &json!(true))
    );
    let status = |path| get(app.management_address(), path).0;
    assert_eq!(status("/api/v1/templates"), 400);
    assert_eq!(status("/api/v1/templates?exporter=192.0.2.1"), 404);
    app.stop();
}
