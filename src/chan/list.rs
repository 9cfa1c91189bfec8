//! The store of an unbounded channel: a list of blocks that grows and shrinks with its content.
//!
//! # Algorithm
//!
//! The writer fills the last block and appends another when it is full; the reader empties the first and goes on to the
//! next. One small block that was left waits to be used again, so a channel that is not deep asks the allocator for
//! nothing. A channel that has become deep gets large blocks, each a mapping of its own: when the peak is over they go back
//! to the system one by one, whatever the allocator does with small ones.
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | ST1 | `spare`, release exchange by the reader | acquire exchange by the writer | that the reader is done with a block |
//!
//! Values, and the links between blocks, are published by the channel's `tail` (CH1). `taken` is a hint and relaxed.
//!
//! # Safety
//!
//! Blocks are raw memory behind a header; slots from the channel's `head` up to its `tail` hold values. The header's `slots`
//! never changes. The writer uses the last block, the reader the first; a block's `next` is written before anything in the
//! next block is published, and the reader reads it only after that.

#![allow(unsafe_code)]

use crate::atomic::{AtomicPtr, AtomicUsize, Ordering};
use core::alloc::Layout;
use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr;
use crossbeam_utils::CachePadded;
use std::alloc::{alloc, dealloc, handle_alloc_error};
use urgo_sys::mapping::Mapping;

/// Slots of a small block: the allocator is asked once in so many sends at most.
const SMALL_SLOTS: usize = 32;
/// Bytes of a large block.
const LARGE_BYTES: usize = 256 * 1024;
/// Queued values, and queued bytes, from which on blocks are large.
const DEEP: usize = 1024;
const DEEP_BYTES: usize = 64 * 1024;
/// Values after which the reader says how far it is.
const TAKEN_EVERY: usize = 256;

/// See the module.
#[derive(Debug)]
pub(super) struct List<T> {
    // Apart, since the two sides change them with every value.
    write: CachePadded<Cursor<T>>,
    read: CachePadded<Cursor<T>>,
    /// The first block of all, by the writer for the reader.
    origin: Cell<*mut Block<T>>,
    /// A small block that the reader has left and the writer may use again.
    spare: AtomicPtr<Block<T>>,
    /// Reader's: a block to be freed.
    retired: Cell<*mut Block<T>>,
    /// The position up to which the reader has certainly read.
    taken: AtomicUsize,
    _values: PhantomData<T>,
}

/// Where one side is.
#[derive(Debug)]
struct Cursor<T> {
    block: Cell<*mut Block<T>>,
    slot: Cell<usize>,
    /// Slots of `block`.
    end: Cell<usize>,
}

impl<T> Cursor<T> {
    fn new() -> Cursor<T> {
        Cursor {
            block: Cell::new(ptr::null_mut()),
            slot: Cell::new(0),
            end: Cell::new(0),
        }
    }

    fn enter(&self, block: *mut Block<T>) {
        self.block.set(block);
        self.slot.set(0);
        // SAFETY: a block of the list; its `slots` never changes.
        self.end.set(unsafe { (*block).slots });
    }
}

/// The head of a block; its slots follow.
#[derive(Debug)]
struct Block<T> {
    next: Cell<*mut Block<T>>,
    slots: usize,
    /// A large block's memory, which holds this very header.
    mapping: Option<Mapping>,
    _slots: PhantomData<T>,
}

impl<T> Block<T> {
    /// Layout of a block with so many slots, and where the slots begin.
    fn layout(slots: usize) -> (Layout, usize) {
        Layout::array::<T>(slots)
            .and_then(|array| Layout::new::<Block<T>>().extend(array))
            .expect("a block is small")
    }

    const LARGE_SLOTS: usize = {
        let room = LARGE_BYTES.saturating_sub(size_of::<Block<T>>() + align_of::<T>());
        // Values that are large themselves, and those that need no memory, stay in small blocks.
        if size_of::<T>() == 0 || align_of::<T>() > 4096 {
            0
        } else {
            room / size_of::<T>()
        }
    };

    fn small() -> *mut Block<T> {
        let (layout, _) = Block::<T>::layout(SMALL_SLOTS);
        // SAFETY: the header makes the layout's size more than zero.
        let block = unsafe { alloc(layout) }.cast::<Block<T>>();
        if block.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: new memory with room for the header.
        unsafe { block.write(Block::header(SMALL_SLOTS, None)) };
        block
    }

    /// `None` if values do not suit it, or the system has no mapping to give.
    #[cold]
    fn large() -> Option<*mut Block<T>> {
        if Block::<T>::LARGE_SLOTS < SMALL_SLOTS {
            return None;
        }
        let mapping = Mapping::reserve(LARGE_BYTES).ok()?;
        let block = mapping.base().cast::<Block<T>>();
        // SAFETY: the mapping begins at a page and has room for the header.
        unsafe { block.write(Block::header(Block::<T>::LARGE_SLOTS, Some(mapping))) };
        Some(block)
    }

    fn header(slots: usize, mapping: Option<Mapping>) -> Block<T> {
        Block {
            next: Cell::new(ptr::null_mut()),
            slots,
            mapping,
            _slots: PhantomData,
        }
    }

    /// # Safety
    ///
    /// `block` is a block, and `slot` less than its `slots`.
    #[inline(always)]
    unsafe fn slot(block: *mut Block<T>, slot: usize) -> *mut T {
        // The slots begin at the same place whatever their number.
        let offset = const {
            let header = size_of::<Block<T>>();
            header.next_multiple_of(align_of::<T>())
        };
        // SAFETY: within the block, by the caller's promise and `layout`.
        unsafe { block.byte_add(offset).cast::<T>().add(slot) }
    }

    /// # Safety
    ///
    /// Nobody uses the block any more.
    unsafe fn free(block: *mut Block<T>) {
        // SAFETY: the header is there; the caller's promise.
        let header = unsafe { block.read() };
        match header.mapping {
            // The header lies in it and has just been moved out.
            Some(mapping) => drop(mapping),
            // SAFETY: made by `small`, with this layout.
            None => unsafe { dealloc(block.cast(), Block::<T>::layout(SMALL_SLOTS).0) },
        }
    }
}

impl<T> List<T> {
    pub(super) fn new() -> List<T> {
        List {
            write: CachePadded::new(Cursor::new()),
            read: CachePadded::new(Cursor::new()),
            origin: Cell::new(ptr::null_mut()),
            spare: AtomicPtr::new(ptr::null_mut()),
            retired: Cell::new(ptr::null_mut()),
            taken: AtomicUsize::new(0),
            _values: PhantomData,
        }
    }

    /// Puts `value` at the channel's tail, which is `at`.
    ///
    /// # Safety
    ///
    /// The caller is the only writer.
    #[inline(always)]
    pub(super) unsafe fn write(&self, at: usize, value: T) {
        if self.write.slot.get() == self.write.end.get() {
            self.append(at);
        }
        let slot = self.write.slot.get();
        // SAFETY: the block is the writer's to fill, and has this slot.
        unsafe { Block::slot(self.write.block.get(), slot).write(value) };
        self.write.slot.set(slot + 1);
    }

    #[cold]
    fn append(&self, at: usize) {
        let depth = at.wrapping_sub(self.taken.load(Ordering::Relaxed));
        let is_deep = depth >= DEEP && depth.saturating_mul(size_of::<T>()) >= DEEP_BYTES;
        let block = is_deep
            .then(Block::large)
            .flatten()
            .unwrap_or_else(|| self.spare_or_new());
        let last = self.write.block.get();
        // SAFETY: null, or the last block, which the reader leaves only for a next one, and there is none yet.
        match unsafe { last.as_ref() } {
            Some(last) => last.next.set(block),
            None => self.origin.set(block),
        }
        self.write.enter(block);
    }

    fn spare_or_new(&self) -> *mut Block<T> {
        // ST1, pairs with the exchange in `leave`.
        let spare = self.spare.swap(ptr::null_mut(), Ordering::Acquire);
        if spare.is_null() {
            Block::small()
        } else {
            spare
        }
    }

    /// Takes the value at the channel's head, which is `at`.
    ///
    /// # Safety
    ///
    /// The caller is the only reader, and `at` is before the channel's tail.
    #[inline(always)]
    pub(super) unsafe fn read(&self, at: usize) -> T {
        if self.read.slot.get() == self.read.end.get() {
            self.advance();
        }
        let slot = self.read.slot.get();
        self.read.slot.set(slot + 1);
        if slot.is_multiple_of(TAKEN_EVERY) {
            self.taken.store(at, Ordering::Relaxed);
        }
        // SAFETY: position `at` was written, so the block has this slot and a value in it.
        unsafe { Block::slot(self.read.block.get(), slot).read() }
    }

    #[cold]
    fn advance(&self) {
        let left = self.read.block.get();
        // SAFETY: null, or the reader's block; its successor was linked before the position that is now read.
        let next = match unsafe { left.as_ref() } {
            None => self.origin.get(),
            Some(block) => block.next.replace(ptr::null_mut()),
        };
        self.read.enter(next);
        if !left.is_null() {
            self.leave(left);
        }
    }

    /// A block that was read: to the writer if it is small and it has no spare, else to whoever takes what is retired.
    fn leave(&self, block: *mut Block<T>) {
        // SAFETY: the writer has left it before us.
        let other = if unsafe { (*block).mapping.is_some() } {
            block
        } else {
            // ST1, pairs with the exchange in `spare_or_new`.
            self.spare.swap(block, Ordering::AcqRel)
        };
        debug_assert!(self.retired.get().is_null(), "taken after every read");
        self.retired.set(other);
    }

    /// Reader only, after each [`read`](Self::read): a block that is to be freed when the lock has been let go.
    #[inline(always)]
    pub(super) fn take_retired(&self) -> Option<Retired<T>> {
        if self.retired.get().is_null() {
            return None;
        }
        Some(Retired(self.retired.replace(ptr::null_mut())))
    }
}

/// A block that nobody uses any more; freed when it goes, perhaps by a call into the kernel.
pub(super) struct Retired<T>(*mut Block<T>);

impl<T> Drop for Retired<T> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: neither a former spare block nor one that both sides have left is used by anybody.
        unsafe { Block::free(self.0) };
    }
}

impl<T> Drop for List<T> {
    fn drop(&mut self) {
        let mut block = match self.read.block.get() {
            first if first.is_null() => self.origin.get(),
            first => first,
        };
        while !block.is_null() {
            // SAFETY: the list is ours alone, and each block is in it once.
            let next = unsafe { (*block).next.get() };
            // SAFETY: as above.
            unsafe { Block::free(block) };
            block = next;
        }
        // Relaxed: ours alone.
        let spare = self.spare.load(Ordering::Relaxed);
        if !spare.is_null() {
            // SAFETY: as above; the spare is not in the list.
            unsafe { Block::free(spare) };
        }
    }
}
