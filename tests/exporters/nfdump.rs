//! nfcapd and nfdump of nfdump, which read what the collector reads.

use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::bench::stop;
use crate::common::wait_until;
use crate::flows::Sums;

/// nfcapd, stopped when dropped.
pub struct Nfcapd {
    child: Child,
    folder: tempfile::TempDir,
    pub port: u16,
}

impl Nfcapd {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("nfcapd")
            .args(["-b", "127.0.0.1", "-p", &port.to_string(), "-t", "3600", "-l"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let nfcapd = Self { child, folder, port };
        wait_until("nfcapd has the port", || UdpSocket::bind(("127.0.0.1", port)).is_err());
        nfcapd
    }

    /// What nfdump counts of all that came.
    pub fn sums(mut self) -> Sums {
        std::thread::sleep(Duration::from_millis(300)); // nfcapd tells nobody when it has read
        self.stop();
        let output =
            Command::new("nfdump").args(["-I", "-R"]).arg(self.folder.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let count = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("nfdump has no {name}: {text}")).trim().parse().unwrap()
        };
        (count("Flows:"), count("Bytes:"), count("Packets:"))
    }

    fn stop(&mut self) {
        stop(&mut self.child, "TERM");
    }
}

impl Drop for Nfcapd {
    fn drop(&mut self) {
        self.stop();
    }
}
