//! The wait queue: waiters in FIFO order, linked through the waiters themselves.
//!
//! # Invariants
//!
//! Whoever uses a queue holds whatever protects it (a lock, or being its only thread). A waiter is in at most one
//! queue, takes itself out before its stack frame goes (`remove`), and cannot move meanwhile.
//!
//! # Safety
//!
//! Links are raw pointers to waiters on other stacks, alive by the invariants above.

#![allow(unsafe_code)]

use super::waiter::{Outcome, Waiter, Wake};
use core::cell::Cell;
use core::ptr;

/// See the module.
#[derive(Debug)]
pub(crate) struct WaitQueue {
    head: Cell<*const Waiter>,
    tail: Cell<*const Waiter>,
}

impl WaitQueue {
    pub(crate) const fn new() -> WaitQueue {
        WaitQueue {
            head: Cell::new(ptr::null()),
            tail: Cell::new(ptr::null()),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.get().is_null()
    }

    /// Appends `waiter`.
    ///
    /// # Safety
    ///
    /// The caller protects the queue; `waiter` is in no queue and stays where it is until it is popped or removed.
    pub(crate) unsafe fn push(&self, waiter: &Waiter) {
        debug_assert!(!waiter.queued.get());
        let tail = self.tail.replace(waiter);
        waiter.prev.set(tail);
        waiter.next.set(ptr::null());
        waiter.queued.set(true);
        // SAFETY: the tail is a queued waiter, alive by the module's invariants.
        match unsafe { tail.as_ref() } {
            Some(tail) => tail.next.set(waiter),
            None => self.head.set(waiter),
        }
    }

    /// Takes `waiter` out if it is still in; `false` if somebody popped it before.
    ///
    /// # Safety
    ///
    /// The caller protects the queue, and `waiter` was pushed on no other.
    pub(crate) unsafe fn remove(&self, waiter: &Waiter) -> bool {
        if !waiter.queued.replace(false) {
            return false;
        }
        let (prev, next) = (waiter.prev.get(), waiter.next.get());
        // SAFETY: neighbours of a queued waiter are queued, so alive by the module's invariants.
        match unsafe { prev.as_ref() } {
            Some(prev) => prev.next.set(next),
            None => self.head.set(next),
        }
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.prev.set(prev),
            None => self.tail.set(prev),
        }
        true
    }

    /// Takes waiters off the front until one's wait could be ended with `Woken`; returns what is owed to it. Waiters
    /// that had timed out or been cancelled are passed over: they have received nothing.
    ///
    /// # Safety
    ///
    /// The caller protects the queue.
    pub(crate) unsafe fn wake_one(&self) -> Option<Wake> {
        // SAFETY: the head is a queued waiter, alive by the module's invariants.
        while let Some(waiter) = unsafe { self.head.get().as_ref() } {
            // SAFETY: it is in this queue, which the caller protects.
            unsafe { self.remove(waiter) };
            if let Some(wake) = waiter.finish(Outcome::Woken) {
                return Some(wake);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::waiter::Target;
    use super::*;

    #[test]
    fn wait_queue_is_fifo_and_passes_over_the_timed_out() {
        let queue = WaitQueue::new();
        let waiters: Vec<Waiter> = (0..4).map(|_| Waiter::new(Target::Thread)).collect();
        for waiter in &waiters {
            // SAFETY: one thread; the waiters outlive the queue's use and do not move.
            unsafe { queue.push(waiter) };
        }
        assert!(waiters[0].finish(Outcome::TimedOut).is_some());
        // SAFETY: as above.
        unsafe {
            assert!(queue.remove(&waiters[2]) && !queue.remove(&waiters[2]));
            assert!(queue.wake_one().is_some());
        }
        assert_eq!(waiters[0].outcome(), Some(Outcome::TimedOut));
        assert_eq!(waiters[1].outcome(), Some(Outcome::Woken));
        assert_eq!(waiters[3].outcome(), None);
        // SAFETY: as above.
        unsafe {
            assert!(queue.wake_one().is_some() && queue.is_empty() && queue.wake_one().is_none());
        }
        assert_eq!(waiters[3].outcome(), Some(Outcome::Woken));
    }
}
