//! What the kernel says of a process: memory and changes of context.
//!
//! # Safety
//! Calls of libc that take plain integers or one struct of our own.

use std::fs;

/// Changes of context and page faults of this process, all threads, since its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// Times that a thread gave its CPU up, or lost it.
    pub(crate) switches: u64,
    /// Pages touched for the first time.
    pub(crate) faults: u64,
}

impl Usage {
    /// Of this process, until now.
    pub(crate) fn now() -> Usage {
        // SAFETY: all zeroes is a valid `rusage`: integers only.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is a valid place for the one struct that the call writes, for the length of the call.
        let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
        assert_eq!(result, 0, "getrusage: {}", std::io::Error::last_os_error());
        Usage {
            switches: (usage.ru_nvcsw + usage.ru_nivcsw) as u64,
            faults: usage.ru_minflt as u64,
        }
    }
}

/// Most memory that the process has had resident at one time, in bytes.
pub(crate) fn peak_bytes_of(pid: u32) -> Option<u64> {
    status_kib(pid, "VmHWM:").map(|kib| kib << 10)
}

/// Resident memory and page tables of the process, in bytes.
pub(crate) fn resident_bytes_of(pid: u32) -> Option<u64> {
    Some((status_kib(pid, "VmRSS:")? + status_kib(pid, "VmPTE:")?) << 10)
}

/// Changes of context of all threads of the process that are alive.
pub(crate) fn switches_of(pid: u32) -> Option<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut sum = 0;
    for task in tasks.flatten() {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        sum += ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"]
            .iter()
            .filter_map(|key| number_after(&status, key))
            .sum::<u64>();
    }
    Some(sum)
}

/// Time in ns in which threads of the process that are alive ran or waited for a CPU; `None` where the kernel does not count it.
pub(crate) fn runnable_ns_of(pid: u32) -> Option<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut sum = 0;
    for task in tasks.flatten() {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        let times = text.split_ascii_whitespace().take(2);
        sum += times.filter_map(|ns| ns.parse::<u64>().ok()).sum::<u64>();
    }
    Some(sum)
}

/// Ends this process, and what it becomes by exec, when the thread that started it ends, so that a server never outlives its
/// bench. `parent` is the process that started this one. Makes two system calls and allocates nothing, so it may run between
/// fork and exec.
///
/// # Errors
/// What the kernel says; `ESRCH` if the parent has ended already, which the kernel would never tell.
pub(crate) fn die_with(parent: u32) -> std::io::Result<()> {
    // SAFETY: the call takes plain integers, and is async-signal-safe: it is one system call.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // In this order: a parent that ends after this look is told of by the signal.
    // SAFETY: the call takes nothing and cannot fail; it is async-signal-safe.
    if unsafe { libc::getppid() } != parent as libc::pid_t {
        return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(())
}

fn status_kib(pid: u32, key: &str) -> Option<u64> {
    number_after(
        &fs::read_to_string(format!("/proc/{pid}/status")).ok()?,
        key,
    )
}

fn number_after(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}
