//! # Purpose
//!
//! One worker's timers: the deadlines of goroutines that sleep there or wait there with a deadline. Used by that
//! worker's thread only.
//!
//! # Words
//!
//! *Deadline*: absolute, nanoseconds of `CLOCK_MONOTONIC`; `u64::MAX` is *never* and is not registered. *Sequence*: order
//! of registration, which breaks ties. *Run*: a queue in which each deadline is no earlier than the one before. *Slot*: where a
//! registered timer's place is written down.
//!
//! # Algorithm
//!
//! 1. A program has few different durations, and timers of one duration are registered in the order in which they are due. So
//!    there are [`RUNS`] runs (`run`), each a queue: a new timer goes to the end of the run whose last deadline is the latest one
//!    that is not later than its own, or starts an empty run. Registering, cancelling and firing cost the same however many there are.
//! 2. What fits no run goes into a 4-ary heap (`heap`; a quarter of the levels of a binary one at the same number of comparisons).
//!    So does the one timer of a run that has no other, if that lets the new one have the run: else a few far deadlines,
//!    registered one earlier than the other, would keep the runs from the common durations for as long as they last.
//! 3. The next timer is the first of the fronts of the runs and the top of the heap, by (deadline, sequence).
//! 4. A registered [`TimerNode`], on its waiter's stack, knows its slot, and the slot knows the place (`slots`). What moves timers
//!    about writes into the compact table of slots, not onto the stacks of others, each of which is in a page of its own.
//! 5. A timer cancelled in the midst of a run leaves a gap; when half of a run is gaps it is closed up. So memory is proportional
//!    to the timers that are registered, and after a peak the table of slots is written anew at a fraction of its size.
//!
//! The kernel sees none of this: one deadline, the earliest, goes with the ring wait. (One kernel timeout per sleep was rejected:
//! cancelling one is linear in those outstanding. A heap alone was, too: with 1000 sleepers of 1 ms a third of the worker's time
//! went into moving them about. A wheel was: it has a period at which it looks, or bits to search, and rounds.)
//!
//! # Safety
//!
//! Nodes are raw pointers to other goroutines' stacks: a node is taken out before its frame goes.

#![allow(unsafe_code)]

mod heap;
mod run;
mod slots;

use core::cell::Cell;
use core::ptr::NonNull;
use heap::Heap;
use run::Run;
use slots::{Place, Slots};

/// Runs of one worker: as many different durations as are common at one time.
const RUNS: usize = 4;
/// Entries below which nothing is made smaller.
const KEPT: usize = 1024;
/// How many places ahead in a run a node is fetched, while those before it fire: a miss is as long as some ten of them.
const NODES_AHEAD: usize = 8;
const NODE_LINES: usize = 4;
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
    slot: Cell<u32>,
    action: Action,
}

impl TimerNode {
    pub(crate) fn new(action: Action) -> TimerNode {
        TimerNode {
            slot: Cell::new(NOWHERE),
            action,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    deadline: u64,
    sequence: u64,
    /// `NOWHERE` in a gap.
    slot: u32,
}

impl Entry {
    fn before(&self, other: &Entry) -> bool {
        (self.deadline, self.sequence) < (other.deadline, other.sequence)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    runs: [Run; RUNS],
    heap: Heap,
    slots: Slots,
    sequence: u64,
}

impl Timers {
    /// Registers `node` for `deadline`, which is not `u64::MAX`.
    ///
    /// # Safety
    ///
    /// The node is not registered, stays where it is, and is removed or fired before it goes.
    pub(crate) unsafe fn insert(&mut self, deadline: u64, node: &TimerNode) {
        debug_assert_eq!(node.slot.get(), NOWHERE);
        self.sequence += 1;
        let slot = self.slots.add(NonNull::from(node));
        node.slot.set(slot);
        let entry = Entry {
            deadline,
            sequence: self.sequence,
            slot,
        };
        match self.run_for(deadline).or_else(|| self.clear_a_run()) {
            Some(run) => {
                let number = self.runs[run].push(entry);
                self.slots.set(slot, Place::Run(run, number));
            }
            None => self.heap.push(entry, &mut self.slots),
        }
    }

    /// Takes `node` out; `false` if it has fired (or was never in).
    pub(crate) fn remove(&mut self, node: &TimerNode) -> bool {
        let slot = node.slot.replace(NOWHERE);
        if slot == NOWHERE {
            return false;
        }
        match self.slots.place(slot) {
            Place::Run(run, number) => self.runs[run].remove(number, |entry, number| {
                self.slots.set(entry.slot, Place::Run(run, number));
            }),
            Place::Heap(at) => self.heap.remove(at, &mut self.slots),
        }
        self.slots.free(slot);
        self.shrink_after_a_peak();
        true
    }

    /// The earliest deadline.
    #[inline]
    pub(crate) fn earliest(&self) -> Option<u64> {
        Some(self.first()?.1.deadline)
    }

    /// Takes out the earliest timer if it is due at `now`. Call it until it returns `None`: timers come in the order of
    /// (deadline, registration). A timer that is registered in between comes in its turn too.
    pub(crate) fn pop_due(&mut self, now: u64) -> Option<Action> {
        let (run, first) = self.first()?;
        if first.deadline > now {
            return None;
        }
        match run {
            Some(run) => {
                self.runs[run].pop();
                if let Some(later) = self.runs[run].ahead(NODES_AHEAD) {
                    fetch(self.slots.node(later.slot));
                }
            }
            None => self.heap.remove(0, &mut self.slots),
        }
        // SAFETY: registered, so alive by `insert`'s contract.
        let node = unsafe { self.slots.free(first.slot).as_ref() };
        node.slot.set(NOWHERE);
        self.shrink_after_a_peak();
        Some(node.action)
    }

    /// The run of the earliest timer, or `None` if it is in the heap, and the timer.
    #[inline]
    fn first(&self) -> Option<(Option<usize>, Entry)> {
        let mut first = self.heap.first().map(|entry| (None, *entry));
        for (at, run) in self.runs.iter().enumerate() {
            if let Some(entry) = run.first()
                && first.is_none_or(|(_, other)| entry.before(&other))
            {
                first = Some((Some(at), *entry));
            }
        }
        first
    }

    /// The run that `deadline` can be put to the end of: the one that ends latest, so that the others stay open for earlier
    /// ones; an empty one if there is no other.
    #[inline]
    fn run_for(&self, deadline: u64) -> Option<usize> {
        let mut best: Option<(usize, u64)> = None;
        for (at, run) in self.runs.iter().enumerate() {
            let end = run.last_deadline();
            if end <= deadline && best.is_none_or(|(_, other)| end > other) {
                best = Some((at, end));
            }
        }
        best.map(|(at, _)| at)
    }

    /// Every run ends later than the new deadline: moves the timer of the one that ends latest of those with a single timer
    /// into the heap. One push there instead of the other.
    #[cold]
    fn clear_a_run(&mut self) -> Option<usize> {
        let singles = self.runs.iter().enumerate();
        let (at, _) = singles
            .filter_map(|(at, run)| Some((at, run.only()?.deadline)))
            .max_by_key(|(_, deadline)| *deadline)?;
        let entry = *self.runs[at].only()?;
        self.runs[at].pop();
        self.heap.push(entry, &mut self.slots);
        Some(at)
    }

    #[inline]
    fn shrink_after_a_peak(&mut self) {
        if self.slots.capacity() > KEPT && self.slots.live() < self.slots.capacity() / 8 {
            self.shrink();
        }
    }

    /// Writes the table of slots anew, with room for twice of what is there.
    #[cold]
    fn shrink(&mut self) {
        let mut slots = Slots::with_capacity(2 * self.slots.live());
        let runs = self.runs.iter_mut().flat_map(Run::entries_mut);
        for entry in runs.chain(self.heap.entries_mut()) {
            let (node, place) = (self.slots.node(entry.slot), self.slots.place(entry.slot));
            entry.slot = slots.add(node);
            slots.set(entry.slot, place);
            // SAFETY: registered, so alive by `insert`'s contract.
            unsafe { node.as_ref() }.slot.set(entry.slot);
        }
        self.slots = slots;
        self.heap.shrink();
        self.runs.iter_mut().for_each(Run::shrink);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.slots.live()
    }

    /// Entries there is room for, in all tables.
    #[cfg(test)]
    fn capacity(&self) -> usize {
        let runs: usize = self.runs.iter().map(Run::capacity).sum();
        runs + self.heap.capacity() + self.slots.capacity()
    }
}

/// Fetches the cache lines in which a node and, a little above it on the stack, its waiter lie.
#[inline(always)]
fn fetch(node: NonNull<TimerNode>) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program could see, and never faults.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = node.as_ptr().cast::<i8>();
        for line in 0..NODE_LINES {
            _mm_prefetch::<_MM_HINT_T0>(address.wrapping_add(64 * line));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = node;
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
        assert!(timers.capacity() <= 6 * KEPT, "{}", timers.capacity());
    }

    #[test]
    fn timers_cancelled_in_the_midst_leave_the_others_in_order() {
        let mut timers = Timers::default();
        let nodes: Vec<_> = (0..10_000).map(node).collect();
        for (i, n) in (0..).zip(&nodes) {
            // Six durations, more than there are runs.
            let deadline = [1, 5, 30, 60, 600, 3600][i as usize % 6] * 1_000_000_000 + i;
            // SAFETY: boxed, all fire or are removed below.
            unsafe { timers.insert(deadline, n) };
        }
        let is_kept = |i: u64| i.is_multiple_of(7);
        for (i, n) in (0..).zip(&nodes) {
            assert!(timers.remove(n), "{i}");
            if is_kept(i) {
                let deadline = [1, 5, 30, 60, 600, 3600][i as usize % 6] * 1_000_000_000 + i;
                // SAFETY: as above.
                unsafe { timers.insert(deadline, n) };
            }
        }
        let mut fired = Vec::new();
        while let Some(v) = pop(&mut timers, u64::MAX - 1) {
            fired.push(v);
        }
        let mut expected: Vec<u64> = (0..10_000).filter(|&i| is_kept(i)).collect();
        expected.sort_by_key(|&i| [1, 5, 30, 60, 600, 3600][i as usize % 6] * 1_000_000_000 + i);
        assert_eq!(fired, expected);
        assert_eq!(timers.len(), 0);
    }

    /// Deadlines registered one earlier than the other do not keep the runs from a common duration.
    #[test]
    fn timers_of_a_common_duration_have_a_run_behind_a_few_far_ones() {
        let mut timers = Timers::default();
        let far: Vec<_> = (0..2 * RUNS as u64).map(node).collect();
        for (i, n) in (0..).zip(&far) {
            // SAFETY: boxed, removed below.
            unsafe { timers.insert(1_000_000_000 - i, n) };
        }
        let common: Vec<_> = (0..1000).map(node).collect();
        for (i, n) in (0..).zip(&common) {
            // SAFETY: boxed, removed below.
            unsafe { timers.insert(1000 + i, n) };
        }
        let places = common.iter().map(|n| timers.slots.place(n.slot.get()));
        assert!(
            places
                .into_iter()
                .all(|place| matches!(place, Place::Run(..)))
        );
        assert!(far.iter().chain(&common).all(|n| timers.remove(n)));
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
