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

use crate::atomic::{AtomicUsize, Ordering};
use crate::park::lot::{LOT, Node, WOKEN};
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
}

/// What [`Barrier::wait`] returns.
pub struct BarrierWaitResult(bool);

impl Barrier {
    /// A barrier for `n` callers. With 0 it is as with 1: nobody waits.
    #[must_use]
    pub const fn new(n: usize) -> Barrier {
        Barrier {
            arrived: AtomicUsize::new(0),
            size: n,
        }
    }

    /// Waits until as many callers have come as the barrier is for. One of them, the last, is told that it leads.
    ///
    /// Blocks the calling goroutine or thread, except the last.
    pub fn wait(&self) -> BarrierWaitResult {
        let address = (&raw const self.arrived).addr();
        loop {
            let mut locked = LOT.lock(address);
            // Relaxed: the lock orders all changes.
            let arrived = self.arrived.load(Ordering::Relaxed) + 1;
            if arrived >= self.size {
                self.arrived.store(0, Ordering::Relaxed);
                while locked.wake_first(address, WOKEN) {}
                locked.unlock().for_each(sched::settle);
                return BarrierWaitResult(true);
            }
            self.arrived.store(arrived, Ordering::Relaxed);
            let node = Node::new(sched::new_parked_waiter(), 0);
            // SAFETY: the node stays in this frame, which does not go before the wait is over; if that was not by a wake, it
            // is taken out below. Nothing in between unwinds.
            unsafe { locked.push(address, &node) };
            let woken = locked.unlock().next();
            debug_assert!(woken.is_none());
            if sched::wait_parked(&node.waiter, WaitReason::Barrier, NEVER) == Outcome::Woken {
                return BarrierWaitResult(false);
            }
            let mut locked = LOT.lock(address);
            // SAFETY: nobody requeues those that wait at a barrier.
            if unsafe { locked.remove(address, &node) } {
                // It is of this round still, so it is counted in.
                let arrived = self.arrived.load(Ordering::Relaxed);
                self.arrived.store(arrived - 1, Ordering::Relaxed);
            }
            let woken = locked.unlock().next();
            debug_assert!(woken.is_none());
            sched::unwind_if_cancelled();
        }
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
