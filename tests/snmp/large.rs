//! Agents with tables that a script serves: very many interfaces, and only the older table.

use std::path::Path;

use super::common::{has_program, say};
use super::snmpd::{Snmpd, is_installed};
use super::{Running, public};

const IF_TABLE: &str = ".1.3.6.1.2.1.2.2";
const IF_X_TABLE: &str = ".1.3.6.1.2.1.31.1.1";

/// The line of snmpd.conf that has the script serve a table.
fn served(table: &str, count: u32, columns: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snmp/interfaces.py");
    let columns = columns.join(" ");
    format!(
        "pass_persist {table} /usr/bin/python3 {} {table} {count} {columns}\n",
        script.display()
    )
}

/// Without the tables of the machine.
const MODULES: &str = "-ifTable,ifXTable";

#[test]
fn ten_thousand_interfaces_are_walked_well_within_the_limit() {
    if !is_installed() || !has_program("python3") {
        return;
    }
    let columns = ["1=ge-0/0/%:string", "15=10000:gauge", "18=customer-%-of-the-tide-gauge:string"];
    let snmpd = Snmpd::start(&["127.0.0.1"], &served(IF_X_TABLE, 10_000, &columns), MODULES);
    let running = Running::start(&public("127.0.0.1", snmpd.port), None, &["127.0.0.1"]);
    let walked = running.walked("127.0.0.1");
    assert_eq!((walked.last_error.as_deref(), walked.interfaces), (None, 10_000));
    let interfaces = running.interfaces("127.0.0.1");
    let last = (10_000, "ge-0/0/10000".into(), "customer-10000-of-the-tide-gauge".into(), 10_000);
    assert_eq!(interfaces.last(), Some(&last));
    say(&format!("10,000 interfaces: {:.2} s a walk", running.seconds_a_walk()));
}

#[test]
fn an_agent_without_iftable_of_names_is_known_by_descriptions() {
    if !is_installed() || !has_program("python3") {
        return;
    }
    let columns = ["2=FastEthernet0/%:string", "5=100000000:gauge"];
    let snmpd = Snmpd::start(&["127.0.0.1"], &served(IF_TABLE, 3, &columns), MODULES);
    let running = Running::start(&public("127.0.0.1", snmpd.port), None, &["127.0.0.1"]);
    assert_eq!(running.walked("127.0.0.1").last_error, None);
    let expected = |index: u32| (index, format!("FastEthernet0/{index}"), String::new(), 100);
    assert_eq!(running.interfaces("127.0.0.1"), [1, 2, 3].map(expected));
}
