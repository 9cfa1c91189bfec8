//! The biased lock: a short lock that costs its favourite thread no locked instruction.
//!
//! Most channels are used by the goroutines of one worker on each side, so by one thread. After [`EARNED`] uses in a row
//! from the same worker's thread the lock is *biased* to that thread, which from then on locks and unlocks with plain
//! stores. Any other thread takes the bias away first, which costs a process-wide barrier, and the lock is a common spin lock
//! until somebody has earned it anew; each loss makes that eight times as long.
//!
//! Held for some nanoseconds only: no user code and no switch of stacks while it is held, and no call into the kernel but for
//! memory, where a queue grows.
//!
//! # State
//!
//! | `owner` | meaning | who stores it |
//! |---|---|---|
//! | 0 | not biased: whoever has `held` has the lock | the revoker, when the owner is out |
//! | `REVOKING` | the bias is being taken away | the revoker, holding `held` |
//! | a token | biased: that thread has the lock while its [`Presence`] names it | the thread itself, holding `held` |
//!
//! A token is the address of a thread's `Presence`, a word of the thread's own that names the biased lock it is in, as a hazard
//! pointer would. (Not a flag in the lock: a thread that comes too late, after the bias has gone to a third, must be able
//! to step back without touching what is the third's.) `held` is a spin lock, `last`, `streak` and `earned_at` belong to its
//! holder.
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | BL1 | `held` 0, release | `held` exchange, acquire | what was done under the lock |
//! | BL2 | presence 0 or another lock, release | the revoker's wait for it, acquire | what the owner did under the lock |
//! | BL3 | owner: presence, light barrier, load `owner` | revoker: `owner` REVOKING, heavy barrier, load the presence | store-load: one of them sees the other |
//!
//! # Why it excludes
//!
//! If the owner's second look at `owner` comes before the revoker's heavy barrier, the barrier makes its presence visible, and
//! the revoker waits until the owner is out. If it comes after, the owner sees that it is not the owner any more, goes out, and
//! queues for `held` like everyone else. Becoming owner happens under `held`, with the presence stored before `held` is let go.
//!
//! A presence outlives its thread and is given to the next worker, which thereby owns what the former owned: they never run at
//! the same time, and the pool's lock orders them.
//!
//! # Handshakes across the lock
//!
//! Somebody who publishes under this lock and then, still under it, looks whether anyone waits, and a waiter that announces
//! itself and looks whether anything was published, need store-load order: one of them must see the other. The publisher calls
//! [`Held::barrier`], which costs nothing but the compiler's freedom; the waiter pays, in
//! [`barrier_against`](BiasedLock::barrier_against):
//!
//! - If the lock is not biased, or waits are frequent, it takes it (from its owner, if it has got one) and lets it go. Publishers
//!   who were before it have published what it looks at next (BL1, BL2); those who come after see the announcement, for the same
//!   reason: also one that earns the bias then, since it earns it under `held`.
//! - If it is biased to its own thread, nothing is to be done: the owner is no other, and whoever takes the bias away
//!   calls for a heavy barrier first.
//! - If it is biased to another thread, a heavy barrier makes that thread pass a full one, between its publishing and its look or
//!   before or after both. It does the same to anybody who publishes without bias meanwhile.
//!
//! # Safety
//!
//! An owner is reached by the address of its presence, which lives for ever.

#![allow(unsafe_code)]

use crate::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, heavy_barrier, light_barrier};
use core::ptr;

/// No presence: an address that none can have.
const REVOKING: *mut Presence = ptr::without_provenance_mut(1);
/// In `last`: it was used, by threads that may own nothing.
const FOREIGN: *mut Presence = ptr::without_provenance_mut(2);
/// Uses in a row from one worker's thread that earn the bias for the first time.
#[cfg(not(urgo_loom))]
const EARNED: u32 = 64;
#[cfg(urgo_loom)]
const EARNED: u32 = 1;

/// See the module.
#[derive(Debug)]
pub(crate) struct BiasedLock {
    owner: AtomicPtr<Presence>,
    held: AtomicU32,
    /// The thread that had the lock last, and how often in a row. Relaxed: `held` protects them.
    last: AtomicPtr<Presence>,
    streak: AtomicU32,
    earned_at: AtomicU32,
}

/// Which biased lock a thread is in: its address, or 0. A thread is in one at most.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Presence(AtomicUsize);

impl Presence {
    #[cfg_attr(urgo_loom, allow(dead_code))]
    pub(crate) fn new() -> Presence {
        Presence(AtomicUsize::new(0))
    }
}

/// A thread as locks know it: by its presence. `NOBODY` may own no lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token(Option<&'static Presence>);

impl Token {
    pub(crate) const NOBODY: Token = Token(None);

    pub(crate) fn of(presence: &'static Presence) -> Token {
        Token(Some(presence))
    }

    #[inline(always)]
    fn address(self) -> *mut Presence {
        self.0.map_or(ptr::null_mut(), |presence| {
            ptr::from_ref(presence).cast_mut()
        })
    }
}

/// That the lock is held, and how. Not a guard: nothing between lock and unlock can unwind, and the data are the holder's
/// to name.
#[must_use]
#[derive(Debug)]
pub(crate) struct Held<'a> {
    lock: &'a BiasedLock,
    /// The presence that names it, if it is biased to us.
    presence: Option<&'static Presence>,
}

impl BiasedLock {
    pub(crate) fn new() -> BiasedLock {
        BiasedLock {
            owner: AtomicPtr::new(ptr::null_mut()),
            held: AtomicU32::new(0),
            last: AtomicPtr::new(ptr::null_mut()),
            streak: AtomicU32::new(0),
            earned_at: AtomicU32::new(EARNED),
        }
    }

    /// Any thread, as `me`. Spins while another has the lock.
    #[inline(always)]
    pub(crate) fn lock(&self, me: Token) -> Held<'_> {
        if let Some(presence) = me.0
            && self.owner.load(Ordering::Relaxed) == me.address()
        {
            debug_assert_eq!(presence.0.load(Ordering::Relaxed), 0, "one lock at a time");
            // BL2, pairs with the load in `revoke`: it is also the word that the lock we were in before has been left.
            presence
                .0
                .store(ptr::from_ref(self).addr(), Ordering::Release);
            // BL3, pairs with the heavy barrier in `revoke`.
            light_barrier();
            if self.owner.load(Ordering::Relaxed) == me.address() {
                return Held {
                    lock: self,
                    presence: me.0,
                };
            }
            // BL2, pairs with the load in `revoke`.
            presence.0.store(0, Ordering::Release);
        }
        self.lock_unbiased(me)
    }

    #[inline]
    fn lock_unbiased(&self, me: Token) -> Held<'_> {
        // BL1, pairs with the release in `unlock`.
        if self
            .held
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            self.spin();
        }
        if !self.owner.load(Ordering::Relaxed).is_null() {
            self.revoke();
        }
        let mut held = Held {
            lock: self,
            presence: None,
        };
        let Some(presence) = me.0 else {
            if self.last.load(Ordering::Relaxed).is_null() {
                self.last.store(FOREIGN, Ordering::Relaxed);
            }
            return held;
        };
        if self.last.load(Ordering::Relaxed) != me.address() {
            self.last.store(me.address(), Ordering::Relaxed);
            self.streak.store(0, Ordering::Relaxed);
        }
        let streak = self.streak.load(Ordering::Relaxed).saturating_add(1);
        self.streak.store(streak, Ordering::Relaxed);
        if streak >= self.earned_at.load(Ordering::Relaxed) {
            self.adopt(presence);
            held.presence = me.0;
        }
        held
    }

    /// `held` is held. The lock becomes the caller's, who goes on inside.
    #[cold]
    fn adopt(&self, presence: &'static Presence) {
        // BL2, pairs with the load in `revoke`, as in `lock`.
        presence
            .0
            .store(ptr::from_ref(self).addr(), Ordering::Release);
        self.owner
            .store(Token(Some(presence)).address(), Ordering::Relaxed);
        // BL1, pairs with the exchange in `lock_unbiased`: whoever takes the bias away sees the presence.
        self.held.store(0, Ordering::Release);
    }

    /// `held` is held. Returns when the owner is out and will not come in again.
    #[cold]
    fn revoke(&self) {
        let owner = self.owner.load(Ordering::Relaxed);
        self.owner.store(REVOKING, Ordering::Relaxed);
        // BL3, pairs with the light barrier in `lock`.
        heavy_barrier();
        // SAFETY: not null, and never REVOKING while `held` is free, so it was made from a presence, which lives for ever.
        let presence = unsafe { &*owner };
        let mut patience = Patience::new();
        // BL2, pairs with the owner's release.
        while presence.0.load(Ordering::Acquire) == ptr::from_ref(self).addr() {
            patience.wait();
        }
        let earned_at = self.earned_at.load(Ordering::Relaxed);
        self.earned_at
            .store(earned_at.saturating_mul(8), Ordering::Relaxed);
        self.streak.store(0, Ordering::Relaxed);
        self.owner.store(ptr::null_mut(), Ordering::Relaxed);
    }

    #[cold]
    fn spin(&self) {
        let mut patience = Patience::new();
        loop {
            patience.wait();
            // BL1, pairs with the release in `unlock`.
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

    /// Whether another thread than `me` had the lock last, as far as can be seen. A hint.
    #[inline]
    pub(crate) fn is_used_elsewhere(&self, me: Token) -> bool {
        let owner = self.owner.load(Ordering::Relaxed);
        if !owner.is_null() {
            return owner != me.address();
        }
        let last = self.last.load(Ordering::Relaxed);
        !last.is_null() && last != me.address()
    }

    /// For a waiter that has announced itself: what it looks at next was published before, or its publisher, who holds this
    /// lock while publishing, will see the announcement. `me` is the caller's token; `is_frequent` says that it happens so
    /// often that a bias does more harm here than good there.
    #[inline]
    pub(crate) fn barrier_against(&self, me: Token, is_frequent: bool) {
        // Pairs with the heavy barrier in `revoke`.
        light_barrier();
        if me.0.is_some() && self.owner.load(Ordering::Relaxed) == me.address() {
            // Whoever publishes next takes the bias away first, with a heavy barrier, which this look came before, and so the
            // announcement.
            return;
        }
        // Relaxed: the lock, or the barrier, puts in order what comes next.
        if is_frequent || self.owner.load(Ordering::Relaxed).is_null() {
            // BL1, pairs with every publisher's locking and unlocking; takes a bias away.
            self.lock(Token::NOBODY).unlock();
        } else {
            // Pairs with the light barrier in `Held::barrier`.
            heavy_barrier();
        }
    }
}

impl Held<'_> {
    /// For a publisher, between publishing and looking for waiters; both under the lock.
    #[inline(always)]
    pub(crate) fn barrier(&self) {
        // Pairs with the heavy barrier in `barrier_against`.
        light_barrier();
    }

    #[inline(always)]
    pub(crate) fn unlock(self) {
        if let Some(presence) = self.presence {
            // BL2, pairs with the load in `revoke`.
            presence.0.store(0, Ordering::Release);
        } else {
            // BL1, pairs with the exchange in `lock_unbiased`.
            self.lock.held.store(0, Ordering::Release);
        }
    }
}

/// Spinning, then letting others have the CPU, then sleeping: the holder may have been preempted, even by us.
///
/// The pauses are long against what is done under the lock: whoever has it takes it again several times meanwhile, from its own
/// cache, and a look at it costs it a transfer of the line.
struct Patience {
    #[cfg(not(urgo_loom))]
    waits: u32,
}

#[cfg(not(urgo_loom))]
const PAUSE_FIRST: u32 = 32;
#[cfg(not(urgo_loom))]
const PAUSE_MAX: u32 = 128;

impl Patience {
    fn new() -> Patience {
        Patience {
            #[cfg(not(urgo_loom))]
            waits: 0,
        }
    }

    #[cfg(not(urgo_loom))]
    fn wait(&mut self) {
        self.waits += 1;
        match self.waits {
            1..=16 => {
                for _ in 0..(PAUSE_FIRST << (self.waits - 1).min(8)).min(PAUSE_MAX) {
                    core::hint::spin_loop();
                }
            }
            17..=80 => std::thread::yield_now(),
            _ => std::thread::sleep(core::time::Duration::from_micros(50)),
        }
    }

    #[cfg(urgo_loom)]
    fn wait(&mut self) {
        crate::atomic::model_yield();
    }
}

#[cfg(all(test, urgo_loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;

    loom::lazy_static! {
        static ref PRESENCES: [Presence; 3] = core::array::from_fn(|_| Presence::new());
    }

    fn token(number: usize) -> Token {
        Token::of(&PRESENCES[number - 1])
    }

    /// The owner, a rival and a second round: never two inside, nothing lost.
    #[test]
    fn loom_biased_lock_excludes() {
        loom::model(|| {
            let shared = Arc::new((BiasedLock::new(), AtomicU32::new(0)));
            let add = |shared: &(BiasedLock, AtomicU32), me| {
                let held = shared.0.lock(token(me));
                // Relaxed and in two steps: only the lock keeps it whole.
                let seen = shared.1.load(Ordering::Relaxed);
                shared.1.store(seen + 1, Ordering::Relaxed);
                held.unlock();
            };
            add(&shared, 1);
            let rival = {
                let shared = shared.clone();
                loom::thread::spawn(move || add(&shared, 2))
            };
            add(&shared, 1);
            rival.join().unwrap();
            add(&shared, 1);
            assert_eq!(shared.1.load(Ordering::Relaxed), 4);
        });
    }

    /// The bias moves from one thread to another while the first is on its way in: never two inside.
    #[test]
    fn loom_biased_lock_excludes_when_the_bias_moves() {
        loom::model(|| {
            let lock = BiasedLock::new();
            // Earned at once, each time.
            lock.earned_at.store(0, Ordering::Relaxed);
            let shared = Arc::new((lock, AtomicU32::new(0)));
            let add = |shared: &(BiasedLock, AtomicU32), me| {
                let held = shared.0.lock(token(me));
                let seen = shared.1.load(Ordering::Relaxed);
                shared.1.store(seen + 1, Ordering::Relaxed);
                held.unlock();
            };
            add(&shared, 1);
            let rival = {
                let shared = shared.clone();
                loom::thread::spawn(move || add(&shared, 2))
            };
            add(&shared, 1);
            rival.join().unwrap();
            assert_eq!(shared.1.load(Ordering::Relaxed), 3);
        });
    }

    /// A publisher that takes the bias away, and a waiter on the owner's own thread: they do not miss each other.
    #[test]
    fn loom_biased_lock_orders_handshakes_of_its_owner() {
        loom::model(|| {
            let shared = Arc::new((BiasedLock::new(), AtomicU32::new(0), AtomicU32::new(0)));
            shared.0.lock(token(1)).unlock();
            let publisher = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    let held = shared.0.lock(token(2));
                    shared.1.store(1, Ordering::Relaxed);
                    held.barrier();
                    held.unlock();
                    shared.2.load(Ordering::Relaxed)
                })
            };
            shared.2.store(1, Ordering::Relaxed);
            shared.0.barrier_against(token(1), false);
            let saw_value = shared.1.load(Ordering::Relaxed);
            let saw_waiter = publisher.join().unwrap();
            assert!(saw_waiter == 1 || saw_value == 1);
        });
    }

    /// An owner of two locks is in the second when the bias of the first is taken away: what it did in the first is seen.
    #[test]
    fn loom_biased_lock_shows_what_was_done_before_another_lock() {
        loom::model(|| {
            let locks = [BiasedLock::new(), BiasedLock::new()];
            for lock in &locks {
                lock.lock(token(1)).unlock();
            }
            let shared = Arc::new((locks, AtomicU32::new(0)));
            let add = |shared: &([BiasedLock; 2], AtomicU32), me| {
                let held = shared.0[0].lock(token(me));
                let seen = shared.1.load(Ordering::Relaxed);
                shared.1.store(seen + 1, Ordering::Relaxed);
                held.unlock();
            };
            let owner = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    add(&shared, 1);
                    shared.0[1].lock(token(1)).unlock();
                })
            };
            add(&shared, 2);
            owner.join().unwrap();
            assert_eq!(shared.1.load(Ordering::Relaxed), 2);
        });
    }

    /// A publisher that looks for waiters and a waiter that looks for what was published, while a third takes the bias
    /// away: they do not miss each other.
    #[test]
    fn loom_biased_lock_orders_handshakes() {
        handshakes_while_the_bias_goes(false);
    }

    /// Where nothing is biased the lock alone puts publisher and waiter in order, without any barrier.
    #[test]
    fn loom_biased_lock_orders_handshakes_by_itself() {
        loom::model(|| {
            let shared = Arc::new((BiasedLock::new(), AtomicU32::new(0), AtomicU32::new(0)));
            let publisher = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    let held = shared.0.lock(Token::NOBODY);
                    shared.1.store(1, Ordering::Relaxed);
                    let saw_waiter = shared.2.load(Ordering::Relaxed);
                    held.unlock();
                    saw_waiter
                })
            };
            shared.2.store(1, Ordering::Relaxed);
            shared.0.barrier_against(Token::NOBODY, false);
            let saw_value = shared.1.load(Ordering::Relaxed);
            let saw_waiter = publisher.join().unwrap();
            assert!(saw_waiter == 1 || saw_value == 1);
        });
    }

    /// A publisher that earns the bias with this very lock, while the waiter looks whether there is one.
    #[test]
    fn loom_biased_lock_orders_handshakes_while_it_is_earned() {
        for is_frequent in [false, true] {
            loom::model(move || {
                let shared = Arc::new((BiasedLock::new(), AtomicU32::new(0), AtomicU32::new(0)));
                let waiter = {
                    let shared = shared.clone();
                    loom::thread::spawn(move || {
                        shared.2.store(1, Ordering::Relaxed);
                        shared.0.barrier_against(Token::NOBODY, is_frequent);
                        shared.1.load(Ordering::Relaxed)
                    })
                };
                let held = shared.0.lock(token(1));
                shared.1.store(1, Ordering::Relaxed);
                // Where waits are frequent the lock alone does it.
                if !is_frequent {
                    held.barrier();
                }
                let saw_waiter = shared.2.load(Ordering::Relaxed);
                held.unlock();
                let saw_value = waiter.join().unwrap();
                assert!(saw_waiter == 1 || saw_value == 1);
            });
        }
    }

    /// As `loom_biased_lock_orders_handshakes`, but the waiter would rather take the bias away than call for a barrier.
    #[test]
    fn loom_biased_lock_orders_frequent_handshakes() {
        handshakes_while_the_bias_goes(true);
    }

    fn handshakes_while_the_bias_goes(is_frequent: bool) {
        loom::model(move || {
            let shared = Arc::new((BiasedLock::new(), AtomicU32::new(0), AtomicU32::new(0)));
            shared.0.lock(token(1)).unlock();
            let third = {
                let shared = shared.clone();
                loom::thread::spawn(move || shared.0.lock(token(3)).unlock())
            };
            let waiter = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    shared.2.store(1, Ordering::Relaxed);
                    shared.0.barrier_against(token(2), is_frequent);
                    shared.1.load(Ordering::Relaxed)
                })
            };
            let held = shared.0.lock(token(1));
            shared.1.store(1, Ordering::Relaxed);
            held.barrier();
            let saw_waiter = shared.2.load(Ordering::Relaxed);
            held.unlock();
            let saw_value = waiter.join().unwrap();
            assert!(saw_waiter == 1 || saw_value == 1);
            third.join().unwrap();
        });
    }
}
