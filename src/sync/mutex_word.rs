//! The mutex's word, and every step that changes it. Who waits, and how, is the caller's part ([`Caller`]), so that the same
//! steps run in production and in the models.
//!
//! # State
//!
//! Two halves of a word. `state`:
//!
//! | value | meaning | who stores it |
//! |---|---|---|
//! | 0 | free | the holder |
//! | `LOCKED` 1 | somebody has the mutex, or it is on its way to somebody it was handed to | whoever takes it, from 0 |
//! | `LOCKED` + `WAKE` 3 | and whoever unlocks it must look into the lot | under the bucket's lock: a waiter, a condvar, or the holder; from `LOCKED` |
//!
//! `crowd`, stored under the lock of the word's bucket alone:
//!
//! | bit | set means | who sets it | who clears it |
//! |---|---|---|---|
//! | `WOKEN` 1 | a waiter (at least one) was woken to compete, and has neither taken the mutex nor gone back yet: no need to wake another | the holder in `unlock_slow`, or a condvar | that waiter, when it has taken the mutex or goes back |
//! | `STARVING` 2 | the first waiter has competed in vain for too long: it must be handed the mutex | that waiter, going back | the holder in `unlock_slow` |
//!
//! While the mutex is locked and somebody waits, `WAKE` or `WOKEN` is set, and with `STARVING` always `WAKE`. A free mutex
//! has no `WAKE`.
//!
//! # Algorithm
//!
//! Locking sets `LOCKED` and looks whether it was clear: newcomers may overtake those that wait (*barging*), as the mutex is
//! free only while nobody waits or somebody is on the way to it. Unlocking exchanges `LOCKED` for 0. If that fails there
//! is `WAKE`: then, under the bucket's lock, the first waiter is taken off the queue and the mutex released with
//! `WOKEN`, or, if `STARVING` or a fair unlock says so, not released but handed over.
//!
//! While a woken waiter is on its way, which may take long on another CPU, the mutex is locked and unlocked as if nobody waited:
//! one locked instruction each. When it has taken the mutex, it sets `WAKE` if others still wait. If it finds the mutex
//! taken it spins a little, then goes back to the *front* of the queue and sets `WAKE`. If that has gone on for a millisecond since it
//! was first woken, it sets `STARVING`. So the waiter in front is served at the latest by the first unlock after that
//! millisecond, and a mutex under heavy barging is handed over a thousand times a second at most: each handing over costs
//! two switches, during which nobody can use the mutex.
//!
//! # No wake-up is lost
//!
//! A waiter enqueues under the bucket's lock, having seen `LOCKED` there. Unless `WOKEN` is set it has exchanged
//! `LOCKED` for `LOCKED` + `WAKE`, which cannot succeed once the mutex is free; so the holder's exchange fails, and it goes the slow way,
//! which needs the bucket, and finds the waiter.
//! With `WOKEN` set, a woken waiter is on its way. It takes the mutex and then enters the bucket, where it finds whoever waits
//! and sets `WAKE` for its own unlock; or it goes back, sets `WAKE` for the holder of that time, and is in the queue itself.
//! It always does one or the other: deadline and cancellation count only for waits. If several are on their way, the
//! first clears the bit for all, and somebody may be woken without need.
//!
//! # Who may still touch the word
//!
//! Clearing `LOCKED` is the holder's last use of the word, on every way: in `unlock_slow` the bucket's lock, which is no part
//! of the mutex, is released after it. So a mutex may be freed by whoever locks it next.
//!
//! # Rejected
//!
//! All bits in one word: while somebody is on its way the holder's exchange needs to know the other bits, and a look at
//! the word between the two locked instructions waits for the first of them (13.5 instead of 12.1 ns for both). Bytes instead of
//! halves: x86 sets and tests a bit in one instruction, but not in a byte (15 ns).
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | MX1 | clearing `LOCKED`, release | setting `LOCKED`, acquire | what was done while the mutex was held |
//! | WW1 | the wait word of a waiter that is handed the mutex | the waiter's look at it | the same |
//! | LT1 | the bucket's lock | the bucket's lock | `crowd` |

use super::waiting::Ended;
use crate::atomic::{AtomicU16, Ordering};
use crate::park::lot::{Locked, Lot, WOKEN as CASE_WOKEN, Wakes};

const LOCKED: u16 = 1;
const WAKE: u16 = 2;

const WOKEN: u16 = 1;
const STARVING: u16 = 2;

/// The case of a waiter that was handed the mutex. With [`CASE_WOKEN`] it was woken to compete for it.
pub(super) const CASE_HANDED: u32 = CASE_WOKEN + 1;

/// Whoever wants a mutex that is taken.
pub(super) trait Caller {
    /// The lot.
    fn lot(&self) -> &Lot;
    /// Passes a short time; `false` if that is no use (any more). `is_crowded`: others wait already.
    fn spin(&mut self, is_crowded: bool) -> bool;
    /// Whether it has been woken in vain for too long.
    fn is_starving(&mut self) -> bool;
    /// Waits in the lot for `address`, in front or behind, unless `validate`, under the bucket's lock, refuses.
    fn wait(&mut self, address: usize, goes_first: bool, validate: impl FnOnce() -> bool) -> Ended;
}

/// See the module.
#[derive(Debug)]
#[repr(C)]
pub(super) struct MutexWord {
    state: AtomicU16,
    /// Relaxed: see LT1.
    crowd: AtomicU16,
}

impl MutexWord {
    #[cfg(not(urgo_loom))]
    pub(super) const fn new() -> MutexWord {
        MutexWord {
            state: AtomicU16::new(0),
            crowd: AtomicU16::new(0),
        }
    }

    #[cfg(urgo_loom)]
    pub(super) fn new() -> MutexWord {
        MutexWord {
            state: AtomicU16::new(0),
            crowd: AtomicU16::new(0),
        }
    }

    #[inline]
    pub(super) fn address(&self) -> usize {
        core::ptr::from_ref(self).expose_provenance()
    }

    #[inline]
    pub(super) fn is_locked(&self) -> bool {
        self.state.load(Ordering::Relaxed) & LOCKED != 0
    }

    /// Takes the mutex if it is free. One locked instruction.
    #[inline]
    pub(super) fn try_lock(&self) -> bool {
        // MX1, pairs with the release in `try_unlock` and `unlock_slow`.
        self.state.fetch_or(LOCKED, Ordering::Acquire) & LOCKED == 0
    }

    /// The holder only. Lets the mutex go if nobody has to be woken; `false` if `unlock_slow` must be called. One locked
    /// instruction.
    #[inline]
    pub(super) fn try_unlock(&self) -> bool {
        // MX1, pairs with the acquire in `try_lock`.
        self.state
            .compare_exchange(LOCKED, 0, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// As [`try_unlock`](Self::try_unlock); `false` also if somebody may wait. Who waits without `WAKE` does so behind one
    /// that was woken before we took the mutex (then we see it), or is being requeued just now.
    #[inline]
    pub(super) fn try_unlock_fair(&self) -> bool {
        self.crowd.load(Ordering::Relaxed) == 0 && self.try_unlock()
    }

    /// The holder only. Lets the mutex go, and wakes the first waiter if need be; `is_fair`: hands it over if somebody waits.
    /// The wakes are to be settled.
    #[cold]
    pub(super) fn unlock_slow(&self, lot: &Lot, is_fair: bool) -> Wakes {
        let address = self.address();
        let mut locked = lot.lock(address);
        let mut crowd = self.crowd.load(Ordering::Relaxed);
        let mut next = 0;
        if is_fair || crowd & STARVING != 0 {
            crowd &= !STARVING;
            if locked.wake_first(address, CASE_HANDED) {
                next = LOCKED | self.wake_for(&locked, crowd);
            }
        } else if crowd & WOKEN == 0 && locked.wake_first(address, CASE_WOKEN) {
            crowd |= WOKEN;
        }
        self.crowd.store(crowd, Ordering::Relaxed);
        // MX1, pairs with the acquire in `try_lock`. Nobody else can change the state now but by setting `LOCKED` in vain, so
        // that a store would do; but the models cannot tell that it would not fall between the halves of such an exchange.
        self.state.swap(next, Ordering::Release);
        locked.unlock()
    }

    /// Whether `WAKE` belongs into the state, when the mutex is locked.
    fn wake_for(&self, locked: &Locked<'_>, crowd: u16) -> u16 {
        let waits_for_us = crowd & WOKEN == 0 && !locked.is_empty(self.address());
        if waits_for_us || crowd & STARVING != 0 {
            WAKE
        } else {
            0
        }
    }

    /// Takes the mutex, waiting as `caller` does. `was_woken`: the caller comes from a wait for this word that ended with
    /// [`CASE_WOKEN`]. `Woken` if the mutex is taken, otherwise how the wait was cut short.
    #[cold]
    pub(super) fn lock_slow(&self, was_woken: bool, caller: &mut impl Caller) -> Ended {
        let mut is_woken = was_woken;
        loop {
            let state = self.state.load(Ordering::Relaxed);
            if state & LOCKED == 0 {
                if self.try_lock() {
                    if is_woken {
                        self.arrive(caller.lot());
                    }
                    return Ended::Woken(CASE_HANDED);
                }
                continue;
            }
            if caller.spin(state & WAKE != 0 && !is_woken) {
                continue;
            }
            let clear = if is_woken { WOKEN } else { 0 };
            let set = if is_woken && caller.is_starving() {
                STARVING
            } else {
                0
            };
            match caller.wait(self.address(), is_woken, || self.announce(set, clear)) {
                Ended::Refused => {}
                Ended::Woken(CASE_WOKEN) => is_woken = true,
                ended => return ended,
            }
        }
    }

    /// The holder, which was woken: from now on others have to be woken again.
    fn arrive(&self, lot: &Lot) {
        let locked = lot.lock(self.address());
        let crowd = self.crowd.load(Ordering::Relaxed) & !WOKEN;
        self.crowd.store(crowd, Ordering::Relaxed);
        if self.wake_for(&locked, crowd) != 0 {
            self.state.fetch_or(WAKE, Ordering::Relaxed);
        }
        let none = locked.unlock().next();
        debug_assert!(none.is_none());
    }

    /// Under the bucket's lock, before a waiter enqueues: `false` if the mutex is free; otherwise changes `crowd` as told, and
    /// sees to it that somebody will look for the waiter.
    fn announce(&self, set: u16, clear: u16) -> bool {
        let crowd = (self.crowd.load(Ordering::Relaxed) | set) & !clear;
        let is_locked = if crowd & WOKEN == 0 || crowd & STARVING != 0 {
            // From `LOCKED`, or there is `WAKE` already, which stays for as long as we have the bucket.
            self.state
                .compare_exchange(LOCKED, LOCKED | WAKE, Ordering::Relaxed, Ordering::Relaxed)
                .unwrap_or_else(|state| state)
                & LOCKED
                != 0
        } else {
            self.is_locked()
        };
        if is_locked {
            self.crowd.store(crowd, Ordering::Relaxed);
        }
        is_locked
    }

    /// Under the bucket's lock, for a condvar that is about to requeue waiters to this word: if the mutex is taken, they
    /// will be woken.
    pub(super) fn expect_waiters(&self) -> bool {
        self.announce(0, 0)
    }

    /// Under the bucket's lock, for a condvar that wakes a waiter with [`CASE_WOKEN`] though the mutex is free, and has
    /// perhaps requeued others behind it: that one comes to lock the mutex, and sees them then.
    pub(super) fn expect_woken(&self) {
        let crowd = self.crowd.load(Ordering::Relaxed);
        self.crowd.store(crowd | WOKEN, Ordering::Relaxed);
    }
}

#[cfg(all(test, urgo_loom))]
mod tests {
    use super::super::waiting::modelled::{Thread, settle, unlock};
    use super::*;
    use crate::atomic::AtomicU32;
    use loom::sync::Arc;
    use loom::thread;

    struct Scene {
        lot: Lot,
        mutex: MutexWord,
        /// Relaxed, and changed in two steps: only the mutex keeps it whole.
        tally: AtomicU32,
    }

    #[derive(Clone, Copy, Default)]
    struct Kind {
        is_starving: bool,
        gives_up: bool,
        is_fair: bool,
    }

    impl Scene {
        fn new() -> Arc<Scene> {
            Arc::new(Scene {
                lot: Lot::new(),
                mutex: MutexWord::new(),
                tally: AtomicU32::new(0),
            })
        }

        /// Locks, adds one, unlocks; `false` if it gave up.
        fn enter(&self, kind: Kind) -> bool {
            let mut thread = Thread {
                lot: &self.lot,
                is_starving: kind.is_starving,
                gives_up: kind.gives_up,
            };
            if !self.mutex.try_lock()
                && !matches!(self.mutex.lock_slow(false, &mut thread), Ended::Woken(_))
            {
                return false;
            }
            let seen = self.tally.load(Ordering::Relaxed);
            self.tally.store(seen + 1, Ordering::Relaxed);
            if kind.is_fair {
                if !self.mutex.try_unlock_fair() {
                    settle(self.mutex.unlock_slow(&self.lot, true));
                }
            } else {
                unlock(&self.mutex, &self.lot);
            }
            true
        }

        fn assert_over(&self, entered: u32) {
            assert_eq!(self.tally.load(Ordering::Relaxed), entered);
            assert_eq!(self.mutex.state.load(Ordering::Relaxed), 0);
            // Nobody is on its way. `STARVING` may be left by one that gave up: the next waiter is handed the mutex.
            assert_eq!(self.mutex.crowd.load(Ordering::Relaxed) & WOKEN, 0);
            assert_eq!(self.lot.wake(self.mutex.address(), 9).0, 0);
        }
    }

    fn model(kinds: [Kind; 2], rounds: u32, main: Kind) {
        loom::model(move || {
            let scene = Scene::new();
            let threads = kinds.map(|kind| {
                let scene = scene.clone();
                thread::spawn(move || u32::from(scene.enter(kind)))
            });
            let mut entered = 0;
            for _ in 0..rounds {
                entered += u32::from(scene.enter(main));
            }
            for thread in threads {
                entered += thread.join().unwrap();
            }
            scene.assert_over(entered);
        });
    }

    /// Three lockers, one of which comes back at once and overtakes: all get it, one at a time.
    #[test]
    fn loom_mutex_excludes_and_loses_no_wake() {
        model([Kind::default(); 2], 2, Kind::default());
    }

    /// Whoever is woken in vain is handed the mutex.
    #[test]
    fn loom_mutex_hands_over_to_the_starving() {
        let kind = Kind {
            is_starving: true,
            ..Kind::default()
        };
        model([kind; 2], 2, kind);
    }

    /// One that gives up takes nobody's turn with it.
    #[test]
    fn loom_mutex_given_up_waits_lose_no_wake() {
        let hasty = Kind {
            gives_up: true,
            is_starving: true,
            is_fair: false,
        };
        model([hasty, Kind::default()], 2, Kind::default());
    }

    #[test]
    fn loom_mutex_unlocks_fairly() {
        let fair = Kind {
            is_fair: true,
            ..Kind::default()
        };
        model([fair, Kind::default()], 2, fair);
    }
}
