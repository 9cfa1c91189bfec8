//! Where queued values lie: a ring of fixed size, or a list of blocks that grows and shrinks with its content.
//!
//! Both are used by one writer and one reader at a time (each side of the channel has a lock), at positions that only ever
//! go up. What the writer has written becomes known to the reader by the channel's `tail`, and a place that the reader has
//! left becomes known to the writer by its `head`.
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | ST1 | `spare`, release exchange by the reader | acquire exchange by the writer | that the reader is done with a block |
//!
//! Values, and the links between blocks, are published by the channel's `tail` (CH1).
//!
//! # Safety
//!
//! Slots are raw memory. Those from the channel's `head` up to its `tail` hold values.

#![allow(unsafe_code)]

use crate::atomic::{AtomicPtr, Ordering};
use core::cell::{Cell, UnsafeCell};
use core::mem::MaybeUninit;
use core::ptr;

type Slot<T> = UnsafeCell<MaybeUninit<T>>;

/// See the module.
#[derive(Debug)]
pub(super) enum Store<T> {
    Ring(Box<[Slot<T>]>),
    List(List<T>),
}

/// The blocks of an unbounded channel.
#[derive(Debug)]
pub(super) struct List<T> {
    /// Reader's.
    first: Cell<*mut Block<T>>,
    /// Writer's.
    last: Cell<*mut Block<T>>,
    /// The first block of all, by the writer for the reader.
    origin: Cell<*mut Block<T>>,
    /// A block that the reader has left and the writer may use again.
    spare: AtomicPtr<Block<T>>,
}

/// Slots per block: the allocator is asked once in so many sends at most.
const BLOCK_SLOTS: usize = 32;

#[derive(Debug)]
struct Block<T> {
    next: Cell<*mut Block<T>>,
    slots: [Slot<T>; BLOCK_SLOTS],
}

impl<T> Block<T> {
    fn allocate() -> *mut Block<T> {
        let mut block = Box::<Block<T>>::new_uninit();
        // SAFETY: within the box; the slots are `MaybeUninit` and need no writing.
        unsafe { (&raw mut (*block.as_mut_ptr()).next).write(Cell::new(ptr::null_mut())) };
        // SAFETY: every field is initialised.
        Box::into_raw(unsafe { block.assume_init() })
    }
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
        Store::List(List {
            first: Cell::new(ptr::null_mut()),
            last: Cell::new(ptr::null_mut()),
            origin: Cell::new(ptr::null_mut()),
            spare: AtomicPtr::new(ptr::null_mut()),
        })
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
}

impl<T> List<T> {
    /// # Safety
    ///
    /// As [`Store::write`].
    #[inline]
    unsafe fn write(&self, at: usize, value: T) {
        let slot = at % BLOCK_SLOTS;
        if slot == 0 {
            self.append();
        }
        // SAFETY: the last block is the writer's to append to; it was made at the latest just now.
        unsafe { (*(*self.last.get()).slots[slot].get()).write(value) };
    }

    #[cold]
    fn append(&self) {
        // ST1, pairs with the exchange in `leave`.
        let spare = self.spare.swap(ptr::null_mut(), Ordering::Acquire);
        let block = if spare.is_null() {
            Block::allocate()
        } else {
            spare
        };
        // SAFETY: null, or the last block, which stays until the reader has read its last slot and a later position
        // exists, which the writer makes after this.
        match unsafe { self.last.replace(block).as_ref() } {
            Some(last) => last.next.set(block),
            None => self.origin.set(block),
        }
    }

    /// # Safety
    ///
    /// As [`Store::read`].
    #[inline]
    unsafe fn read(&self, at: usize) -> T {
        let slot = at % BLOCK_SLOTS;
        if slot == 0 {
            self.advance();
        }
        // SAFETY: position `at` was written, so its block is there.
        unsafe { (*(*self.first.get()).slots[slot].get()).assume_init_read() }
    }

    /// To the next block. The one that was left goes to the writer if it has no spare, else back to the allocator.
    #[cold]
    fn advance(&self) {
        let left = self.first.get();
        // SAFETY: null, or the reader's block, whose successor was linked before the position that is now read.
        match unsafe { left.as_ref() } {
            None => self.first.set(self.origin.get()),
            Some(block) => {
                self.first.set(block.next.replace(ptr::null_mut()));
                // ST1, pairs with the exchange in `append`.
                let other = self.spare.swap(left, Ordering::AcqRel);
                if !other.is_null() {
                    // SAFETY: a spare block is nobody else's.
                    drop(unsafe { Box::from_raw(other) });
                }
            }
        }
    }
}

impl<T> Drop for List<T> {
    fn drop(&mut self) {
        let mut block = match self.first.get() {
            first if first.is_null() => self.origin.get(),
            first => first,
        };
        while !block.is_null() {
            // SAFETY: the list is ours alone, and each block is in it once.
            let owned = unsafe { Box::from_raw(block) };
            block = owned.next.get();
        }
        // Relaxed: ours alone.
        let spare = self.spare.load(Ordering::Relaxed);
        if !spare.is_null() {
            // SAFETY: as above; the spare is not in the list.
            drop(unsafe { Box::from_raw(spare) });
        }
    }
}
