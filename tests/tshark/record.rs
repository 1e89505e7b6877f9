//! A record by columns, as text: what tshark says of it and what `tidegate decode` says of it.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Columns with values; one at its default is left out.
pub type Record = BTreeMap<&'static str, String>;

/// A record of tshark and what is needed to find its row.
#[derive(Debug, Default)]
pub struct Expected {
    /// When the message was exported, milliseconds since 1970.
    pub export_ms: i64,
    /// Columns that tshark has a field for, also those at their default (empty text).
    pub columns: Record,
}

impl Expected {
    pub fn set_number(&mut self, column: &'static str, value: u64) {
        let value = if value == 0 { String::new() } else { value.to_string() };
        self.columns.insert(column, value);
    }

    /// An address; all zero is unknown.
    pub fn set_address(&mut self, column: &'static str, text: &str) {
        let address: IpAddr = text.parse().unwrap();
        let address = address.to_canonical();
        let value = if address.is_unspecified() { String::new() } else { address.to_string() };
        self.columns.insert(column, value);
    }

    pub fn set_time(&mut self, column: &'static str, ms: i64) {
        let value = if ms == 0 { String::new() } else { ms.to_string() };
        self.columns.insert(column, value);
    }
}

/// A value of `tidegate decode` as text.
pub fn text_of(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Number(number) => {
            let text = number.to_string();
            text.strip_suffix(".0").unwrap_or(&text).to_owned()
        }
        other => other.to_string(),
    }
}
