//! The mutex: [`Mutex`], `lock_api`'s around [`RawMutex`].
//!
//! What it does to its word is in `mutex_word`. Here is how a caller waits.
//!
//! Locked instructions: one to lock, one to unlock. A contended unlock that has to wake somebody takes the bucket (two more)
//! and ends a wait (one); a waiter that was woken takes the bucket once more when it has the mutex.
//!
//! # Safety
//!
//! `lock_api`'s raw traits are `unsafe` to implement: the mutex must exclude. It does because only one caller at a time finds
//! `LOCKED` clear and sets it, or is handed the mutex by the one that had it.

#![allow(unsafe_code)]

use super::mutex_word::{Caller, MutexWord};
use super::waiting::{Ended, Wait, settle};
use crate::park::WaitReason;
use crate::park::lot::{LOT, Lot};
use crate::sched::{self, NEVER};
use crate::time::{self, DeadlineNs};
use std::time::{Duration, Instant};

/// How long a waiter is woken in vain until it is handed the mutex: long against a switch, so that handing over costs
/// little, and short for whoever waits.
const STARVATION_NS: u64 = 1_000_000;
/// Rounds of spinning, each twice as long as the one before, when there is nothing else to do: about a microsecond in all.
const SPINS_IDLE: u32 = 5;
/// The same where other goroutines could run instead: less than it costs to change to one of them.
const SPINS_BUSY: u32 = 2;

/// Mutual exclusion for goroutines and plain threads: a value that one of them at a time may use.
///
/// `lock` blocks the calling goroutine, not its worker, or the calling thread, until the mutex is free; the value is reached
/// through the guard, and the mutex unlocked when the guard goes. A goroutine may hold it across waits of any kind. There is no
/// poisoning: after a panic the guard is dropped as always, and the mutex can be locked again.
///
/// It can be a `static`, takes four bytes beside the value, and needs no runtime: threads use it before, during and after
/// a runtime's life, and goroutines of several runtimes may share it.
///
/// # Fairness
///
/// A running goroutine may overtake those that wait, which makes a contended mutex several times faster. A waiter that
/// was woken in vain for a millisecond is handed the mutex by whoever unlocks it next; `MutexGuard::unlock_fair` hands
/// it over at once.
///
/// Only one waiter is woken at a time. It locks when its worker comes to it: while another goroutine keeps that worker busy
/// without yielding, those that wait behind it wait on, though the mutex may be free.
///
/// # Cancellation
///
/// `lock` is not cut short: a cancelled goroutine waits until it has the mutex, and unwinds at its next wait of another kind.
/// For a guard that let the mutex go for a while (`MutexGuard::unlocked`, `bump`) must have it again, however that ends. A
/// runtime's end therefore waits for those that hold what its goroutines want. Attempts with a deadline are cut short; one that
/// was given the mutex returns with it all the same: nothing is lost.
///
/// # Deadlock
///
/// Locking a mutex that the caller holds waits for ever, and so does its runtime's end.
///
/// # Ordering
///
/// What was done before an unlock happened before the next lock returns.
///
/// ```
/// use urgo::sync::Mutex;
///
/// static TOTAL: Mutex<u64> = Mutex::new(0);
///
/// urgo::run(|| {
///     urgo::scope(|s| {
///         for i in 1..=10 {
///             s.spawn(move || {
///                 let mut total = TOTAL.lock();
///                 urgo::yield_now(); // others run, and wait for the mutex
///                 *total += i;
///             });
///         }
///     });
/// });
/// assert_eq!(*TOTAL.lock(), 55);
/// ```
///
/// Guards stay on the goroutine that locked:
///
/// ```compile_fail
/// fn needs_send(_: impl Send) {}
/// static M: urgo::sync::Mutex<u8> = urgo::sync::Mutex::new(0);
/// needs_send(M.lock());
/// ```
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// That a [`Mutex`] is locked, by this goroutine or thread; leads to the value, and unlocks when it goes. Not [`Send`].
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// A [`MutexGuard`] that leads to a part of the value; made by `MutexGuard::map`. Not [`Send`].
///
/// ```
/// use urgo::sync::{Mutex, MutexGuard};
///
/// let pair = Mutex::new((1, "one"));
/// let mut number = MutexGuard::map(pair.lock(), |pair| &mut pair.0);
/// *number += 1;
/// drop(number);
/// assert_eq!(*pair.lock(), (2, "one"));
/// ```
///
/// ```compile_fail
/// fn needs_send(_: impl Send) {}
/// static M: urgo::sync::Mutex<(u8, u8)> = urgo::sync::Mutex::new((0, 0));
/// needs_send(urgo::sync::MutexGuard::map(M.lock(), |m| &mut m.0));
/// ```
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

/// A guard that holds an `Arc` of the mutex instead of borrowing it; made by `Mutex::lock_arc`. Not [`Send`].
///
/// ```
/// use std::sync::Arc;
/// use urgo::sync::{ArcMutexGuard, Mutex};
///
/// fn locked(text: &str) -> ArcMutexGuard<String> {
///     Arc::new(Mutex::new(text.to_owned())).lock_arc()
/// }
/// assert_eq!(&*locked("mine"), "mine");
/// ```
pub type ArcMutexGuard<T> = lock_api::ArcMutexGuard<RawMutex, T>;

/// The lock of [`Mutex`], without a value: for generic code over [`lock_api::RawMutex`].
///
/// ```
/// use urgo::sync::RawMutex;
/// use lock_api::RawMutex as _;
///
/// static LOCK: RawMutex = RawMutex::INIT;
///
/// LOCK.lock();
/// assert!(!LOCK.try_lock());
/// // SAFETY: locked by us, above.
/// unsafe { LOCK.unlock() };
/// assert!(!LOCK.is_locked());
/// ```
#[derive(Debug)]
#[repr(transparent)]
pub struct RawMutex {
    word: MutexWord,
}

impl RawMutex {
    #[inline]
    pub(super) fn address(&self) -> usize {
        self.word.address()
    }

    /// Takes the mutex unless the deadline passes first. Unwinds if the goroutine is cancelled.
    pub(super) fn lock_until(&self, deadline: u64) -> bool {
        self.word.try_lock() || self.lock_slow(deadline)
    }

    /// Unwinds if the goroutine is cancelled.
    #[cold]
    fn lock_slow(&self, deadline: u64) -> bool {
        loop {
            match self.word.lock_slow(false, &mut Blocking::new(deadline)) {
                Ended::Woken(_) => return true,
                Ended::TimedOut { .. } => return false,
                Ended::Cancelled { .. } | Ended::Refused => sched::unwind_if_cancelled(),
            }
        }
    }

    /// Takes the mutex, whatever happens: for a guard that is there already (a condvar's waiter, `MutexGuard::unlocked`), so
    /// that unwinding would drop it without the mutex. `was_woken`: as in [`MutexWord::lock_slow`].
    #[inline]
    pub(super) fn lock_again(&self, was_woken: bool) {
        if was_woken || !self.word.try_lock() {
            self.lock_regardless(was_woken);
        }
    }

    #[cold]
    fn lock_regardless(&self, was_woken: bool) {
        sched::uncancellable(|| {
            let ended = self.word.lock_slow(was_woken, &mut Blocking::new(NEVER));
            debug_assert!(matches!(ended, Ended::Woken(_)));
        });
    }

    #[cold]
    fn unlock_slow(&self, is_fair: bool) {
        settle(self.word.unlock_slow(&LOT, is_fair));
    }
}

// SAFETY: see the module.
unsafe impl lock_api::RawMutex for RawMutex {
    const INIT: RawMutex = RawMutex {
        word: MutexWord::new(),
    };

    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock(&self) {
        // Guards call this too, to have again what they let go for a while, and nothing tells us.
        self.lock_again(false);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        // A look first: a failed attempt takes nothing from the holder's cache.
        !self.word.is_locked() && self.word.try_lock()
    }

    #[inline]
    unsafe fn unlock(&self) {
        if !self.word.try_unlock() {
            self.unlock_slow(false);
        }
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.word.is_locked()
    }
}

// SAFETY: handing over excludes as well: `LOCKED` stays set all the time.
unsafe impl lock_api::RawMutexFair for RawMutex {
    #[inline]
    unsafe fn unlock_fair(&self) {
        if !self.word.try_unlock_fair() {
            self.unlock_slow(true);
        }
    }
}

// SAFETY: as for `RawMutex`.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.word.try_lock()
            || self.lock_slow(sched::now_ns().saturating_add(time::duration_ns(timeout)))
    }

    fn try_lock_until(&self, timeout: Instant) -> bool {
        self.lock_until(timeout.deadline_ns())
    }
}

/// How goroutines and threads wait for a mutex.
struct Blocking {
    deadline: u64,
    /// When it was first woken in vain; 0 if it was not yet.
    lost_since: u64,
    spins: u32,
}

impl Blocking {
    fn new(deadline: u64) -> Blocking {
        Blocking {
            deadline,
            lost_since: 0,
            spins: 0,
        }
    }
}

impl Caller for Blocking {
    fn lot(&self) -> &Lot {
        &LOT
    }

    #[inline]
    fn spin(&mut self, is_crowded: bool) -> bool {
        let limit = if sched::has_others_ready() {
            SPINS_BUSY
        } else {
            SPINS_IDLE
        };
        if is_crowded || self.spins >= limit {
            return false;
        }
        for _ in 0..1_u32 << self.spins {
            core::hint::spin_loop();
        }
        self.spins += 1;
        true
    }

    fn is_starving(&mut self) -> bool {
        let now = sched::now_ns();
        if self.lost_since == 0 {
            self.lost_since = now;
        }
        now.saturating_sub(self.lost_since) >= STARVATION_NS
    }

    fn wait(&mut self, address: usize, goes_first: bool, validate: impl FnOnce() -> bool) -> Ended {
        self.spins = 0;
        let wait = Wait {
            address,
            tag: 0,
            goes_first,
            reason: WaitReason::Mutex,
            deadline: self.deadline,
        };
        wait.wait(validate, || {})
    }
}
