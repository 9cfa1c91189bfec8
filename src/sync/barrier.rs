//! The barrier: a number of callers wait for each other, again and again.
//!
//! # Algorithm
//!
//! `arrived` counts the callers of this round that wait. It changes under the lock of its bucket of the lot only, together
//! with the queue. Who makes the number full resets it, ends all waits and goes on as the leader; so a round is over in one
//! step, and whoever comes later, even before those of this round have woken, belongs to the next. Who is cancelled takes
//! itself out of queue and number in one step, unless its round is over.
//!
//! # Ordering
//!
//! The bucket's lock orders the arrivals (LT1), the wait words what came before the leader's (WW1): what any of a round did
//! before it came happens before whatever any of them does after it is let go.
//!
//! # Safety
//!
//! A node is queued by reference: it stays in its frame until its wait has ended, and is taken out if it was cancelled.

#![allow(unsafe_code)]

use super::own_lot::OwnLot;
use crate::atomic::{AtomicUsize, Ordering};
use crate::park::lot::{Node, WOKEN};
use crate::park::{Outcome, WaitReason};
use crate::sched::{self, NEVER};
use core::fmt;

/// A place where a number of goroutines or threads wait until all of them have come. std's API.
///
/// It may be used again at once: who comes after a round was complete belongs to the next. A goroutine that is cancelled
/// while it waits counts no more. A wait blocks the calling goroutine (or plain thread), not its worker; both may be mixed.
/// It may stand in a static.
///
/// What any of a round did before it came happens before whatever any of them does afterwards.
///
/// ```
/// use std::sync::Arc;
/// use urgo::sync::Barrier;
///
/// urgo::run(|| {
///     let barrier = Arc::new(Barrier::new(10));
///     let handles: Vec<_> = (0..10)
///         .map(|_| {
///             let barrier = barrier.clone();
///             urgo::spawn(move || barrier.wait().is_leader())
///         })
///         .collect();
///     let leaders = handles.into_iter().filter(|_| true).map(|h| h.join().unwrap());
///     assert_eq!(leaders.filter(|is_leader| *is_leader).count(), 1);
/// });
/// ```
pub struct Barrier {
    arrived: AtomicUsize,
    size: usize,
    lot: OwnLot,
}

/// What [`Barrier::wait`] returns.
pub struct BarrierWaitResult(bool);

impl Barrier {
    /// A barrier for `n` callers. With 0 it is as with 1: nobody waits.
    #[cfg(not(urgo_loom))]
    #[must_use]
    pub const fn new(n: usize) -> Barrier {
        Barrier {
            arrived: AtomicUsize::new(0),
            size: n,
            lot: OwnLot::new(),
        }
    }

    #[cfg(urgo_loom)]
    pub(crate) fn new(n: usize) -> Barrier {
        Barrier {
            arrived: AtomicUsize::new(0),
            size: n,
            lot: OwnLot::new(),
        }
    }

    /// Waits until as many callers have come as the barrier is for. One of them, the last, is told that it leads.
    ///
    /// Blocks the calling goroutine or thread, except the last.
    pub fn wait(&self) -> BarrierWaitResult {
        loop {
            if let Some(result) = self.try_wait(NEVER) {
                return result;
            }
            sched::unwind_if_cancelled();
        }
    }

    /// `None` if the wait was cut short; then the caller is not counted.
    fn try_wait(&self, deadline: u64) -> Option<BarrierWaitResult> {
        let address = (&raw const self.arrived).addr();
        let mut locked = self.lot.lock(address);
        // Relaxed: the lock orders all changes.
        let arrived = self.arrived.load(Ordering::Relaxed) + 1;
        if arrived >= self.size {
            self.arrived.store(0, Ordering::Relaxed);
            while locked.wake_first(address, WOKEN) {}
            locked.unlock().for_each(sched::settle);
            return Some(BarrierWaitResult(true));
        }
        self.arrived.store(arrived, Ordering::Relaxed);
        let node = Node::new(sched::new_parked_waiter(), 0);
        // SAFETY: the node stays in this frame, which does not go before the wait is over; if that was not by a wake, it is
        // taken out below. Nothing in between unwinds.
        unsafe { locked.push(address, &node) };
        locked.unlock().for_each(sched::settle);
        if sched::wait_parked(&node.waiter, WaitReason::Barrier, deadline) == Outcome::Woken {
            return Some(BarrierWaitResult(false));
        }
        let mut locked = self.lot.lock(address);
        // SAFETY: nobody requeues those that wait at a barrier.
        if unsafe { locked.remove(address, &node) } {
            // Its round is not over, so it is counted in.
            let arrived = self.arrived.load(Ordering::Relaxed);
            self.arrived.store(arrived - 1, Ordering::Relaxed);
        }
        locked.unlock().for_each(sched::settle);
        None
    }
}

impl BarrierWaitResult {
    /// Whether this caller made the round complete: exactly one of each round did.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for BarrierWaitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierWaitResult")
            .field("is_leader", &self.is_leader())
            .finish()
    }
}

#[cfg(all(test, urgo_loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Two meet while a third comes and may be cut short: the round is complete with any two, and the number is right after it.
    #[test]
    fn loom_barrier_counts_those_that_wait() {
        loom::model(|| {
            let shared = Arc::new((Barrier::new(2), AtomicUsize::new(0)));
            let meet = |shared: &(Barrier, AtomicUsize), deadline| {
                let result = shared.0.try_wait(deadline);
                if let Some(BarrierWaitResult(true)) = result {
                    shared.1.fetch_add(1, Ordering::Relaxed);
                }
                result.is_some()
            };
            let hasty = {
                let shared = shared.clone();
                thread::spawn(move || meet(&shared, 2))
            };
            if meet(&shared, 2) {
                // With the other, unless that was cut short after it had been counted.
                assert!(shared.0.arrived.load(Ordering::Relaxed) == 0);
            }
            let met = hasty.join().unwrap();
            assert_eq!(shared.0.arrived.load(Ordering::Relaxed), 0, "met: {met}");
            assert!(shared.1.load(Ordering::Relaxed) <= 1);
        });
    }

    /// Too few come, and all are cut short: nobody is counted in the end, and nobody has met.
    #[test]
    fn loom_barrier_forgets_who_left() {
        loom::model(|| {
            let barrier = Arc::new(Barrier::new(3));
            let other = {
                let barrier = barrier.clone();
                thread::spawn(move || assert!(barrier.try_wait(2).is_none()))
            };
            assert!(barrier.try_wait(2).is_none());
            other.join().unwrap();
            assert_eq!(barrier.arrived.load(Ordering::Relaxed), 0);
        });
    }

    /// Two rounds of two: both come through both, and each round has one leader.
    #[test]
    fn loom_barrier_keeps_rounds_apart() {
        loom::model(|| {
            let shared = Arc::new((Barrier::new(2), AtomicUsize::new(0)));
            let twice = |shared: &(Barrier, AtomicUsize)| {
                for _ in 0..2 {
                    if shared.0.wait().is_leader() {
                        shared.1.fetch_add(1, Ordering::Relaxed);
                    }
                }
            };
            let other = {
                let shared = shared.clone();
                thread::spawn(move || twice(&shared))
            };
            twice(&shared);
            other.join().unwrap();
            assert_eq!(shared.1.load(Ordering::Relaxed), 2);
        });
    }
}
