//! What the ring asks about the host besides io_uring itself. The only file that names `urgo-sys`.
//!
//! # Safety
//!
//! Three plain system calls that fill a local of ours.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// `(major, minor)` of the running kernel; zeros when it cannot be told.
pub(crate) fn kernel_version() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// `kernel.io_uring_disabled`, 0 where the sysctl does not exist.
pub(crate) fn io_uring_disabled() -> u32 {
    read_number("/proc/sys/kernel/io_uring_disabled").map_or(0, |n| n as u32)
}

/// `kernel.io_uring_group`, -1 where unset.
pub(crate) fn io_uring_group() -> i64 {
    read_number("/proc/sys/kernel/io_uring_group").unwrap_or(-1)
}

fn read_number(path: &str) -> Option<i64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// `Seccomp:` of this thread.
pub(crate) fn seccomp_mode() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"))?
        .trim()
        .parse()
        .ok()
}

/// True when `URGO_DISABLE` lists `name`.
pub(crate) fn is_switched_off(name: &str) -> bool {
    std::env::var("URGO_DISABLE")
        .is_ok_and(|list| list.split(',').any(|entry| entry.trim() == name))
}

pub(crate) fn memlock_bytes() -> u64 {
    soft_limit(libc::RLIMIT_MEMLOCK)
}

pub(crate) fn descriptor_limit() -> u64 {
    soft_limit(libc::RLIMIT_NOFILE)
}

fn soft_limit(resource: libc::__rlimit_resource_t) -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: because the pointer is to a local rlimit; established by the line above; until the call returns.
    unsafe { libc::getrlimit(resource, &mut limit) };
    limit.rlim_cur
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: because the pointer is to a local timespec, and CLOCK_MONOTONIC always exists, so the call fills it;
    // established by the line above; until the read below.
    let now = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, now.as_mut_ptr());
        now.assume_init()
    };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

pub(crate) fn process_id() -> u32 {
    std::process::id()
}
