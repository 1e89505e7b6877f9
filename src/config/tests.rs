use std::path::Path;
use std::time::Duration;

use super::*;

fn parse(text: &str, environment: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let environment = environment.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    Config::parse(text, Path::new("tidegate.toml"), environment)
}

fn mistakes(text: &str, environment: &[(&str, &str)]) -> String {
    parse(text, environment).expect_err("the configuration is wrong").to_string()
}

#[test]
fn an_empty_file_gives_the_documented_defaults() {
    let config = Config::defaults();
    let listens: Vec<_> = config.receivers.iter().map(|r| r.listen.to_string()).collect();
    assert_eq!(listens, ["[::]:2055", "[::]:4739", "[::]:6343"]);
    assert_eq!(config.clickhouse.batch.max_rows, 50_000);
    assert_eq!(config.clickhouse.batch.queue_capacity_rows, 400_000);
    assert_eq!(config.clickhouse.retry.max_attempts, 10);
    assert_eq!(config.skew_max, Duration::from_secs(1_800));
    assert_eq!(config.state.directory, None);
    assert_eq!((config.spool.directory, config.spool.max_bytes), (None, 4 << 30));
}

#[test]
fn the_packaged_file_says_the_defaults() {
    let config = parse(include_str!("../../packaging/tidegate.toml"), &[]).expect("valid");
    assert_eq!(config, Config::defaults());
}

#[test]
fn every_mistake_is_said_at_once_with_line_and_key() {
    let text = r#"
[receivers.edge]
listen = "2055"
protocol = ["netflow-v5"]

[receivers.core]
workers = 9999

[clickhouse]
endpoint = "127.0.0.1:8123"
databse = "flows"
manage-schema = "yes"

[clickhouse.batch]
max-rows = 100
max-latency = "3s"
queue-capacity = 50
shutdown-grace-period = "5s"

[buffer]
"#;
    insta::assert_snapshot!(mistakes(
        text,
        &[("TIDEGATE_CLICKHOUSE_RETRY_DELAY", "5"), ("TIDEGATE_NOTHING", "1")]
    ));
}

#[test]
fn what_only_shows_together_is_said_at_the_key_that_was_written() {
    let text = "[receivers.a]\nlisten = \"0.0.0.0:2055\"\n[receivers.b]\nlisten = \"[::]:2055\"\n\
                [receivers.C]\nlisten = \"127.0.0.1:1\"\nprotocols = []\n\
                [clickhouse]\nendpoint = \"http://u@h:8123/x\"\npassword = \"env:NOT_SET\"\n";
    let environment = [("TIDEGATE_CLICKHOUSE_BATCH_QUEUE_CAPACITY", "10")];
    insta::assert_snapshot!(mistakes(text, &environment));
}

#[test]
fn a_tcp_receiver_is_told_what_goes_with_udp_only_and_the_other_way_round() {
    let text = "[receivers.a]\nlisten = \"0.0.0.0:4739\"\ntransport = \"tcp\"\n\
                protocols = [\"sflow\"]\nworkers = 2\nreceive-buffer = \"1MiB\"\nidle-timeout = \"0s\"\n\
                [receivers.b]\nlisten = \"0.0.0.0:4739\"\nmax-connections = 3\n\
                [receivers.c]\nlisten = \"0.0.0.0:4740\"\ntransport = \"sctp\"\n\
                [receivers.d]\nlisten = \"[::]:4739\"\ntransport = \"tcp\"\nmax-connections = 0\n";
    insta::assert_snapshot!(mistakes(text, &[]));
}

#[test]
fn a_tcp_receiver_takes_ipfix_and_its_port_is_not_that_of_udp() {
    let text = "[receivers.a]\nlisten = \"0.0.0.0:4739\"\ntransport = \"tcp\"\n\
                [receivers.b]\nlisten = \"0.0.0.0:4739\"\n";
    let config = parse(text, &[]).expect("valid");
    assert_eq!(config.receivers[0].protocols, [crate::decode::Protocol::Ipfix]);
    let default = TcpConfig { connections_max: 256, idle_timeout: Duration::from_secs(1_800) };
    assert_eq!(config.receivers[0].transport, Transport::Tcp(default));
}

#[test]
fn endpoints_that_cannot_work_are_refused() {
    for endpoint in
        ["http://a b:8123", "http://:8123", "http://[::1", "http://h:99999", "https://h", "h:1"]
    {
        let text = format!("[clickhouse]\nendpoint = \"{endpoint}\"\n");
        assert!(mistakes(&text, &[]).contains("must be a URL"), "{endpoint}");
    }
    for endpoint in ["http://h", "http://h:8123", "http://[::1]:8123", "http://127.0.0.1:8123/"] {
        let text = format!("[clickhouse]\nendpoint = \"{endpoint}\"\n");
        assert_eq!(parse(&text, &[]).expect("valid").clickhouse.endpoints, [endpoint]);
    }
}

#[test]
fn endpoints_are_one_or_a_list_and_have_commas_in_the_environment() {
    let endpoints = |text, environment: &[_]| parse(text, environment).expect("valid").clickhouse;
    let text = "[clickhouse]\nendpoint = [\"http://a:8123\", \"http://b:8123\"]\n";
    assert_eq!(endpoints(text, &[]).endpoints, ["http://a:8123", "http://b:8123"]);
    let environment = [("TIDEGATE_CLICKHOUSE_ENDPOINT", "http://c:8123, http://d:8123,http://e")];
    let expected = ["http://c:8123", "http://d:8123", "http://e"];
    assert_eq!(endpoints(text, &environment).endpoints, expected);
    let environment = [("TIDEGATE_CLICKHOUSE_ENDPOINT", "http://c:8123")];
    assert_eq!(endpoints(text, &environment).endpoints, ["http://c:8123"]);
}

#[test]
fn every_mistake_in_a_list_of_endpoints_is_said() {
    let text = "[clickhouse]\nendpoint = [\n  \"http://a:8123\",\n  \"b:8123\",\n  9,\n  \"https://c\",\n  \
                \"http://a:8123/\",\n]\nconnect-timeout = \"0s\"\n";
    let empty = "[clickhouse]\nendpoint = []\n";
    let environment = [("TIDEGATE_CLICKHOUSE_ENDPOINT", "http://a,b,,http://a")];
    let all = [mistakes(text, &[]), mistakes(empty, &[]), mistakes(empty, &environment)];
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn several_syntax_errors_are_said_at_once() {
    insta::assert_snapshot!(mistakes(
        "[clickhouse\ndatabase = \n\n[management]\nlisten = 8080x\n",
        &[]
    ));
}

#[test]
fn the_environment_overrides_the_file() {
    let text = "[receivers.edge]\nlisten = \"0.0.0.0:2055\"\n[clickhouse.batch]\nmax-rows = 100\n";
    let environment = [
        ("TIDEGATE_CLICKHOUSE_BATCH_MAX_ROWS", "200"),
        ("TIDEGATE_RECEIVERS_EDGE_PROTOCOLS", "netflow-v5, ipfix"),
        ("TIDEGATE_RECEIVERS_LAB_LISTEN", "127.0.0.1:9995"),
        ("TIDEGATE_STATE_DIRECTORY", "/var/lib/tidegate"),
        ("HOME", "/"),
    ];
    let config = parse(text, &environment).expect("valid");
    assert_eq!(config.clickhouse.batch.max_rows, 200);
    assert_eq!(config.receivers[0].protocols.len(), 2);
    assert_eq!(config.state.directory.as_deref(), Some(Path::new("/var/lib/tidegate")));
    assert_eq!(
        (config.receivers[1].name.as_str(), config.receivers[1].listen.port()),
        ("lab", 9995)
    );
}

#[test]
fn values_are_shown_as_they_are_written() {
    for (text, millis) in [("1500ms", 1_500), ("2s", 2_000), ("5m", 300_000), ("1d", 86_400_000)] {
        assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)));
        assert_eq!(show_duration(Duration::from_millis(millis)), text);
    }
    assert_eq!(parse_bytes("32MiB"), Some(32 << 20));
    assert_eq!(show_bytes(32 << 20), "32MiB");
    for wrong in ["", "5", "s", "5 weeks", "-1s", "99999999999999999999s", "1.5s"] {
        assert_eq!(parse_duration(wrong), None, "{wrong}");
    }
}

#[test]
fn a_prefix_is_an_address_or_has_no_bits_behind_its_length() {
    let show = |text| parse_prefix(text).map(|prefix| prefix.to_string());
    for (text, expected) in [
        ("192.0.2.1", Some("192.0.2.1/32")),
        ("192.0.2.0/24", Some("192.0.2.0/24")),
        ("2001:db8::/32", Some("2001:db8::/32")),
        ("0.0.0.0/0", Some("0.0.0.0/0")),
        ("192.0.2.1/24", None),
        ("192.0.2.0/33", None),
        ("192.0.02.1", None),
        ("fe80::1%eth0", None),
        ("", None),
    ] {
        assert_eq!(show(text).as_deref(), expected, "{text}");
    }
}

#[test]
fn an_agent_is_told_what_goes_with_the_other_version_and_what_is_missing() {
    let text = "[snmp]\ninterval = \"1s\"\nconcurrency = 0\nretry = 2\n\
                [[snmp.agents]]\nrange = \"192.0.2.0/24\"\ncommunity = \"\"\nusername = \"monitor\"\n\
                privacy-password = \"flood-mark\"\n\
                [[snmp.agents]]\nrange = \"192.0.2.0/24\"\nversion = \"v3\"\ncommunity = \"public\"\n\
                auth-protocol = \"sha-1\"\nauth-password = \"env:NOT_SET\"\n\
                [[snmp.agents]]\nrange = \"192.0.2.1/24\"\nversion = \"v3\"\nusername = \"monitor\"\n\
                auth-password = \"without a protocol\"\nprivacy-protocol = \"aes-128\"\nprivacy-password = \"short\"\n\
                [[snmp.agents]]\nversion = \"v1\"\nport = 0\n";
    insta::assert_snapshot!(mistakes(text, &[]));
}

#[test]
fn the_longest_range_that_has_an_exporter_says_how_it_is_asked() {
    let text = "[[snmp.agents]]\nrange = \"192.0.2.0/24\"\ncommunity = \"wide\"\n\
                [[snmp.agents]]\nrange = \"192.0.2.7\"\ncommunity = \"one\"\nport = 1161\n\
                [[snmp.agents]]\nrange = \"2001:db8::/32\"\nversion = \"v3\"\nusername = \"monitor\"\n\
                auth-protocol = \"sha\"\nauth-password = \"env:PW\"\n";
    let snmp = parse(text, &[("PW", "flood-mark")]).expect("valid").snmp;
    let shown = |address: &str| snmp.agent_of(address.parse().unwrap()).map(ToString::to_string);
    assert_eq!(shown("192.0.2.8").unwrap(), "192.0.2.0/24 v2c");
    assert_eq!(shown("192.0.2.7").unwrap(), "192.0.2.7/32 port 1161 v2c");
    assert_eq!(shown("2001:db8::1").unwrap(), "2001:db8::/32 v3 as monitor (sha, not encrypted)");
    assert_eq!(shown("198.51.100.1"), None);
}
