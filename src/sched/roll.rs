//! The roll: which goroutines are there at some moment, as seen from outside, for reports.
//!
//! # Algorithm
//!
//! Whoever wants to know walks all control blocks under the lock that workers take before they give theirs back. Only
//! atomics are read, so it needs nobody's help, and finds goroutines of a worker that is stuck, too. A block that was freed
//! or taken for another goroutine while it was read shows by its join word or its id and is left out.
//!
//! Names are not atomics. So at the end of a runtime the roll is kept, and each worker adds the names of its own goroutines before
//! anybody is cancelled, and those of goroutines that it starts from then on. Where a worker does not come to that, they are missing.
//!
//! # Safety
//!
//! Walks control blocks that belong to others, while the lock keeps them mapped.

#![allow(unsafe_code)]

use super::cancel::Named;
use super::shared::Shared;
use super::worker::Worker;
use crate::atomic::Ordering;
use crate::goroutine::{Goroutine, Status};
use crate::park::WaitReason;
use core::panic::Location;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// A goroutine as it was seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) named: Named,
    pub(crate) site: &'static Location<'static>,
    /// `None` also if it had not started.
    pub(crate) reason: WaitReason,
    /// The index of its home, if it had started.
    pub(crate) home: Option<usize>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Roll {
    pub(crate) seen: Vec<Seen>,
    names: Mutex<BTreeMap<u64, Box<str>>>,
}

impl Roll {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Box<str>>> {
        self.names.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Home worker of `g` only.
    fn add_name_of(&self, g: &Goroutine) {
        if let Some(name) = g.name() {
            self.lock().insert(g.id(), name.into());
        }
    }

    /// Any thread. The goroutine's name, if it has one and its worker has told.
    pub(crate) fn name_of(&self, id: u64) -> Option<Box<str>> {
        self.lock().get(&id).cloned()
    }
}

impl Shared {
    /// Any thread. The goroutines that are there, in the order of their ids.
    pub(crate) fn call_roll(&self) -> Vec<Seen> {
        let mut seen = Vec::new();
        let observers = self.observers.lock().unwrap_or_else(|e| e.into_inner());
        for observer in observers.iter() {
            // SAFETY: a worker empties the list, under this lock, before it retires its slab; the foreign slab is ours.
            unsafe { observer.for_each(|g| seen.extend(self.look_at(g))) };
        }
        drop(observers);
        seen.sort_unstable_by_key(|seen| seen.named.id);
        seen
    }

    fn look_at(&self, g: &Goroutine) -> Option<Seen> {
        let named = Named::of(g);
        let home = (g.status() == Status::Started).then(|| g.home.load(Ordering::Relaxed));
        let seen = Seen {
            named,
            site: g.try_site()?,
            reason: g.wait_reason(),
            home: home.and_then(|home| self.remotes.iter().position(|r| r.as_home() == home)),
        };
        // Once more, in this order (JW5).
        let is_there = !g.join.is_done() && g.id() == named.id;
        is_there.then_some(seen)
    }

    /// Any thread, before the end begins. Keeps the roll, for workers to add names to.
    pub(crate) fn keep_roll(&self, seen: Vec<Seen>) -> &Roll {
        let names = Mutex::default();
        self.stop.roll.get_or_init(|| Roll { seen, names })
    }
}

impl Worker {
    /// Before anybody is cancelled: adds the names of this worker's goroutines to the roll, if one is kept.
    pub(super) fn name_those_left(&self) {
        let Some(roll) = self.shared.stop.roll.get() else {
            return;
        };
        let here = Some(self.remote.index);
        for seen in roll.seen.iter().filter(|seen| seen.home == here) {
            if let Some(g) = self.find(seen.named) {
                roll.add_name_of(g);
            }
        }
    }

    /// A goroutine that this worker starts while the runtime ends.
    #[cold]
    pub(super) fn name_late_starter(&self, g: &Goroutine) {
        if let Some(roll) = self.shared.stop.roll.get() {
            roll.add_name_of(g);
        }
    }
}
