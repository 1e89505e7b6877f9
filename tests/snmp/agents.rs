//! What exporters answer, and what they do not.

use tidegate::traffic::{IpfixHeader, MessageBuilder};

use super::common::{self, Scrape, wait_until};
use super::snmpd::{Snmpd, is_installed};
use super::{Running, agent, public, snmp};

const USERS: &str = "createUser sha SHA flood-mark AES ebb-and-flow\n\
                     createUser sha256 SHA-256 flood-mark AES ebb-and-flow\n\
                     createUser sha512 SHA-512 flood-mark AES-256 ebb-and-flow\n\
                     createUser md5 MD5 flood-mark DES ebb-and-flow\n\
                     createUser signed SHA-384 flood-mark\n\
                     rouser sha priv\nrouser sha256 priv\nrouser sha512 priv\nrouser md5 priv\n\
                     rouser signed auth\n\
                     override 1.3.6.1.2.1.31.1.1.1.18.1 octet_str \"to the tide gauge\"";

/// The keys of a user.
fn v3(name: &str, hash: &str, password: &str, privacy: Option<(&str, &str)>) -> String {
    let privacy = privacy.map_or_else(String::new, |(cipher, password)| {
        format!("\nprivacy-protocol = \"{cipher}\"\nprivacy-password = \"{password}\"")
    });
    format!(
        "version = \"v3\"\nusername = \"{name}\"\nauth-protocol = \"{hash}\"\n\
         auth-password = \"{password}\"{privacy}"
    )
}

#[test]
fn interfaces_are_those_that_snmpwalk_reads_by_every_version_and_protocol() {
    if !is_installed() {
        return;
    }
    let addresses = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"];
    let snmpd = Snmpd::start(&addresses, USERS, "");
    let private = |cipher| Some((cipher, "ebb-and-flow"));
    let agents = [
        public(addresses[0], snmpd.port),
        agent(addresses[1], snmpd.port, &v3("sha", "sha", "flood-mark", private("aes-128"))),
        agent(addresses[2], snmpd.port, &v3("sha256", "sha-256", "flood-mark", private("aes-128"))),
        agent(addresses[3], snmpd.port, &v3("sha512", "sha-512", "flood-mark", private("aes-256"))),
        agent(addresses[4], snmpd.port, &v3("md5", "md5", "flood-mark", private("des"))),
        agent(addresses[5], snmpd.port, &v3("signed", "sha-384", "flood-mark", None)),
    ];
    let running = Running::start(&agents.concat(), None, &addresses);

    let column = |column| snmpd.walk(addresses[0], &format!("1.3.6.1.2.1.31.1.1.1.{column}"));
    let (names, aliases, speeds) = (column(1), column(18), column(15));
    let expected: Vec<_> = names
        .into_iter()
        .map(|(index, name)| {
            (index, name, aliases[&index].clone(), speeds[&index].parse::<u32>().unwrap())
        })
        .collect();
    assert!(expected.iter().any(|(_, name, alias, speed)| {
        name == "lo" && alias == "to the tide gauge" && *speed == 10
    }));
    let by_kernel = std::fs::read_dir("/sys/class/net").unwrap();
    let by_kernel = by_kernel.filter(|it| it.as_ref().unwrap().path().join("ifindex").exists());
    assert_eq!(expected.len(), by_kernel.count());
    for address in addresses {
        let walked = running.walked(address);
        assert_eq!(walked.last_error, None, "{address}");
        assert_eq!(running.interfaces(address), expected, "{address}");
        assert_eq!(walked.interfaces, expected.len());
        for (index, name, ..) in &expected {
            let by_kernel = std::fs::read_to_string(format!("/sys/class/net/{name}/ifindex"));
            assert_eq!(by_kernel.unwrap().trim(), index.to_string());
        }
    }
}

#[test]
fn wrong_credentials_are_told_apart_as_far_as_agents_tell() {
    if !is_installed() {
        return;
    }
    let addresses = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"];
    let snmpd = Snmpd::start(&addresses, USERS, "");
    let user = |name, password, privacy| v3(name, "sha", password, Some(("aes-128", privacy)));
    let agents = [
        agent(addresses[0], snmpd.port, "community = \"another\""),
        agent(addresses[1], snmpd.port, &user("sha", "neap-tide", "ebb-and-flow")),
        agent(addresses[2], snmpd.port, &user("nobody", "flood-mark", "ebb-and-flow")),
        agent(addresses[3], snmpd.port, &v3("sha", "sha", "flood-mark", None)),
        agent(addresses[4], snmpd.port, &user("sha", "flood-mark", "neap-tide")),
    ];
    let running = Running::start(&agents.concat(), None, &addresses);
    let error = |address| running.walked(address).last_error.unwrap();
    assert!(error(addresses[0]).starts_with("no answer"), "{}", error(addresses[0]));
    assert!(error(addresses[1]).contains("wrong digest"), "{}", error(addresses[1]));
    assert!(error(addresses[2]).contains("unknown user name"), "{}", error(addresses[2]));
    // The user may not read without encryption.
    assert!(error(addresses[3]).contains("authorizationError"), "{}", error(addresses[3]));
    // What it cannot decrypt it does not answer.
    assert!(error(addresses[4]).starts_with("no answer"), "{}", error(addresses[4]));
    assert_eq!((running.walks("timeout"), running.walks("authentication")), (2, 3));
    let shown = format!("{:?}", running.walker.watched().list());
    assert!(!shown.contains("neap-tide") && !shown.contains("flood-mark"), "{shown}");
}

#[test]
fn a_silent_host_is_asked_less_and_less_and_delays_no_other() {
    if !is_installed() {
        return;
    }
    let snmpd = Snmpd::start(&["127.0.0.1"], "", "");
    let silent = std::net::UdpSocket::bind(("127.0.0.2", 0)).unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    let agents = [public("127.0.0.1", snmpd.port), public("127.0.0.2", silent_port)].concat();
    let running = Running::start(&agents, None, &["127.0.0.1", "127.0.0.2"]);
    let walked = running.walked("127.0.0.2");
    let pause_ms = walked.next_walk_ms.unwrap() - tidegate::telemetry::unix_ms();
    assert!((52_000..=66_000).contains(&pause_ms), "{pause_ms}");
    assert_eq!((walked.failures, walked.last_success_ms), (1, None));
    wait_until("the other is walked again", || running.walks("ok") > 1);
    assert_eq!(running.walks("timeout"), 1);
}

#[test]
fn a_running_collector_asks_who_sends_it_flows() {
    if !is_installed() {
        return;
    }
    let snmpd = Snmpd::start(&["127.0.0.1"], "", "");
    let app = common::start("http://127.0.0.1:9", &public("127.0.0.1", snmpd.port));
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let payload = MessageBuilder::ipfix(IpfixHeader::default()).finish();
    socket.send_to(&payload, common::target(&app)).unwrap();
    let known = || Scrape::of(&app).sum("tidegate_snmp_interfaces", &[]);
    wait_until("its interfaces are known", || known() > 0);
    assert_eq!(Scrape::of(&app).sum("tidegate_snmp_exporters", &[]), 1);
    app.stop();
}

#[test]
fn new_credentials_are_used_soon_and_a_range_that_is_gone_takes_its_names_with_it() {
    if !is_installed() {
        return;
    }
    let snmpd = Snmpd::start(&["127.0.0.1"], "", "");
    let wrong = agent("127.0.0.0/8", snmpd.port, "community = \"another\"");
    let running = Running::start(&wrong, None, &["127.0.0.1"]);
    assert_eq!(running.walked("127.0.0.1").failures, 1);
    let right = [wrong, public("127.0.0.1", snmpd.port)].concat();
    running.walker.reconfigure(snmp(&right));
    wait_until("it is walked", || !running.interfaces("127.0.0.1").is_empty());
    wait_until("it is well", || running.exporter("127.0.0.1").unwrap().failures == 0);
    running.walker.reconfigure(snmp(""));
    wait_until("it is forgotten", || running.interfaces("127.0.0.1").is_empty());
    assert_eq!(running.walker.watched().list(), []);
}
