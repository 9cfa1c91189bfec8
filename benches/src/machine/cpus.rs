//! Which CPUs a process may use.
//!
//! # Safety
//! Calls of libc that read or write one `cpu_set_t` of our own.

/// CPUs that the calling thread may use, in ascending order. Call before the first [`pin_to`].
pub(crate) fn allowed_cpus() -> Vec<usize> {
    // SAFETY: all zeroes is a valid, empty `cpu_set_t`.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a valid place of the size that is passed, for the length of the call.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
    let error = std::io::Error::last_os_error();
    assert_eq!(result, 0, "sched_getaffinity: {error}");
    (0..libc::CPU_SETSIZE as usize)
        // SAFETY: `cpu` stays below the number of bits in `set`, by the range.
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect()
}

/// Confines the calling thread, and the threads and processes that it will start, to `cpus`. Makes one system call and
/// allocates nothing, so it may run between fork and exec.
///
/// # Errors
/// What the kernel says, for example if none of `cpus` is there.
pub(crate) fn pin_to(cpus: &[usize]) -> std::io::Result<()> {
    // SAFETY: all zeroes is a valid, empty `cpu_set_t`.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus {
        if cpu < libc::CPU_SETSIZE as usize {
            // SAFETY: `cpu` is below the number of bits in `set`, by the condition.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
    }
    // SAFETY: `set` is valid and of the size that is passed, for the length of the call.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
