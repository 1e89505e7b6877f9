//! Tables of a realistic size: half a million prefixes, a million networks of cities, half a million of ASs, and a
//! thousand rules.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;

use crate::mmdb::{Mmdb, Value};

const PREFIXES: u32 = 500_000;
const CITY_NETWORKS: u32 = 1_000_000;
const AS_NETWORKS: u32 = 500_000;
const RULES: u32 = 1_000;

/// Writes them all to the folder. Returns the configuration that reads them, with the interfaces of `exporters`, an
/// address or a prefix.
pub fn write_all(folder: &Path, exporters: &str) -> String {
    let write = |name: &str, content: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    format!(
        "[enrichment]\ngeoip = [{:?}, {:?}]\nprefixes = {:?}\napplications = {:?}\n\
         [[exporters]]\naddress = \"{exporters}\"\nname = \"edge\"\n\
         [[exporters.interfaces]]\nindex = 1\nname = \"xe-0/0/0\"\nspeed = 10000\nboundary = \"external\"\n\
         [[exporters.interfaces]]\nindex = 2\nname = \"xe-0/0/1\"\nboundary = \"internal\"\n",
        write("city.mmdb", &city_database()),
        write("asn.mmdb", &as_database()),
        write("prefixes.csv", prefixes().as_bytes()),
        write("applications.csv", rules().as_bytes()),
    )
}

/// So many networks of 24 bits, spread over all addresses of IPv4.
fn networks(count: u32) -> impl Iterator<Item = (u32, Ipv4Addr)> {
    let step = (1 << 24) / count;
    (0..count).map(move |number| (number, Ipv4Addr::from((number * step) << 8)))
}

fn city_database() -> Vec<u8> {
    let mut mmdb = Mmdb::new();
    for (number, address) in networks(CITY_NETWORKS) {
        let (city, country) = (format!("City {}", number % 100_000), format!("C{}", number % 250));
        let names = |names: &'static [&str]| {
            Value::Map(names.iter().map(|name| (*name, Value::Text(&city))).collect())
        };
        let all = &["de", "en", "es", "fr", "ja", "pt-BR", "ru", "zh-CN"];
        let record = Value::Map(vec![
            (
                "city",
                Value::Map(vec![("geoname_id", Value::Number(number)), ("names", names(all))]),
            ),
            (
                "country",
                Value::Map(vec![("iso_code", Value::Text(&country)), ("names", names(all))]),
            ),
        ]);
        mmdb.insert(address.into(), 24, &record);
    }
    mmdb.finish("GeoLite2-City")
}

fn as_database() -> Vec<u8> {
    let mut mmdb = Mmdb::new();
    for (number, address) in networks(AS_NETWORKS) {
        let name = format!("Network number {}", number % 75_000);
        let record = Value::Map(vec![
            ("autonomous_system_number", Value::Number(1 + number % 75_000)),
            ("autonomous_system_organization", Value::Text(&name)),
        ]);
        mmdb.insert(address.into(), 24, &record);
    }
    mmdb.finish("GeoLite2-ASN")
}

fn prefixes() -> String {
    let mut text = "prefix,as,name,country,site,role\n".to_owned();
    for (number, address) in networks(PREFIXES) {
        let system = number % 1_000;
        writeln!(
            text,
            "{address}/24,{},Network {system},DE,site {},role {}",
            1 + system,
            number % 200,
            number % 10
        )
        .unwrap();
    }
    text
}

fn rules() -> String {
    let mut text = "application,protocol,ports,prefixes\n".to_owned();
    for number in 0..RULES {
        let (port, network) = (10_000 + number, number % 250);
        writeln!(text, "app {number},tcp|udp,{port},10.{network}.0.0/16").unwrap();
    }
    text
}
