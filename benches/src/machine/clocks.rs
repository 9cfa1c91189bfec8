//! CPU time, as the kernel accounts for it.
//!
//! # Safety
//! Calls of libc that take plain integers and one struct of our own.

/// CPU time used so far by all threads of this process, in ns.
pub(crate) fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time used so far by all threads of the process `pid`, in ns; `None` once it has been reaped.
pub(crate) fn cpu_ns_of(pid: u32) -> Option<u64> {
    let mut clock = 0;
    // SAFETY: `clock` is a valid place for the one integer that the call writes, for the length of the call.
    let error = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) };
    (error == 0).then(|| clock_ns(clock))
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the one timespec that the call writes, for the length of the call.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    let error = std::io::Error::last_os_error();
    assert_eq!(result, 0, "clock {clock}: {error}");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
