//! Where queued values lie: a ring of fixed size, or a list of blocks that grows and shrinks with its content.
//!
//! Both are used by one writer and one reader at a time (each side of the channel has a lock), at positions that only ever
//! go up. What the writer has written becomes known to the reader by the channel's `tail`, and a place that the reader has
//! left becomes known to the writer by its `head`.
//!
//! # Safety
//!
//! Slots are raw memory. Those from the channel's `head` up to its `tail` hold values.

#![allow(unsafe_code)]

use super::list::{List, Retired};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

type Slot<T> = UnsafeCell<MaybeUninit<T>>;

/// See the module.
#[derive(Debug)]
pub(super) enum Store<T> {
    Ring(Box<[Slot<T>]>),
    /// Boxed: a bounded channel should not be as large as the cursors of a list.
    List(Box<List<T>>),
}

impl<T> Store<T> {
    /// Room for `capacity` values.
    ///
    /// # Panics
    /// If there is no room for so many in the address space.
    pub(super) fn ring(capacity: usize) -> Store<T> {
        let slots = capacity
            .checked_next_power_of_two()
            .expect("a channel's capacity is at most half the address space");
        let slots = Box::<[Slot<T>]>::new_uninit_slice(slots);
        // SAFETY: slots are `MaybeUninit` and need no writing.
        Store::Ring(unsafe { slots.assume_init() })
    }

    pub(super) fn list() -> Store<T> {
        Store::List(Box::new(List::new()))
    }

    /// Puts `value` at position `at`.
    ///
    /// # Safety
    ///
    /// The caller is the only writer, `at` is the channel's tail, and in a ring the place has been left by the reader.
    #[inline(always)]
    pub(super) unsafe fn write(&self, at: usize, value: T) {
        match self {
            Store::Ring(slots) => {
                // SAFETY: masked by the length, a power of two that is not 0; free by the caller's promise.
                unsafe { (*slots.get_unchecked(at & (slots.len() - 1)).get()).write(value) };
            }
            // SAFETY: the caller's promise.
            Store::List(list) => unsafe { list.write(at, value) },
        }
    }

    /// Takes the value at position `at`.
    ///
    /// # Safety
    ///
    /// The caller is the only reader, `at` is the channel's head and before its tail.
    #[inline(always)]
    pub(super) unsafe fn read(&self, at: usize) -> T {
        match self {
            Store::Ring(slots) => {
                // SAFETY: masked as in `write`; full by the caller's promise.
                unsafe { (*slots.get_unchecked(at & (slots.len() - 1)).get()).assume_init_read() }
            }
            // SAFETY: the caller's promise.
            Store::List(list) => unsafe { list.read(at) },
        }
    }

    /// Reader only, after each read: what is to be freed when the lock has been let go.
    #[inline(always)]
    pub(super) fn take_retired(&self) -> Option<Retired<T>> {
        match self {
            Store::Ring(_) => None,
            Store::List(list) => list.take_retired(),
        }
    }
}
