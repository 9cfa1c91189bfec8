//! How a plain thread waits for readiness: `ppoll(2)` with an absolute deadline.
//!
//! # Safety
//!
//! Calls `ppoll(2)` through `libc` with pointers to locals that outlive the call.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::RawFd;
use std::ptr;

use crate::io::NEVER;
use crate::sched;

/// One descriptor to wait for: `events` as in `poll(2)`.
pub(super) fn interest(fd: RawFd, events: i16) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}

/// Blocks the calling thread until one of `interests` is ready.
///
/// # Errors
/// `TimedOut` at the deadline; errors of `ppoll(2)` other than `EINTR`, which is repeated.
pub(super) fn poll(interests: &mut [libc::pollfd], deadline: u64) -> io::Result<()> {
    loop {
        let remaining = match deadline {
            NEVER => None,
            _ => Some(timespec(deadline.saturating_sub(sched::now_ns()))),
        };
        let remaining_ptr = remaining.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the array and the timespec are locals or borrowed for longer than the call; null means no timeout
        // and no signal mask.
        let ready = unsafe {
            libc::ppoll(
                interests.as_mut_ptr(),
                interests.len() as libc::nfds_t,
                remaining_ptr,
                ptr::null(),
            )
        };
        match ready {
            1.. => return Ok(()),
            0 => return Err(io::ErrorKind::TimedOut.into()),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

fn timespec(ns: u64) -> libc::timespec {
    const NS_PER_SEC: u64 = 1_000_000_000;
    libc::timespec {
        tv_sec: libc::time_t::try_from(ns / NS_PER_SEC).unwrap_or(libc::time_t::MAX),
        tv_nsec: (ns % NS_PER_SEC) as libc::c_long,
    }
}
