//! Secrets are in nothing that tidegate shows: logs of every level, metrics, answers, output, errors.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use common::{Collector, TIDEGATE, clickhouse_with, query_number, wait_until};
use tempfile::TempDir;
use tidegate::config::Config;
use tidegate::devserver::{DevServer, DevServerOptions};
use tidegate::traffic::{self, Pace, Spec, Totals};

/// Every key that has a secret, as a line of the configuration with {} where its text is. Another key is another
/// line here.
const KEYS: &[&str] = &[
    "clickhouse.password = {}",
    "management.token = {}",
    "snmp.agents = [{ range = \"127.0.0.0/8\", community = {} }, { range = \"192.0.2.0/24\", version = \"v3\", \
     username = \"reader\", auth-protocol = \"sha\", auth-password = {}, privacy-protocol = \"aes-128\", \
     privacy-password = {} }]",
];

/// Where the password of ClickHouse and the token are among them.
const PASSWORD: usize = 0;
const TOKEN: usize = 1;

/// How a key says its secret.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    Inline,
    Variable,
    File,
    Credential,
}

const WAYS: [Way; 4] = [Way::Inline, Way::Variable, Way::File, Way::Credential];

/// A configuration with every secret, each said in the same way, and what goes with it.
struct Scene {
    way: Way,
    folder: TempDir,
    secrets: Vec<String>,
    /// The keys of [`KEYS`].
    lines: String,
    environment: Vec<(String, String)>,
}

impl Scene {
    fn new(way: Way) -> Self {
        let secrets: Vec<_> = (0..KEYS.len()).map(|index| secret(way, index)).collect();
        Self::with(way, secrets)
    }

    fn with(way: Way, secrets: Vec<String>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |index| folder.path().join(format!("secret-{index}"));
        let mut environment = vec![("TIDEGATE_LOG".to_owned(), "trace".to_owned())];
        let mut lines = String::new();
        for (index, (key, secret)) in KEYS.iter().zip(&secrets).enumerate() {
            let text = match way {
                Way::Inline => secret.clone(),
                Way::Variable => {
                    environment.push((format!("SECRET_{index}"), secret.clone()));
                    format!("env:SECRET_{index}")
                }
                Way::File => {
                    std::fs::write(path(index), format!("{secret}\n")).unwrap();
                    format!("file:{}", path(index).display())
                }
                Way::Credential => {
                    std::fs::write(path(index), secret).unwrap();
                    format!("credential:secret-{index}")
                }
            };
            lines += &format!("{}\n", key.replace("{}", &format!("\"{text}\"")));
        }
        let directory = folder.path().display().to_string();
        environment.push(("CREDENTIALS_DIRECTORY".to_owned(), directory));
        Self { way, folder, secrets, lines, environment }
    }

    fn text(&self, management: &str, endpoint: &str) -> String {
        format!(
            "receivers.test.listen = \"127.0.0.1:0\"\nmanagement.listen = \"{management}\"\n\
             clickhouse.endpoint = \"{endpoint}\"\nclickhouse.username = \"{0}\"\n\
             clickhouse.database = \"of_{0}\"\nclickhouse.retry.delay = \"50ms\"\n\
             clickhouse.batch.max-latency = \"50ms\"\n\
             clickhouse.batch.shutdown-grace-period = \"2s\"\n{1}",
            self.user(),
            self.lines
        )
    }

    fn user(&self) -> String {
        format!("{:?}", self.way).to_lowercase()
    }

    /// Fails when a secret is in what was shown.
    fn look(&self, what: &str, shown: &str) {
        for secret in &self.secrets {
            let place = shown.find(secret.as_str());
            let line = place.map(|place| shown.get(..place).unwrap().lines().count().max(1));
            assert_eq!(line, None, "{:?}: a secret is in {what}, line", self.way);
        }
    }

    /// What a command says, on both outputs.
    fn run(&self, arguments: &[&str], text: &str) -> String {
        let file = self.folder.path().join("tidegate.toml");
        std::fs::write(&file, text).unwrap();
        let output = Command::new(TIDEGATE)
            .args(arguments)
            .arg("-c")
            .arg(&file)
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let shown = [output.stdout, output.stderr].concat();
        let shown = String::from_utf8_lossy(&shown).into_owned();
        self.look(&arguments.join(" "), &shown);
        shown
    }
}

/// Long enough for a token, and nowhere else.
fn secret(way: Way, index: usize) -> String {
    format!("hidden-{way:?}-{index}-1f7e2a")
}

/// A server with a user for each way.
fn server() -> DevServer {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.xml");
    let user = |name: &str, password: &str| {
        format!(
            "<{name}><password>{password}</password><networks><ip>127.0.0.1</ip></networks>\
             <profile>default</profile><quota>default</quota></{name}>"
        )
    };
    let users = WAYS.map(|way| user(&Scene::new(way).user(), &secret(way, PASSWORD)));
    let text = format!(
        "<clickhouse><users_config>config.xml</users_config><profiles><default/></profiles>\
         <quotas><default/></quotas><users>{}{}</users></clickhouse>",
        user("default", ""),
        users.concat()
    );
    std::fs::write(&file, text).unwrap();
    clickhouse_with(&DevServerOptions { config_file: Some(file), ..DevServerOptions::default() })
}

fn get(address: SocketAddr, path: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Every path, with the token and with a wrong one.
fn look_at_answers(scene: &Scene, collector: &Collector) {
    let paths = [
        "/livez",
        "/readyz",
        "/metrics",
        "/api/v1/status",
        "/api/v1/exporters",
        "/api/v1/templates?exporter=127.64.1.1",
        "/api/v1/interfaces",
        "/nothing",
    ];
    for path in paths {
        for token in [scene.secrets[TOKEN].as_str(), "wrong-and-long-enough"] {
            scene.look(path, &get(collector.management, path, token));
        }
    }
    let metrics = get(collector.management, "/metrics", &scene.secrets[TOKEN]);
    assert!(metrics.contains("tidegate_build_info"), "{metrics}");
}

fn send(collector: &Collector) {
    let spec = Spec { flows: Some(100), ..Spec::default() };
    let pace = Pace { flows_per_second: 10_000, duration: None };
    let (stop, totals) = (AtomicBool::new(false), Totals::default());
    traffic::run(&spec, collector.target, pace, &stop, &totals).unwrap();
}

fn stop(scene: &Scene, mut collector: Collector) -> String {
    collector.signal("TERM");
    let (_, log) = collector.wait();
    scene.look("the log", &log);
    log
}

/// Stores rows, then meets a wrong password and a server that is not there.
#[test]
fn no_secret_is_in_what_a_collector_logs_and_answers() {
    let server = server();
    for way in WAYS {
        let scene = Scene::new(way);
        let text = scene.text("127.0.0.1:0", &server.http_url());
        let collector = Collector::start_with(&text, &scene.environment);
        send(&collector);
        let rows = format!(
            "SELECT ifNull(sum(total_rows), 0) FROM system.tables WHERE database = 'of_{}' AND name = 'flows'",
            scene.user()
        );
        wait_until("rows are stored", || query_number(&server, &rows) == 100);
        look_at_answers(&scene, &collector);
        let management = collector.management.to_string();
        let shown = scene.run(&["exporters"], &scene.text(&management, &server.http_url()));
        assert!(shown.contains("127.64.1.1 "), "{shown}");
        let log = stop(&scene, collector);
        assert!(log.contains("TRACE") && log.contains("stored=100"), "{log}");

        let wrong = (0..KEYS.len()).map(|index| format!("wrong-{}", secret(way, index))).collect();
        let scene = Scene::with(way, wrong);
        for endpoint in [server.http_url().as_str(), "http://127.0.0.1:9"] {
            let text = scene.text("127.0.0.1:0", endpoint);
            let collector = Collector::start_with(&text, &scene.environment);
            send(&collector);
            wait_until("it is refused", || {
                let log = collector.log();
                log.contains("Authentication failed") || log.contains("no connection: ")
            });
            // A wrong password ends the collector.
            if endpoint.ends_with(":9") {
                look_at_answers(&scene, &collector);
            }
            stop(&scene, collector);
        }
    }
}

#[test]
fn no_secret_is_in_the_output_of_commands() {
    for way in WAYS {
        let scene = Scene::new(way);
        let text = scene.text("127.0.0.1:8080", "http://127.0.0.1:9");
        let shown = scene.run(&["check"], &text);
        assert!(shown.contains("management: http://127.0.0.1:8080, with a token"), "{shown}");
        assert!(scene.run(&["schema", "print"], &text).contains("CREATE TABLE"));
        for arguments in [["schema", "check"], ["schema", "apply"], ["dead-letters", "list"]] {
            assert!(scene.run(&arguments, &text).contains("no connection"), "{arguments:?}");
        }
        let config = Config::parse(&text, Path::new("test.toml"), scene.environment.clone());
        let config = config.unwrap();
        scene.look("Debug of the configuration", &format!("{config:?}{config:#?}"));
        assert_eq!(config.clickhouse.password.expose(), scene.secrets[PASSWORD]);
    }
}

/// Text of a secret where a reference, another type or another key was meant.
#[test]
fn no_secret_is_in_what_is_said_of_a_wrong_configuration() {
    let scene = Scene::new(Way::Inline);
    for (key, secret) in KEYS.iter().zip(&scene.secrets) {
        let name = key.split(" = ").next().unwrap();
        let values = [
            secret.clone(),
            format!("[\"{secret}\"]"),
            format!("\"{secret}"),
            format!("'{secret}\""),
            format!("{{ text = \"{secret}\" }}"),
            format!("\"{secret}\" \"{secret}\""),
            format!("\"{secret}\\q\""),
        ];
        for value in values {
            let shown = scene.run(&["check"], &format!("{}\n", key.replace("{}", &value)));
            assert!(shown.contains("tidegate.toml:1: "), "{value}: {shown}");
        }
        let references = ["env:NOT_SET", "file:/no/such/file", "credential:not-there"];
        for reference in references {
            let text = key.replace("{}", &format!("\"{reference}\""));
            let shown = scene.run(&["check"], &format!("{text}\n"));
            assert!(shown.contains(&format!("tidegate.toml:1: {name}")), "{reference}: {shown}");
        }
        let twice = key.replace("{}", &format!("\"{secret}\""));
        scene.run(&["check"], &format!("{twice}\n{twice}\n"));
        scene.run(&["check"], &twice.replacen(" = ", "x = ", 1));
    }
    let secret = &scene.secrets[PASSWORD];
    let endpoint = format!("clickhouse.endpoint = \"http://user:{secret}@127.0.0.1:8123\"\n");
    assert!(scene.run(&["check"], &endpoint).contains("must be a URL"));
}
