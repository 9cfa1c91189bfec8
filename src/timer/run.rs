//! A queue of timers in which each deadline is no earlier than the one before.
//!
//! # Invariants
//! The first and the last entry are no gaps. Entries are numbered from the first that was ever pushed, so a number holds while
//! those before it leave; only closing the gaps gives new ones.

use super::{Entry, KEPT, NOWHERE};
use std::collections::VecDeque;

/// Gaps that are left alone however short the run is.
const GAPS_MIN: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Run {
    entries: VecDeque<Entry>,
    /// Number of the first entry.
    base: u64,
    gaps: usize,
}

impl Run {
    /// Puts `entry` to the end, where no later deadline is, and returns its number.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry) -> u64 {
        debug_assert!(self.last_deadline() <= entry.deadline);
        self.entries.push_back(entry);
        self.base + self.entries.len() as u64 - 1
    }

    #[inline]
    pub(super) fn first(&self) -> Option<&Entry> {
        self.entries.front()
    }

    /// The first entry, if it is the only one.
    pub(super) fn only(&self) -> Option<&Entry> {
        self.entries.front().filter(|_| self.entries.len() == 1)
    }

    /// The entry that many places behind the first one, unless it is a gap.
    #[inline]
    pub(super) fn ahead(&self, places: usize) -> Option<&Entry> {
        self.entries.get(places).filter(|entry| !is_gap(entry))
    }

    /// Zero if the run is empty, so that every deadline fits.
    #[inline]
    pub(super) fn last_deadline(&self) -> u64 {
        self.entries.back().map_or(0, |entry| entry.deadline)
    }

    /// Takes the first entry out.
    #[inline]
    pub(super) fn pop(&mut self) {
        self.entries.pop_front();
        self.base += 1;
        self.trim_front();
    }

    /// Takes the entry with this number out. `moved` is told of each entry that has a new number then.
    #[inline]
    pub(super) fn remove(&mut self, number: u64, moved: impl FnMut(&Entry, u64)) {
        let at = (number - self.base) as usize;
        self.entries[at].slot = NOWHERE;
        self.gaps += 1;
        if at + 1 == self.entries.len() {
            while self.entries.back().is_some_and(is_gap) {
                self.entries.pop_back();
                self.gaps -= 1;
            }
        } else if at == 0 {
            self.trim_front();
        } else if self.gaps > GAPS_MIN + self.entries.len() / 2 {
            self.close_gaps(moved);
        }
    }

    #[inline]
    fn trim_front(&mut self) {
        while self.entries.front().is_some_and(is_gap) {
            self.entries.pop_front();
            self.base += 1;
            self.gaps -= 1;
        }
    }

    #[cold]
    fn close_gaps(&mut self, mut moved: impl FnMut(&Entry, u64)) {
        self.entries.retain(|entry| !is_gap(entry));
        self.gaps = 0;
        for (entry, number) in self.entries.iter().zip(self.base..) {
            moved(entry, number);
        }
        self.shrink();
    }

    /// All but the gaps.
    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut().filter(|entry| !is_gap(entry))
    }

    pub(super) fn shrink(&mut self) {
        if self.entries.capacity() > KEPT && self.entries.len() < self.entries.capacity() / 8 {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }
}

fn is_gap(entry: &Entry) -> bool {
    entry.slot == NOWHERE
}
