//! The plain threads that wait for one descriptor, so that `close` can wake them.
//!
//! A thread that has to wait polls two descriptors: the socket, and an event counter of its own that it enters here.
//! Each thread makes its counter at its first wait and keeps it, so a thousand sockets cost no further descriptor.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use urgo_sys::event_fd::EventFd;

use crate::io::readiness::{interest, poll};

thread_local! {
    static OWN_WAKER: std::cell::OnceCell<Arc<EventFd>> = const { std::cell::OnceCell::new() };
}

/// Plain threads only: a goroutine would keep its worker's counter across a wait.
fn own_waker() -> io::Result<Arc<EventFd>> {
    OWN_WAKER.with(|own| {
        if let Some(waker) = own.get() {
            return Ok(Arc::clone(waker));
        }
        let made = Arc::new(EventFd::new(true)?);
        Ok(Arc::clone(own.get_or_init(|| made)))
    })
}

/// Wakers of the threads that wait, and whether `wake_all` was called. The lock is held for a few instructions and one
/// `write(2)` per waiting thread, never across a wait.
#[derive(Debug, Default)]
pub(super) struct BlockedThreads {
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    wakers: Vec<Arc<EventFd>>,
    is_closed: bool,
}

impl BlockedThreads {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks the calling plain thread until `fd` is ready for `events`, the deadline, or [`wake_all`](Self::wake_all).
    pub(super) fn wait(&self, fd: RawFd, events: i16, deadline: u64) -> io::Result<()> {
        let waker = own_waker()?;
        {
            let mut list = self.lock();
            if list.is_closed {
                return Ok(());
            }
            list.wakers.push(Arc::clone(&waker));
        }
        let polled = poll(
            &mut [
                interest(fd, events),
                interest(waker.as_raw_fd(), libc::POLLIN),
            ],
            deadline,
        );
        let is_closed = {
            let mut list = self.lock();
            list.wakers.retain(|other| !Arc::ptr_eq(other, &waker));
            list.is_closed
        };
        if is_closed {
            // Off the list, so no further notification comes; the next wait must not see this one.
            let _ = waker.drain()?;
        }
        polled
    }

    /// Any thread. Ends every wait, present and future.
    pub(super) fn wake_all(&self) {
        let mut list = self.lock();
        list.is_closed = true;
        for waker in list.wakers.drain(..) {
            // A counter can only be saturated, and then the thread wakes as well.
            let _ = waker.notify();
        }
    }
}
