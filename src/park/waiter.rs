//! The waiter: the record of one wait, on the waiter's own stack.

use super::word::{Debt, WaitWord};
use core::cell::Cell;
use core::marker::PhantomPinned;
use core::ptr::{self, NonNull};

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A goroutine; the scheduler knows what the pointer means.
    Goroutine(NonNull<()>),
    /// An OS thread, in `futex(2)` on the wait word itself.
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
    /// Wake the thread that waits in `futex(2)` on this address. The waiter may be gone by then: only the address is
    /// used, and a thread that waits on reused memory there takes it for a spurious wake-up.
    Thread(*const u32),
}

/// See the module. Not moved while anyone may know its address.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) word: WaitWord,
    pub(crate) target: Target,
    /// Links of the wait queue that holds this waiter, under that queue's lock.
    pub(super) next: Cell<*const Waiter>,
    pub(super) prev: Cell<*const Waiter>,
    pub(super) queued: Cell<bool>,
    _pinned: PhantomPinned,
}

impl Waiter {
    pub(crate) fn new(target: Target) -> Waiter {
        Waiter {
            word: WaitWord::new(),
            target,
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
        // Read before the word changes: after that the waiter may be gone.
        let target = self.target;
        let address = ptr::from_ref(self.word.raw()).cast::<u32>();
        match self.word.finish(outcome as u32) {
            Debt::Lost => None,
            Debt::Nothing => Some(Wake::Nothing),
            Debt::Wake => Some(match target {
                Target::Goroutine(goroutine) => Wake::Goroutine(goroutine),
                Target::Thread => Wake::Thread(address),
            }),
        }
    }

    /// How the wait ended, if it is over.
    #[inline]
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.word.outcome().map(Outcome::of)
    }
}
