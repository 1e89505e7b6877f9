//! A ClickHouse that several cases share, and that can be killed under them.

use std::net::SocketAddr;
use std::sync::{Barrier, RwLock};

use tidegate::devserver::{DevServer, DevServerOptions};

use crate::common::clickhouse_with;

/// Has a user `writer`, and a user `nobody` who may not insert, both with the password `right`.
const CONFIG: &str = "\
<clickhouse>
    <users_config>config.xml</users_config>
    <max_concurrent_queries>1000</max_concurrent_queries>
    <profiles><default/></profiles>
    <quotas><default/></quotas>
    <users>
        <default>
            <password></password><networks><ip>127.0.0.1</ip></networks>
            <profile>default</profile><quota>default</quota>
        </default>
        <writer>
            <password>right</password><networks><ip>127.0.0.1</ip></networks>
            <profile>default</profile><quota>default</quota>
        </writer>
        <nobody>
            <password>right</password><networks><ip>127.0.0.1</ip></networks>
            <profile>default</profile><quota>default</quota>
            <grants><query>GRANT SELECT ON *.*</query></grants>
        </nobody>
    </users>
</clickhouse>
";

pub struct Server {
    address: SocketAddr,
    /// To start it with again, on the same port and data.
    options: DevServerOptions,
    running: RwLock<Option<DevServer>>,
    /// Those that it is to be killed under.
    cases: Barrier,
    _folder: tempfile::TempDir,
}

impl Server {
    /// For so many cases that want it killed.
    pub fn start(cases: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.xml");
        std::fs::write(&config, CONFIG).unwrap();
        let server = clickhouse_with(&DevServerOptions {
            path: Some(folder.path().join("data")),
            config_file: Some(config),
            ..DevServerOptions::default()
        });
        Self {
            address: server.http_address(),
            options: server.options(),
            running: RwLock::new(Some(server)),
            cases: Barrier::new(cases),
            _folder: folder,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The answer to one statement.
    pub fn query(&self, sql: &str) -> String {
        let running = self.running.read().unwrap();
        running.as_ref().unwrap().query(sql).unwrap()
    }

    /// Numbers of one row.
    pub fn numbers<const N: usize>(&self, sql: &str) -> [u64; N] {
        let row = self.query(sql);
        let numbers: Vec<u64> = row.split_whitespace().map(|it| it.parse().unwrap()).collect();
        numbers.try_into().unwrap()
    }

    /// Kills it, as `kill -9` does, when all of its cases are here.
    pub fn kill_with_others(&self) {
        if self.cases.wait().is_leader() {
            self.running.write().unwrap().take().unwrap().kill().unwrap();
        }
        self.cases.wait();
    }

    /// Starts it again when all of its cases are here.
    pub fn start_again_with_others(&self) {
        if self.cases.wait().is_leader() {
            *self.running.write().unwrap() = Some(clickhouse_with(&self.options));
        }
        self.cases.wait();
    }
}
