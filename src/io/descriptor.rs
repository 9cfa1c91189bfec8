//! A descriptor that goroutines and threads use at once and that any of them may close.
//!
//! # Safety
//!
//! Calls `fcntl(2)` and `shutdown(2)` through `libc` with a number that `self.fd` owns, and passes on
//! `operation::perform`'s contract.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use io_uring::squeue;

use crate::atomic::{AtomicBool, Ordering, fence};
use crate::io::blocked_threads::BlockedThreads;
use crate::io::{Completion, Description, Wish, closed_error, dead_socket, operation};
use crate::sched;

/// One handle's descriptor number. Owned until the handle is dropped, whoever closes it before.
#[derive(Debug)]
pub(crate) struct Descriptor {
    fd: OwnedFd,
    /// Set once, by `close` (IO1). Then the number names the dead socket, or soon will.
    is_closed: AtomicBool,
    blocked_threads: BlockedThreads,
    /// Strong count: the handles of ours that share the file.
    description: Arc<Description>,
}

impl Descriptor {
    pub(crate) fn new(fd: OwnedFd, description: Description) -> Descriptor {
        Descriptor::sharing(fd, Arc::new(description))
    }

    fn sharing(fd: OwnedFd, description: Arc<Description>) -> Descriptor {
        Descriptor {
            fd,
            is_closed: AtomicBool::new(false),
            blocked_threads: BlockedThreads::default(),
            description,
        }
    }

    #[inline]
    pub(crate) fn description(&self) -> &Description {
        &self.description
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        // IO1: pairs with the swap in `close`.
        self.is_closed.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn check_open(&self) -> io::Result<()> {
        if self.is_closed() {
            Err(closed_error())
        } else {
            Ok(())
        }
    }

    /// `error`, or what it means on a handle that was closed meanwhile.
    pub(crate) fn explain(&self, error: io::Error) -> io::Error {
        if self.is_closed() {
            closed_error()
        } else {
            error
        }
    }

    /// A call that never waits. Its answer counts only if the handle was open throughout.
    pub(crate) fn while_open<T>(
        &self,
        call: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.check_open()?;
        let answer = call(self.fd.as_fd());
        self.check_open()?;
        answer
    }

    /// Performs what `entry` builds on the running goroutine's ring; `None` on a plain thread, where nothing was done.
    ///
    /// # Safety
    /// All memory that the entry names stays valid until this call returns or unwinds.
    #[inline]
    pub(crate) unsafe fn perform(
        &self,
        wish: Wish,
        entry: impl Fn() -> squeue::Entry,
    ) -> Option<io::Result<Completion>> {
        if self.is_closed() {
            return Some(Err(closed_error()));
        }
        // SAFETY: the caller's promise is the callee's contract.
        let performed =
            unsafe { operation::perform(self.fd.as_raw_fd(), wish, &|| !self.is_closed(), entry) };
        performed.map(|result| result.map_err(|error| self.explain(error)))
    }

    /// Plain threads: repeats `attempt`, a system call that does not wait, until it has an answer.
    pub(crate) fn attempt<T>(
        &self,
        wish: Wish,
        mut attempt: impl FnMut(RawFd) -> io::Result<T>,
    ) -> io::Result<T> {
        let context = sched::ambient::in_force();
        loop {
            self.check_open()?;
            if let Some(error) = context.as_deref().and_then(sched::ambient::ended) {
                return Err(error.into());
            }
            let error = match attempt(self.fd.as_raw_fd()) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock if !wish.is_nonblocking => {
                    self.blocked_threads
                        .wait(
                            self.fd.as_raw_fd(),
                            wish.events,
                            wish.deadline,
                            context.as_deref(),
                        )
                        .map_err(|error| self.explain(error))?;
                }
                _ => return Err(self.explain(error)),
            }
        }
    }

    /// A second handle of the same file (`F_DUPFD_CLOEXEC`) with the same settings.
    pub(crate) fn try_clone(&self) -> io::Result<Descriptor> {
        let description = Arc::clone(&self.description);
        // IO2: pairs with the fence in `close`. Either `close` counts our handle, or we see it closed below.
        fence(Ordering::SeqCst);
        let copied = self.fd.try_clone();
        self.check_open()?;
        Ok(Descriptor::sharing(copied?, description))
    }

    /// Closes the file for this handle; see the protocol at the head of the room. Any thread; waits for nothing.
    ///
    /// # Errors
    /// [`ClosedError`](crate::io::ClosedError) if it was closed before. `EMFILE`, `ENFILE` if no dead socket could be
    /// made: calls fail all the same, and the file goes when the handle is dropped.
    pub(crate) fn close(&self) -> io::Result<()> {
        // IO1: pairs with the load in `is_closed`.
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return Err(closed_error());
        }
        // IO2: pairs with the fence in `try_clone`.
        fence(Ordering::SeqCst);
        let is_shared = self.description.is_foreign || Arc::strong_count(&self.description) > 1;
        if !is_shared {
            // SAFETY: takes no pointers; the number is ours because `self.fd` owns it. A socket that is not connected
            // answers ENOTCONN, and then there is nothing to shut down.
            unsafe { libc::shutdown(self.fd.as_raw_fd(), libc::SHUT_RDWR) };
        }
        let replaced = dead_socket::replace(self.fd.as_fd());
        sched::cancel_fd(self.fd.as_raw_fd());
        self.blocked_threads.wake_all();
        replaced
    }

    /// Sets or clears `O_NONBLOCK` in the file.
    pub(crate) fn set_file_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        self.while_open(|fd| set_file_nonblocking(fd, is_nonblocking))
    }

    /// Sets `O_NONBLOCK` for our own use, so that system calls on plain threads never wait in the kernel.
    pub(crate) fn lend_file(&self) -> io::Result<()> {
        // The mark first: whoever clears O_NONBLOCK afterwards sees it and sets the flag again.
        self.description.lend_file();
        self.set_file_nonblocking(true)
    }

    /// Gives the descriptor away, `O_NONBLOCK` as the user wants it.
    pub(crate) fn into_parts(self) -> (OwnedFd, Arc<Description>) {
        if self.description.is_file_lent() && !self.description.is_nonblocking() {
            // A file that refuses its flags is given away as it is; the receiver sees `WouldBlock` and can tell.
            let _ = self.set_file_nonblocking(false);
        }
        (self.fd, self.description)
    }
}

fn set_file_nonblocking(fd: BorrowedFd<'_>, is_nonblocking: bool) -> io::Result<()> {
    // SAFETY: F_GETFL takes no pointer; the number is open until the borrow ends.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    let wanted = if is_nonblocking {
        flags | libc::O_NONBLOCK
    } else {
        flags & !libc::O_NONBLOCK
    };
    // SAFETY: F_SETFL takes an integer; the number is open until the borrow ends.
    if wanted != flags && unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, wanted) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
