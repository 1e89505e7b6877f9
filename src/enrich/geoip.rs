//! Databases in MaxMind's format: MaxMind's own records and those of IPinfo.
//!
//! A file is read into memory as a whole: mapped, it would end the process when somebody writes over it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use foldhash::fast::RandomState;
use maxminddb::{MaxMindDbError, Reader};
use serde_json::Value;

use super::facts::GeoFacts;
use super::prefixes::parse_as;
use super::texts::TextBook;

/// What databases say of an address. Empty and 0: nothing.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct GeoRecord {
    /// Country, two letters.
    pub country: Arc<str>,
    /// City, in English.
    pub city: Arc<str>,
    /// AS number.
    pub as_number: u32,
    /// Name of the AS.
    pub as_name: Arc<str>,
}

/// One database.
pub struct Database(Reader<Vec<u8>>);

impl Database {
    /// Checks the parts of a file that every lookup needs.
    ///
    /// # Errors
    ///
    /// It is no database, or cut.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, MaxMindDbError> {
        let reader = Reader::from_source(bytes)?;
        // Whole trees are walked by nobody: a lookup that goes wrong is counted.
        reader.lookup(IpAddr::from([192, 0, 2, 1]))?;
        Ok(Self(reader))
    }

    /// What kind it says that it is.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.0.metadata().database_type
    }

    /// Where the record of an address is; many addresses share one.
    fn find(&self, address: IpAddr) -> Result<Option<usize>, MaxMindDbError> {
        let has_address = address.is_ipv4() || self.0.metadata().ip_version == 6;
        if has_address { Ok(self.0.lookup(address)?.offset()) } else { Ok(None) }
    }

    fn record(&self, address: IpAddr) -> Result<GeoRecord, MaxMindDbError> {
        let record: Option<Value> = self.0.lookup(address)?.decode()?;
        Ok(record.map(|record| GeoRecord::of(&record)).unwrap_or_default())
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Database").field(&self.kind()).finish()
    }
}

impl GeoRecord {
    /// MaxMind: country.iso_code, city.names.en, autonomous_system_number and _organization. IPinfo: country or
    /// country_code, city, asn ("AS64500"), as_name or name.
    fn of(record: &Value) -> Self {
        let text = |paths: &[&str]| {
            let found = paths.iter().find_map(|path| record.pointer(path)?.as_str());
            Arc::from(found.unwrap_or_default())
        };
        let number = record.get("autonomous_system_number").and_then(Value::as_u64);
        let written = || parse_as(record.get("asn")?.as_str()?);
        Self {
            country: text(&["/country/iso_code", "/country_code", "/country"]),
            city: text(&["/city/names/en", "/city"]),
            as_number: number.and_then(|it| u32::try_from(it).ok()).or_else(written).unwrap_or(0),
            as_name: text(&["/autonomous_system_organization", "/as_name", "/name"]),
        }
    }

    fn facts(&self, texts: &mut TextBook) -> GeoFacts {
        GeoFacts {
            country: texts.id(&self.country),
            city: texts.id(&self.city),
            as_number: self.as_number,
            as_name: texts.id(&self.as_name),
        }
    }
}

impl GeoFacts {
    /// With what a later database says.
    fn with(self, later: Self) -> Self {
        // A number goes with its name.
        let of_as = if later.as_number == 0 { self } else { later };
        Self {
            country: later.country.or(self.country),
            city: later.city.or(self.city),
            as_number: of_as.as_number,
            as_name: of_as.as_name,
        }
    }
}

/// Records that were decoded, of one reader: most addresses share theirs with many others.
#[derive(Debug, Default)]
pub(super) struct Decoded(HashMap<(usize, usize), GeoFacts, RandomState>);

/// Records that are kept decoded. A database of cities has some hundred thousand; those of a network's traffic are
/// fewer. What is beyond begins anew.
const DECODED_MAX: usize = 65_536;

impl Decoded {
    /// What `databases` say of an address, the later over the earlier; counts those that fail.
    pub(super) fn find(
        &mut self,
        databases: &[Arc<Database>],
        address: Ipv6Addr,
        texts: &mut TextBook,
        failures: &mut u64,
    ) -> GeoFacts {
        let address = address.to_canonical();
        let mut found = GeoFacts::default();
        for (index, database) in databases.iter().enumerate() {
            match self.find_in(index, database, address, texts) {
                Ok(facts) => found = found.with(facts),
                Err(_) => *failures += 1,
            }
        }
        found
    }

    fn find_in(
        &mut self,
        index: usize,
        database: &Database,
        address: IpAddr,
        texts: &mut TextBook,
    ) -> Result<GeoFacts, MaxMindDbError> {
        let Some(offset) = database.find(address)? else { return Ok(GeoFacts::default()) };
        let key = (index, offset);
        if let Some(known) = self.0.get(&key) {
            return Ok(*known);
        }
        let facts = database.record(address)?.facts(texts);
        if self.0.len() >= DECODED_MAX {
            self.0.clear();
        }
        self.0.insert(key, facts);
        Ok(facts)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_records_of_both_makers_are_read() {
        let record = |value: Value| {
            let GeoRecord { country, city, as_number, as_name } = GeoRecord::of(&value);
            (country.to_string(), city.to_string(), as_number, as_name.to_string())
        };
        let expected = |country: &str, city: &str, number, name: &str| {
            (country.to_owned(), city.to_owned(), number, name.to_owned())
        };
        let maxmind = json!({"country": {"iso_code": "DE", "names": {"en": "Germany"}},
            "city": {"names": {"de": "Köln", "en": "Cologne"}}});
        assert_eq!(record(maxmind), expected("DE", "Cologne", 0, ""));
        let asn =
            json!({"autonomous_system_number": 64500, "autonomous_system_organization": "Tide"});
        assert_eq!(record(asn), expected("", "", 64_500, "Tide"));
        let lite = json!({"country": "Germany", "country_code": "DE", "asn": "AS64500", "as_name": "Tide"});
        assert_eq!(record(lite), expected("DE", "", 64_500, "Tide"));
        let location = json!({"country": "DE", "city": "Cologne", "lat": "50.9"});
        assert_eq!(record(location), expected("DE", "Cologne", 0, ""));
        let asn = json!({"asn": "AS64500", "name": "Tide", "domain": "tide.example"});
        assert_eq!(record(asn), expected("", "", 64_500, "Tide"));
        for odd in [json!(7), json!({"country": 7, "asn": "x", "autonomous_system_number": -1})] {
            assert_eq!(record(odd), expected("", "", 0, ""));
        }
    }

    #[test]
    fn a_later_database_wins_field_by_field_and_a_number_keeps_its_name() {
        let mut texts = TextBook::default();
        let mut facts = |country: &str, as_number, as_name: &str| {
            let (city, country, as_name) = (Arc::default(), country.into(), as_name.into());
            GeoRecord { country, city, as_number, as_name }.facts(&mut texts)
        };
        let found = facts("DE", 64_500, "Tide").with(facts("", 64_501, ""));
        assert_eq!(found, facts("DE", 64_501, ""));
        assert_eq!(found.with(facts("AT", 0, "Other")), facts("AT", 64_501, ""));
    }

    #[test]
    fn a_file_that_is_no_database_is_refused() {
        for bytes in [Vec::new(), b"prefix,as\n".to_vec(), vec![0; 100_000]] {
            assert!(Database::parse(bytes).is_err());
        }
    }
}
