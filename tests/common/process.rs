//! What a process has cost so far, from `/proc`.

use std::time::Duration;

/// Clock ticks of `/proc/PID/stat`; the same on every Linux that people use.
const TICKS_PER_SECOND: u64 = 100;

/// Most memory that it had resident, bytes.
pub fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

/// CPU time of all its threads, of user and system.
pub fn cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name, in parentheses, may have spaces; utime and stime are fields 14 and 15.
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    let ticks: u64 = rest.split(' ').skip(11).take(2).map(|it| it.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND)
}
