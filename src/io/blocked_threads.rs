//! The plain threads that wait for one descriptor, so that `close` can wake them.
//!
//! A thread that has to wait polls two descriptors: the socket, and an event counter of its own that it enters here.
//! Each thread makes its counter at its first wait and keeps it, so a thousand sockets cost no further descriptor.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use urgo_sys::event_fd::EventFd;

use crate::ambient::Node;

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

/// As [`BlockedThreads::wait`], for a descriptor that nobody else can close.
pub(super) fn wait_alone(
    fd: RawFd,
    events: i16,
    deadline: u64,
    context: Option<&Node>,
) -> io::Result<()> {
    match context {
        Some(_) => poll_heeding(fd, events, deadline, context, &own_waker()?),
        None => poll(&mut [interest(fd, events)], deadline),
    }
}

/// Waits for `fd`, the waker, the deadline or the end of `context`.
fn poll_heeding(
    fd: RawFd,
    events: i16,
    deadline: u64,
    context: Option<&Node>,
    waker: &Arc<EventFd>,
) -> io::Result<()> {
    let hook = match context {
        None => None,
        Some(node) => {
            let waker = Arc::clone(waker);
            // A counter can only be saturated, and then the thread wakes as well.
            let hook = node.add_hook(move || drop(waker.notify()));
            let Some(hook) = hook else { return Ok(()) };
            Some((node, hook))
        }
    };
    let until = context.map_or(deadline, |node| deadline.min(node.deadline()));
    let mut interests = [
        interest(fd, events),
        interest(waker.as_raw_fd(), libc::POLLIN),
    ];
    let polled = poll(&mut interests, until);
    if let Some((node, hook)) = hook {
        node.remove_hook(&hook);
    }
    if interests[1].revents != 0 {
        // The next wait must not see it. One that is still on its way costs a round for nothing, then.
        let _ = waker.drain()?;
    }
    match polled {
        Err(error) if error.kind() == io::ErrorKind::TimedOut && until != deadline => Ok(()),
        polled => polled,
    }
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

    /// Blocks the calling plain thread until `fd` is ready for `events`, the deadline, [`wake_all`](Self::wake_all), or until `context`
    /// is over, which is no error of this call.
    pub(super) fn wait(
        &self,
        fd: RawFd,
        events: i16,
        deadline: u64,
        context: Option<&Node>,
    ) -> io::Result<()> {
        let waker = own_waker()?;
        {
            let mut list = self.lock();
            if list.is_closed {
                return Ok(());
            }
            list.wakers.push(Arc::clone(&waker));
        }
        let polled = poll_heeding(fd, events, deadline, context, &waker);
        {
            let mut list = self.lock();
            list.wakers.retain(|other| !Arc::ptr_eq(other, &waker));
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
