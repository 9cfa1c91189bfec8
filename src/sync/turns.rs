//! Turns: waiters in the order in which they came, each with what it wants, behind a short lock of their own.
//!
//! The lot keeps waiters by address and knows nothing about them. Here whoever holds the lock looks at the first waiter,
//! weighs what it wants against what there is, and delivers or stops: so nobody can be overtaken between the look and the
//! delivery. The lock is held for a few loads and stores per waiter that is served; no user code, no switch of stacks, no
//! call into the kernel.
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | TU1 | `held` 0, release | `held` exchange, acquire | the links, and what was decided under the lock |
//!
//! # Invariants
//!
//! A turn is in one list at most, does not move while it is in, and takes itself out before its frame goes. Whoever takes
//! a turn out and wins its `finish` has until `settle` to use it (it was born parked, so its owner does not come back
//! before); whoever loses uses it no more once the lock is free.
//!
//! # Safety
//!
//! Links are raw pointers to turns on other stacks, alive by the invariants above.

#![allow(unsafe_code)]

use crate::atomic::{AtomicU32, Ordering};
use crate::park::{Outcome, Waiter, Wake};
use core::cell::Cell;
use core::ptr;

/// A waiter's place in the list, on its own stack.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) waiter: Waiter,
    /// How much it wants, in its list's unit.
    pub(super) wants: usize,
    is_listed: Cell<bool>,
    prev: Cell<*const Turn>,
    /// The next in the list; later, the next whose wake is to be settled.
    next: Cell<*const Turn>,
    wake: Cell<Wake>,
}

impl Turn {
    /// A turn for whoever calls.
    #[cfg(not(urgo_loom))]
    pub(super) fn new(wants: usize) -> Turn {
        Turn::with_waiter(crate::sched::new_parked_waiter(), wants)
    }

    #[cfg(urgo_loom)]
    pub(super) fn new(wants: usize) -> Turn {
        Turn::with_waiter(Waiter::parked(crate::park::Target::Thread), wants)
    }

    fn with_waiter(waiter: Waiter, wants: usize) -> Turn {
        Turn {
            waiter,
            wants,
            is_listed: Cell::new(false),
            prev: Cell::new(ptr::null()),
            next: Cell::new(ptr::null()),
            wake: Cell::new(Wake::Nothing),
        }
    }
}

/// The list and its lock.
#[derive(Debug)]
pub(super) struct Turns {
    held: AtomicU32,
    head: Cell<*const Turn>,
    tail: Cell<*const Turn>,
}

// SAFETY: the cells are touched only through `Locked`, of which there is one at a time; the turns they lead to are alive by
// the module's invariants, and their words and signals are atomics.
unsafe impl Send for Turns {}
// SAFETY: as above.
unsafe impl Sync for Turns {}

impl Turns {
    #[cfg(not(urgo_loom))]
    pub(super) const fn new() -> Turns {
        Turns {
            held: AtomicU32::new(0),
            head: Cell::new(ptr::null()),
            tail: Cell::new(ptr::null()),
        }
    }

    #[cfg(urgo_loom)]
    pub(super) fn new() -> Turns {
        Turns {
            held: AtomicU32::new(0),
            head: Cell::new(ptr::null()),
            tail: Cell::new(ptr::null()),
        }
    }

    /// Any thread. Spins while another has the lock.
    #[inline]
    pub(super) fn lock(&self) -> Locked<'_> {
        // TU1, pairs with the release in `Locked::drop`.
        if self
            .held
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            self.lock_slow();
        }
        Locked { turns: self }
    }

    #[cold]
    fn lock_slow(&self) {
        let mut patience = Patience::new();
        loop {
            patience.wait();
            // TU1, pairs with the release in `Locked::drop`.
            if self.held.load(Ordering::Relaxed) == 0
                && self
                    .held
                    .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return;
            }
        }
    }
}

/// The lock is held until this goes.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    turns: &'a Turns,
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        // TU1, pairs with the exchanges in `lock` and `lock_slow`.
        self.turns.held.store(0, Ordering::Release);
    }
}

impl Locked<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.head.get().is_null()
    }

    /// The first in the list.
    pub(super) fn front(&self) -> Option<&Turn> {
        // SAFETY: the head is listed, so alive by the module's invariants; the borrow ends with the lock.
        unsafe { self.turns.head.get().as_ref() }
    }

    /// Lists `turn` last, or first.
    ///
    /// # Safety
    ///
    /// `turn` is in no list, does not move, and calls `remove` before its frame goes, unless its wait ended by a delivery.
    pub(super) unsafe fn push(&self, turn: &Turn, first: bool) {
        debug_assert!(!turn.is_listed.get());
        turn.is_listed.set(true);
        let (prev, next) = if first {
            (ptr::null(), self.turns.head.get())
        } else {
            (self.turns.tail.get(), ptr::null())
        };
        self.link(prev, turn);
        self.link(turn, next);
    }

    /// Takes `turn` out; `false` if it was taken out before.
    pub(super) fn remove(&self, turn: &Turn) -> bool {
        if !turn.is_listed.replace(false) {
            return false;
        }
        self.link(turn.prev.get(), turn.next.get());
        true
    }

    /// Makes `a` and `b` neighbours; null stands for the end of the list on that side.
    fn link(&self, a: *const Turn, b: *const Turn) {
        // SAFETY: null, or listed and alive by the module's invariants.
        match unsafe { a.as_ref() } {
            Some(a) => a.next.set(b),
            None => self.turns.head.set(b),
        }
        // SAFETY: as for `a`.
        match unsafe { b.as_ref() } {
            Some(b) => b.prev.set(a),
            None => self.turns.tail.set(a),
        }
    }

    /// Takes `turn` out and ends its wait, as `Woken` or by the number of a case; `false` if that was over already, so
    /// that nothing was delivered.
    pub(super) fn deliver(&self, turn: &Turn, case: Option<u32>, wakes: &mut Wakes) -> bool {
        self.remove(turn);
        let wake = match case {
            Some(case) => turn.waiter.finish_case(case),
            None => turn.waiter.finish(Outcome::Woken),
        };
        let Some(wake) = wake else {
            return false;
        };
        turn.wake.set(wake);
        turn.next.set(ptr::null());
        // SAFETY: null, or a turn whose wait was ended above and whose wake is not settled yet, so alive.
        match unsafe { wakes.tail.as_ref() } {
            Some(last) => last.next.set(turn),
            None => wakes.head = turn,
        }
        wakes.tail = turn;
        true
    }
}

/// Waiters whose waits were ended under the lock, to be settled outside it, in the order of their turns.
#[must_use = "what is in here waits until it is settled"]
#[derive(Debug)]
pub(super) struct Wakes {
    head: *const Turn,
    tail: *const Turn,
}

impl Wakes {
    pub(super) fn new() -> Wakes {
        Wakes {
            head: ptr::null(),
            tail: ptr::null(),
        }
    }

    /// Outside every lock.
    #[inline]
    pub(super) fn settle(self) {
        let mut next = self.head;
        // SAFETY: its wait was ended by `deliver` and it is not settled before the line below, so its owner has not come
        // back; nothing of it is used after that.
        while let Some(turn) = unsafe { next.as_ref() } {
            next = turn.next.get();
            settle(turn.wake.get());
        }
    }
}

#[cfg(not(urgo_loom))]
use crate::sched::settle;

#[cfg(urgo_loom)]
fn settle(wake: Wake) {
    if let Wake::Thread(signal) = wake {
        // SAFETY: the waiter stays until its signal is set. Pairs with the models' wait for the signal.
        unsafe { signal.as_ref() }.store(1, Ordering::Release);
    }
}

/// Spinning, then letting others have the CPU, then sleeping: the holder may have been preempted, even by us.
struct Patience {
    #[cfg(not(urgo_loom))]
    backoff: crossbeam_utils::Backoff,
    #[cfg(not(urgo_loom))]
    yields: u32,
}

impl Patience {
    fn new() -> Patience {
        Patience {
            #[cfg(not(urgo_loom))]
            backoff: crossbeam_utils::Backoff::new(),
            #[cfg(not(urgo_loom))]
            yields: 0,
        }
    }

    #[cfg(not(urgo_loom))]
    fn wait(&mut self) {
        if !self.backoff.is_completed() {
            self.backoff.snooze();
        } else if self.yields < 64 {
            self.yields += 1;
            std::thread::yield_now();
        } else {
            std::thread::sleep(core::time::Duration::from_micros(50));
        }
    }

    #[cfg(urgo_loom)]
    fn wait(&mut self) {
        loom::thread::yield_now();
    }
}
