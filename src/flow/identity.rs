//! Who collects for whom: stamped on every row.

/// The identity columns of every row of this collector.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Identity {
    /// `tenant`.
    pub tenant: String,
    /// `organisation`.
    pub organisation: String,
    /// `zone`.
    pub zone: String,
    /// `system`: this collector.
    pub system: String,
}

impl Default for Identity {
    fn default() -> Self {
        let unnamed = || "default".to_owned();
        Self { tenant: unnamed(), organisation: unnamed(), zone: unnamed(), system: unnamed() }
    }
}
