//! The unsafe corner of the development server: the C entry point, signal masks, descriptors and `_exit`.
//!
//! Each function is a safe wrapper around one call, so that the files beside this one can be read without
//! thinking about memory.

#![expect(
    unsafe_code,
    reason = "a C library is called, and the standard library has no signal masks, dup2 or _exit"
)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr;

/// `local_result_v2` of the library's C header.
#[repr(C)]
struct LocalResult {
    buffer: *mut c_char,
    length: usize,
    vector: *mut c_void,
    elapsed: f64,
    rows_read: u64,
    bytes_read: u64,
    error_message: *mut c_char,
}

type QueryStable = unsafe extern "C" fn(c_int, *mut *mut c_char) -> *mut LocalResult;
type FreeResult = unsafe extern "C" fn(*mut LocalResult);

/// ClickHouse as a loaded library. It is never unloaded: some of its threads outlive the call that started them.
#[derive(Debug)]
pub(super) struct Library(ManuallyDrop<libloading::Library>);

impl Library {
    /// Loads the library and checks that it has the entry points.
    pub(super) fn open(path: &Path) -> Result<Self, libloading::Error> {
        // SAFETY: loading runs the library's initialisers. It is the file whose checksum `install` verified, or
        // one that the operator put in its place; its initialisers need nothing from this program.
        let library = unsafe { libloading::Library::new(path) }?;
        // SAFETY: the symbols are only looked up here; `local` states why their types are right.
        unsafe {
            library.get::<QueryStable>("query_stable_v2")?;
            library.get::<FreeResult>("free_result_v2")?;
        }
        Ok(Self(ManuallyDrop::new(library)))
    }

    /// Runs `clickhouse local` with these arguments until its last statement ends.
    ///
    /// Returns what the library says went wrong. A failed statement is not among that: its text goes to
    /// standard error.
    pub(super) fn local(&self, arguments: &[CString]) -> Option<String> {
        let mut pointers: Vec<*mut c_char> =
            arguments.iter().map(|argument| argument.as_ptr().cast_mut()).collect();
        let count = c_int::try_from(pointers.len()).unwrap_or(c_int::MAX);
        pointers.push(ptr::null_mut());
        // SAFETY: the types are those of the library's header (`local_result_v2 * query_stable_v2(int, char **)`
        // and `void free_result_v2(local_result_v2 *)`). The array has `count` valid C strings and a null at its
        // end, all of which outlive the call; the library reads the strings and does not write to them.
        // The result is null or valid until it is freed, once, at the end; the text is copied before that.
        unsafe {
            let query = self.0.get::<QueryStable>("query_stable_v2").ok()?;
            let free = self.0.get::<FreeResult>("free_result_v2").ok()?;
            let result = query(count, pointers.as_mut_ptr());
            let message = result.as_ref()?.error_message;
            let text = (!message.is_null())
                .then(|| CStr::from_ptr(message).to_string_lossy().into_owned());
            free(result);
            text
        }
    }
}

/// Keeps the signals that ask for a stop from this thread and every thread it starts later.
///
/// Call it before the first thread exists; [`wait_for_stop_signal`] then takes them one at a time.
pub(super) fn block_stop_signals() -> io::Result<()> {
    let set = stop_signals();
    // SAFETY: `set` is initialised; a null pointer says that the old mask is not wanted.
    let error = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Waits for the next blocked stop signal.
pub(super) fn wait_for_stop_signal() -> io::Result<()> {
    let set = stop_signals();
    let mut signal = 0;
    // SAFETY: both pointers are to live, initialised locals.
    let error = unsafe { libc::sigwait(&raw const set, &raw mut signal) };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

fn stop_signals() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set (it fails only for a bad pointer), sigaddset gets valid numbers.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGHUP);
        set.assume_init()
    }
}

/// Asks a process to stop. Only for a child that has not been waited for, so that the id is still its own.
pub(super) fn terminate(pid: u32) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: a plain system call without memory arguments.
    if unsafe { libc::kill(pid, libc::SIGTERM) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Makes the descriptors of standard output and standard error refer to other files.
pub(super) fn replace_standard_streams(
    output: &impl AsRawFd,
    error: &impl AsRawFd,
) -> io::Result<()> {
    for (from, to) in
        [(output.as_raw_fd(), libc::STDOUT_FILENO), (error.as_raw_fd(), libc::STDERR_FILENO)]
    {
        // SAFETY: both are open descriptors; the standard streams stay open, so nothing that uses them is misled.
        if unsafe { libc::dup2(from, to) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Copies of standard output and standard error that survive [`replace_standard_streams`].
pub(super) fn copy_standard_streams() -> io::Result<(File, File)> {
    use std::os::fd::AsFd;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let error = io::stderr().as_fd().try_clone_to_owned()?;
    Ok((File::from(output), File::from(error)))
}

/// Ends the process at once, without running destructors.
///
/// The library's static destructors can crash while its threads still run, so a process that has loaded it
/// leaves this way. Whatever must be written or removed has to be so before.
pub fn leave(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions; it does not return.
    unsafe { libc::_exit(code) }
}
