//! The line: those who wait on one side of a channel, in the order they came.
//!
//! # Invariants
//!
//! A line is used under its channel's lock. An entry is in at most one line, and its owner takes it out under the same lock
//! before its frame goes. Whoever claims an entry has taken it out; the owner then stays where it is until the claim's
//! wake is settled, so entry, waiter, and what the entry offers may be used until then, without the lock.
//!
//! # Safety
//!
//! Links and waiters are raw pointers to other stacks, alive by the invariants above.

#![allow(unsafe_code)]

use super::token::Token;
use crate::park::{Waiter, Wake};
use crate::sched::Here;
use core::cell::Cell;
use core::ptr;

/// What an entry holds out to the other side of a rendezvous. Buffered channels offer nothing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Offer {
    Nothing,
    /// A place for a value of the channel's type: the sender's is full, the receiver's is empty.
    Place(*mut ()),
    /// The token of a select: a receiver's takes the value, a sender's takes the receiver (its value comes later).
    Select(*mut Token),
}

/// One wait on one side of a channel; a select has one per case.
#[derive(Debug)]
pub(super) struct Entry {
    waiter: *const Waiter,
    case: u32,
    /// The waiter is in no other line.
    is_single: bool,
    pub(super) offer: Cell<Offer>,
    /// Set by whoever claimed it: the channel is closed, nothing was handed over.
    pub(super) is_closed: Cell<bool>,
    /// Set by whoever claimed it: there will be no value after all, try again.
    pub(super) is_void: Cell<bool>,
    next: Cell<*const Entry>,
    prev: Cell<*const Entry>,
    queued: Cell<bool>,
}

impl Entry {
    /// For a waiter that waits on one line.
    #[inline]
    pub(super) fn single(waiter: &Waiter, offer: Offer) -> Entry {
        Entry {
            is_single: true,
            ..Entry::case_of(waiter, 0, offer)
        }
    }

    /// For case number `index` of a select.
    #[inline]
    pub(super) fn case_of(waiter: &Waiter, index: usize, offer: Offer) -> Entry {
        Entry {
            waiter,
            case: crate::park::CASE_FIRST + index as u32,
            is_single: false,
            offer: Cell::new(offer),
            is_closed: Cell::new(false),
            is_void: Cell::new(false),
            next: Cell::new(ptr::null()),
            prev: Cell::new(ptr::null()),
            queued: Cell::new(false),
        }
    }

    pub(super) fn waiter(&self) -> *const Waiter {
        self.waiter
    }

    /// Channel's lock held, or nobody else knows the entry. Ends its wait with its case.
    #[inline]
    pub(super) fn claim(&self, here: Here<'_>) -> Option<Wake> {
        // SAFETY: an entry's waiter lives as long as the entry, which its owner takes out of its line first.
        let waiter = unsafe { &*self.waiter };
        if self.is_single && here.is_local(waiter) {
            // SAFETY: it is in this line only, whose lock is held, and its home is this thread.
            unsafe { waiter.finish_alone(self.case) }
        } else {
            waiter.finish_case(self.case)
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Line {
    head: Cell<*const Entry>,
    tail: Cell<*const Entry>,
}

impl Line {
    pub(super) const fn new() -> Line {
        Line {
            head: Cell::new(ptr::null()),
            tail: Cell::new(ptr::null()),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head.get().is_null()
    }

    /// # Safety
    ///
    /// The channel's lock is held; `entry` is in no line and stays where it is until it is claimed or removed.
    #[inline]
    pub(super) unsafe fn push(&self, entry: &Entry) {
        debug_assert!(!entry.queued.get());
        let tail = self.tail.replace(entry);
        entry.prev.set(tail);
        entry.next.set(ptr::null());
        entry.queued.set(true);
        // SAFETY: the tail is a queued entry, alive by the module's invariants.
        match unsafe { tail.as_ref() } {
            Some(tail) => tail.next.set(entry),
            None => self.head.set(entry),
        }
    }

    /// Takes `entry` out if it is still in; `false` if somebody claimed it before.
    ///
    /// # Safety
    ///
    /// The channel's lock is held, and `entry` was pushed on no other line.
    #[inline]
    pub(super) unsafe fn remove(&self, entry: &Entry) -> bool {
        if !entry.queued.replace(false) {
            return false;
        }
        let (prev, next) = (entry.prev.get(), entry.next.get());
        // SAFETY: neighbours of a queued entry are queued, so alive by the module's invariants.
        match unsafe { prev.as_ref() } {
            Some(prev) => prev.next.set(next),
            None => self.head.set(next),
        }
        // SAFETY: as above.
        match unsafe { next.as_ref() } {
            Some(next) => next.prev.set(prev),
            None => self.tail.set(prev),
        }
        true
    }

    /// Claims the first entry whose wait is not over yet and whose waiter is not `but`. Entries whose wait is over are
    /// taken out on the way. Also says how many were taken out.
    ///
    /// # Safety
    ///
    /// The channel's lock is held. The entry is good until the wake is settled.
    #[inline(always)]
    pub(super) unsafe fn claim<'a>(
        &self,
        but: *const Waiter,
        here: Here<'_>,
    ) -> (Option<(&'a Entry, Wake)>, u32) {
        let mut taken = 0;
        let mut at = self.head.get();
        // SAFETY: queued entries are alive by the module's invariants.
        while let Some(entry) = unsafe { at.as_ref() } {
            at = entry.next.get();
            if entry.waiter == but {
                continue;
            }
            // SAFETY: it is in this line, whose lock is held.
            unsafe { self.remove(entry) };
            taken += 1;
            if let Some(wake) = entry.claim(here) {
                return (Some((entry, wake)), taken);
            }
        }
        (None, taken)
    }

    /// Whether somebody waits whose waiter is not `but`.
    ///
    /// # Safety
    ///
    /// The channel's lock is held.
    pub(super) unsafe fn has_other_than(&self, but: *const Waiter) -> bool {
        let mut at = self.head.get();
        // SAFETY: queued entries are alive by the module's invariants.
        while let Some(entry) = unsafe { at.as_ref() } {
            if entry.waiter != but {
                return true;
            }
            at = entry.next.get();
        }
        false
    }
}
