//! What exporters answer by SNMP is in the rows of their flows.

use super::common::flows::{FLOW, Flow, row, send};
use super::common::{clickhouse, get, start, target, wait_until};
use super::public;
use super::snmpd::{Snmpd, is_installed};

#[test]
fn rows_have_the_interfaces_of_snmp_where_nobody_said_better() {
    if !is_installed() {
        return;
    }
    let snmpd =
        Snmpd::start(&["127.0.0.1"], "", "interface,ifTable,ifXTable,system_mib,sysORTable");
    let names = snmpd.walk("127.0.0.1", "1.3.6.1.2.1.31.1.1.1.1");
    let (first, name) = names.first_key_value().unwrap();
    let speeds = snmpd.walk("127.0.0.1", "1.3.6.1.2.1.31.1.1.1.15");
    let server = clickhouse();
    let more = format!(
        "{}[[exporters]]\naddress = \"127.0.0.1\"\n\
         [[exporters.interfaces]]\nindex = {first}\nalias = \"by hand\"\n",
        public("127.0.0.0/8", snmpd.port)
    );
    let app = start(&server.http_url(), &more);
    let interfaces = (u16::try_from(*first).unwrap(), 60_000);
    let (mut bytes, mut last) = (0, Vec::new());
    // The first flows make the exporter known; their rows have no name yet.
    wait_until("rows have names", || {
        bytes += 1;
        send(target(&app), &[Flow { bytes, interfaces, ..FLOW }]);
        let stored = || app.view().ledger.books().stored == u64::from(bytes);
        wait_until("the row is stored", stored);
        let columns = "inputSnmpIfName, inputSnmpIfAlias, inputSnmpIfSpeed, outputSnmpIfName";
        last = row(&server, columns, bytes);
        !last[0].is_empty()
    });
    assert_eq!(last, [name.as_str(), "by hand", speeds[first].as_str(), ""]);
    let (status, shown) = get(app.management_address(), "/api/v1/snmp");
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((status, &shown[0]["exporter"]), (200, &"127.0.0.1".into()));
    assert!(shown[0]["lastSuccessMs"].is_u64() && shown[0]["lastError"].is_null(), "{shown}");
    app.stop();
}
