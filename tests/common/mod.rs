//! What the tests share: a real ClickHouse, a collector in this process or in one of its own, and
//! readings of `/metrics`.
#![expect(dead_code, reason = "each test file uses a part of it")]
#![expect(unreachable_pub, reason = "a module of every test file")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod authority;
pub mod flows;
pub mod mmdb;
pub mod process;
pub mod proxy;
pub mod rollups;
pub mod tls_proxy;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate::app::App;
use tidegate::config::Config;
use tidegate::decode::{Datagram, Decoder, DecoderOptions, Exporters};
use tidegate::devserver::{DevServer, DevServerOptions, cache_directory, install};
use tidegate::flow::{Chunk, ChunkWriter};
use tidegate::traffic::{Field, Generator, IpfixHeader, MessageBuilder, Spec};

/// The program under test.
pub const TIDEGATE: &str = env!("CARGO_BIN_EXE_tidegate");

/// Longest wait for something that takes well under a second on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A ClickHouse of its own for one test.
pub fn clickhouse() -> DevServer {
    clickhouse_with(&DevServerOptions::default())
}

/// The same with options.
pub fn clickhouse_with(options: &DevServerOptions) -> DevServer {
    static INSTALLING: Mutex<()> = Mutex::new(());
    {
        let _installing = INSTALLING.lock().unwrap();
        install(&cache_directory().unwrap()).unwrap();
    }
    DevServer::start(Path::new(TIDEGATE), options).unwrap()
}

/// A configuration with one receiver on a free port of loopback; `more` is appended.
pub fn config_text(endpoint: &str, more: &str) -> String {
    format!(
        "[receivers.test]\nlisten = \"127.0.0.1:0\"\n\
         [management]\nlisten = \"127.0.0.1:0\"\n\
         [clickhouse]\nendpoint = \"{endpoint}\"\n{more}\n"
    )
}

/// The same with several endpoints.
pub fn config_text_of(endpoints: &[&str], more: &str) -> String {
    let list = format!("endpoint = {endpoints:?}\n");
    config_text("", more).replace("endpoint = \"\"\n", &list)
}

/// Parses a configuration that is right.
pub fn config(text: &str) -> Config {
    Config::parse(text, Path::new("test.toml"), Vec::new()).unwrap()
}

/// A collector in this process.
pub fn start(endpoint: &str, more: &str) -> App {
    App::start(&config(&config_text(endpoint, more))).unwrap()
}

/// Where the only receiver listens.
pub fn target(app: &App) -> SocketAddr {
    app.receivers()[0].1
}

/// Waits until `is_done`, and fails the test with `what` when that takes too long.
pub fn wait_until(what: &str, mut is_done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < PATIENCE, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A number from the environment, for the long form of a test.
pub fn number_of(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// GET; status and body.
pub fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // In one piece: the second of several small ones would wait for the first to be acknowledged.
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// A TCP port that nobody listens on now.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The series of `/metrics`, by name with labels.
pub struct Scrape(BTreeMap<String, String>);

impl Scrape {
    pub fn of(app: &App) -> Self {
        Self::at(app.management_address())
    }

    pub fn at(address: SocketAddr) -> Self {
        let (status, body) = get(address, "/metrics");
        assert_eq!(status, 200);
        Self::parse(&body)
    }

    pub fn parse(text: &str) -> Self {
        let series = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let series = series.map(|line| line.rsplit_once(' ').unwrap());
        Self(series.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// The sum of a metric over the series that have all of `labels`, each as `name="value"`.
    pub fn sum(&self, metric: &str, labels: &[&str]) -> u64 {
        let is_meant = |series: &str| {
            let name = series.split('{').next().unwrap();
            name == metric && labels.iter().all(|label| series.contains(label))
        };
        let series: Vec<_> = self.0.iter().filter(|(series, _)| is_meant(series)).collect();
        assert!(!series.is_empty(), "no series {metric} {labels:?}");
        series.iter().map(|(_, value)| value.parse::<u64>().unwrap()).sum()
    }

    /// Names of all metrics.
    pub fn names(&self) -> Vec<String> {
        self.0.keys().map(|series| series.split('{').next().unwrap().to_owned()).collect()
    }
}

/// One row of a query, as tab-separated fields.
pub fn query_row(server: &DevServer, sql: &str) -> Vec<String> {
    let answer = server.query(sql).unwrap();
    answer.trim_end_matches('\n').split('\t').map(ToOwned::to_owned).collect()
}

/// One number.
pub fn query_number(server: &DevServer, sql: &str) -> u64 {
    query_row(server, sql)[0].parse().unwrap()
}

/// Rows, bytes and packets of `flows`.
pub fn stored_sums(server: &DevServer) -> (u64, u64, u64) {
    let row = query_row(server, "SELECT count(), sum(bytes), sum(packets) FROM tidegate.flows");
    (row[0].parse().unwrap(), row[1].parse().unwrap(), row[2].parse().unwrap())
}

/// Chunks of so many generated flows, and of one flow for each of `bytes`.
pub fn generated_chunks(flows: u64, bytes: &[u8]) -> Vec<Chunk> {
    let spec = Spec { flows: Some(flows), ..Spec::default() };
    let mut generator = Generator::new(&spec);
    let emissions =
        std::iter::from_fn(|| generator.next(1_800_000_000_000).map(|it| it.payload.clone()));
    let header = IpfixHeader { export_time_s: 1_800_000_000, sequence: 0, domain_id: 1 };
    let records: Vec<_> = bytes.iter().map(|&bytes| [0, 0, 0, bytes]).collect();
    let own = MessageBuilder::ipfix(header).template(300, &[Field::new(1, 4)]);
    let own = own.data_set(300, &records).finish();
    let datagrams =
        emissions.take_while(|_| flows > 0).chain([own].into_iter().filter(|_| !bytes.is_empty()));
    let mut decoder = Decoder::new(DecoderOptions::default(), Arc::new(Exporters::default()));
    let mut writer = ChunkWriter::new(8_192);
    let mut chunks = Vec::new();
    for payload in datagrams {
        let received_ms = 1_800_000_000_000;
        let datagram = Datagram {
            exporter: [192, 0, 2, 1].into(),
            source_port: 0,
            received_ms,
            payload: &payload,
        };
        decoder.decode(&datagram, Instant::now(), &mut writer);
        chunks.extend(writer.take_closed());
    }
    writer.close_all();
    chunks.extend(writer.take_closed());
    chunks
}

/// Says what was measured.
pub fn say(text: &str) {
    writeln!(std::io::stdout().lock(), "{text}").unwrap();
}

/// Runs the program to its end.
pub fn tidegate(arguments: &[&str]) -> Output {
    Command::new(TIDEGATE).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// A collector in a process of its own.
pub struct Collector {
    child: Child,
    directory: tempfile::TempDir,
    pub management: SocketAddr,
    pub target: SocketAddr,
}

impl Collector {
    /// Starts `tidegate run` with this configuration and waits until it is ready.
    pub fn start(text: &str) -> Self {
        Self::start_with(text, &[])
    }

    /// The same with more variables in its environment.
    pub fn start_with(text: &str, environment: &[(String, String)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("tidegate.toml");
        std::fs::write(&config, text).unwrap();
        let log = std::fs::File::create(directory.path().join("log")).unwrap();
        let child = Command::new(TIDEGATE)
            .args(["run", "-c"])
            .arg(&config)
            .envs(environment.iter().cloned())
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut collector = Self { child, directory, management: nowhere, target: nowhere };
        wait_until("the collector logs its addresses", || {
            let log = collector.log();
            let address = |before: &str| {
                let rest = log.split_once(before)?.1;
                rest.split_whitespace().next()?.parse().ok()
            };
            let found = address("management=").zip(address("address="));
            if let Some((management, target)) = found {
                (collector.management, collector.target) = (management, target);
            }
            found.is_some()
        });
        collector
    }

    /// Writes another configuration in the place of its own.
    pub fn configure(&self, text: &str) {
        std::fs::write(self.directory.path().join("tidegate.toml"), text).unwrap();
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// Waits for the end; exit code and log.
    pub fn wait(&mut self) -> (Option<i32>, String) {
        let mut code = None;
        wait_until("the collector ends", || {
            let status = self.child.try_wait().unwrap();
            code = status.and_then(|status| status.code());
            status.is_some()
        });
        (code, self.log())
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The folder of real captures, or `None` (said once) where it does not exist. In CI it must exist.
pub fn captures() -> Option<PathBuf> {
    let folder = std::env::var_os("TIDEGATE_CAPTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/captures"),
        PathBuf::from,
    );
    if folder.is_dir() {
        return Some(folder);
    }
    skip(&format!("no captures in {}; set TIDEGATE_CAPTURES", folder.display()));
    None
}

/// Whether a program of the system is there; a missing one is said. In CI it must be there if this is root,
/// who can install it.
pub fn has_program(name: &str) -> bool {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).chain(["/usr/sbin".into()]).any(|dir| dir.join(name).is_file())
    });
    match found {
        true => {}
        false if is_root() => skip(&format!("{name} is not installed")),
        false => say_skipped(&format!("{name} is not installed, and this is not root")),
    }
    found
}

/// Whether this is root; `why` says what needs it. CI may run as anybody.
pub fn may_as_root(why: &str) -> bool {
    if !is_root() {
        say_skipped(&format!("not root, and {why}"));
    }
    is_root()
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Says why a test is not run. In CI that must not be.
pub fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{why}");
    say_skipped(why);
}

fn say_skipped(why: &str) {
    writeln!(std::io::stderr().lock(), "skipped: {why}").unwrap();
}
