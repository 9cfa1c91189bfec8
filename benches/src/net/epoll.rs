//! A set of descriptors that epoll watches, level-triggered.
//!
//! # Safety
//! Calls of libc on a descriptor of our own and on arrays or structs of our own, for the length of the call.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const EVENTS_MAX: usize = 1024;

/// Readable.
pub(crate) const READ: u32 = libc::EPOLLIN as u32;
/// Writable.
pub(crate) const WRITE: u32 = libc::EPOLLOUT as u32;

/// A descriptor leaves the set when it is closed.
#[derive(Debug)]
pub(crate) struct Epoll {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Epoll {
    /// An empty set.
    pub(crate) fn new() -> Epoll {
        // SAFETY: the call takes a plain integer.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(fd >= 0, "epoll: {}", io::Error::last_os_error());
        Epoll {
            // SAFETY: the descriptor is new and nobody else's.
            epoll: unsafe { OwnedFd::from_raw_fd(fd) },
            events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX],
        }
    }

    /// Puts `fd` into the set.
    pub(crate) fn add(&self, fd: RawFd, interest: u32, data: u64) {
        self.control(libc::EPOLL_CTL_ADD, fd, interest, data);
    }

    /// Changes what is waited for at `fd`.
    pub(crate) fn modify(&self, fd: RawFd, interest: u32, data: u64) {
        self.control(libc::EPOLL_CTL_MOD, fd, interest, data);
    }

    /// Waits until a descriptor is ready, or only looks if `wait` is false; puts the data of all that are ready into `ready`.
    pub(crate) fn ready(&mut self, wait: bool, ready: &mut Vec<u64>) {
        let timeout = if wait { -1 } else { 0 };
        // SAFETY: `events` has EVENTS_MAX elements, and the kernel writes no more than so many.
        let count = unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                EVENTS_MAX as i32,
                timeout,
            )
        };
        assert!(count >= 0, "epoll_wait: {}", io::Error::last_os_error());
        ready.clear();
        ready.extend(self.events[..count as usize].iter().map(|event| event.u64));
    }

    fn control(&self, operation: i32, fd: RawFd, interest: u32, data: u64) {
        let mut event = libc::epoll_event {
            events: interest,
            u64: data,
        };
        // SAFETY: `event` is a valid struct for the length of the call; the kernel checks the descriptors.
        let result = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &mut event) };
        assert_eq!(result, 0, "epoll_ctl: {}", io::Error::last_os_error());
    }
}
