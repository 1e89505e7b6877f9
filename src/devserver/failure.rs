//! From the library's exception texts to errors that say what to do.

use std::net::SocketAddr;
use std::path::Path;

use super::directory;
use super::run::{RunError, RunOptions};

/// Exception code CANNOT_OPEN_FILE, with which the lock of a data directory is refused.
const CODE_CANNOT_OPEN_FILE: &str = "Code: 76.";

/// Longest part of an unknown exception to show: it is one line of a terminal or two.
const TEXT_CHARACTERS_MAX: usize = 300;

/// Finds out why the library ended on its own.
pub(super) fn explain(text: &str, was_ready: bool, options: &RunOptions, path: &Path) -> RunError {
    let event = if was_ready { "ended unexpectedly" } else { "did not start" };
    if text.contains("Address already in use") {
        return port_in_use(text, options);
    }
    if text.contains(CODE_CANNOT_OPEN_FILE) && text.contains("Another server instance") {
        return RunError::PathInUse { path: path.to_owned(), holder: holder(path) };
    }
    let log = options.path.as_ref().map(|_| path.join(directory::LOG_NAME));
    RunError::Failed { event, text: first_line(text), log }
}

fn port_in_use(text: &str, options: &RunOptions) -> RunError {
    let tcp = SocketAddr::new(options.listen_host, options.tcp_port);
    if text.contains(&format!("[{}]:{}", tcp.ip(), tcp.port()))
        && options.http_port != options.tcp_port
    {
        return RunError::PortInUse { address: tcp, option: "--tcp-port" };
    }
    RunError::PortInUse {
        address: SocketAddr::new(options.listen_host, options.http_port),
        option: "--http-port",
    }
}

/// The process that the status file of a data directory names, as text for the error.
pub(super) fn holder(path: &Path) -> String {
    let status = std::fs::read_to_string(path.join(directory::STATUS_NAME)).unwrap_or_default();
    let pid = status.lines().find_map(|line| line.strip_prefix("PID: "));
    pid.map_or_else(
        || "another server".to_owned(),
        |pid| format!("another server (pid {})", pid.trim()),
    )
}

/// The exception itself, without stack trace.
fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| line.contains("Code: ")).or_else(|| text.lines().next());
    let line = line.unwrap_or("it gave no reason");
    let line = line.split(", Stack trace").next().unwrap_or(line);
    line.trim().chars().take(TEXT_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;

    fn options() -> RunOptions {
        RunOptions {
            library: PathBuf::from("libchdb.so"),
            path: Some(PathBuf::from("data")),
            http_port: 8123,
            tcp_port: 9000,
            config_file: None,
            listen_host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            stop_timeout: Duration::from_secs(20),
            stop_on_stdin_eof: false,
        }
    }

    fn explained(text: &str) -> String {
        explain(text, false, &options(), Path::new("data")).to_string()
    }

    #[test]
    fn a_taken_port_is_named_with_its_option() {
        let text = "Code: 210. DB::Exception: Listen [127.0.0.1]:9000 failed: Poco::Exception. Code: 1000, \
                    Net Exception: Address already in use: 127.0.0.1:9000 (NETWORK_ERROR)";
        assert!(explained(text).starts_with("127.0.0.1:9000 is in use"), "{}", explained(text));
        assert!(explained(text).contains("--tcp-port"));
        let text = text.replace(":9000", ":8123");
        assert!(explained(&text).starts_with("127.0.0.1:8123 is in use"), "{}", explained(&text));
        assert!(explained(&text).contains("--http-port"));
    }

    #[test]
    fn a_taken_path_is_named() {
        let text = "Code: 76. DB::Exception: Cannot lock file data/status. Another server instance in same \
                    directory is already running. (CANNOT_OPEN_FILE)";
        assert!(
            explained(text).starts_with("data is in use by another server"),
            "{}",
            explained(text)
        );
    }

    #[test]
    fn anything_else_is_one_line_without_stack_trace() {
        let text = "\nCode: 115. DB::Exception: Unknown setting, Stack trace (when copying this):\n\n0. ? @ 0x1\n";
        assert_eq!(
            explained(text),
            "ClickHouse did not start: Code: 115. DB::Exception: Unknown setting (its log: data/clickhouse.log)"
        );
        assert!(explained("").contains("it gave no reason"));
    }
}
