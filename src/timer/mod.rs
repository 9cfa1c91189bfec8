//! # Purpose
//!
//! One worker's timers: the deadlines of goroutines that sleep there or wait there with a deadline. Used by that
//! worker's thread only.
//!
//! # Words
//!
//! *Deadline*: absolute, nanoseconds of `CLOCK_MONOTONIC`; `u64::MAX` is *never* and is not registered. *Sequence*: order
//! of registration, which breaks ties.
//!
//! # Algorithm
//!
//! A 4-ary heap of (deadline, sequence) in one vector (a quarter of the levels' cache misses of a binary heap at the same
//! number of comparisons). Each entry points to its [`TimerNode`] on the waiter's stack, and the node knows its place in
//! the heap, so cancelling is O(log n), and O(1) for the common case that the timer is among the latest. A cancelled
//! timer leaves at once, memory included. The kernel sees none of this: one deadline, the earliest, goes with the ring
//! wait. (One kernel timeout per sleep was rejected: cancelling one is linear in those outstanding.)
//!
//! # Safety
//!
//! Nodes are raw pointers to other goroutines' stacks: a node is taken out before its frame goes.

#![allow(unsafe_code)]

use core::cell::Cell;
use core::ptr::NonNull;

const ARITY: usize = 4;
const NOWHERE: u32 = u32::MAX;

/// What to do when a deadline passes. Opaque here: the scheduler packs and unpacks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// End the wait of the waiter at this address as timed out.
    FinishWaiter(NonNull<()>),
    /// Cancel the operation at this address.
    CancelOperation(NonNull<()>),
}

/// A timer, on its waiter's stack. Not moved while registered.
#[derive(Debug)]
pub(crate) struct TimerNode {
    place: Cell<u32>,
    action: Action,
}

impl TimerNode {
    pub(crate) fn new(action: Action) -> TimerNode {
        TimerNode {
            place: Cell::new(NOWHERE),
            action,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    deadline: u64,
    sequence: u64,
    node: NonNull<TimerNode>,
}

impl Entry {
    fn before(&self, other: &Entry) -> bool {
        (self.deadline, self.sequence) < (other.deadline, other.sequence)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: Vec<Entry>,
    sequence: u64,
}

impl Timers {
    /// Registers `node` for `deadline`, which is not `u64::MAX`.
    ///
    /// # Safety
    ///
    /// The node is not registered, stays where it is, and is removed or fired before it goes.
    pub(crate) unsafe fn insert(&mut self, deadline: u64, node: &TimerNode) {
        debug_assert_eq!(node.place.get(), NOWHERE);
        self.sequence += 1;
        self.heap.push(Entry {
            deadline,
            sequence: self.sequence,
            node: NonNull::from(node),
        });
        self.sift_up(self.heap.len() - 1);
    }

    /// Takes `node` out; `false` if it has fired (or was never in).
    pub(crate) fn remove(&mut self, node: &TimerNode) -> bool {
        let place = node.place.replace(NOWHERE);
        if place == NOWHERE {
            return false;
        }
        self.take_at(place as usize);
        true
    }

    /// The earliest deadline.
    #[inline]
    pub(crate) fn earliest(&self) -> Option<u64> {
        self.heap.first().map(|entry| entry.deadline)
    }

    /// Takes out the earliest timer if it is due at `now`. Call it until it returns `None`: timers come in the order of
    /// (deadline, registration). A timer that is registered in between comes in its turn too.
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<Action> {
        let first = self.heap.first()?;
        if first.deadline > now {
            return None;
        }
        // SAFETY: registered, so alive by `insert`'s contract.
        let node = unsafe { first.node.as_ref() };
        let action = node.action;
        node.place.set(NOWHERE);
        self.take_at(0);
        Some(action)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.heap.len()
    }

    fn take_at(&mut self, place: usize) {
        let last = self.heap.pop().expect("place is in the heap");
        if place < self.heap.len() {
            self.heap[place] = last;
            self.set_place(place);
            self.sift_down(place);
            self.sift_up(place);
        }
        if self.heap.capacity() > 1024 && self.heap.len() < self.heap.capacity() / 8 {
            self.heap.shrink_to(self.heap.len() * 2);
        }
    }

    fn set_place(&self, place: usize) {
        // SAFETY: registered, so alive by `insert`'s contract.
        unsafe { self.heap[place].node.as_ref() }
            .place
            .set(place as u32);
    }

    fn sift_up(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if !entry.before(&self.heap[parent]) {
                break;
            }
            self.heap[place] = self.heap[parent];
            self.set_place(place);
            place = parent;
        }
        self.heap[place] = entry;
        self.set_place(place);
    }

    fn sift_down(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let first = place * ARITY + 1;
            let children = first..(first + ARITY).min(self.heap.len());
            let Some(least) = children.reduce(|a, b| {
                if self.heap[b].before(&self.heap[a]) {
                    b
                } else {
                    a
                }
            }) else {
                break;
            };
            if !self.heap[least].before(&entry) {
                break;
            }
            self.heap[place] = self.heap[least];
            self.set_place(place);
            place = least;
        }
        self.heap[place] = entry;
        self.set_place(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The address is only a name here.
    fn node(value: u64) -> Box<TimerNode> {
        let name = std::num::NonZero::new(value as usize + 1).unwrap();
        Box::new(TimerNode::new(Action::CancelOperation(
            NonNull::without_provenance(name),
        )))
    }

    fn pop(timers: &mut Timers, now: u64) -> Option<u64> {
        match timers.pop_due(now)? {
            Action::CancelOperation(name) => Some(name.addr().get() as u64 - 1),
            Action::FinishWaiter(_) => None,
        }
    }

    #[test]
    fn timers_fire_by_deadline_then_registration() {
        let mut timers = Timers::default();
        let nodes: Vec<_> = (0..100).map(node).collect();
        for (i, n) in nodes.iter().enumerate() {
            // SAFETY: boxed, all fire below.
            unsafe { timers.insert(10 * (i as u64 % 3), n) };
        }
        let mut fired = Vec::new();
        while let Some(v) = pop(&mut timers, u64::MAX - 1) {
            fired.push(v);
        }
        let mut expected: Vec<u64> = (0..100).collect();
        expected.sort_by_key(|v| (v % 3, *v));
        assert_eq!(fired, expected);
    }

    #[test]
    fn timers_cancelled_leave_no_memory() {
        let mut timers = Timers::default();
        let nodes: Vec<_> = (0..100_000).map(node).collect();
        for (i, n) in nodes.iter().enumerate() {
            // SAFETY: boxed, removed below.
            unsafe { timers.insert(3_600_000_000_000 + (i as u64 * 7919) % 100_000, n) };
        }
        assert!(nodes.iter().all(|n| timers.remove(n)));
        assert!(!timers.remove(&nodes[0]));
        assert_eq!(timers.len(), 0);
        assert!(timers.heap.capacity() <= 1024);
    }

    proptest! {
        /// Any mix of inserts, removals and clock steps behaves as a sorted list does.
        #[test]
        fn timers_agree_with_a_sorted_list(steps in proptest::collection::vec((0u8..3, 0u64..50), 1..300)) {
            let mut timers = Timers::default();
            let mut nodes: Vec<Box<TimerNode>> = Vec::new();
            let mut model: Vec<(u64, u64)> = Vec::new();
            let mut now = 0;
            for (what, value) in steps {
                match what {
                    0 => {
                        let id = nodes.len() as u64;
                        nodes.push(node(id));
                        // SAFETY: boxed and kept until the end of the case, when the heap goes first.
                        unsafe { timers.insert(now + value, nodes.last().unwrap()) };
                        model.push((now + value, id));
                    }
                    1 if !nodes.is_empty() => {
                        let id = value % nodes.len() as u64;
                        let at = model.iter().position(|m| m.1 == id);
                        prop_assert_eq!(timers.remove(&nodes[id as usize]), at.is_some());
                        at.map(|at| model.remove(at));
                    }
                    _ => {
                        now += value;
                        model.sort_unstable();
                        while let Some(v) = pop(&mut timers, now) {
                            prop_assert_eq!(model.remove(0).1, v);
                        }
                        prop_assert!(model.first().is_none_or(|m| m.0 > now));
                    }
                }
                prop_assert_eq!(timers.len(), model.len());
                prop_assert_eq!(timers.earliest(), model.iter().map(|m| m.0).min());
            }
        }
    }
}
