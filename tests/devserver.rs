//! The development server with the real library: start, stop, crash, and every error a user can make.

#![expect(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use tidegate::devserver::{self, DevServer, DevServerOptions, QueryError, StartError};

/// The program under test, with the library installed.
fn program() -> &'static Path {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        devserver::install(&devserver::cache_directory().unwrap()).unwrap();
    });
    Path::new(env!("CARGO_BIN_EXE_tidegate"))
}

fn start(options: &DevServerOptions) -> DevServer {
    DevServer::start(program(), options).unwrap()
}

fn on_path(path: &Path) -> DevServerOptions {
    DevServerOptions { path: Some(path.to_owned()), ..DevServerOptions::default() }
}

/// Runs `clickhouse run` that is expected to fail, and returns its one line.
fn refused(arguments: &[&str]) -> String {
    let output =
        Command::new(program()).args(["clickhouse", "run"]).args(arguments).output().unwrap();
    one_line(&output)
}

fn one_line(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}

/// `clickhouse run` without the wrapper, with its ready line read.
fn spawn_ready(arguments: &[&str]) -> (Child, String) {
    let mut command = Command::new(program());
    command.args(["clickhouse", "run", "--http-port", "0", "--tcp-port", "0"]).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (child, line)
}

fn wait(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    panic!("the server did not end within 10 s");
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

fn data_path_of(ready_line: &str) -> PathBuf {
    PathBuf::from(ready_line.trim_end().split_once(" path=").unwrap().1)
}

#[test]
fn answers_like_a_server_on_ports_it_chose() {
    let server = start(&DevServerOptions::default());
    assert_eq!(server.query("SELECT version()").unwrap().trim(), server.version());
    assert_ne!(server.http_address().port(), 0);
    assert_ne!(server.http_address(), server.tcp_address());
    assert!(std::net::TcpStream::connect(server.tcp_address()).is_ok());
    assert_eq!(server.http_url(), format!("http://{}", server.http_address()));

    let error = server.query("1").unwrap_err();
    assert!(
        matches!(error, QueryError::Refused { code: Some(62), .. }),
        "implicit SELECT is off: {error}"
    );
    assert_eq!(
        server
            .query("SELECT value FROM system.server_settings WHERE name = 'max_concurrent_queries'")
            .unwrap()
            .trim(),
        "1000"
    );
    server.stop().unwrap();
}

#[test]
fn a_temporary_path_goes_with_the_server() {
    let stopped = start(&DevServerOptions::default());
    let path = stopped.path().to_owned();
    assert!(path.is_dir());
    stopped.stop().unwrap();
    assert!(!path.exists());

    let killed = start(&DevServerOptions::default());
    let path = killed.path().to_owned();
    killed.kill().unwrap();
    assert!(!path.exists());

    let dropped = start(&DevServerOptions::default());
    let (path, process) =
        (dropped.path().to_owned(), PathBuf::from(format!("/proc/{}", dropped.pid())));
    assert!(process.exists());
    drop(dropped);
    assert!(!path.exists());
    assert!(!process.exists());
}

#[test]
fn rows_outlive_a_stop_and_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(&on_path(directory.path()));
    server.query("CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n").unwrap();
    server.query("INSERT INTO t SELECT number FROM numbers(100000)").unwrap();
    let address = server.http_address();

    let server = server.restart().unwrap();
    assert_eq!(server.http_address(), address);
    assert_eq!(server.query("SELECT count(), sum(n) FROM t").unwrap(), "100000\t4999950000\n");
    server.query("INSERT INTO t SELECT number FROM numbers(1000)").unwrap();

    let options = server.options();
    server.kill().unwrap();
    let server = start(&options);
    assert_eq!(server.query("SELECT count() FROM t").unwrap(), "101000\n");
    server.stop().unwrap();
}

#[test]
fn stops_on_each_signal_and_on_the_end_of_standard_input() {
    for name in ["-TERM", "-INT", "-HUP"] {
        let (mut child, line) = spawn_ready(&[]);
        assert!(line.starts_with("clickhouse ready version="), "{line}");
        let asked = Instant::now();
        signal(&child, name);
        assert_eq!(wait(&mut child).code(), Some(0), "{name}");
        assert!(asked.elapsed() < Duration::from_secs(5), "{name} took {:?}", asked.elapsed());
        assert!(!data_path_of(&line).exists());
        let mut rest = String::new();
        child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "standard output has the ready line only");
    }

    let (mut child, line) = spawn_ready(&["--stop-on-stdin-eof"]);
    drop(child.stdin.take());
    assert_eq!(wait(&mut child).code(), Some(0));
    assert!(!data_path_of(&line).exists());
}

#[test]
fn a_second_signal_and_the_stop_timeout_end_it_at_once() {
    let sleeping = |line: &str| {
        let address = line.split(" http=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            let sql = "SELECT sleepEachRow(1) FROM numbers(60) SETTINGS max_block_size = 1, function_sleep_max_microseconds_per_block = 0";
            let request =
                format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{sql}", sql.len());
            std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
            drop(stream.read_to_end(&mut Vec::new()));
        });
        thread::sleep(Duration::from_millis(500));
    };

    let (mut child, line) = spawn_ready(&[]);
    sleeping(&line);
    signal(&child, "-TERM");
    thread::sleep(Duration::from_millis(200));
    signal(&child, "-TERM");
    assert_eq!(wait(&mut child).code(), Some(3));

    let (mut child, line) = spawn_ready(&["--stop-timeout", "100ms"]);
    sleeping(&line);
    signal(&child, "-TERM");
    assert_eq!(wait(&mut child).code(), Some(3));
    assert!(!data_path_of(&line).exists());
}

#[test]
fn a_path_in_use_is_refused_with_its_holder() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(&on_path(directory.path()));
    let path = directory.path().to_str().unwrap();
    let text = refused(&["--path", path, "--http-port", "0", "--tcp-port", "0"]);
    let expected = format!(
        "is in use by another server (pid {}); stop that one or choose another --path",
        server.pid()
    );
    assert!(text.starts_with("tidegate: ") && text.ends_with(&expected), "{text}");

    let error = DevServer::start(program(), &on_path(directory.path())).unwrap_err();
    assert!(
        matches!(&error, StartError::Exited { message, .. } if message.contains("is in use")),
        "{error}"
    );
    assert_eq!(server.query("SELECT 1").unwrap(), "1\n");
}

#[test]
fn a_port_in_use_is_refused_with_its_option() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (option, other) in [("--http-port", "--tcp-port"), ("--tcp-port", "--http-port")] {
        let text = refused(&[option, &port, other, "0"]);
        let expected = format!(
            "tidegate: 127.0.0.1:{port} is in use by another program; choose another port with {option}, or 0 for any free one"
        );
        assert_eq!(text, expected);
    }
}

#[test]
fn a_missing_library_says_how_to_get_it() {
    let cache = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command
        .args(["clickhouse", "run"])
        .env("TIDEGATE_CACHE_DIR", cache.path())
        .output()
        .unwrap();
    let expected =
        "tidegate: the ClickHouse library is not installed: run `tidegate clickhouse install` once";
    assert_eq!(one_line(&output), expected);
}

#[test]
fn install_without_npm_says_so() {
    let cache = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .args(["clickhouse", "install"])
        .env("TIDEGATE_CACHE_DIR", cache.path())
        .env("PATH", cache.path());
    let text = one_line(&command.output().unwrap());
    assert!(text.starts_with("tidegate: npm is missing: install it"), "{text}");
}

#[test]
fn unusable_files_are_one_clear_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "<clickhouse><users>").unwrap();
    let file = file.to_str().unwrap();
    let text = refused(&["--path", file]);
    assert!(text.contains("as data directory"), "{text}");
    let text = refused(&["--config-file", "missing.xml"]);
    assert!(text.starts_with("tidegate: cannot read the configuration file missing.xml"), "{text}");
    let text = refused(&["--config-file", file, "--http-port", "0", "--tcp-port", "0"]);
    assert!(text.starts_with("tidegate: ClickHouse did not start: "), "{text}");
}

#[test]
fn users_of_a_configuration_file_need_their_password() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("config.xml");
    fs::write(&config, CONFIG).unwrap();
    let server =
        start(&DevServerOptions { config_file: Some(config), ..DevServerOptions::default() });
    assert_eq!(server.query_as("writer", "secret", "SELECT currentUser()").unwrap(), "writer\n");
    let error = server.query_as("writer", "wrong", "SELECT 1").unwrap_err();
    assert!(matches!(error, QueryError::Refused { status: 403, code: Some(516), .. }), "{error}");
    let error = server.query("CREATE TABLE t (n UInt8) ENGINE = Memory").unwrap_err();
    assert!(
        matches!(error, QueryError::Refused { code: Some(497), .. }),
        "default has three grants only: {error}"
    );
    server.stop().unwrap();
}

/// A user with a password, and a `default` that can only do what the server's own statements need.
const CONFIG: &str = "\
<clickhouse>
    <users_config>config.xml</users_config>
    <profiles><default/></profiles>
    <quotas><default/></quotas>
    <users>
        <default>
            <password></password>
            <networks><ip>127.0.0.1</ip></networks>
            <profile>default</profile>
            <quota>default</quota>
            <grants>
                <query>GRANT SYSTEM LISTEN ON *.*</query>
                <query>GRANT CREATE TEMPORARY TABLE ON *.*</query>
                <query>GRANT READ ON FILE</query>
            </grants>
        </default>
        <writer>
            <password>secret</password>
            <networks><ip>127.0.0.1</ip></networks>
            <profile>default</profile>
            <quota>default</quota>
        </writer>
    </users>
</clickhouse>
";
