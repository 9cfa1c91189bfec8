//! The run queue: one worker's FIFO of homed goroutines that are ready, and its next slot. Owner worker only, so plain
//! memory.
//!
//! A ring of pointers rather than a list through the control blocks: the pointers of those that come later are at hand,
//! so their control blocks and stacks can be fetched while the one in front runs.
//!
//! # Safety
//!
//! Slots are raw memory: those between `head` and `tail` hold goroutines. Queued goroutines are alive: they cannot end
//! before they are dispatched.

#![allow(unsafe_code)]

use crate::goroutine::Goroutine;
use crate::limits::NEXT_BUDGET;
use core::cell::{Cell, UnsafeCell};
use core::ptr::NonNull;

type Slot = Option<NonNull<Goroutine>>;

/// See the module.
#[derive(Debug)]
pub(crate) struct RunQueue {
    slots: UnsafeCell<Box<[Slot]>>,
    mask: Cell<usize>,
    head: Cell<usize>,
    tail: Cell<usize>,
    next: Cell<Slot>,
    /// Dispatches from the next slot since the last one from the queue.
    next_used: Cell<u32>,
}

/// How many places ahead a control block is fetched, so that it is there when its stack is to be fetched.
const BLOCK_AHEAD: usize = 6;
/// How many places ahead a stack is fetched. Dispatches are some 100 ns apart, a miss is about as long.
const STACK_AHEAD: usize = 2;
/// Cache lines from a suspended goroutine's stack pointer up that its way back will touch.
const STACK_LINES: usize = 10;

const CAPACITY_MIN: usize = 256;

impl RunQueue {
    pub(crate) fn new() -> RunQueue {
        RunQueue {
            slots: UnsafeCell::new(vec![None; CAPACITY_MIN].into_boxed_slice()),
            mask: Cell::new(CAPACITY_MIN - 1),
            head: Cell::new(0),
            tail: Cell::new(0),
            next: Cell::new(None),
            next_used: Cell::new(0),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.get() == self.tail.get() && self.next.get().is_none()
    }

    /// Exactly one goroutine is ready.
    #[inline]
    pub(crate) fn is_last(&self) -> bool {
        self.len() + usize::from(self.next.get().is_some()) == 1
    }

    /// Goroutines in the queue, without the one that is next.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.tail.get().wrapping_sub(self.head.get())
    }

    /// Appends `g`.
    #[inline]
    pub(crate) fn push(&self, g: NonNull<Goroutine>) {
        if self.tail.get().wrapping_sub(self.head.get()) > self.mask.get() {
            self.grow();
        }
        // Growing moves head and tail.
        let tail = self.tail.get();
        // SAFETY: owner worker only, no other borrow is alive; masked, so in bounds.
        unsafe {
            let slots = &mut *self.slots.get();
            *slots.get_unchecked_mut(tail & self.mask.get()) = Some(g);
        }
        self.tail.set(tail.wrapping_add(1));
    }

    /// Appends `g` and fetches its control block, for a batch that is queued at once.
    #[inline]
    pub(crate) fn push_fetched(&self, g: NonNull<Goroutine>) {
        prefetch(g.as_ptr().cast());
        self.push(g);
    }

    /// Makes `g` the one to run next; who was to be next goes to the end of the queue.
    #[inline]
    pub(crate) fn push_next(&self, g: NonNull<Goroutine>) {
        if let Some(displaced) = self.next.replace(Some(g)) {
            self.push(displaced);
        }
    }

    /// The goroutine to run now.
    #[inline]
    pub(crate) fn pop(&self) -> Option<NonNull<Goroutine>> {
        if let Some(g) = self.next.take() {
            let used = self.next_used.get();
            if used < NEXT_BUDGET || self.head.get() == self.tail.get() {
                self.next_used.set(used.saturating_add(1));
                return Some(g);
            }
            self.push(g);
        }
        self.next_used.set(0);
        let head = self.head.get();
        if head == self.tail.get() {
            return None;
        }
        // SAFETY: owner worker only; masked, so in bounds.
        let slots = unsafe { &*self.slots.get() };
        // SAFETY: as above.
        let g = unsafe { *slots.get_unchecked(head & self.mask.get()) };
        self.head.set(head.wrapping_add(1));
        self.fetch_ahead(slots, head);
        g
    }

    /// Fetches what those behind the goroutine at `head` will need, while it runs.
    #[inline(always)]
    fn fetch_ahead(&self, slots: &[Slot], head: usize) {
        let left = self.tail.get().wrapping_sub(head);
        // SAFETY: masked, so in bounds.
        let at = |i: usize| unsafe { *slots.get_unchecked(head.wrapping_add(i) & self.mask.get()) };
        if left > BLOCK_AHEAD
            && let Some(later) = at(BLOCK_AHEAD)
        {
            prefetch(later.as_ptr().cast());
        }
        if left > STACK_AHEAD
            && let Some(soon) = at(STACK_AHEAD)
        {
            // SAFETY: queued here, so alive and this worker's.
            let sp = unsafe { soon.as_ref() }.sp.get();
            for line in 0..STACK_LINES {
                prefetch(sp.wrapping_add(line * 64));
            }
        }
    }

    #[cold]
    fn grow(&self) {
        let (head, len) = (
            self.head.get(),
            self.tail.get().wrapping_sub(self.head.get()),
        );
        // SAFETY: owner worker only, no other borrow is alive.
        let slots = unsafe { &mut *self.slots.get() };
        let mut bigger = Vec::with_capacity(slots.len() * 2);
        bigger.extend((0..len).map(|i| slots[head.wrapping_add(i) & self.mask.get()]));
        bigger.resize(slots.len() * 2, None);
        *slots = bigger.into_boxed_slice();
        self.mask.set(slots.len() - 1);
        self.head.set(0);
        self.tail.set(len);
    }

    /// Gives memory back after a peak.
    pub(crate) fn trim(&self) {
        if self.is_empty() && self.mask.get() >= 4 * CAPACITY_MIN {
            // SAFETY: owner worker only, no other borrow is alive.
            unsafe { *self.slots.get() = vec![None; CAPACITY_MIN].into_boxed_slice() };
            self.mask.set(CAPACITY_MIN - 1);
        }
    }
}

#[inline(always)]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program could see, and never faults.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goroutines as mere names: never dispatched, read only as pointers.
    fn names(slab: &mut crate::goroutine::Slab, n: usize) -> Vec<NonNull<Goroutine>> {
        (0..n).map(|_| slab.allocate().unwrap()).collect()
    }

    #[test]
    fn run_queue_keeps_order_while_it_grows_and_wraps() {
        let mut slab = crate::goroutine::Slab::new(std::sync::Weak::<()>::new());
        let names = names(&mut slab, 5000);
        let queue = RunQueue::new();
        // Off the start, so that the ring wraps before it grows.
        for name in &names[..200] {
            queue.push(*name);
        }
        for name in &names[..200] {
            assert_eq!(queue.pop(), Some(*name));
        }
        for name in &names {
            queue.push(*name);
        }
        for name in &names {
            assert_eq!(queue.pop(), Some(*name));
        }
        assert!(queue.pop().is_none() && queue.is_empty());
        queue.trim();
        queue.push(names[0]);
        assert_eq!(queue.pop(), Some(names[0]));
        for name in names {
            assert!(slab.free_own(name));
        }
        slab.retire();
    }

    #[test]
    fn next_slot_goes_first_but_not_for_ever() {
        let mut slab = crate::goroutine::Slab::new(std::sync::Weak::<()>::new());
        let names = names(&mut slab, 2);
        let queue = RunQueue::new();
        queue.push(names[1]);
        let mut turns = 0;
        loop {
            queue.push_next(names[0]);
            turns += 1;
            if queue.pop() == Some(names[1]) {
                break;
            }
        }
        assert_eq!(turns, NEXT_BUDGET + 1);
        names
            .into_iter()
            .for_each(|name| assert!(slab.free_own(name)));
        slab.retire();
    }
}
