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
//! A requeued waiter is woken: requeueing needs the mutex's bucket, and under it either the mutex is taken, and `PARKED` set for
//! its holder to see, or a woken waiter (`WOKEN`) is on its way to take it, which will see `PARKED` when it unlocks.
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
                word.expect_woken(notified > 1);
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
