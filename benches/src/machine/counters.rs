//! System calls of a process and of all its threads, counted by the kernel's `raw_syscalls:sys_enter` tracepoint.
//!
//! # Algorithm
//! The starter of a process opens a counter on its own thread that is off, is inherited and is turned on by exec. So it counts
//! nothing of the starter, everything of what the starter starts, and one descriptor shows the sum over all threads. The
//! started process gets that descriptor, by number, to read it at the edges of its measurement. Counting makes system calls
//! slower; so it has a round of its own, whose times are thrown away.
//!
//! # Safety
//! Descriptor numbers from the environment are read with `read(2)` into one integer of our own and never closed.

use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};
use std::os::fd::AsRawFd;

/// Environment variable that tells a measured process the descriptor of its counter.
pub(crate) const SYSCALLS_FD: &str = "URGO_BENCH_SYSCALLS_FD";

/// A counter that the next process started by this thread, and its children, add to.
#[derive(Debug)]
pub(crate) struct SyscallCount {
    counter: Counter,
}

impl SyscallCount {
    /// # Errors
    /// Why system calls cannot be counted here, in words.
    pub(crate) fn open() -> Result<SyscallCount, String> {
        let why = |error: &dyn std::fmt::Display| format!("system calls are not counted: {error}");
        let event = Tracepoint::with_id(event_id().map_err(|e| why(&e))?);
        let counter = Builder::new(event)
            .inherit(true)
            .enable_on_exec(true)
            .include_kernel()
            .include_hv()
            .build()
            .map_err(|e| why(&e))?;
        Ok(SyscallCount { counter })
    }

    /// The descriptor, which a started process inherits once it is told not to close it.
    pub(crate) fn raw_fd(&self) -> i32 {
        self.counter.as_raw_fd()
    }

    /// Calls counted so far.
    ///
    /// # Panics
    /// If the counter cannot be read.
    pub(crate) fn now(&self) -> u64 {
        read_count(self.raw_fd()).unwrap_or_else(|why| panic!("{why}"))
    }
}

/// Calls of this process counted so far, if its starter counts them.
///
/// # Panics
/// If the starter says that it does, and the counter is not there: that is no reason to count nothing in silence.
pub(crate) fn inherited_count() -> Option<u64> {
    let fd = std::env::var(SYSCALLS_FD).ok()?;
    let fd = fd
        .parse()
        .unwrap_or_else(|_| panic!("{SYSCALLS_FD}={fd} is no descriptor"));
    Some(read_count(fd).unwrap_or_else(|why| panic!("{why}")))
}

/// Number of the tracepoint, from wherever tracefs is mounted.
fn event_id() -> Result<u64, String> {
    let mounts = std::fs::read_to_string("/proc/mounts").map_err(|e| e.to_string())?;
    let is_tracefs = |line: &&str| line.split(' ').nth(2) == Some("tracefs");
    let mount = mounts
        .lines()
        .find(is_tracefs)
        .and_then(|line| line.split(' ').nth(1));
    let mount = mount
        .ok_or("tracefs is not mounted (as root: mount -t tracefs nodev /sys/kernel/tracing)")?;
    let path = format!("{mount}/events/raw_syscalls/sys_enter/id");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    text.trim().parse().map_err(|e| format!("{path}: {e}"))
}

fn read_count(fd: i32) -> Result<u64, String> {
    // With the builder's default read format a counter is its value and the two times it was enabled and running.
    let mut values = [0_u64; 4];
    // SAFETY: `values` is valid for writes of its own size, for the length of the call.
    let got = unsafe { libc::read(fd, values.as_mut_ptr().cast(), size_of_val(&values)) };
    match got {
        8.. => Ok(values[0]),
        0.. => Err("the counter of system calls has no value".to_owned()),
        _ => {
            let error = std::io::Error::last_os_error();
            Err(format!(
                "the counter of system calls cannot be read: {error}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_is_not_there_is_an_error() {
        assert!(read_count(-1).unwrap_err().contains("cannot be read"));
        let nothing = std::fs::File::open("/dev/null").unwrap();
        assert!(read_count(nothing.as_raw_fd()).is_err());
    }
}
