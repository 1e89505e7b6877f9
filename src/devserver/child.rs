//! A development server as a child process, for tests and the demo.
//!
//! Whatever happens to the parent, no server is left behind: [`DevServer`] stops its child when dropped, and a
//! parent that dies without dropping anything closes the pipe that is the child's standard input.

use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::http::{self, QueryError};
use super::library;

/// Longest wait for the ready line. A start takes well under a second; a loaded machine with a cold disk, more.
const READY_WAIT: Duration = Duration::from_secs(60);

/// Longest wait for an orderly stop; more than the server's own stop timeout, which is 20 s.
const STOP_WAIT: Duration = Duration::from_secs(25);

/// Longest wait for an orderly stop when nobody is there to hear that it failed.
const DROP_WAIT: Duration = Duration::from_secs(5);

/// How often to look whether the process has ended; the standard library cannot wait with a limit.
const POLL: Duration = Duration::from_millis(5);

/// How much of the child's standard error is kept for an error message.
const MESSAGE_BYTES_MAX: u64 = 16 << 10;

/// What server to start. The default is an empty one on free ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DevServerOptions {
    /// Data directory, kept. None: a temporary one that goes with the server.
    pub path: Option<PathBuf>,
    /// HTTP port; 0 for any free one.
    pub http_port: u16,
    /// Native port; 0 for any free one.
    pub tcp_port: u16,
    /// ClickHouse configuration (users, profiles, limits) instead of the built-in one.
    pub config_file: Option<PathBuf>,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The program cannot be started.
    #[error("cannot start {}: {source}", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It ended before it was ready.
    #[error("the ClickHouse server did not start ({status}): {message}")]
    Exited {
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        message: String,
    },
    /// It is neither ready nor gone.
    #[error("the ClickHouse server was not ready after {} s", READY_WAIT.as_secs())]
    Timeout,
    /// It said something else.
    #[error("unexpected ready line {line:?}")]
    ReadyLine {
        /// What it said.
        line: String,
    },
    /// A restart needs a server to stop first.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// A restart needs data that outlive the server.
    #[error("a server with a temporary data directory cannot be restarted")]
    TemporaryPath,
}

/// Why a server did not stop in order. It is gone all the same.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// It was killed in the end.
    #[error("the ClickHouse server did not stop within {} s and was killed", STOP_WAIT.as_secs())]
    Timeout,
    /// It ended in another way.
    #[error("the ClickHouse server ended with {0}")]
    Unclean(ExitStatus),
    /// The system said no.
    #[error("cannot stop the ClickHouse server: {0}")]
    Io(#[from] io::Error),
}

/// A running server; it ends with this value.
#[derive(Debug)]
pub struct DevServer {
    program: PathBuf,
    options: DevServerOptions,
    child: Child,
    stderr: Option<JoinHandle<String>>,
    ready: Ready,
}

impl DevServer {
    /// Starts `program clickhouse run` in a process group of its own and waits until it answers.
    ///
    /// The group matters: `SYSTEM SHUTDOWN` signals the server's whole group.
    pub fn start(program: &Path, options: &DevServerOptions) -> Result<Self, StartError> {
        let spawned = command(program, options).spawn();
        let mut child =
            spawned.map_err(|source| StartError::Spawn { program: program.to_owned(), source })?;
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        // From here on dropping `server` ends the child, also on the early returns.
        let mut server = Self {
            program: program.to_owned(),
            options: options.clone(),
            child,
            stderr: stderr.map(|stderr| thread::spawn(move || collect(stderr))),
            ready: Ready::default(),
        };
        let line = stdout.map_or(Ok(String::new()), first_line)?;
        if line.is_empty() {
            return Err(server.exited());
        }
        server.ready = Ready::parse(&line).ok_or(StartError::ReadyLine { line })?;
        Ok(server)
    }

    /// The HTTP interface as a URL, without a slash at the end.
    pub fn http_url(&self) -> String {
        format!("http://{}", self.ready.http)
    }

    /// The HTTP interface.
    pub fn http_address(&self) -> SocketAddr {
        self.ready.http
    }

    /// The native interface.
    pub fn tcp_address(&self) -> SocketAddr {
        self.ready.tcp
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The server's data directory.
    pub fn path(&self) -> &Path {
        &self.ready.path
    }

    /// ClickHouse's version.
    pub fn version(&self) -> &str {
        &self.ready.version
    }

    /// Options that start this server again, with the same data and at the same addresses.
    pub fn options(&self) -> DevServerOptions {
        DevServerOptions {
            path: self.options.path.as_ref().map(|_| self.ready.path.clone()),
            http_port: self.ready.http.port(),
            tcp_port: self.ready.tcp.port(),
            config_file: self.options.config_file.clone(),
        }
    }

    /// Runs one statement as the user `default` and returns the answer's body.
    pub fn query(&self, sql: &str) -> Result<String, QueryError> {
        http::query(self.ready.http, None, sql)
    }

    /// Runs one statement as this user.
    pub fn query_as(&self, user: &str, password: &str, sql: &str) -> Result<String, QueryError> {
        http::query(self.ready.http, Some((user, password)), sql)
    }

    /// Stops the server in order: running statements may finish, everything is on disk.
    pub fn stop(mut self) -> Result<(), StopError> {
        library::terminate(self.child.id())?;
        match self.wait(STOP_WAIT)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => {
                self.remove_temporary_path();
                Err(StopError::Unclean(status))
            }
            // Dropping it kills it.
            None => Err(StopError::Timeout),
        }
    }

    /// Ends the server as a crash would.
    pub fn kill(mut self) -> io::Result<()> {
        self.kill_and_wait()
    }

    /// Stops the server in order and starts it again with the same data and at the same addresses.
    pub fn restart(self) -> Result<Self, StartError> {
        let (program, options) = (self.program.clone(), self.options());
        if options.path.is_none() {
            return Err(StartError::TemporaryPath);
        }
        self.stop()?;
        Self::start(&program, &options)
    }

    fn exited(&mut self) -> StartError {
        match self.child.wait() {
            Ok(status) => StartError::Exited { status, message: self.message() },
            Err(source) => StartError::Spawn { program: self.program.clone(), source },
        }
    }

    fn message(&mut self) -> String {
        let text = self.stderr.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        text.trim().trim_start_matches("tidegate: ").to_owned()
    }

    /// Waits for the process to end; None when it still runs after this time.
    fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let start = Instant::now();
        loop {
            let status = self.child.try_wait()?;
            if status.is_some() || start.elapsed() >= limit {
                return Ok(status);
            }
            thread::sleep(POLL);
        }
    }

    fn kill_and_wait(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.remove_temporary_path();
        Ok(())
    }

    /// A server that did not stop in order may not have done that itself.
    fn remove_temporary_path(&self) {
        if self.options.path.is_none() && !self.ready.path.as_os_str().is_empty() {
            // Best effort: it is in the system's temporary directory.
            drop(std::fs::remove_dir_all(&self.ready.path));
        }
    }
}

impl Drop for DevServer {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let stopped = library::terminate(self.child.id()).and_then(|()| self.wait(DROP_WAIT));
        if !matches!(stopped, Ok(Some(_))) {
            // Nothing is left to try if even this fails.
            drop(self.kill_and_wait());
        }
    }
}

fn command(program: &Path, options: &DevServerOptions) -> Command {
    let mut command = Command::new(program);
    command.args(["clickhouse", "run", "--stop-on-stdin-eof"]);
    command.arg("--http-port").arg(options.http_port.to_string());
    command.arg("--tcp-port").arg(options.tcp_port.to_string());
    if let Some(path) = &options.path {
        command.arg("--path").arg(path);
    }
    if let Some(config) = &options.config_file {
        command.arg("--config-file").arg(config);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    command
}

/// Reads standard error to its end and keeps the beginning.
fn collect(mut stderr: ChildStderr) -> String {
    let mut kept = Vec::new();
    // Both end when the process does; there is nobody to tell about an error.
    drop(stderr.by_ref().take(MESSAGE_BYTES_MAX).read_to_end(&mut kept));
    drop(io::copy(&mut stderr, &mut io::sink()));
    String::from_utf8_lossy(&kept).into_owned()
}

/// The first line that the process writes; empty if it ends without one.
fn first_line(stdout: ChildStdout) -> Result<String, StartError> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        let mut stdout = BufReader::new(stdout);
        // An error is the same as the end: no line.
        drop(stdout.read_line(&mut line));
        drop(sender.send(line));
        // Keeps the pipe open and empty for as long as the server runs.
        drop(io::copy(&mut stdout, &mut io::sink()));
    });
    receiver.recv_timeout(READY_WAIT).map_err(|_| StartError::Timeout)
}

/// What the ready line says.
#[derive(Debug)]
struct Ready {
    version: String,
    http: SocketAddr,
    tcp: SocketAddr,
    path: PathBuf,
}

impl Ready {
    fn parse(line: &str) -> Option<Self> {
        let rest = line.trim_end_matches('\n').strip_prefix("clickhouse ready version=")?;
        let (version, rest) = rest.split_once(" http=")?;
        let (http, rest) = rest.split_once(" tcp=")?;
        let (tcp, rest) = rest.split_once(" pid=")?;
        // The path is last because it may contain spaces.
        let (_pid, path) = rest.split_once(" path=")?;
        Some(Self {
            version: version.to_owned(),
            http: http.parse().ok()?,
            tcp: tcp.parse().ok()?,
            path: PathBuf::from(path),
        })
    }
}

impl Default for Ready {
    fn default() -> Self {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        Self { version: String::new(), http: nowhere, tcp: nowhere, path: PathBuf::new() }
    }
}
