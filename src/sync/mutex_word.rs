//! The mutex's word, and every step that changes it. Who waits, and how, is the caller's part ([`Caller`]), so that the same
//! steps run in production and in the models.
//!
//! # State
//!
//! | bit | set means | who sets it | who clears it |
//! |---|---|---|---|
//! | `LOCKED` 1 | somebody has the mutex, or it is on its way to somebody it was handed to | whoever takes it, from clear | the holder |
//! | `PARKED` 2 | the lot may hold waiters for this word | a waiter that enqueues, or a condvar that requeues, **B** | the holder in `unlock_slow`, when the queue is empty, **B** |
//! | `WOKEN` 4 | a waiter (at least one) was woken to compete, and has neither taken the mutex nor gone back yet: no need to wake another | `unlock_slow`, or a condvar, **B** | that waiter: with `LOCKED` set in the same exchange, or going back, **B** |
//! | `STARVING` 8 | the first waiter has competed in vain for too long: it must be handed the mutex | that waiter, going back, **B** | the holder in `unlock_slow`, **B** |
//!
//! **B**: under the lock of the word's bucket. So whoever has both the mutex and the bucket is alone with the word, but for
//! others that set `LOCKED` in vain, which changes nothing.
//!
//! # Algorithm
//!
//! Locking sets `LOCKED` and looks whether it was clear, whatever the other bits: newcomers may overtake those that wait
//! (*barging*), as the mutex is free only while somebody is on the way to it. Unlocking clears it, unless there is
//! somebody to be woken: then, under the bucket's lock, the first waiter is taken off the queue and the mutex released with
//! `WOKEN`, or, if `STARVING` or a fair unlock says so, not released but handed over.
//!
//! A woken waiter that finds the mutex taken spins a little, then goes back to the *front* of the queue. If that has gone on
//! for a millisecond since it was first woken, it sets `STARVING`. So the waiter in front is served at the latest by the first
//! unlock after that millisecond, and a mutex under heavy barging is handed over a thousand times a second at most: each
//! handing over costs two switches, during which nobody can use the mutex.
//!
//! # No wake-up is lost
//!
//! A waiter enqueues only while `LOCKED` is set, having set `PARKED` under the bucket's lock. The holder then unlocks: its
//! exchange from a value without `PARKED` fails, or it sees `PARKED`, and takes the slow way, which needs the bucket.
//! With `WOKEN` set it wakes nobody: but then a woken waiter is on its way, which takes the mutex, and later unlocks it with
//! `WOKEN` clear, or goes back, clearing `WOKEN` while `LOCKED` is set, so that the holder of that time is to wake somebody.
//! A woken waiter always does one or the other; deadline and cancellation count only for waits.
//!
//! # Who may still touch the word
//!
//! Clearing `LOCKED` is the holder's last use of the word, on every way: in `unlock_slow` the bucket's lock, which is no part
//! of the mutex, is released after it. So a mutex may be freed by whoever locks it next.
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | MX1 | clearing `LOCKED`, release | setting `LOCKED`, acquire | what was done while the mutex was held |
//! | WW1 | the wait word of a waiter that is handed the mutex | the waiter's look at it | the same |

use super::waiting::Ended;
use crate::atomic::{AtomicU32, Ordering};
use crate::park::lot::{Lot, WOKEN as CASE_WOKEN, Wakes};

const LOCKED: u32 = 1;
const PARKED: u32 = 2;
const WOKEN: u32 = 4;
const STARVING: u32 = 8;

/// The case of a waiter that was handed the mutex. With [`CASE_WOKEN`] it was woken to compete for it, and `WOKEN` is its
/// to clear.
pub(super) const CASE_HANDED: u32 = CASE_WOKEN + 1;

/// Whoever wants a mutex that is taken.
pub(super) trait Caller {
    /// Passes a short time; `false` if that is no use (any more). `is_crowded`: others wait already.
    fn spin(&mut self, is_crowded: bool) -> bool;
    /// Whether it has been woken in vain for too long.
    fn is_starving(&mut self) -> bool;
    /// Waits in the lot for `address`, in front or behind, unless `validate`, under the bucket's lock, refuses.
    fn wait(&mut self, address: usize, goes_first: bool, validate: impl FnOnce() -> bool) -> Ended;
}

/// See the module.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct MutexWord(AtomicU32);

impl MutexWord {
    #[cfg(not(urgo_loom))]
    pub(super) const fn new() -> MutexWord {
        MutexWord(AtomicU32::new(0))
    }

    #[cfg(urgo_loom)]
    pub(super) fn new() -> MutexWord {
        MutexWord(AtomicU32::new(0))
    }

    #[inline]
    pub(super) fn address(&self) -> usize {
        core::ptr::from_ref(&self.0).expose_provenance()
    }

    #[inline]
    pub(super) fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed) & LOCKED != 0
    }

    /// Takes the mutex if it is free. One locked instruction, whatever the other bits.
    #[inline]
    pub(super) fn try_lock(&self) -> bool {
        // MX1, pairs with the release in `try_unlock` and `unlock_slow`.
        self.0.fetch_or(LOCKED, Ordering::Acquire) & LOCKED == 0
    }

    /// The holder only. Lets the mutex go if nobody has to be woken; `false` if `unlock_slow` must be called. One locked
    /// instruction.
    #[inline]
    pub(super) fn try_unlock(&self) -> bool {
        let state = self.0.load(Ordering::Relaxed);
        !needs_wake(state) && self.release(state)
    }

    /// As [`try_unlock`](Self::try_unlock); `false` also if somebody waits.
    #[inline]
    pub(super) fn try_unlock_fair(&self) -> bool {
        let state = self.0.load(Ordering::Relaxed);
        state & PARKED == 0 && !needs_wake(state) && self.release(state)
    }

    #[inline]
    fn release(&self, state: u32) -> bool {
        // MX1, pairs with the acquire in `try_lock` and `lock_slow`.
        self.0
            .compare_exchange(state, state & !LOCKED, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// The holder only. Lets the mutex go, and wakes the first waiter if need be; `is_fair`: hands it over if somebody waits.
    /// The wakes are to be settled.
    #[cold]
    pub(super) fn unlock_slow(&self, lot: &Lot, is_fair: bool) -> Wakes {
        let address = self.address();
        let mut locked = lot.lock(address);
        let state = self.0.load(Ordering::Relaxed);
        let hands_over = is_fair || state & STARVING != 0;
        let case = if hands_over { CASE_HANDED } else { CASE_WOKEN };
        let next = if !hands_over && !needs_wake(state) {
            state & !LOCKED
        } else {
            let delivered = locked.wake_first(address, case);
            let parked = if locked.is_empty(address) { 0 } else { PARKED };
            let woken = state & WOKEN;
            match (delivered, hands_over) {
                (true, true) => LOCKED | parked | woken,
                (true, false) => parked | WOKEN,
                (false, _) => parked | woken,
            }
        };
        // MX1, pairs with the acquire in `try_lock` and `lock_slow`. Nobody else can change the word now, so that a store
        // would do; but the models cannot tell that it would not fall between the two halves of a vain `try_lock`.
        self.0.swap(next, Ordering::Release);
        locked.unlock()
    }

    /// Takes the mutex, waiting as `caller` does. `was_woken`: the caller comes from a wait for this word that ended with
    /// [`CASE_WOKEN`]. `Woken` if the mutex is taken, otherwise how the wait was cut short.
    #[cold]
    pub(super) fn lock_slow(&self, was_woken: bool, caller: &mut impl Caller) -> Ended {
        let (mut is_woken, mut goes_first) = (was_woken, was_woken);
        loop {
            let state = self.0.load(Ordering::Relaxed);
            if state & LOCKED == 0 {
                let next = (state | LOCKED) & !woken_if(is_woken);
                // MX1, pairs with the release in `try_unlock` and `unlock_slow`.
                if self
                    .0
                    .compare_exchange_weak(state, next, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
                {
                    return Ended::Woken(CASE_HANDED);
                }
                continue;
            }
            if caller.spin(state & PARKED != 0 && !is_woken) {
                continue;
            }
            let starving = if is_woken && caller.is_starving() {
                STARVING
            } else {
                0
            };
            let announce = || self.announce(starving, woken_if(is_woken));
            match caller.wait(self.address(), goes_first, announce) {
                Ended::Refused => {}
                Ended::Woken(CASE_WOKEN) => (is_woken, goes_first) = (true, true),
                ended => return ended,
            }
        }
    }

    /// Under the bucket's lock, before a waiter enqueues: sets `PARKED` and the given bit, clears the other. `false` if the
    /// mutex is free.
    fn announce(&self, set: u32, clear: u32) -> bool {
        let mut state = self.0.load(Ordering::Relaxed);
        while state & LOCKED != 0 {
            let next = (state | PARKED | set) & !clear;
            match self
                .0
                .compare_exchange_weak(state, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Under the bucket's lock, for a condvar that is about to requeue waiters to this word: if the mutex is taken, its
    /// holder will wake them.
    pub(super) fn expect_waiters(&self) -> bool {
        self.announce(0, 0)
    }

    /// Under the bucket's lock, for a condvar that wakes a waiter with [`CASE_WOKEN`] though the mutex is free, and has
    /// perhaps requeued others behind it: that one comes to lock the mutex, and wakes them when it unlocks.
    pub(super) fn expect_woken(&self, has_requeued: bool) {
        let parked = if has_requeued { PARKED } else { 0 };
        self.0.fetch_or(parked | WOKEN, Ordering::Relaxed);
    }
}

/// Whether the holder of the mutex has to look for a waiter.
#[inline]
fn needs_wake(state: u32) -> bool {
    state & STARVING != 0 || state & (PARKED | WOKEN) == PARKED
}

#[inline]
fn woken_if(is_woken: bool) -> u32 {
    if is_woken { WOKEN } else { 0 }
}

#[cfg(all(test, urgo_loom))]
mod tests {
    use super::super::waiting::modelled::{Thread, settle, unlock};
    use super::*;
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
            let left = self.mutex.0.load(Ordering::Relaxed);
            // A stale `PARKED` costs one look at the lot; the others would break something.
            assert_eq!(left & !PARKED, 0);
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
