//! Permits: a number on one word, from which callers take as many as they want, first come first served.
//!
//! The semaphore is this with an API. The lock for readers and a writer is this as well: a reader takes one, a writer takes
//! all.
//!
//! # Algorithm
//!
//! 1. *Take*: if nobody waits and there are enough, one exchange. Otherwise queue in the lot, and wait.
//! 2. *Give back*: add to the word. If somebody waits, lock its bucket of the lot and *serve*.
//! 3. *Serve*: as long as there is enough for the first in the queue, take it out, end its wait, and subtract what it wanted.
//!    If its wait was over already, nothing is subtracted. Settle outside the lock.
//! 4. A waiter that timed out or was cancelled takes itself out and serves: it may have been the one for whom the others
//!    waited.
//!
//! Nobody is given a part. What does not suffice for the first in the queue stays on the word, so a waiter that goes has
//! nothing to give back, and the count is exact by construction. Nobody overtakes: not even what could be had at once is
//! taken past a waiter that wants more. Hence whoever wants much is not starved by many that want little, nor these by it.
//!
//! # State
//!
//! | bits of `word` | meaning | who changes them |
//! |---|---|---|
//! | `WAITERS` 1 | somebody is in the queue | the holder of the bucket's lock |
//! | `CLOSED` 2 | nobody is given any more | the holder of the bucket's lock, once |
//! | the rest | permits that are free | adding: anybody. Subtracting: anybody while `WAITERS` is clear, else the holder of the bucket's lock |
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | PM1 | `add`, release | the exchange in `try_take`, the load in `serve`: acquire | what was done while the permits were held |
//!
//! Every other change of the word is a read-modify-write, so it carries PM1 on. From `serve` it goes on to the waiter
//! through its wait word (WW1).
//!
//! # No lost wake-up
//!
//! The waiter sets `WAITERS` by an exchange that fails if the word has changed since it looked; `add` is a
//! read-modify-write of the same word. If the addition comes first, the waiter sees the permits and takes them. If it comes
//! second, the addition sees `WAITERS` and serves.
//!
//! # Invariants
//!
//! Free permits and those taken add up, always. `WAITERS` is set if and only if somebody is in the queue, whenever the
//! bucket's lock is free.
//!
//! # Safety
//!
//! Nodes are queued by reference; each is taken out by `leave` or by whoever delivers before its frame goes.

#![allow(unsafe_code)]

use crate::atomic::{AtomicUsize, Ordering};
use crate::park::lot::{Locked, Lot, Node, WOKEN};
use crate::park::{Outcome, WaitReason};
use crate::sched::{self, NEVER, settle};
use core::cell::Cell;

const WAITERS: usize = 1;
const CLOSED: usize = 2;
const SHIFT: u32 = 2;

/// The case that ends a wait when the permits are closed.
const CASE_CLOSED: u32 = WOKEN + 1;

/// Rounds of spinning before a wait, each twice as long as the one before: about 5 µs in all, less than it costs to wake a
/// thread on another CPU.
#[cfg(not(urgo_loom))]
const SPINS: u32 = 7;

/// As many permits as there may be. A bit is left over, so that an addition can be seen to be too much.
pub(super) const PERMITS_MAX: usize = usize::MAX >> (SHIFT + 1);

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// There are too few, or others are before.
    TooFew,
    /// Nobody is given any more.
    Closed,
}

/// How a caller queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// Behind all others.
    Last,
    /// Takes what is there past those that wait; waits behind them.
    Passing,
    /// Takes what is there past those that wait; waits before them.
    First,
}

/// What came of going to the queue.
#[derive(Debug, PartialEq, Eq)]
enum Queued {
    Taken,
    Closed,
    Waits,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Permits {
    word: AtomicUsize,
    #[cfg(urgo_loom)]
    lot: Lot,
}

impl Permits {
    /// At most [`PERMITS_MAX`]; the caller has looked.
    #[cfg(not(urgo_loom))]
    pub(super) const fn new(permits: usize) -> Permits {
        Permits {
            word: AtomicUsize::new(permits << SHIFT),
        }
    }

    #[cfg(urgo_loom)]
    pub(super) fn new(permits: usize) -> Permits {
        Permits {
            word: AtomicUsize::new(permits << SHIFT),
            lot: Lot::new(),
        }
    }

    #[cfg(not(urgo_loom))]
    #[inline]
    fn lot(&self) -> &Lot {
        &crate::park::lot::LOT
    }

    #[cfg(urgo_loom)]
    fn lot(&self) -> &Lot {
        &self.lot
    }

    /// The key in the lot.
    #[inline]
    fn address(&self) -> usize {
        (&raw const self.word).addr()
    }

    /// How many are free, those included that add up for the first waiter.
    pub(super) fn free(&self) -> usize {
        self.word.load(Ordering::Relaxed) >> SHIFT
    }

    pub(super) fn is_closed(&self) -> bool {
        self.word.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Takes `n` if nobody waits and there are enough. Never waits.
    #[inline]
    pub(super) fn try_take(&self, n: usize) -> Result<(), Refused> {
        self.try_take_past(n, WAITERS)
    }

    /// As [`try_take`](Self::try_take), past those that wait.
    pub(super) fn try_take_passing(&self, n: usize) -> Result<(), Refused> {
        match self.try_take(n) {
            Err(Refused::TooFew) => {
                let locked = self.lot().lock(self.address());
                let done = self.try_take_past(n, 0);
                unlock_quietly(locked);
                done
            }
            done => done,
        }
    }

    /// `barrier` is `WAITERS`, or 0 if the lock is held.
    #[inline]
    fn try_take_past(&self, n: usize, barrier: usize) -> Result<(), Refused> {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            if seen & CLOSED != 0 {
                return Err(Refused::Closed);
            }
            // Who wants nothing stands in nobody's way.
            if n != 0 && (seen & barrier != 0 || seen >> SHIFT < n) {
                return Err(Refused::TooFew);
            }
            // PM1, pairs with the release in `add`.
            match self.word.compare_exchange_weak(
                seen,
                seen - (n << SHIFT),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
    }

    /// Whether trying again soon may help: nobody waits.
    #[cfg(not(urgo_loom))]
    fn is_open(&self) -> bool {
        self.word.load(Ordering::Relaxed) & (WAITERS | CLOSED) == 0
    }

    /// Takes what `node`, by its tag, wants, or queues it.
    ///
    /// # Safety
    ///
    /// If it `Waits`: `node` does not move, and its owner calls `leave` before its frame goes, unless its wait ended by a
    /// delivery.
    unsafe fn enqueue(&self, node: &Node, rank: Rank) -> Queued {
        let mut locked = self.lot().lock(self.address());
        let barrier = if rank == Rank::Last { WAITERS } else { 0 };
        let queued = loop {
            match self.try_take_past(node.tag, barrier) {
                Ok(()) => break Queued::Taken,
                Err(Refused::Closed) => break Queued::Closed,
                Err(Refused::TooFew) => {}
            }
            let seen = self.word.load(Ordering::Relaxed);
            let has_enough = seen >> SHIFT >= node.tag && seen & barrier == 0;
            // An addition since the look above makes the exchange fail, or was seen by it.
            if !has_enough
                && self
                    .word
                    .compare_exchange(seen, seen | WAITERS, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                // SAFETY: as promised by the caller; it was not queued before.
                unsafe {
                    if rank == Rank::First {
                        locked.push_first(self.address(), node);
                    } else {
                        locked.push(self.address(), node);
                    }
                }
                break Queued::Waits;
            }
        };
        unlock_quietly(locked);
        queued
    }

    /// Takes a node out whose wait did not end by a delivery, and serves those behind it.
    fn leave(&self, node: &Node) {
        let mut locked = self.lot().lock(self.address());
        // SAFETY: nobody requeues waiters for permits.
        // If it was taken out before, whoever did so has gone on to the next.
        if unsafe { locked.remove(self.address(), node) } {
            self.serve(&mut locked);
        }
        locked.unlock().for_each(settle);
    }

    /// Delivers to the first in the queue as long as there is enough.
    fn serve(&self, locked: &mut Locked<'_>) {
        let wanted = Cell::new(0);
        loop {
            // PM1, pairs with the release in `add`.
            let free = self.word.load(Ordering::Acquire) >> SHIFT;
            let has_enough = |wants| {
                wanted.set(wants);
                wants <= free
            };
            if !locked.wake_first_if(self.address(), WOKEN, has_enough) {
                break;
            }
            // Nobody else subtracts while `WAITERS` is set, so there are still enough.
            self.word
                .fetch_sub(wanted.get() << SHIFT, Ordering::Relaxed);
        }
        if locked.is_empty(self.address()) {
            self.word.fetch_and(!WAITERS, Ordering::Relaxed);
        }
    }

    /// Adds `n`, and serves. The sum of those free and taken stays below [`PERMITS_MAX`], or the caller looks at the number
    /// that is returned: how many were free before.
    #[inline]
    pub(super) fn add(&self, n: usize) -> usize {
        // PM1, pairs with the exchange in `try_take_past` and the load in `serve`.
        let before = self.word.fetch_add(n << SHIFT, Ordering::Release);
        if before & WAITERS != 0 {
            self.serve_slow();
        }
        before >> SHIFT
    }

    #[cold]
    fn serve_slow(&self) {
        let mut locked = self.lot().lock(self.address());
        self.serve(&mut locked);
        locked.unlock().for_each(settle);
    }

    /// Takes up to `n` out of the world; returns how many.
    pub(super) fn forget(&self, n: usize) -> usize {
        let locked = self.lot().lock(self.address());
        let mut seen = self.word.load(Ordering::Relaxed);
        let fewer = loop {
            let fewer = n.min(seen >> SHIFT);
            match self.word.compare_exchange_weak(
                seen,
                seen - (fewer << SHIFT),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => break fewer,
                Err(now) => seen = now,
            }
        };
        unlock_quietly(locked);
        fewer
    }

    /// Ends all waits without a delivery; nobody is given any more.
    pub(super) fn close(&self) {
        let mut locked = self.lot().lock(self.address());
        self.word.fetch_or(CLOSED, Ordering::Relaxed);
        // Those whose waits are over already have received nothing either way.
        while locked.wake_first(self.address(), CASE_CLOSED) {}
        self.word.fetch_and(!WAITERS, Ordering::Relaxed);
        locked.unlock().for_each(settle);
    }

    /// Tries for a short time to take `n`, as long as nobody waits. For what is held for a short time.
    #[cfg(not(urgo_loom))]
    #[cold]
    pub(super) fn spin(&self, n: usize) -> bool {
        let backoff = crossbeam_utils::Backoff::new();
        for _ in 0..SPINS {
            // Others of this worker that are ready have more use for the time; one of them may hold what is wanted.
            if !self.is_open() || sched::has_others_ready() {
                return false;
            }
            backoff.spin();
            if self.try_take(n).is_ok() {
                return true;
            }
        }
        false
    }

    /// Takes `n`, waiting for them until `deadline`. Blocks the calling goroutine or thread. `TooFew` means that the
    /// deadline has passed.
    #[inline]
    pub(super) fn take(
        &self,
        n: usize,
        rank: Rank,
        reason: WaitReason,
        deadline: u64,
    ) -> Result<(), Refused> {
        match self.try_take(n) {
            Err(Refused::TooFew) => self.take_slow(n, rank, reason, deadline),
            done => done,
        }
    }

    #[cold]
    fn take_slow(
        &self,
        n: usize,
        rank: Rank,
        reason: WaitReason,
        deadline: u64,
    ) -> Result<(), Refused> {
        loop {
            if deadline != NEVER && deadline <= sched::now_ns() {
                return if rank == Rank::Last {
                    self.try_take(n)
                } else {
                    self.try_take_passing(n)
                };
            }
            let node = Node::new(sched::new_parked_waiter(), n);
            // SAFETY: the node stays in this frame, which does not go before the wait is over; `leave` is called
            // below unless the wait ended by a delivery. Nothing in between unwinds.
            match unsafe { self.enqueue(&node, rank) } {
                Queued::Taken => return Ok(()),
                Queued::Closed => return Err(Refused::Closed),
                Queued::Waits => {}
            }
            match sched::wait_parked(&node.waiter, reason, deadline) {
                Outcome::Woken if node.waiter.case() == Some(CASE_CLOSED) => {
                    return Err(Refused::Closed);
                }
                Outcome::Woken => return Ok(()),
                Outcome::TimedOut => {
                    self.leave(&node);
                    return Err(Refused::TooFew);
                }
                Outcome::Cancelled => {
                    self.leave(&node);
                    sched::unwind_if_cancelled();
                }
            }
        }
    }
}

/// Where nobody was woken.
fn unlock_quietly(locked: Locked<'_>) {
    let woken = locked.unlock().next();
    debug_assert!(woken.is_none());
}

#[cfg(all(test, urgo_loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Takes `n`; with `is_hasty`, a deadline may pass at any moment.
    fn take(permits: &Permits, n: usize, is_hasty: bool) -> Result<(), Refused> {
        let deadline = if is_hasty { 2 } else { NEVER };
        permits.take(n, Rank::Last, WaitReason::Semaphore, deadline)
    }

    fn give_back(permits: &Permits, n: usize) {
        permits.add(n);
    }

    fn is_whole(permits: &Permits, n: usize) {
        let word = permits.word.load(Ordering::Relaxed);
        assert_eq!(word, n << SHIFT, "count and flags");
        let locked = permits.lot().lock(permits.address());
        assert!(locked.is_empty(permits.address()));
        unlock_quietly(locked);
    }

    /// A permit is given back while one waiter runs out of time and another waits for good: it reaches one that takes it,
    /// with what was done under it, and is there in the end.
    #[test]
    fn loom_permits_pass_over_who_timed_out() {
        loom::model(|| {
            let shared = Arc::new((Permits::new(1), AtomicUsize::new(0)));
            shared.0.try_take(1).unwrap();
            let hasty = {
                let shared = shared.clone();
                thread::spawn(move || {
                    if take(&shared.0, 1, true).is_ok() {
                        give_back(&shared.0, 1);
                    }
                })
            };
            let steady = {
                let shared = shared.clone();
                thread::spawn(move || {
                    take(&shared.0, 1, false).unwrap();
                    assert_eq!(shared.1.load(Ordering::Relaxed), 1);
                    give_back(&shared.0, 1);
                })
            };
            shared.1.store(1, Ordering::Relaxed);
            give_back(&shared.0, 1);
            hasty.join().unwrap();
            steady.join().unwrap();
            is_whole(&shared.0, 1);
        });
    }

    /// One that wants two waits before one that wants one; when it goes, the other is served though nobody gives back.
    #[test]
    fn loom_permits_serve_those_behind_who_left() {
        loom::model(|| {
            let permits = Arc::new(Permits::new(2));
            permits.try_take(1).unwrap();
            let large = {
                let permits = permits.clone();
                thread::spawn(move || {
                    assert_eq!(take(&permits, 2, true), Err(Refused::TooFew));
                })
            };
            take(&permits, 1, false).unwrap();
            large.join().unwrap();
            give_back(&permits, 2);
            is_whole(&permits, 2);
        });
    }

    /// Adding and waiting do not miss each other, and what the permit protects is handed on with it.
    #[test]
    fn loom_permits_exclude_and_lose_no_wake_up() {
        loom::model(|| {
            let shared = Arc::new((Permits::new(1), AtomicUsize::new(0)));
            let add = |shared: &(Permits, AtomicUsize)| {
                take(&shared.0, 1, false).unwrap();
                // Relaxed and in two steps: only the permit keeps it whole.
                let seen = shared.1.load(Ordering::Relaxed);
                shared.1.store(seen + 1, Ordering::Relaxed);
                give_back(&shared.0, 1);
            };
            let other = {
                let shared = shared.clone();
                thread::spawn(move || add(&shared))
            };
            add(&shared);
            other.join().unwrap();
            assert_eq!(shared.1.load(Ordering::Relaxed), 2);
            is_whole(&shared.0, 1);
        });
    }

    /// Who holds two of three and wants the third, before one that waits for all: an upgrade against a writer.
    #[test]
    fn loom_permits_first_goes_before_who_waits_for_all() {
        loom::model(|| {
            let shared = Arc::new((Permits::new(3), AtomicUsize::new(0)));
            shared.0.try_take(2).unwrap();
            let writer = {
                let shared = shared.clone();
                thread::spawn(move || {
                    take(&shared.0, 3, false).unwrap();
                    assert_eq!(shared.1.load(Ordering::Relaxed), 1);
                    give_back(&shared.0, 3);
                })
            };
            let reader = shared.0.try_take_passing(1).is_ok();
            if reader {
                give_back(&shared.0, 1);
            }
            let taken = shared.0.take(1, Rank::First, WaitReason::Semaphore, NEVER);
            assert_eq!((taken, reader), (Ok(()), true));
            shared.1.store(1, Ordering::Relaxed);
            give_back(&shared.0, 3);
            writer.join().unwrap();
            is_whole(&shared.0, 3);
        });
    }

    /// Closing, giving back and waiting at once: the waiter has the permit or the news, and the count stays exact.
    #[test]
    fn loom_permits_close_wakes_or_serves() {
        loom::model(|| {
            let permits = Arc::new(Permits::new(1));
            permits.try_take(1).unwrap();
            let waiter = {
                let permits = permits.clone();
                thread::spawn(move || match take(&permits, 1, false) {
                    Ok(()) => give_back(&permits, 1),
                    Err(why) => assert_eq!(why, Refused::Closed),
                })
            };
            let closer = {
                let permits = permits.clone();
                thread::spawn(move || permits.close())
            };
            give_back(&permits, 1);
            waiter.join().unwrap();
            closer.join().unwrap();
            let word = permits.word.load(Ordering::Relaxed);
            assert_eq!(word, 1 << SHIFT | CLOSED);
        });
    }
}
