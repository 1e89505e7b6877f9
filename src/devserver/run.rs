//! Turns the current process into a ClickHouse server.
//!
//! The library has no "run a server" call. It has the entry point of `clickhouse local`, and four statements make
//! that a server: two start the listeners, one writes the ports into a pipe, which is the ready signal, and the
//! last reads from a second pipe that nobody writes to. Closing that pipe ends the statement, and with it
//! `clickhouse local` shuts down in order: inserts finish, parts are on disk.
//!
//! Threads: the library's, one that waits for the ready line, one that takes signals, one that watches standard
//! input. They only send an [`Event`]; every decision is made in [`serve`].

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use super::directory::{self, Directory, Log};
use super::failure;
use super::library::{self, Library};

/// As large as the main thread's usual stack, for which ClickHouse's parser is written.
const STACK_BYTES: usize = 8 << 20;

/// How to run the server.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The shared library, see [`installed`](super::installed).
    pub library: PathBuf,
    /// Where the data lives. None: a temporary directory that is removed at the end.
    pub path: Option<PathBuf>,
    /// Port of the HTTP interface; 0 lets the system choose.
    pub http_port: u16,
    /// Port of the native interface; 0 lets the system choose.
    pub tcp_port: u16,
    /// ClickHouse configuration instead of the built-in one.
    pub config_file: Option<PathBuf>,
    /// The address to listen on.
    pub listen_host: IpAddr,
    /// How long a stop may take before the process ends anyway.
    pub stop_timeout: Duration,
    /// Stop when standard input ends, so that the server dies with the process that started it.
    pub stop_on_stdin_eof: bool,
}

/// How a server that had started came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// In order, everything is on disk.
    Stopped,
    /// By a second signal or after the stop timeout; like a crash, which ClickHouse recovers from.
    Aborted,
}

/// Why the server did not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The directory cannot be used at all.
    #[error("cannot use {} as data directory: {source}", path.display())]
    Path {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another server has the directory.
    #[error("{} is in use by {holder}; stop that one or choose another --path", path.display())]
    PathInUse {
        /// The directory.
        path: PathBuf,
        /// Who has it.
        holder: String,
    },
    /// Another program has the port.
    #[error(
        "{address} is in use by another program; choose another port with {option}, or 0 for any free one"
    )]
    PortInUse {
        /// What was to be listened on.
        address: SocketAddr,
        /// The option that changes it.
        option: &'static str,
    },
    /// The configuration file cannot be read.
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The library cannot be loaded.
    #[error("cannot load {}: {source}; `tidegate clickhouse install` fetches it again if you remove it", path.display())]
    Library {
        /// The library.
        path: PathBuf,
        /// What the loader says.
        source: libloading::Error,
    },
    /// ClickHouse ended on its own.
    #[error("ClickHouse {event}: {text}{}", log_hint(log.as_deref()))]
    Failed {
        /// What happened: it did not start, or it ended later.
        event: &'static str,
        /// The first line of its exception.
        text: String,
        /// Where there may be more; None when that went with a temporary directory.
        log: Option<PathBuf>,
    },
    /// Pipes, threads or signals failed.
    #[error("cannot set up the server process: {0}")]
    Process(#[from] io::Error),
}

fn log_hint(log: Option<&Path>) -> String {
    log.map_or_else(String::new, |log| format!(" (its log: {})", log.display()))
}

/// What the threads report.
enum Event {
    Ready(String),
    StopWanted,
    Ended(Option<String>),
}

/// Runs the server until a signal, or the end of standard input, stops it.
///
/// Writes the ready line to standard output. Call it before the process has other threads, and end the process
/// with [`leave`](super::leave) afterwards.
pub fn run(options: &RunOptions) -> Result<Outcome, RunError> {
    library::block_stop_signals()?;
    if let Some(config) = &options.config_file {
        File::open(config).map_err(|source| RunError::Config { path: config.clone(), source })?;
    }
    let directory = Directory::open(options.path.as_deref())?;
    directory.check_unlocked()?;
    if options.config_file.is_none() {
        directory.write_config()?;
    }
    let library = Library::open(&options.library)
        .map_err(|source| RunError::Library { path: options.library.clone(), source })?;
    let log = Log::open(&directory.path)?;
    let (mut output, error) = library::copy_standard_streams()?;
    library::replace_standard_streams(&log.file, &log.file)?;
    let result = serve(options, &directory.path, library, &mut output, &log);
    library::replace_standard_streams(&output, &error)?;
    result
}

/// Starts the library and the threads around it, and decides what their events mean.
fn serve(
    options: &RunOptions,
    path: &Path,
    library: Library,
    output: &mut File,
    log: &Log,
) -> Result<Outcome, RunError> {
    let (hold_read, hold) = io::pipe()?;
    let (ready_read, ready) = io::pipe()?;
    let arguments = local_arguments(options, path, &hold_read, &ready)?;
    let (sender, events) = mpsc::channel();
    let ended = sender.clone();
    thread::Builder::new().name("clickhouse".into()).stack_size(STACK_BYTES).spawn(move || {
        let error = library.local(&arguments);
        // The pipe ends belong to the statements; they are open until the last one has ended.
        drop((hold_read, ready));
        send(&ended, Event::Ended(error));
    })?;
    watch(&sender, ready_read, options.stop_on_stdin_eof)?;

    let mut is_ready = false;
    loop {
        match events.recv() {
            Ok(Event::Ready(line)) => {
                is_ready = true;
                announce(output, &line, options.listen_host, path)?;
            }
            Ok(Event::StopWanted) => return Ok(stop(&events, hold, options.stop_timeout)),
            Ok(Event::Ended(error)) => {
                let text = error.map_or_else(|| log.written_since_start(), Ok)?;
                return Err(failure::explain(&text, is_ready, options, path));
            }
            Err(closed) => return Err(RunError::Process(io::Error::other(closed))),
        }
    }
}

/// Ends the last statement and waits for the library to return.
fn stop(events: &Receiver<Event>, hold: PipeWriter, timeout: Duration) -> Outcome {
    drop(hold);
    loop {
        match events.recv_timeout(timeout) {
            Ok(Event::Ready(_)) => {}
            Ok(Event::Ended(_)) => return Outcome::Stopped,
            Ok(Event::StopWanted)
            | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Outcome::Aborted;
            }
        }
    }
}

/// Starts the threads that wait for the ready line, for signals and for the end of standard input.
fn watch(sender: &Sender<Event>, ready: PipeReader, stdin: bool) -> io::Result<()> {
    let events = sender.clone();
    thread::Builder::new().name("ready".into()).spawn(move || {
        let mut line = String::new();
        if BufReader::new(ready).read_line(&mut line).is_ok_and(|count| count > 0) {
            send(&events, Event::Ready(line));
        }
    })?;
    let events = sender.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        while library::wait_for_stop_signal().is_ok() {
            send(&events, Event::StopWanted);
        }
    })?;
    if stdin {
        let events = sender.clone();
        thread::Builder::new().name("stdin".into()).spawn(move || {
            // An error ends it just as well: there is nobody left to wait for.
            drop(io::copy(&mut io::stdin(), &mut io::sink()));
            send(&events, Event::StopWanted);
        })?;
    }
    Ok(())
}

/// Nobody listens any more when the process is about to end; then there is nothing to say.
fn send(events: &Sender<Event>, event: Event) {
    drop(events.send(event));
}

/// The command line of `clickhouse local`.
fn local_arguments(
    options: &RunOptions,
    path: &Path,
    hold: &PipeReader,
    ready: &PipeWriter,
) -> Result<Vec<CString>, RunError> {
    let config = options.config_file.clone().unwrap_or_else(|| path.join(directory::CONFIG_NAME));
    let statements = format!(
        "SYSTEM START LISTEN HTTP; SYSTEM START LISTEN TCP; \
         SELECT version(), getServerPort('http_port'), getServerPort('tcp_port') \
         INTO OUTFILE '/proc/self/fd/{ready}' APPEND FORMAT TSV; \
         SELECT count() FROM file('/proc/self/fd/{hold}', 'LineAsString', 'line String') \
         SETTINGS max_execution_time = 0 FORMAT Null",
        ready = ready.as_raw_fd(),
        hold = hold.as_raw_fd(),
    );
    let mut arguments: Vec<OsString> = vec!["clickhouse".into(), "--multiquery".into()];
    let mut option = |name: &str, value: OsString| {
        let mut argument = OsString::from(name);
        argument.push(value);
        arguments.push(argument);
    };
    option("--path=", path.into());
    option("--config-file=", config.into());
    option("--query=", statements.into());
    // From here on the arguments overrule the configuration file.
    option("--", OsString::new());
    option("--listen_host=", options.listen_host.to_string().into());
    option("--http_port=", options.http_port.to_string().into());
    option("--tcp_port=", options.tcp_port.to_string().into());
    let strings = arguments.into_iter().map(|argument| CString::new(argument.into_vec()));
    strings.collect::<Result<_, _>>().map_err(|error| RunError::Process(error.into()))
}

/// Writes the ready line, from `version, HTTP port, native port` as the ready statement gives them.
fn announce(output: &mut File, line: &str, host: IpAddr, path: &Path) -> Result<(), RunError> {
    let mut fields = line.trim().split('\t');
    let version = fields.next().unwrap_or_default();
    let ports: Vec<u16> = fields.filter_map(|field| field.parse().ok()).collect();
    let [http, tcp] = ports[..] else {
        return Err(RunError::Process(io::Error::other(format!("unexpected ready line {line:?}"))));
    };
    let (http, tcp) = (SocketAddr::new(host, http), SocketAddr::new(host, tcp));
    let pid = std::process::id();
    writeln!(
        output,
        "clickhouse ready version={version} http={http} tcp={tcp} pid={pid} path={}",
        path.display()
    )?;
    Ok(())
}
