//! Debian's snmpd as a child process, and snmpwalk.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::common::{has_program, wait_until};
use super::free_port;

/// An agent with files of its own. It ends when it is dropped.
pub struct Snmpd {
    child: Child,
    pub port: u16,
    directory: tempfile::TempDir,
}

/// Whether the programs are there.
pub fn is_installed() -> bool {
    has_program("snmpd") && has_program("snmpwalk")
}

impl Snmpd {
    /// Starts it on these addresses, with the community `public` and more lines of snmpd.conf; `modules` are
    /// left out or taken as by its option -I.
    pub fn start(addresses: &[&str], more: &str, modules: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("rocommunity public\n{more}\n");
        std::fs::write(directory.path().join("snmpd.conf"), text).unwrap();
        let port = free_port();
        let child = spawn(directory.path(), addresses, port, modules);
        let mut snmpd = Self { child, port, directory };
        wait_until("snmpd answers", || {
            // Between the look for a free port and its use somebody may have taken it.
            if snmpd.child.try_wait().unwrap().is_some() {
                snmpd.port = free_port();
                snmpd.child = spawn(snmpd.directory.path(), addresses, snmpd.port, modules);
            }
            !snmpd.walk(addresses[0], "1.3.6.1.2.1.1.3").is_empty()
        });
        snmpd
    }

    /// What snmpwalk reads of a column: the last number of the object identifier, and the value as it shows it.
    pub fn walk(&self, address: &str, column: &str) -> BTreeMap<u32, String> {
        let output = Command::new("snmpwalk")
            .args(["-v2c", "-c", "public", "-t", "1", "-r", "0", "-On", "-Oq", "-Cc"])
            .args([&format!("{address}:{}", self.port), column])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let row = |line: &str| {
            let (oid, value) = line.split_once(' ')?;
            let index = oid.rsplit('.').next()?.parse().ok()?;
            Some((index, value.trim_matches('"').to_owned()))
        };
        text.lines().filter_map(row).collect()
    }
}

fn spawn(directory: &Path, addresses: &[&str], port: u16, modules: &str) -> Child {
    let path = |name: &str| directory.join(name);
    let log = File::create(path("log")).unwrap();
    Command::new("snmpd")
        .env("PATH", format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default()))
        .env("SNMP_PERSISTENT_DIR", path("persistent"))
        .env("SNMPCONFPATH", path("none"))
        .args(["-f", "-Lo", "-C", "-c"])
        .arg(path("snmpd.conf"))
        .args(["-I", modules])
        .args(addresses.iter().map(|address| format!("udp:{address}:{port}")))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

impl Drop for Snmpd {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
