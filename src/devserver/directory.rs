//! The data directory of a development server: its lock, its log, its built-in configuration.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::failure;
use super::run::RunError;

/// ClickHouse's messages, in the data directory.
pub(super) const LOG_NAME: &str = "clickhouse.log";

/// ClickHouse's lock of a data directory; it holds the server's process id.
pub(super) const STATUS_NAME: &str = "status";

/// The configuration used when none is given, in the data directory.
pub(super) const CONFIG_NAME: &str = "tidegate-devserver.xml";

/// Makes sessions look like those of a real server (`clickhouse local` is more permissive), bounds the number of
/// queries as a stock server does, and keeps memory and caches small enough for a laptop.
const CONFIG: &str = "\
<!-- Written by tidegate at every start; give the server a configuration file of your own to change it. -->
<clickhouse>
    <users_config>tidegate-devserver.xml</users_config>
    <max_concurrent_queries>1000</max_concurrent_queries>
    <max_server_memory_usage>4294967296</max_server_memory_usage>
    <mark_cache_size>268435456</mark_cache_size>
    <profiles><default>
        <implicit_select>0</implicit_select>
        <allow_introspection_functions>0</allow_introspection_functions>
        <storage_file_read_method>pread</storage_file_read_method>
    </default></profiles>
    <quotas><default/></quotas>
    <users><default>
        <password></password>
        <networks><ip>::/0</ip></networks>
        <profile>default</profile>
        <quota>default</quota>
        <access_management>1</access_management>
    </default></users>
</clickhouse>
";

/// How often to try to remove a temporary directory.
const REMOVE_ATTEMPTS_MAX: u32 = 10;

/// The data directory; a temporary one is removed when this is dropped.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    temporary: bool,
}

impl Directory {
    pub(super) fn open(wanted: Option<&Path>) -> Result<Self, RunError> {
        let temporary =
            || std::env::temp_dir().join(format!("tidegate-clickhouse-{:016x}", fastrand::u64(..)));
        let path = wanted.map_or_else(temporary, Path::to_owned);
        let prepare = || {
            // A name of our own must be new and private; one that was asked for may exist.
            DirBuilder::new().recursive(wanted.is_some()).mode(0o700).create(&path)?;
            path.canonicalize()
        };
        match prepare() {
            Ok(path) => Ok(Self { path, temporary: wanted.is_none() }),
            Err(source) => Err(RunError::Path { path, source }),
        }
    }

    /// Refuses a directory that another server has locked, before anything of that server's is touched.
    pub(super) fn check_unlocked(&self) -> Result<(), RunError> {
        match File::open(self.path.join(STATUS_NAME)) {
            Ok(status) if matches!(status.try_lock(), Err(TryLockError::WouldBlock)) => {
                let holder = failure::holder(&self.path);
                Err(RunError::PathInUse { path: self.path.clone(), holder })
            }
            _ => Ok(()),
        }
    }

    /// Puts the built-in configuration where the server looks for it.
    pub(super) fn write_config(&self) -> Result<(), RunError> {
        let written = fs::write(self.path.join(CONFIG_NAME), CONFIG);
        written.map_err(|source| RunError::Path { path: self.path.clone(), source })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.temporary {
            // Best effort. After an aborted stop the library's threads may still add files, so more than once.
            let gone = |()| matches!(self.path.try_exists(), Ok(false));
            (0..REMOVE_ATTEMPTS_MAX).any(|_| fs::remove_dir_all(&self.path).is_ok_and(gone));
        }
    }
}

/// ClickHouse's messages. Both standard streams go there while the library runs.
pub(super) struct Log {
    path: PathBuf,
    pub(super) file: File,
    /// What earlier runs wrote.
    start_bytes: u64,
}

impl Log {
    pub(super) fn open(directory: &Path) -> Result<Self, RunError> {
        let path = directory.join(LOG_NAME);
        let open = || {
            let file = OpenOptions::new().create(true).append(true).open(&path)?;
            let start_bytes = file.metadata()?.len();
            Ok((file, start_bytes))
        };
        match open() {
            Ok((file, start_bytes)) => Ok(Self { path, file, start_bytes }),
            Err(source) => Err(RunError::Path { path: directory.to_owned(), source }),
        }
    }

    pub(super) fn written_since_start(&self) -> io::Result<String> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.start_bytes))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}
