//! What the ring asks about the host besides io_uring itself. With `enter.rs`, which reports its end, the only file that
//! names `urgo-sys`.

use urgo_sys::host::{self, KernelVersion, SeccompMode};
use urgo_sys::limits::{self, Resource};

/// `(major, minor, patch)` of the running kernel.
pub(crate) fn kernel_version() -> (u32, u32, u32) {
    let version = KernelVersion::current();
    (version.major, version.minor, version.patch)
}

/// `kernel.io_uring_disabled`, 0 where the sysctl does not exist.
pub(crate) fn io_uring_disabled() -> u32 {
    host::io_uring_disabled().unwrap_or(0)
}

pub(crate) fn io_uring_group() -> Option<u32> {
    host::io_uring_group()
}

/// True when a seccomp filter is active; `None` when that cannot be told.
pub(crate) fn is_filtered() -> Option<bool> {
    host::seccomp_mode().map(|mode| mode != SeccompMode::Off)
}

/// True when `URGO_DISABLE` lists `name`.
pub(crate) fn is_switched_off(name: &str) -> bool {
    urgo_sys::switches::disabled(name)
}

/// `RLIMIT_MEMLOCK`, soft; `None` is unlimited.
pub(crate) fn memlock_bytes() -> Option<u64> {
    limits::get(Resource::LockedBytes).soft
}

/// `RLIMIT_NOFILE`, soft; `None` is unlimited.
pub(crate) fn descriptor_limit() -> Option<u64> {
    limits::get(Resource::Descriptors).soft
}

/// `CLOCK_MONOTONIC` in nanoseconds.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    urgo_sys::clock::monotonic_ns()
}

pub(crate) fn process_id() -> u32 {
    std::process::id()
}
