//! The waiter: the record of one wait, on the waiter's own stack.
//!
//! # Safety
//!
//! One transition without a locked instruction, `finish_alone`, whose callers must be alone; no block of its own.

#![allow(unsafe_code)]

use super::word::{CASE_FIRST, Debt, WaitWord};
use crate::atomic::AtomicU32;
use core::cell::Cell;
use core::marker::PhantomPinned;
use core::ptr::{self, NonNull};

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A goroutine; the scheduler knows what the pointer means.
    Goroutine(NonNull<()>),
    /// An OS thread, in `futex(2)` on the waiter's signal.
    Thread,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Outcome {
    /// Somebody delivered what was waited for.
    Woken = 2,
    /// The deadline passed first.
    TimedOut = 3,
    /// The goroutine was cancelled first.
    Cancelled = 4,
}

impl Outcome {
    fn of(value: u32) -> Outcome {
        match value {
            3 => Outcome::TimedOut,
            4 => Outcome::Cancelled,
            _ => Outcome::Woken,
        }
    }
}

/// What the winner of [`Waiter::finish`] must do next, outside every lock: settle it with `sched::settle`.
#[must_use = "a parked waiter must be readied or woken exactly once"]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wake {
    /// The waiter will see the outcome by itself.
    Nothing,
    /// Ready this goroutine.
    Goroutine(NonNull<()>),
    /// Signal the thread that waits on this word. The waiter stays until it is signalled.
    Thread(NonNull<AtomicU32>),
}

/// See the module. Not moved while anyone may know its address.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) word: WaitWord,
    pub(crate) target: Target,
    /// For a thread: 0 until the wake is settled, then 1. A goroutine is not resumed before that, a thread has to look.
    pub(crate) signal: AtomicU32,
    /// Links of the wait queue that holds this waiter, under that queue's lock.
    pub(super) next: Cell<*const Waiter>,
    pub(super) prev: Cell<*const Waiter>,
    pub(super) queued: Cell<bool>,
    _pinned: PhantomPinned,
}

impl Waiter {
    pub(crate) fn new(target: Target) -> Waiter {
        Waiter::with_word(target, WaitWord::new())
    }

    /// A waiter that counts as waiting from the start, for an owner that will wait in any case (`sched::wait_parked`),
    /// and comes back only when the wake has been settled. So whoever ends the wait may deliver between
    /// [`finish`](Self::finish) and settling the wake.
    pub(crate) fn parked(target: Target) -> Waiter {
        Waiter::with_word(target, WaitWord::parked())
    }

    fn with_word(target: Target, word: WaitWord) -> Waiter {
        Waiter {
            word,
            target,
            signal: AtomicU32::new(0),
            next: Cell::new(ptr::null()),
            prev: Cell::new(ptr::null()),
            queued: Cell::new(false),
            _pinned: PhantomPinned,
        }
    }

    /// Any thread that knows the waiter to be alive (it holds the lock of the queue that holds it, or the join
    /// protocol says so). Ends the wait; `None` if it was over already, so that nothing was delivered.
    #[inline]
    pub(crate) fn finish(&self, outcome: Outcome) -> Option<Wake> {
        self.finish_raw(outcome as u32)
    }

    /// As [`finish`](Self::finish), with the number of a select's case (from [`CASE_FIRST`] on) as the outcome.
    #[inline]
    pub(crate) fn finish_case(&self, case: u32) -> Option<Wake> {
        debug_assert!(case >= CASE_FIRST);
        self.finish_raw(case)
    }

    #[inline]
    fn finish_raw(&self, value: u32) -> Option<Wake> {
        // Read before the word changes: after that the waiter may be gone.
        let wake = self.wake();
        match self.word.finish(value) {
            Debt::Lost => None,
            Debt::Nothing => Some(Wake::Nothing),
            Debt::Wake => Some(wake),
        }
    }

    /// As [`finish_case`](Self::finish_case), without a locked instruction.
    ///
    /// # Safety
    ///
    /// Nobody else can end this wait at the same time: the waiter is in one queue only, whose lock the caller holds, and
    /// its goroutine, whose deadline and cancellation come from its own worker, is homed on the calling thread.
    #[inline]
    pub(crate) unsafe fn finish_alone(&self, case: u32) -> Option<Wake> {
        let wake = self.wake();
        match self.word.finish_alone(case) {
            Debt::Lost => None,
            Debt::Nothing => Some(Wake::Nothing),
            Debt::Wake => Some(wake),
        }
    }

    #[inline]
    fn wake(&self) -> Wake {
        match self.target {
            Target::Goroutine(goroutine) => Wake::Goroutine(goroutine),
            Target::Thread => Wake::Thread(NonNull::from(&self.signal)),
        }
    }

    /// The case that ended the wait, if a select's case or a channel did.
    #[inline]
    pub(crate) fn case(&self) -> Option<u32> {
        self.word.outcome().filter(|&value| value >= CASE_FIRST)
    }

    /// How the wait ended, if it is over.
    #[inline]
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.word.outcome().map(Outcome::of)
    }
}
