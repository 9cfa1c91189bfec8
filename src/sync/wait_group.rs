//! The wait group: waiting until a number of things is done.
//!
//! # State
//!
//! | bits of `word` | meaning | who changes them |
//! |---|---|---|
//! | `WAITERS` 1 | somebody may be in the queue of the lot | set and cleared under the lock of the bucket |
//! | the rest | what is not done yet | anybody; but from 1 to 0 while `WAITERS` is set only under the lock of the bucket |
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | WG1 | `done`, release | `is_done` and the last `done`: acquire | what was done |
//!
//! From the last `done` it goes on to those that wait through their wait words (WW1).
//!
//! # No lost wake-up
//!
//! The number becomes 0 in one exchange. Either it shows `WAITERS`: then that exchange is made under the lock, together with
//! ending all waits. Or a waiter has not set it yet: then the waiter's own exchange fails, and it sees 0.
//!
//! # Safety
//!
//! A node is queued by reference: it stays in its frame until its wait has ended, and is taken out unless it was woken.

#![allow(unsafe_code)]

use super::own_lot::OwnLot;
use crate::atomic::{AtomicUsize, Ordering};
use crate::park::lot::{Node, WOKEN};
use crate::park::{Outcome, WaitReason};
use crate::sched::{self, NEVER};
#[cfg(not(urgo_loom))]
use crate::time::{Deadline, duration_ns};
use core::fmt;
use std::sync::Arc;
#[cfg(not(urgo_loom))]
use std::time::Duration;

const WAITERS: usize = 1;
const ONE: usize = 2;
const MAX: usize = usize::MAX >> 2;

/// Counts what is still to be done, and lets others wait until nothing is. Go's `sync.WaitGroup`.
///
/// [`add`](Self::add) before the work is handed out, [`done`](Self::done) when a piece of it is over, [`wait`](Self::wait)
/// for all of it. Better than calling `done` by hand is a [guard](Self::guard), which does so when it is dropped, also by a
/// panic. A group may be used again; a wait is over when the number was 0 once, whatever is added later.
///
/// A wait blocks the calling goroutine (or plain thread), not its worker; both may be mixed. A group may stand in a static.
///
/// What comes before `done` happens before whatever comes after the `wait` that it ends.
///
/// Adding *inside* the goroutine that is waited for is a mistake: `wait` may look before it has run.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use urgo::sync::WaitGroup;
///
/// urgo::run(|| {
///     let group = Arc::new(WaitGroup::new());
///     let sum = Arc::new(AtomicU32::new(0));
///     for n in 1..=10 {
///         let (guard, sum) = (group.guard_owned(), sum.clone());
///         urgo::spawn(move || {
///             let _guard = guard; // done when this goroutine ends
///             sum.fetch_add(n, Ordering::Relaxed);
///         });
///     }
///     group.wait();
///     assert_eq!(sum.load(Ordering::Relaxed), 55);
/// });
/// ```
pub struct WaitGroup {
    word: AtomicUsize,
    lot: OwnLot,
}

impl WaitGroup {
    /// A group in which nothing is to be done.
    #[cfg(not(urgo_loom))]
    #[must_use]
    pub const fn new() -> WaitGroup {
        WaitGroup {
            word: AtomicUsize::new(0),
            lot: OwnLot::new(),
        }
    }

    #[cfg(urgo_loom)]
    pub(crate) fn new() -> WaitGroup {
        WaitGroup {
            word: AtomicUsize::new(0),
            lot: OwnLot::new(),
        }
    }

    /// Adds `n` to what is to be done. Blocks nothing.
    ///
    /// # Panics
    ///
    /// If the number becomes too large (2⁶² and more).
    #[track_caller]
    pub fn add(&self, n: usize) {
        let added = self
            .word
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                let pending = (word / ONE).checked_add(n).filter(|sum| *sum <= MAX)?;
                Some((pending * ONE) | (word & WAITERS))
            });
        assert!(added.is_ok(), "too much was added to the wait group");
    }

    /// Says that one thing is done. Blocks nothing; wakes those that wait if it was the last.
    ///
    /// # Panics
    ///
    /// If nothing was to be done: `done` was called more often than was added. The number stays 0.
    #[track_caller]
    pub fn done(&self) {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            assert!(
                seen >= ONE,
                "the wait group's number would be negative: more was done than added"
            );
            if seen == ONE | WAITERS {
                if self.finish() {
                    return;
                }
                seen = self.word.load(Ordering::Relaxed);
                continue;
            }
            // WG1, pairs with `is_done` and `finish`.
            match self.word.compare_exchange_weak(
                seen,
                seen - ONE,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// The last thing is done while somebody waits; `false` if that has changed.
    #[cold]
    fn finish(&self) -> bool {
        let mut locked = self.lot.lock(self.address());
        // WG1, pairs with the other calls of `done`, and with `is_done`.
        let is_last = self
            .word
            .compare_exchange(
                ONE | WAITERS,
                0,
                Ordering::AcqRel, // pairs with WG1
                Ordering::Relaxed,
            )
            .is_ok();
        if is_last {
            while locked.wake_first(self.address(), WOKEN) {}
        }
        locked.unlock().for_each(sched::settle);
        is_last
    }

    /// Waits until nothing is to be done; returns at once if that is so.
    ///
    /// Blocks the calling goroutine or thread.
    pub fn wait(&self) {
        let is_done = self.wait_deadline(NEVER);
        debug_assert!(is_done);
    }

    /// As [`wait`](Self::wait), for `timeout` at most; whether all was done.
    ///
    /// ```
    /// use std::time::Duration;
    /// use urgo::sync::WaitGroup;
    ///
    /// let group = WaitGroup::new();
    /// group.add(1);
    /// assert!(!group.wait_for(Duration::from_millis(1)));
    /// group.done();
    /// assert!(group.wait_for(Duration::ZERO));
    /// ```
    #[cfg(not(urgo_loom))]
    pub fn wait_for(&self, timeout: Duration) -> bool {
        self.wait_deadline(sched::now_ns().saturating_add(duration_ns(timeout)))
    }

    /// As [`wait`](Self::wait), until `deadline` at the latest; whether all was done.
    #[cfg(not(urgo_loom))]
    pub fn wait_until(&self, deadline: impl Deadline) -> bool {
        self.wait_deadline(deadline.deadline_ns())
    }

    /// Adds 1; the guard calls [`done`](Self::done) when it is dropped.
    ///
    /// ```
    /// let group = urgo::sync::WaitGroup::new();
    /// urgo::run(|| {
    ///     urgo::scope(|s| {
    ///         for _ in 0..3 {
    ///             let guard = group.guard();
    ///             s.spawn(move || drop(guard));
    ///         }
    ///         group.wait();
    ///     });
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// As [`add`](Self::add).
    #[track_caller]
    pub fn guard(&self) -> WaitGroupGuard<'_> {
        self.add(1);
        WaitGroupGuard { group: self }
    }

    /// As [`guard`](Self::guard); the guard keeps the group alive and may go anywhere.
    ///
    /// # Panics
    ///
    /// As [`add`](Self::add).
    #[track_caller]
    pub fn guard_owned(self: &Arc<Self>) -> OwnedWaitGroupGuard {
        self.add(1);
        OwnedWaitGroupGuard {
            group: self.clone(),
        }
    }

    /// The key in the lot.
    #[inline]
    fn address(&self) -> usize {
        (&raw const self.word).addr()
    }

    #[inline]
    fn is_done(&self) -> bool {
        // WG1, pairs with the release in `done` and `finish`.
        self.word.load(Ordering::Acquire) < ONE
    }

    fn wait_deadline(&self, deadline: u64) -> bool {
        loop {
            if self.is_done() {
                return true;
            }
            if deadline != NEVER && deadline <= sched::now_ns() {
                return false;
            }
            let node = Node::new(sched::new_parked_waiter(), 0);
            // SAFETY: the node stays in this frame, which does not go before the wait is over; if that was not by a wake, it
            // is taken out below. Nothing in between unwinds.
            let waits = unsafe { self.lot.enqueue(self.address(), &node, || self.announce()) };
            if !waits {
                continue;
            }
            match sched::wait_parked(&node.waiter, WaitReason::WaitGroup, deadline) {
                Outcome::Woken => return true,
                Outcome::TimedOut => {
                    self.lot.remove(&node);
                    return false;
                }
                Outcome::Cancelled => {
                    self.lot.remove(&node);
                    sched::unwind_if_cancelled();
                }
            }
        }
    }

    /// The bucket's lock is held. Sets `WAITERS`; `false` if nothing is to be done.
    fn announce(&self) -> bool {
        let announced = self
            .word
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                (word >= ONE).then_some(word | WAITERS)
            });
        announced.is_ok()
    }
}

impl Default for WaitGroup {
    fn default() -> Self {
        WaitGroup::new()
    }
}

impl fmt::Debug for WaitGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitGroup")
            .field("pending", &(self.word.load(Ordering::Relaxed) / ONE))
            .finish()
    }
}

/// One thing to be done of a [`WaitGroup`]; it is done when this is dropped.
#[must_use = "it is done when this is dropped"]
#[derive(Debug)]
pub struct WaitGroupGuard<'a> {
    group: &'a WaitGroup,
}

impl Drop for WaitGroupGuard<'_> {
    fn drop(&mut self) {
        self.group.done();
    }
}

/// One thing to be done of a [`WaitGroup`], which it keeps alive; it is done when this is dropped.
#[must_use = "it is done when this is dropped"]
#[derive(Debug)]
pub struct OwnedWaitGroupGuard {
    group: Arc<WaitGroup>,
}

impl Drop for OwnedWaitGroupGuard {
    fn drop(&mut self) {
        self.group.done();
    }
}

#[cfg(all(test, urgo_loom))]
mod tests {
    use super::*;
    use loom::thread;

    /// Two finish while one waits for good and one for a time: the first is woken, and all that was done is seen.
    #[test]
    fn loom_wait_group_loses_no_wake_up() {
        loom::model(|| {
            let shared = Arc::new((WaitGroup::new(), [AtomicUsize::new(0), AtomicUsize::new(0)]));
            shared.0.add(2);
            let done = |shared: &(WaitGroup, [AtomicUsize; 2]), i: usize| {
                shared.1[i].store(1, Ordering::Relaxed);
                shared.0.done();
            };
            let other = {
                let shared = shared.clone();
                thread::spawn(move || done(&shared, 0))
            };
            let hasty = {
                let shared = shared.clone();
                thread::spawn(move || {
                    if shared.0.wait_deadline(2) {
                        assert_eq!(shared.1[0].load(Ordering::Relaxed), 1);
                        assert_eq!(shared.1[1].load(Ordering::Relaxed), 1);
                    }
                })
            };
            done(&shared, 1);
            shared.0.wait();
            assert_eq!(shared.1[0].load(Ordering::Relaxed), 1);
            other.join().unwrap();
            hasty.join().unwrap();
            assert_eq!(shared.0.word.load(Ordering::Relaxed), 0);
        });
    }

    /// More is added as soon as all was done: who waited is let go all the same.
    #[test]
    fn loom_wait_group_lets_go_though_more_is_added() {
        loom::model(|| {
            let group = Arc::new(WaitGroup::new());
            group.add(1);
            let waiter = {
                let group = group.clone();
                thread::spawn(move || group.wait())
            };
            group.done();
            group.add(1);
            group.done();
            waiter.join().unwrap();
        });
    }
}
