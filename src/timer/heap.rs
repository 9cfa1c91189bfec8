//! A 4-ary heap by (deadline, sequence), for timers that fit no run.

use super::slots::{Place, Slots};
use super::{Entry, KEPT};

const ARITY: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Heap {
    entries: Vec<Entry>,
}

impl Heap {
    pub(super) fn push(&mut self, entry: Entry, slots: &mut Slots) {
        self.entries.push(entry);
        self.sift_up(self.entries.len() - 1, slots);
    }

    #[inline]
    pub(super) fn first(&self) -> Option<&Entry> {
        self.entries.first()
    }

    /// Takes the entry at this index out.
    pub(super) fn remove(&mut self, at: usize, slots: &mut Slots) {
        let last = self.entries.pop().expect("the index is in the heap");
        if at < self.entries.len() {
            self.entries[at] = last;
            let at = self.sift_down(at, slots);
            self.sift_up(at, slots);
        }
    }

    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut()
    }

    pub(super) fn shrink(&mut self) {
        if self.entries.capacity() > KEPT && self.entries.len() < self.entries.capacity() / 8 {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }

    fn put(&mut self, entry: Entry, at: usize, slots: &mut Slots) {
        self.entries[at] = entry;
        slots.set(entry.slot, Place::Heap(at));
    }

    fn sift_up(&mut self, mut at: usize, slots: &mut Slots) {
        let entry = self.entries[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if !entry.before(&self.entries[parent]) {
                break;
            }
            self.put(self.entries[parent], at, slots);
            at = parent;
        }
        self.put(entry, at, slots);
    }

    fn sift_down(&mut self, mut at: usize, slots: &mut Slots) -> usize {
        let entry = self.entries[at];
        loop {
            let first = at * ARITY + 1;
            let children = first..(first + ARITY).min(self.entries.len());
            let less = |a: usize, b: usize| {
                if self.entries[b].before(&self.entries[a]) {
                    b
                } else {
                    a
                }
            };
            let Some(least) = children.reduce(less) else {
                break;
            };
            if !self.entries[least].before(&entry) {
                break;
            }
            self.put(self.entries[least], at, slots);
            at = least;
        }
        self.put(entry, at, slots);
        at
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }
}
