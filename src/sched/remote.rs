//! The part of a worker that others reach: inbox, sleep word, fresh deque's other end, load, commands.

use super::ambient::Key;
use super::cancel::Named;
use super::idle::SleepWord;
use super::inbox::{Inbox, Linked};
use super::outside::{Desk, Token};
use super::task::Task;
use super::watch::Running;
use crate::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::goroutine::{Goroutine, Home};
use crossbeam_deque::Stealer;
use std::os::fd::RawFd;
use std::sync::{Mutex, OnceLock};
use urgo_sys::event_fd::EventFd;

impl Linked for Goroutine {
    fn link(&self) -> &AtomicPtr<Goroutine> {
        &self.next
    }
}

/// What others ask of a worker besides running goroutines. Seldom next to that, so behind a lock; first in, first out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    /// Cancel the operations in flight on this descriptor number.
    CancelFd(RawFd),
    /// This context was cancelled.
    ContextEnded(Key),
    /// Cancel this goroutine, which is homed here.
    Cancel(Named),
    /// Let the answer to an operation that was handed to an outside thread stand.
    Apply(Token),
}

/// What a worker has counted. Written by the worker alone (plain load and store), read by anyone.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) spawned: AtomicU64,
    pub(crate) ended: AtomicU64,
    pub(crate) started: AtomicU64,
    pub(crate) stolen: AtomicU64,
    pub(crate) sleeps: AtomicU64,
    pub(crate) dispatched: AtomicU64,
    pub(crate) in_flight: AtomicUsize,
    pub(crate) operations: AtomicU64,
    pub(crate) completions: AtomicU64,
    pub(crate) enters: AtomicU64,
    pub(crate) overflows: AtomicU64,
}

/// See the module.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Remote {
    pub(crate) index: usize,
    pub(crate) cpu: Option<usize>,
    pub(crate) inbox: Inbox<Goroutine>,
    pub(crate) sleep: SleepWord,
    /// The other end of its fresh deque; a worker that is alone has none.
    pub(crate) stealer: Option<Stealer<Task>>,
    /// Homed goroutines that have started and not ended; published by the worker in steps, see `Worker::count_live`.
    pub(crate) live: AtomicUsize,
    /// Fresh goroutines placed here that have not started.
    pub(crate) placed: AtomicUsize,
    pub(crate) commands: Mutex<Vec<Command>>,
    pub(crate) has_commands: AtomicBool,
    /// Operations of its goroutines that outside threads carry out. Apart, so that their locking does not disturb what is beside it.
    pub(crate) outside: Box<Desk>,
    pub(crate) ring_fd: AtomicI32,
    /// The kick for kernels without futex operations.
    pub(crate) eventfd: OnceLock<EventFd>,
    pub(crate) counts: Counts,
    /// What it runs; only if it is watched.
    pub(crate) running: Option<Box<Running>>,
}

impl Remote {
    pub(crate) fn new(
        index: usize,
        cpu: Option<usize>,
        stealer: Option<Stealer<Task>>,
        is_watched: bool,
    ) -> Remote {
        Remote {
            index,
            cpu,
            inbox: Inbox::new(),
            sleep: SleepWord::new(),
            stealer,
            live: AtomicUsize::new(0),
            placed: AtomicUsize::new(0),
            commands: Mutex::new(Vec::new()),
            has_commands: AtomicBool::new(false),
            outside: Box::new(Desk::new()),
            ring_fd: AtomicI32::new(-1),
            eventfd: OnceLock::new(),
            counts: Counts::default(),
            running: is_watched.then(|| Box::new(Running::new())),
        }
    }

    /// This record as a goroutine knows it.
    pub(crate) fn as_home(&self) -> *mut Home {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Any thread. Rouses the worker out of its ring, if it sleeps there, without a ring of one's own.
    pub(crate) fn rouse(&self) {
        match self.eventfd.get() {
            // A full counter means that a wake-up is pending already; any other failure of a write to an open eventfd
            // is a broken invariant that the next wake would meet again, and the worker is not lost: it sleeps on.
            Some(eventfd) => drop(eventfd.notify()),
            None => drop(urgo_sys::futex::wake(self.sleep.raw(), 1)),
        }
    }

    /// Any thread. Leaves a command and makes sure that the worker looks at it.
    pub(crate) fn command(&self, command: Command) {
        if self.leave_command(command) {
            self.rouse();
        }
    }

    /// Any thread. Leaves a command; `true`: the caller must rouse the worker.
    #[must_use]
    pub(crate) fn leave_command(&self, command: Command) -> bool {
        self.commands
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .push(command);
        // Pairs with the swap in `take_commands`.
        self.has_commands.store(true, Ordering::Release);
        self.sleep.notify_after_post()
    }

    /// Anyone: whether others have left something for this worker alone.
    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        !self.inbox.is_empty() || self.has_commands.load(Ordering::Relaxed)
    }

    /// Owner worker only.
    pub(crate) fn take_commands(&self) -> Vec<Command> {
        // Pairs with the store in `command`.
        if !self.has_commands.load(Ordering::Relaxed)
            || !self.has_commands.swap(false, Ordering::Acquire)
        {
            return Vec::new();
        }
        std::mem::take(&mut *self.commands.lock().unwrap_or_else(|e| e.into_inner()))
    }

    /// Anyone: fresh goroutines that could be stolen here.
    pub(crate) fn fresh_len(&self) -> usize {
        self.stealer.as_ref().map_or(0, Stealer::len)
    }

    /// Anyone: how much is homed here, as far as it is published.
    #[inline]
    pub(crate) fn load(&self) -> usize {
        self.live.load(Ordering::Relaxed) + self.placed.load(Ordering::Relaxed)
    }
}
