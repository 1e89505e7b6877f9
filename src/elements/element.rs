//! One information element, and whose it is.

use std::borrow::Cow;
use std::fmt;

use super::data_type::DataType;

/// Who gave an element its number.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Scope {
    /// A private enterprise number of IANA; 0 is IANA's own registry.
    Enterprise(u32),
    /// Field types that only NetFlow v9 has: it has no enterprise numbers, so vendors took free ids.
    NetflowV9,
}

impl Scope {
    /// IANA's registry. NetFlow v9 shares its ids up to 127, and in practice beyond.
    pub const IANA: Self = Self::Enterprise(0);
    /// The reverse direction of IANA's elements (RFC 5103 section 6.1).
    pub const REVERSE: Self = Self::Enterprise(29_305);
}

/// An information element.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Element {
    /// Who gave it its number.
    pub scope: Scope,
    /// Its number, unique in its scope.
    pub id: u16,
    /// Its name. Unique in IANA's registry; vendors repeat names.
    pub name: Cow<'static, str>,
    /// What its bytes are.
    pub data_type: DataType,
    /// The unit of its value; empty when it has none or no source says.
    pub unit: &'static str,
}

impl Element {
    /// Its number as people write it: `1`, `29305/1`, `v9/33000`.
    #[must_use]
    pub fn number(&self) -> String {
        match self.scope {
            Scope::IANA => self.id.to_string(),
            scope => format!("{scope}/{}", self.id),
        }
    }

    /// The same element for the other direction of a biflow, with the number that it has there.
    pub(super) fn reverse(&self, scope: Scope, id: u16) -> Self {
        let mut letters = self.name.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        let name = "reverse".chars().chain(first).chain(letters).collect::<String>();
        Self { scope, id, name: Cow::Owned(name), ..*self }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enterprise(number) => write!(f, "{number}"),
            Self::NetflowV9 => f.write_str("v9"),
        }
    }
}
