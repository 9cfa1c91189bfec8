//! Where the registered timers are.

use super::{NOWHERE, TimerNode};
use core::ptr::NonNull;

/// The place of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In this run, under this number.
    Run(usize, u64),
    /// At this index of the heap.
    Heap(usize),
}

/// A registered timer: its node, and its place in two words. A free slot has the next free one in `number`.
#[derive(Clone, Copy, Debug)]
struct Slot {
    node: NonNull<TimerNode>,
    number: u64,
    /// `HEAP`, or the run.
    run: u32,
}

const HEAP: u32 = u32::MAX;

/// A table of slots, the free ones in a list.
#[derive(Debug)]
pub(super) struct Slots {
    table: Vec<Slot>,
    /// First free slot, or `NOWHERE`.
    free: u32,
    live: usize,
}

impl Default for Slots {
    fn default() -> Slots {
        Slots::with_capacity(0)
    }
}

impl Slots {
    pub(super) fn with_capacity(slots: usize) -> Slots {
        Slots {
            table: Vec::with_capacity(slots),
            free: NOWHERE,
            live: 0,
        }
    }

    /// A slot for `node`, whose place is to be set.
    #[inline]
    pub(super) fn add(&mut self, node: NonNull<TimerNode>) -> u32 {
        self.live += 1;
        let slot = Slot {
            node,
            number: 0,
            run: HEAP,
        };
        match self.table.get_mut(self.free as usize) {
            Some(free) => {
                let at = self.free;
                self.free = free.number as u32;
                *free = slot;
                at
            }
            None => {
                let at = self.table.len() as u32;
                assert!(at < NOWHERE, "fewer than 2^32 - 1 timers on a worker");
                self.table.push(slot);
                at
            }
        }
    }

    #[inline]
    pub(super) fn set(&mut self, slot: u32, place: Place) {
        let slot = &mut self.table[slot as usize];
        (slot.run, slot.number) = match place {
            Place::Run(run, number) => (run as u32, number),
            Place::Heap(at) => (HEAP, at as u64),
        };
    }

    #[inline]
    pub(super) fn place(&self, slot: u32) -> Place {
        let slot = &self.table[slot as usize];
        match slot.run {
            HEAP => Place::Heap(slot.number as usize),
            run => Place::Run(run as usize, slot.number),
        }
    }

    #[inline]
    pub(super) fn node(&self, slot: u32) -> NonNull<TimerNode> {
        self.table[slot as usize].node
    }

    /// Frees the slot; its timer is in no run and not in the heap any more.
    #[inline]
    pub(super) fn free(&mut self, slot: u32) -> NonNull<TimerNode> {
        let entry = &mut self.table[slot as usize];
        entry.number = u64::from(self.free);
        self.free = slot;
        self.live -= 1;
        entry.node
    }

    pub(super) fn live(&self) -> usize {
        self.live
    }

    pub(super) fn capacity(&self) -> usize {
        self.table.capacity()
    }
}
