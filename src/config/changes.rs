//! What a new configuration changes: at once, or only with a restart.

use super::Config;

impl Config {
    /// This configuration as far as a collector that runs with `running` can follow it, and the keys that need a
    /// restart.
    #[must_use]
    pub fn as_followed_by(&self, running: &Self) -> (Self, Vec<&'static str>) {
        let mut followed = self.clone();
        let mut keys = Vec::new();
        macro_rules! keep {
            ($($key:literal $($field:ident).+;)*) => {$(
                if followed.$($field).+ != running.$($field).+ {
                    keys.push($key);
                    followed.$($field).+ = running.$($field).+.clone();
                }
            )*};
        }
        keep! {
            "clickhouse.endpoint" clickhouse.endpoints;
            "clickhouse.database" clickhouse.database;
            "clickhouse.manage-schema" clickhouse.manage_schema;
            "clickhouse.compress-requests" clickhouse.compress_requests;
            "clickhouse.async-inserts" clickhouse.async_inserts;
            "clickhouse.connect-timeout" clickhouse.connect_timeout;
            "clickhouse.response-timeout" clickhouse.response_timeout;
            "clickhouse.batch.enabled" clickhouse.batch.enabled;
            "clickhouse.retry" clickhouse.retry;
            "clickhouse.errors" clickhouse.errors;
            "clickhouse.tls" clickhouse.tls;
            "clickhouse.schema" clickhouse.schema;
            "clickhouse.quarantine" clickhouse.quarantine_inserts_max;
            "state" state;
            "spool" spool;
            "management" management;
        }
        (followed, keys)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(text: &str) -> Config {
        Config::parse(text, Path::new("tidegate.toml"), Vec::new()).unwrap()
    }

    #[test]
    fn what_needs_a_restart_is_named_and_stays_and_the_rest_is_followed() {
        let running = parse("[identity]\ntenant = \"a\"\n");
        let new = parse(
            "[identity]\ntenant = \"b\"\n[spool]\ndirectory = \"/s\"\n\
             [clickhouse]\nendpoint = \"http://other\"\npassword = \"new\"\n\
             [clickhouse.batch]\nmax-rows = 100\n[management]\nlisten = \"127.0.0.1:1\"\n",
        );
        let (followed, keys) = new.as_followed_by(&running);
        assert_eq!(keys, ["clickhouse.endpoint", "spool", "management"]);
        assert_eq!(followed.identity.tenant, "b");
        assert_eq!(followed.clickhouse.password, new.clickhouse.password);
        assert_eq!(followed.clickhouse.batch.max_rows, 100);
        assert_eq!(followed.clickhouse.endpoints, running.clickhouse.endpoints);
        assert_eq!(followed.spool, running.spool);
        assert_eq!(new.as_followed_by(&new), (new.clone(), Vec::new()));
    }
}
