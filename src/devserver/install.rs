//! Fetches the ClickHouse library, once for a machine and version.
//!
//! It comes from a package registry through `npm`, which knows proxies, mirrors and certificates better than this
//! program could. The checksum is pinned here, so it does not matter who serves the file.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sha2::{Digest, Sha256};

/// The package, with the version whose behaviour the tests know.
const PACKAGE: &str = "@chdb/lib-linux-x64-gnu@26.7.3-stable.1";

/// Name in the cache. It carries the version, so that versions do not overwrite each other.
const LIBRARY_NAME: &str = "libchdb-26.7.3-stable.1.so";

/// Path inside the package.
const MEMBER: &str = "package/libchdb.so";

/// SHA-256 of the library.
const LIBRARY_SHA256: &str = "36ad4e999882821ef13cf2d0f52c93f48e6ee1b4498b35a201c23ce4b8d15bf5";

/// Work in progress, inside the cache so that the last step is a rename. Only the holder of the lock touches it.
const SCRATCH_NAME: &str = ".install";

/// Read size for the checksum.
const READ_BYTES: usize = 1 << 20;

/// Why the library could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The library exists for one platform only.
    #[error(
        "the ClickHouse library needs Linux on x86_64 with glibc; this build of tidegate is for {platform}"
    )]
    Platform {
        /// What this program was built for.
        platform: String,
    },
    /// There is no place for it.
    #[error("no cache directory: set TIDEGATE_CACHE_DIR, XDG_CACHE_HOME or HOME")]
    NoCacheDirectory,
    /// A needed program is not there.
    #[error("{program} is missing: install it, {hint}, and try again")]
    ProgramMissing {
        /// Its name.
        program: &'static str,
        /// Where it comes from.
        hint: &'static str,
    },
    /// The registry does not answer.
    #[error(
        "npm cannot reach its registry ({code}): check the network, a proxy or npm's own configuration"
    )]
    Network {
        /// npm's error code.
        code: String,
    },
    /// No room.
    #[error("no space left in {}: about 800 MB are needed; set TIDEGATE_CACHE_DIR to use another disk", path.display())]
    DiskFull {
        /// The cache directory.
        path: PathBuf,
    },
    /// Something else was delivered.
    #[error(
        "the checksum of the downloaded library differs (SHA-256 {actual}, expected {LIBRARY_SHA256}); \
             it was removed; try again, or look at which registry npm uses"
    )]
    Checksum {
        /// What was computed.
        actual: String,
    },
    /// A program failed for another reason.
    #[error("{program} failed: {text}")]
    Program {
        /// Its name.
        program: &'static str,
        /// Its own words, one line.
        text: String,
    },
    /// The file system said no.
    #[error("cannot write to {}: {source}", path.display())]
    Write {
        /// The cache directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// The cache directory that the environment asks for.
pub fn cache_directory() -> Result<PathBuf, InstallError> {
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("TIDEGATE_CACHE_DIR")
        .or_else(|| variable("XDG_CACHE_HOME").map(|path| path.join("tidegate")))
        .or_else(|| variable("HOME").map(|path| path.join(".cache").join("tidegate")))
        .ok_or(InstallError::NoCacheDirectory)
}

/// The installed library, if it is there whole. Looks at its size and at the stamp `install` left, not at 566 MB.
pub fn installed(cache: &Path) -> Option<PathBuf> {
    let library = cache.join(LIBRARY_NAME);
    let stamp = fs::read_to_string(stamp_path(&library)).ok()?;
    let bytes = fs::metadata(&library).ok()?.len();
    (stamp == stamp_text(bytes)).then_some(library)
}

/// Makes sure that the library is installed in this cache directory and returns where.
///
/// At once if it is there already. Installations at the same time wait for each other.
pub fn install(cache: &Path) -> Result<PathBuf, InstallError> {
    check_platform()?;
    if let Some(library) = installed(cache) {
        return Ok(library);
    }
    let write = |source| write_error(cache, source);
    fs::create_dir_all(cache).map_err(write)?;
    let lock = File::create(cache.join(".install.lock")).map_err(write)?;
    lock.lock().map_err(write)?;
    if let Some(library) = installed(cache) {
        return Ok(library);
    }
    let library = cache.join(LIBRARY_NAME);
    // A file without its stamp: an earlier run was interrupted, or somebody put it there. Saves the download.
    if library.exists() && checksum(&library).map_err(write)? == LIBRARY_SHA256 {
        return stamp(library).map_err(write);
    }
    let scratch = Scratch::create(cache.join(SCRATCH_NAME)).map_err(write)?;
    let package = download(cache, &scratch.0)?;
    let unpacked = unpack(cache, &scratch.0, &package)?;
    let actual = checksum(&unpacked).map_err(write)?;
    if actual != LIBRARY_SHA256 {
        return Err(InstallError::Checksum { actual });
    }
    fs::rename(&unpacked, &library).map_err(write)?;
    stamp(library).map_err(write)
}

fn check_platform() -> Result<(), InstallError> {
    if cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")) {
        return Ok(());
    }
    let libc = if cfg!(target_env = "musl") { " with musl" } else { "" };
    Err(InstallError::Platform {
        platform: format!("{} on {}{libc}", env::consts::OS, env::consts::ARCH),
    })
}

fn download(cache: &Path, scratch: &Path) -> Result<PathBuf, InstallError> {
    let mut npm = Command::new("npm");
    npm.args(["pack", "--loglevel=error", "--fetch-retries=2", "--fetch-retry-mintimeout=1000"]);
    npm.args(["--fetch-retry-maxtimeout=5000", PACKAGE]).current_dir(scratch);
    let output = output("npm", "with Node.js", &mut npm)?;
    if !output.status.success() {
        return Err(npm_error(cache, &String::from_utf8_lossy(&output.stderr)));
    }
    // Its last line is the name of the file it made.
    let name =
        String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned();
    Ok(scratch.join(name))
}

fn unpack(cache: &Path, scratch: &Path, package: &Path) -> Result<PathBuf, InstallError> {
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--gzip", "--no-same-owner", "--file"])
        .arg(package)
        .arg(MEMBER)
        .current_dir(scratch);
    let output = output("tar", "with gzip", &mut tar)?;
    if output.status.success() {
        return Ok(scratch.join(MEMBER));
    }
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains("No space left on device") {
        return Err(InstallError::DiskFull { path: cache.to_owned() });
    }
    Err(InstallError::Program { program: "tar", text: first_line(&text) })
}

fn output(
    program: &'static str,
    hint: &'static str,
    command: &mut Command,
) -> Result<Output, InstallError> {
    command.stdin(Stdio::null()).output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => InstallError::ProgramMissing { program, hint },
        _ => InstallError::Program { program, text: error.to_string() },
    })
}

/// npm writes `npm error code X`, then lines of explanation.
fn npm_error(cache: &Path, text: &str) -> InstallError {
    let lines = || text.lines().filter_map(|line| line.strip_prefix("npm error "));
    let code = lines().find_map(|line| line.strip_prefix("code ")).unwrap_or_default();
    match code {
        "ENOSPC" => InstallError::DiskFull { path: cache.to_owned() },
        "ENOTFOUND" | "EAI_AGAIN" | "ECONNREFUSED" | "ECONNRESET" | "ETIMEDOUT" | "ENETUNREACH"
        | "EHOSTUNREACH" | "ERR_SOCKET_TIMEOUT" => InstallError::Network { code: code.to_owned() },
        _ => {
            let rest: Vec<_> = lines().filter(|line| !line.starts_with("code ")).collect();
            InstallError::Program {
                program: "npm",
                text: first_line(rest.first().unwrap_or(&text)),
            }
        }
    }
}

fn write_error(cache: &Path, source: io::Error) -> InstallError {
    let path = cache.to_owned();
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            InstallError::DiskFull { path }
        }
        _ => InstallError::Write { path, source },
    }
}

fn first_line(text: &str) -> String {
    text.lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or("it gave no reason")
        .to_owned()
}

fn checksum(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = file.read(&mut buffer)?;
        let Some(read @ [_, ..]) = buffer.get(..count) else {
            break;
        };
        hasher.update(read);
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Records that the library was verified.
fn stamp(library: PathBuf) -> io::Result<PathBuf> {
    let bytes = fs::metadata(&library)?.len();
    fs::write(stamp_path(&library), stamp_text(bytes))?;
    Ok(library)
}

fn stamp_path(library: &Path) -> PathBuf {
    library.with_extension("so.verified")
}

fn stamp_text(bytes: u64) -> String {
    format!("sha256 {LIBRARY_SHA256} bytes {bytes}\n")
}

/// The work directory, removed with all it holds; also what an interrupted run has left.
struct Scratch(PathBuf);

impl Scratch {
    fn create(path: PathBuf) -> io::Result<Self> {
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::create_dir(&path)?,
        }
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Best effort: the next installation removes it first.
        drop(fs::remove_dir_all(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(text: &str) -> String {
        npm_error(Path::new("cache"), text).to_string()
    }

    #[test]
    fn npm_errors_say_what_to_do() {
        assert!(
            explained("npm error code ENOTFOUND\nnpm error errno x\n")
                .starts_with("npm cannot reach its registry")
        );
        assert!(explained("npm error code ENOSPC\n").starts_with("no space left in cache"));
        assert_eq!(
            explained("npm error code E404\nnpm error 404 Not Found - GET it\nnpm error 404\n"),
            "npm failed: 404 Not Found - GET it"
        );
        assert_eq!(explained("\nSegmentation fault\n"), "npm failed: Segmentation fault");
    }

    #[test]
    fn a_library_counts_only_with_its_stamp_and_size() {
        let cache = tempfile::tempdir().unwrap();
        let library = cache.path().join(LIBRARY_NAME);
        fs::write(&library, "not really").unwrap();
        assert_eq!(installed(cache.path()), None);
        stamp(library.clone()).unwrap();
        assert_eq!(installed(cache.path()), Some(library.clone()));
        fs::write(&library, "cut").unwrap();
        assert_eq!(installed(cache.path()), None);
    }
}
