//! Waiting and waking as the model checker has them: the same verbs as `wait`, for its threads.
//!
//! A deadline other than "never" may pass at any moment: a waiter with one looks once whether it was woken, then tries to end
//! its wait. Which of the two happens first is the checker's to explore.
//!
//! # Safety
//!
//! Signals are reached through the pointers that wakes carry.

#![allow(unsafe_code)]

use crate::atomic::Ordering;
use crate::park::{Outcome, Target, WaitReason, Waiter, Wake};
use core::cell::Cell;

pub(crate) const NEVER: u64 = u64::MAX;

loom::thread_local! {
    static TOKEN: Cell<usize> = Cell::new(0);
}

/// Makes the calling model thread a worker's thread, which locks may be biased to.
#[cfg(test)]
pub(crate) fn become_worker(token: usize) {
    TOKEN.with(|cell| cell.set(token));
}

pub(crate) fn thread_token() -> usize {
    TOKEN.with(Cell::get)
}

pub(crate) fn new_parked_waiter() -> Waiter {
    Waiter::parked(Target::Thread)
}

/// See the real one.
#[derive(Clone, Copy)]
pub(crate) struct Here;

pub(crate) fn here() -> Here {
    Here
}

impl Here {
    pub(crate) fn token(self) -> usize {
        thread_token()
    }

    pub(crate) fn new_parked_waiter(self) -> Waiter {
        new_parked_waiter()
    }

    pub(crate) fn is_local(self, _waiter: &Waiter) -> bool {
        false
    }

    pub(crate) fn settle(self, wake: Wake) {
        settle(wake);
    }

    pub(crate) fn wait_parked(self, waiter: &Waiter, reason: WaitReason, deadline: u64) -> Outcome {
        wait_parked(waiter, reason, deadline)
    }
}

/// No looking again before waiting: it would only repeat what the checker explores anyway.
pub(crate) fn has_others_ready() -> bool {
    true
}

pub(crate) fn choose(_n: usize) -> usize {
    0
}

/// Deadlines are either 0, which is past, or to come.
pub(crate) fn now_ns() -> u64 {
    1
}

pub(crate) fn unwind_if_cancelled() {}

pub(crate) fn wait_parked(waiter: &Waiter, _reason: WaitReason, deadline: u64) -> Outcome {
    let mut may_end = deadline != NEVER;
    // Pairs with the store in `settle`.
    while waiter.signal.load(Ordering::Acquire) == 0 {
        if may_end && waiter.finish(Outcome::TimedOut).is_some() {
            return Outcome::TimedOut;
        }
        may_end = false;
        loom::thread::yield_now();
    }
    waiter.outcome().expect("the wait is over")
}

pub(crate) fn settle(wake: Wake) {
    match wake {
        Wake::Nothing => {}
        Wake::Goroutine(_) => unreachable!("the model has threads only"),
        // SAFETY: the waiter stays until its signal is set. Pairs with the load in `wait_parked`.
        Wake::Thread(signal) => unsafe { signal.as_ref() }.store(1, Ordering::Release),
    }
}
