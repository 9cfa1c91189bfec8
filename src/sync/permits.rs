//! Permits: a number on one word, from which callers take as many as they want.
//!
//! The semaphore is this with an API. The lock for readers and a writer is this as well: a reader takes one, a writer takes
//! all. They differ in whether a caller may overtake those that wait (`OVERTAKES`).
//!
//! # Algorithm
//!
//! 1. *Take*: if there are enough, and nobody waits who may not be overtaken, one exchange. Otherwise queue in the lot.
//! 2. *Give back*: add to the word. If somebody waits, lock its bucket of the lot and *serve*.
//! 3. *Serve*: look at the first in the queue. Is there enough, then *deliver* or *rouse*, and look at the next. Settle outside
//!    the lock.
//! 4. *Deliver*: take it out, end its wait, and subtract what it wanted. If its wait was over already, nothing is subtracted.
//! 5. *Rouse*, only where `OVERTAKES`: take it out and end its wait without a delivery. It tries again, and if it was
//!    overtaken, queues before all others. While somebody roused is on its way, nobody else is roused: whoever was roused
//!    serves, when it has taken something or given up. From 1 ms after it came, a waiter *starves*: what it waits for is
//!    delivered to it, and until then nobody overtakes.
//! 6. A waiter that timed out or was cancelled takes itself out and serves: it may have been the one for whom the others
//!    waited.
//!
//! Without `OVERTAKES` there is only delivering, in the order of coming: a weighted request is not overtaken, not even by one
//! that could be had at once. With it, what is free is taken by who runs already. Measured on 2 workers with 16 goroutines and
//! sections of some nanoseconds: delivering always costs 2,000 ns a section, as each waits for a wake-up on the other CPU;
//! rousing 150.
//!
//! Nobody is given a part. What does not suffice for the first in the queue stays on the word, so a waiter that goes has
//! nothing to give back, and the count is exact by construction.
//!
//! Who holds some and wants the rest (an upgrade) is *urgent*: it stands before all others, for whoever stood before it would
//! wait for what it holds. A roused waiter that goes back to the front therefore rouses an urgent one, which then goes before
//! it again.
//!
//! # State
//!
//! | bits of `word` | meaning | who changes them |
//! |---|---|---|
//! | `WAITERS` 1 | somebody is in the queue | the holder of the bucket's lock |
//! | `CLOSED` 2, not where `OVERTAKES` | nobody is given any more | the holder of the bucket's lock, once |
//! | `STRICT` 2, where `OVERTAKES` | somebody in the queue starves | the holder of the bucket's lock |
//! | `ROUSED` 4, where `OVERTAKES` | somebody was roused and has not come back yet | the holder of the bucket's lock |
//! | the rest | permits that are free | adding: anybody. Subtracting: anybody while neither `STRICT` nor, without `OVERTAKES`, `WAITERS` is set; else the holder of the bucket's lock |
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | PM1 | `add`, release | the exchange in `try_take_past`, the load in `deliver`: acquire | what was done while the permits were held |
//!
//! Every other change of the word is a read-modify-write, so it carries PM1 on. From `deliver` it goes on to the waiter
//! through its wait word (WW1).
//!
//! # No lost wake-up
//!
//! The waiter sets `WAITERS` by an exchange that fails if the word has changed since it looked; `add` is a
//! read-modify-write of the same word. If the addition comes first, the waiter sees the permits and takes them. If it comes
//! second, the addition sees `WAITERS` and serves. It leaves that to one that was roused only if it sees `ROUSED`; who was
//! roused clears that by a read-modify-write before it tries, so it sees what was added.
//!
//! # Invariants
//!
//! Free permits and those taken add up, always. `WAITERS` is set if and only if somebody is in the queue, and `STRICT` only
//! then, whenever the bucket's lock is free.
//!
//! # Safety
//!
//! Nodes are queued by reference; each is taken out by `leave` or by whoever delivers before its frame goes.

#![allow(unsafe_code)]

use super::own_lot::OwnLot;
use crate::atomic::{AtomicUsize, Ordering};
use crate::park::lot::{Locked, Node, WOKEN};
use crate::park::{Outcome, WaitReason};
use crate::sched::{self, NEVER, settle};
use core::cell::Cell;

const WAITERS: usize = 1;
const CLOSED: usize = 2;
const STRICT: usize = 2;
const ROUSED: usize = 4;
const SHIFT: u32 = 3;

/// The case that ends a wait when the permits are closed.
const CASE_CLOSED: u32 = WOKEN + 1;
/// The case that ends a wait without a delivery: the waiter is to try again.
const CASE_RETRY: u32 = WOKEN + 2;

/// In a tag: its owner holds some already and wants the rest, so nobody may stand before it.
const URGENT: usize = 1 << (usize::BITS - 1);

/// How long a waiter may be overtaken before the permits are handed over to it, in nanoseconds.
#[cfg(not(urgo_loom))]
const STARVES_NS: u64 = 1_000_000;
#[cfg(urgo_loom)]
const STARVES_NS: u64 = 0;

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
    /// Takes what is there past those that wait, unless one of them starves; waits behind them. Only where `OVERTAKES`.
    Quick,
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
pub(super) struct Permits<const OVERTAKES: bool = false> {
    word: AtomicUsize,
    lot: OwnLot,
}

impl<const OVERTAKES: bool> Permits<OVERTAKES> {
    /// At most [`PERMITS_MAX`]; the caller has looked.
    #[cfg(not(urgo_loom))]
    pub(super) const fn new(permits: usize) -> Self {
        Permits {
            word: AtomicUsize::new(permits << SHIFT),
            lot: OwnLot::new(),
        }
    }

    #[cfg(urgo_loom)]
    pub(super) fn new(permits: usize) -> Self {
        Permits {
            word: AtomicUsize::new(permits << SHIFT),
            lot: OwnLot::new(),
        }
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
        !OVERTAKES && self.word.load(Ordering::Relaxed) & CLOSED != 0
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
                let locked = self.lot.lock(self.address());
                let done = self.try_take_past(n, 0);
                unlock_quietly(locked);
                done
            }
            done => done,
        }
    }

    /// As [`try_take`](Self::try_take), by rank.
    #[inline]
    pub(super) fn try_take_as(&self, n: usize, rank: Rank) -> Result<(), Refused> {
        match rank {
            Rank::Last => self.try_take(n),
            Rank::Quick => self.try_take_past(n, STRICT),
            Rank::Passing | Rank::First => self.try_take_passing(n),
        }
    }

    /// Which flags keep out whoever comes as `rank`, when the bucket's lock is held.
    fn barrier(rank: Rank) -> usize {
        match rank {
            Rank::Last => WAITERS,
            Rank::Quick => STRICT,
            Rank::Passing | Rank::First => 0,
        }
    }

    /// `barrier` is the flags that keep the caller out: `WAITERS` or `STRICT`, or 0 if the lock is held.
    #[inline]
    fn try_take_past(&self, n: usize, barrier: usize) -> Result<(), Refused> {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            if !OVERTAKES && seen & CLOSED != 0 {
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

    /// Takes what `node`, by its tag, wants, or queues it. `is_roused`: its owner has been told to try again. `starves`: it
    /// is to be handed over to from now on.
    ///
    /// # Safety
    ///
    /// If it `Waits`: `node` does not move, and its owner calls `leave` before its frame goes, unless its wait ended by a
    /// delivery.
    unsafe fn enqueue(&self, node: &Node, rank: Rank, is_roused: bool, starves: bool) -> Queued {
        let mut locked = self.lot.lock(self.address());
        let (wants, barrier) = (node.tag & !URGENT, Self::barrier(rank));
        if is_roused {
            self.word.fetch_and(!ROUSED, Ordering::Relaxed);
        }
        let flags = if starves { WAITERS | STRICT } else { WAITERS };
        let queued = loop {
            match self.try_take_past(wants, barrier) {
                Ok(()) => break Queued::Taken,
                Err(Refused::Closed) => break Queued::Closed,
                Err(Refused::TooFew) => {}
            }
            let seen = self.word.load(Ordering::Relaxed);
            let has_enough = seen >> SHIFT >= wants && seen & barrier == 0;
            // An addition since the look above makes the exchange fail, or was seen by it.
            if !has_enough
                && self
                    .word
                    .compare_exchange(seen, seen | flags, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                // SAFETY: as promised by the caller; it was not queued before.
                unsafe {
                    if rank == Rank::First {
                        if node.tag & URGENT == 0 {
                            self.pass_urgent(&mut locked);
                        }
                        locked.push_first(self.address(), node);
                    } else {
                        locked.push(self.address(), node);
                    }
                }
                break Queued::Waits;
            }
        };
        if is_roused && queued == Queued::Taken {
            // While it was on its way, nobody else was roused.
            self.serve(&mut locked);
        }
        locked.unlock().for_each(settle);
        queued
    }

    /// Somebody goes to the front: whoever is there and urgent is roused, to go before it again.
    fn pass_urgent(&self, locked: &mut Locked<'_>) {
        if locked.wake_first_if(self.address(), CASE_RETRY, |tag| tag & URGENT != 0) {
            self.word.fetch_or(ROUSED, Ordering::Relaxed);
        }
    }

    /// For one that was roused and waits no more: a last try, and the next is roused.
    #[cold]
    fn try_last(&self, n: usize) -> Result<(), Refused> {
        let mut locked = self.lot.lock(self.address());
        self.word.fetch_and(!ROUSED, Ordering::Relaxed);
        let done = self.try_take_past(n, 0);
        self.serve(&mut locked);
        locked.unlock().for_each(settle);
        done
    }

    /// Takes a node out whose wait did not end by a delivery, and serves those behind it. `starves`: as in `enqueue`.
    fn leave(&self, node: &Node, starves: bool) {
        let mut locked = self.lot.lock(self.address());
        // SAFETY: nobody requeues waiters for permits.
        // If it was taken out before, whoever did so has gone on to the next.
        let was_in = unsafe { locked.remove(self.address(), node) };
        if OVERTAKES && starves {
            // If another starves as well, that says so again.
            self.word.fetch_and(!STRICT, Ordering::Relaxed);
        }
        if was_in || OVERTAKES {
            self.serve(&mut locked);
        }
        locked.unlock().for_each(settle);
    }

    /// Delivers to the first in the queue as long as there is enough; where `OVERTAKES`, to the one that starves, and rouses the
    /// others as far as there is enough for them.
    fn serve(&self, locked: &mut Locked<'_>) {
        let is_strict = !OVERTAKES || self.word.load(Ordering::Relaxed) & STRICT != 0;
        if !is_strict {
            self.rouse(locked);
        } else if OVERTAKES {
            if self.deliver(locked) {
                self.word.fetch_and(!STRICT, Ordering::Relaxed);
                self.rouse(locked);
            }
        } else {
            while self.deliver(locked) {}
        }
        if locked.is_empty(self.address()) {
            let flags = if OVERTAKES { WAITERS | STRICT } else { WAITERS };
            self.word.fetch_and(!flags, Ordering::Relaxed);
        }
    }

    /// Delivers to the first, if there is enough. Nobody subtracts but under the bucket's lock.
    fn deliver(&self, locked: &mut Locked<'_>) -> bool {
        let wanted = Cell::new(0);
        // PM1, pairs with the release in `add`.
        let free = self.word.load(Ordering::Acquire) >> SHIFT;
        let has_enough = |tag: usize| {
            let wants = tag & !URGENT;
            wanted.set(wants);
            wants <= free
        };
        let delivered = locked.wake_first_if(self.address(), WOKEN, has_enough);
        if delivered {
            // Still enough, by the same.
            self.word
                .fetch_sub(wanted.get() << SHIFT, Ordering::Relaxed);
        }
        delivered
    }

    /// Lets those at the front that there is enough for try again, unless somebody is about to.
    fn rouse(&self, locked: &mut Locked<'_>) {
        let seen = self.word.load(Ordering::Relaxed);
        if seen & ROUSED != 0 {
            return;
        }
        let (free, wanted) = (Cell::new(seen >> SHIFT), Cell::new(0));
        let has_enough = |tag: usize| {
            let wants = tag & !URGENT;
            wanted.set(wants);
            wants <= free.get()
        };
        let mut roused = false;
        while locked.wake_first_if(self.address(), CASE_RETRY, has_enough) {
            free.set(free.get() - wanted.get());
            roused = true;
        }
        if roused {
            self.word.fetch_or(ROUSED, Ordering::Relaxed);
        }
    }

    /// Adds `n`, and serves. The sum of those free and taken stays below [`PERMITS_MAX`], or the caller looks at the number
    /// that is returned: how many were free before.
    #[inline]
    pub(super) fn add(&self, n: usize) -> usize {
        // PM1, pairs with the exchange in `try_take_past` and the load in `deliver`.
        let before = self.word.fetch_add(n << SHIFT, Ordering::Release);
        // Who is roused already takes the bucket's lock after this, and sees what was added.
        if before & WAITERS != 0 && (before & ROUSED == 0 || before & STRICT != 0) {
            self.serve_slow();
        }
        before >> SHIFT
    }

    /// As [`add`](Self::add), unless there would be more free ones than [`PERMITS_MAX`]; then `false`, and nothing was added. At most
    /// `PERMITS_MAX` at once.
    pub(super) fn try_add(&self, n: usize) -> bool {
        // PM1, pairs with the exchange in `try_take_past` and the load in `deliver`.
        let added = self
            .word
            .try_update(Ordering::Release, Ordering::Relaxed, |word| {
                (word >> SHIFT <= PERMITS_MAX - n).then(|| word + (n << SHIFT))
            });
        if added.is_ok_and(|before| before & WAITERS != 0) {
            self.serve_slow();
        }
        added.is_ok()
    }

    /// As [`add`](Self::add), and delivers to the first in the queue if there is enough, also where `OVERTAKES`.
    pub(super) fn add_fairly(&self, n: usize) {
        if !OVERTAKES || self.word.load(Ordering::Relaxed) & WAITERS == 0 {
            self.add(n);
            return;
        }
        let mut locked = self.lot.lock(self.address());
        if !locked.is_empty(self.address()) {
            self.word.fetch_or(STRICT, Ordering::Relaxed);
        }
        // PM1, pairs with the exchange in `try_take_past` and the load in `deliver`.
        self.word.fetch_add(n << SHIFT, Ordering::Release);
        self.serve(&mut locked);
        locked.unlock().for_each(settle);
    }

    #[cold]
    fn serve_slow(&self) {
        let mut locked = self.lot.lock(self.address());
        self.serve(&mut locked);
        locked.unlock().for_each(settle);
    }

    /// Takes up to `n` out of the world; returns how many.
    pub(super) fn forget(&self, n: usize) -> usize {
        let locked = self.lot.lock(self.address());
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
        let mut locked = self.lot.lock(self.address());
        self.word.fetch_or(CLOSED, Ordering::Relaxed);
        // Those whose waits are over already have received nothing either way.
        while locked.wake_first(self.address(), CASE_CLOSED) {}
        self.word.fetch_and(!WAITERS, Ordering::Relaxed);
        locked.unlock().for_each(settle);
    }

    /// Tries for a short time to take `n`. For what is held for a short time.
    #[cfg(not(urgo_loom))]
    #[cold]
    pub(super) fn spin(&self, n: usize, rank: Rank) -> bool {
        let backoff = crossbeam_utils::Backoff::new();
        let barrier = WAITERS & Self::barrier(rank) | STRICT;
        for _ in 0..SPINS {
            // Others of this worker that are ready have more use for the time; one of them may hold what is wanted.
            if self.word.load(Ordering::Relaxed) & barrier != 0 || sched::has_others_ready() {
                return false;
            }
            backoff.spin();
            if self.try_take_past(n, barrier).is_ok() {
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
        match self.try_take_as(n, rank) {
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
        let began_ns = if OVERTAKES || deadline != NEVER {
            sched::now_ns()
        } else {
            0
        };
        if deadline <= began_ns {
            return self.try_take_as(n, rank);
        }
        let tag = if rank == Rank::First { n | URGENT } else { n };
        let (mut rank, mut is_roused, mut starves) = (rank, false, false);
        loop {
            let node = Node::new(sched::new_parked_waiter(), tag);
            // SAFETY: the node stays in this frame, which does not go before the wait is over; `leave` is called
            // below unless the wait ended by a delivery. Nothing in between unwinds.
            match unsafe { self.enqueue(&node, rank, is_roused, starves) } {
                Queued::Taken => return Ok(()),
                Queued::Closed => return Err(Refused::Closed),
                Queued::Waits => {}
            }
            match sched::wait_parked(&node.waiter, reason, deadline) {
                Outcome::Woken => match node.waiter.case() {
                    Some(CASE_CLOSED) => return Err(Refused::Closed),
                    Some(CASE_RETRY) => {
                        let now_ns = sched::now_ns();
                        if deadline <= now_ns {
                            return self.try_last(n);
                        }
                        (rank, is_roused) = (Rank::First, true);
                        starves = now_ns - began_ns >= STARVES_NS;
                    }
                    _ => return Ok(()),
                },
                Outcome::TimedOut => {
                    self.leave(&node, starves);
                    return Err(Refused::TooFew);
                }
                Outcome::Cancelled => {
                    self.leave(&node, starves);
                    sched::unwind_if_cancelled();
                    is_roused = false;
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
    fn take<const OVERTAKES: bool>(
        permits: &Permits<OVERTAKES>,
        n: usize,
        is_hasty: bool,
    ) -> Result<(), Refused> {
        let deadline = if is_hasty { 2 } else { NEVER };
        let rank = if OVERTAKES && n > 1 {
            Rank::Quick
        } else {
            Rank::Last
        };
        permits.take(n, rank, WaitReason::Semaphore, deadline)
    }

    fn give_back<const OVERTAKES: bool>(permits: &Permits<OVERTAKES>, n: usize) {
        permits.add(n);
    }

    fn is_whole<const OVERTAKES: bool>(permits: &Permits<OVERTAKES>, n: usize) {
        let word = permits.word.load(Ordering::Relaxed);
        assert_eq!(word, n << SHIFT, "count and flags");
        let locked = permits.lot.lock(permits.address());
        assert!(locked.is_empty(permits.address()));
        unlock_quietly(locked);
    }

    /// A permit is given back while one waiter runs out of time and another waits for good: it reaches one that takes it,
    /// with what was done under it, and is there in the end.
    #[test]
    fn loom_permits_pass_over_who_timed_out() {
        loom::model(|| {
            let shared = Arc::new((Permits::<false>::new(1), AtomicUsize::new(0)));
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
            let permits = Arc::new(Permits::<false>::new(2));
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
            let shared = Arc::new((Permits::<false>::new(1), AtomicUsize::new(0)));
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
        upgrades::<false>();
        upgrades::<true>();
    }

    fn upgrades<const OVERTAKES: bool>() {
        loom::model(|| {
            let shared = Arc::new((Permits::<OVERTAKES>::new(3), AtomicUsize::new(0)));
            shared.0.try_take(3).unwrap();
            let writer = {
                let shared = shared.clone();
                thread::spawn(move || {
                    take(&shared.0, 3, false).unwrap();
                    shared.1.store(1, Ordering::Relaxed);
                    give_back(&shared.0, 3);
                })
            };
            // The writer may be roused here, and come back only when the upgrade waits.
            give_back(&shared.0, 3);
            take(&shared.0, 2, false).unwrap();
            let before = shared.1.load(Ordering::Relaxed);
            if shared.0.try_take_passing(1).is_ok() {
                give_back(&shared.0, 1);
            }
            let rest = shared.0.take(1, Rank::First, WaitReason::Semaphore, NEVER);
            assert_eq!(rest, Ok(()));
            assert_eq!(
                shared.1.load(Ordering::Relaxed),
                before,
                "nobody in between"
            );
            give_back(&shared.0, 3);
            writer.join().unwrap();
            is_whole(&shared.0, 3);
        });
    }

    /// Closing, giving back and waiting at once: the waiter has the permit or the news, and the count stays exact.
    #[test]
    fn loom_permits_close_wakes_or_serves() {
        loom::model(|| {
            let permits = Arc::new(Permits::<false>::new(1));
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

    /// A writer of two, a reader of one that may give up, and another writer, who may overtake and be overtaken.
    #[test]
    fn loom_permits_overtaken_exclude_and_lose_no_wake_up() {
        for is_hasty in [true, false] {
            loom::model(move || {
                let shared = Arc::new((Permits::<true>::new(2), AtomicUsize::new(0)));
                let write = |shared: &(Permits<true>, AtomicUsize)| {
                    take(&shared.0, 2, false).unwrap();
                    let seen = shared.1.load(Ordering::Relaxed);
                    shared.1.store(seen + 1, Ordering::Relaxed);
                    give_back(&shared.0, 2);
                };
                let reader = {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        if take(&shared.0, 1, is_hasty).is_ok() {
                            shared.1.load(Ordering::Relaxed);
                            give_back(&shared.0, 1);
                        }
                    })
                };
                write(&shared);
                write(&shared);
                reader.join().unwrap();
                assert_eq!(shared.1.load(Ordering::Relaxed), 2);
                is_whole(&shared.0, 2);
            });
        }
    }

    /// Three writers, of whom one may give up.
    #[test]
    fn loom_permits_overtaken_pass_on_what_was_roused() {
        loom::model(|| {
            let shared = Arc::new((Permits::<true>::new(2), AtomicUsize::new(0)));
            shared.0.try_take(2).unwrap();
            let hasty = {
                let shared = shared.clone();
                thread::spawn(move || {
                    if take(&shared.0, 2, true).is_ok() {
                        give_back(&shared.0, 2);
                    }
                })
            };
            let steady = {
                let shared = shared.clone();
                thread::spawn(move || {
                    take(&shared.0, 2, false).unwrap();
                    assert_eq!(shared.1.load(Ordering::Relaxed), 1);
                    give_back(&shared.0, 2);
                })
            };
            shared.1.store(1, Ordering::Relaxed);
            give_back(&shared.0, 2);
            hasty.join().unwrap();
            steady.join().unwrap();
            is_whole(&shared.0, 2);
        });
    }
}
