//! The condvar's word, and the steps of notifying. In production and in the models.
//!
//! # State
//!
//! 0: nobody waits. 1: the lot may hold waiters for this word. Stored under the lock of the word's bucket.
//!
//! # Algorithm
//!
//! A waiter enqueues itself, with the address of its mutex, *while it still holds the mutex*, then unlocks the mutex and waits.
//! From then on every notification finds it: nothing can come in between.
//!
//! Who is notified needs the mutex next, so a notification does not wake all of them to fight for it. While the mutex
//! is taken (mostly by the notifier itself) they are requeued, from this word to the mutex's, and its holder wakes the
//! first when it unlocks. While it is free, the first is woken, and the others requeued behind it.
//! Waiters with another mutex than the first one's, which is rare, are simply woken.
//!
//! # No notification is lost
//!
//! A notifier that does not see the word set holds, or has held, the mutex before the waiter enqueued, or is not ordered with
//! it at all, as the mutex orders the two: then the waiter has yet to look at the condition. One that sees it finds, under the
//! bucket's lock, every waiter that was there.
//! A waiter whose wait ended before it was notified is passed over. One that was requeued has been notified, however its wait
//! ends then: it says so, or passes the notification on if it is cancelled.
//! A requeued waiter is woken: requeueing needs the mutex's bucket, and under it either the mutex is taken, and its holder told
//! to wake somebody, or a woken waiter is on its way to take it, which finds those in the queue.
//!
//! # Safety
//!
//! A waiter's tag is turned back into a reference to its mutex's word. The waiter borrows the mutex while it waits, and cannot
//! leave the queue but under the bucket's lock, which is held.

#![allow(unsafe_code)]

use super::mutex_word::MutexWord;
use crate::atomic::{AtomicU32, Ordering};
use crate::park::lot::{Locked, Lot, WOKEN as CASE_WOKEN, Wakes};

/// The case of a waiter that was notified and woken without being on its mutex's way: it locks the mutex like anyone.
pub(super) const CASE_NOTIFIED: u32 = CASE_WOKEN + 2;

/// See the module.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct CondvarWord(AtomicU32);

impl CondvarWord {
    #[cfg(not(urgo_loom))]
    pub(super) const fn new() -> CondvarWord {
        CondvarWord(AtomicU32::new(0))
    }

    #[cfg(urgo_loom)]
    pub(super) fn new() -> CondvarWord {
        CondvarWord(AtomicU32::new(0))
    }

    #[inline]
    pub(super) fn address(&self) -> usize {
        core::ptr::from_ref(&self.0).addr()
    }

    /// Under the bucket's lock, before a waiter enqueues.
    pub(super) fn announce(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    /// Relaxed: the mutex orders a waiter with those that it may count on to notify it.
    #[inline]
    pub(super) fn has_waiters(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Any thread. Notifies up to `max` waiters; how many, and the wakes, to be settled.
    #[cold]
    pub(super) fn notify(&self, lot: &Lot, max: usize) -> (usize, Wakes) {
        let (mut locked, mutex) = self.lock_with_mutex(lot);
        let address = self.address();
        let mut notified = 0;
        if let Some(mutex) = mutex {
            // SAFETY: see the module: a waiter with this tag was queued when the lock was taken, which is still held.
            let word = unsafe { &*core::ptr::with_exposed_provenance::<MutexWord>(mutex) };
            debug_assert_eq!(word.address(), mutex);
            let is_its = |tag| tag == mutex;
            let is_taken = word.expect_waiters();
            let is_woken = !is_taken && locked.wake_first_if(address, CASE_WOKEN, is_its);
            notified = usize::from(is_woken);
            if is_taken || is_woken {
                while notified < max && locked.move_first_if(address, mutex, is_its) {
                    notified += 1;
                }
            }
            if is_woken {
                word.expect_woken();
            }
        }
        while notified < max && locked.wake_first(address, CASE_NOTIFIED) {
            notified += 1;
        }
        if locked.is_empty(address) {
            self.0.store(0, Ordering::Relaxed);
        }
        (notified, locked.unlock())
    }

    /// The bucket locked, together with the bucket of the first waiter's mutex, and that mutex.
    fn lock_with_mutex<'l>(&self, lot: &'l Lot) -> (Locked<'l>, Option<usize>) {
        let address = self.address();
        let mut locked = lot.lock(address);
        loop {
            let Some(mutex) = locked.first_tag(address) else {
                return (locked, None);
            };
            if locked.try_add(mutex) {
                return (locked, Some(mutex));
            }
            // The other one comes first in the order of locks, or is taken.
            let none = locked.unlock().next();
            debug_assert!(none.is_none());
            locked = lot.lock_both(address, mutex);
            if locked.first_tag(address) == Some(mutex) {
                return (locked, Some(mutex));
            }
            // Another is first by now: locked are the buckets of a mutex that nobody waits with, so not to be used.
            let none = locked.unlock().next();
            debug_assert!(none.is_none());
            locked = lot.lock(address);
        }
    }
}

#[cfg(all(test, urgo_loom))]
mod tests {
    use super::super::mutex_word::CASE_HANDED;
    use super::super::waiting::{
        Ended,
        modelled::{self, Thread, settle},
    };
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    struct Scene {
        lot: Lot,
        mutex: MutexWord,
        condvar: CondvarWord,
        /// Permits; the mutex protects them.
        value: AtomicU32,
    }

    impl Scene {
        fn new() -> Arc<Scene> {
            Arc::new(Scene {
                lot: Lot::new(),
                mutex: MutexWord::new(),
                condvar: CondvarWord::new(),
                value: AtomicU32::new(0),
            })
        }

        fn lock(&self, was_woken: bool) {
            let mut thread = Thread {
                lot: &self.lot,
                is_starving: false,
                gives_up: false,
            };
            if was_woken || !self.mutex.try_lock() {
                let ended = self.mutex.lock_slow(was_woken, &mut thread);
                assert!(matches!(ended, Ended::Woken(_)));
            }
        }

        fn unlock(&self) {
            modelled::unlock(&self.mutex, &self.lot);
        }

        /// As `Condvar::wait_raw`.
        fn wait(&self, gives_up: bool) -> Ended {
            let ended = modelled::wait(
                &self.lot,
                self.condvar.address(),
                self.mutex.address(),
                false,
                gives_up,
                || {
                    self.condvar.announce();
                    true
                },
                || self.unlock(),
            );
            match ended {
                Ended::Woken(CASE_HANDED) => {}
                Ended::Woken(case) => self.lock(case == CASE_WOKEN),
                _ => self.lock(false),
            }
            ended
        }

        /// Waits for a permit and takes it.
        fn take(&self) {
            self.lock(false);
            while self.value.load(Ordering::Relaxed) == 0 {
                self.wait(false);
            }
            let value = self.value.load(Ordering::Relaxed);
            self.value.store(value - 1, Ordering::Relaxed);
            self.unlock();
        }

        fn notify(&self, max: usize) -> usize {
            if !self.condvar.has_waiters() {
                return 0;
            }
            let (notified, wakes) = self.condvar.notify(&self.lot, max);
            settle(wakes);
            notified
        }

        fn assert_over(&self) {
            assert_eq!(self.value.load(Ordering::Relaxed), 0);
            assert!(!self.mutex.is_locked());
            assert_eq!(self.lot.wake(self.condvar.address(), 9).0, 0);
            assert_eq!(self.lot.wake(self.mutex.address(), 9).0, 0);
        }
    }

    fn model(takers: u32, give: fn(&Scene, u32)) {
        loom::model(move || {
            let scene = Scene::new();
            let threads: Vec<_> = (0..takers)
                .map(|_| {
                    let scene = scene.clone();
                    thread::spawn(move || scene.take())
                })
                .collect();
            give(&scene, takers);
            threads.into_iter().for_each(|t| t.join().unwrap());
            scene.assert_over();
        });
    }

    /// A permit and a notification for each, with the mutex held: waiters are requeued.
    #[test]
    fn loom_condvar_requeues_and_loses_nothing() {
        model(2, |scene, takers| {
            for _ in 0..takers {
                scene.lock(false);
                let value = scene.value.load(Ordering::Relaxed);
                scene.value.store(value + 1, Ordering::Relaxed);
                scene.notify(1);
                scene.unlock();
            }
        });
    }

    /// All permits at once and one notification for all, after unlocking: the first is woken, the other requeued behind
    /// it.
    #[test]
    fn loom_condvar_wakes_all_one_after_the_other() {
        model(2, |scene, takers| {
            scene.lock(false);
            scene.value.store(takers, Ordering::Relaxed);
            scene.unlock();
            scene.notify(usize::MAX);
        });
    }

    /// A waiter whose time is up against a notification: it was accepted exactly if the waiter says so.
    #[test]
    fn loom_condvar_timed_out_waiter_was_notified_or_not() {
        for holds in [false, true] {
            loom::model(move || {
                let scene = Scene::new();
                let waiter = {
                    let scene = scene.clone();
                    thread::spawn(move || {
                        scene.lock(false);
                        let ended = scene.wait(true);
                        scene.unlock();
                        !matches!(ended, Ended::TimedOut { moved: false })
                    })
                };
                if holds {
                    scene.lock(false);
                }
                let notified = scene.notify(1);
                if holds {
                    scene.unlock();
                }
                assert_eq!(waiter.join().unwrap(), notified == 1);
                scene.assert_over();
            });
        }
    }
}
