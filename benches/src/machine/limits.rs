//! How many descriptors a process may have.
//!
//! # Safety
//! Calls of libc that read or write one `rlimit` of our own.

/// Lets this process, and the processes that it will start, open as many descriptors as it can be allowed.
pub(crate) fn allow_descriptors() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for the one struct that the call writes, for the length of the call.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let error = std::io::Error::last_os_error();
    assert_eq!(result, 0, "limit of descriptors: {error}");
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is valid for the length of the call.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    let error = std::io::Error::last_os_error();
    assert_eq!(result, 0, "limit of descriptors: {error}");
}
