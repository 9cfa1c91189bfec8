//! What the handles of one open file share.

use crate::atomic::{AtomicBool, Ordering};
use crate::io::Timeout;

/// Settings of one open file, shared by the handle and its clones as the kernel shares the file.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) read_timeout: Timeout,
    pub(crate) write_timeout: Timeout,
    /// `set_nonblocking(true)` was called: calls return `WouldBlock` instead of waiting.
    is_nonblocking: AtomicBool,
    /// `O_NONBLOCK` was set by us for our own use, and goes before the descriptor is given away.
    is_file_lent: AtomicBool,
    /// The file came from outside, so handles that we do not know may share it.
    pub(crate) is_foreign: bool,
}

impl Description {
    /// Of a file that we opened.
    pub(crate) const fn ours() -> Description {
        Description::new(false)
    }

    /// Of a file that came from outside.
    pub(crate) const fn foreign() -> Description {
        Description::new(true)
    }

    const fn new(is_foreign: bool) -> Description {
        Description {
            read_timeout: Timeout::never(),
            write_timeout: Timeout::never(),
            is_nonblocking: AtomicBool::new(false),
            is_file_lent: AtomicBool::new(false),
            is_foreign,
        }
    }

    #[inline]
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.is_nonblocking.load(Ordering::Relaxed)
    }

    pub(crate) fn set_nonblocking(&self, is_nonblocking: bool) {
        self.is_nonblocking.store(is_nonblocking, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_file_lent(&self) -> bool {
        self.is_file_lent.load(Ordering::Relaxed)
    }

    pub(crate) fn lend_file(&self) {
        self.is_file_lent.store(true, Ordering::Relaxed);
    }
}
