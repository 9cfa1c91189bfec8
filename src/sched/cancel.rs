//! Cancelling one goroutine, from any thread and at any time.
//!
//! # Algorithm
//!
//! 1. Whoever cancels holds the goroutine's handle, so its block is not freed meanwhile. It sets the cancel mark, which a
//!    goroutine that has not started finds at its start (`goroutine::cancel_mark`, with the proof that one of the two
//!    sides acts).
//! 2. If the goroutine has started, its home gets a command. As soon as it is sent the handle may go, and the block be
//!    freed and used again: a command names the goroutine by block *and* id, and counts only if the home finds that
//!    goroutine there ([`Worker::find`]).
//! 3. The home keeps a line of those it is to cancel, in the order in which it was told. It ends the wait of the first and
//!    goes on to the next; but if the first waits for the kernel, the next has its turn when that wait is over. So they unwind in the
//!    order in which one thread has cancelled them. A kernel that does not answer holds the line for [`CANCEL_HOLD_NS`] at
//!    most: order is worth a moment, not the others' end. (It has not answered if that time has passed *and* some looks at the
//!    ring after it have brought nothing: on a busy machine it may be the worker that is late.)
//!
//! The runtime may end at any point of this. The way to its workers' records leads through a weak reference in the
//! block's slab: either the runtime is kept for as long as the command is left there, or it is gone and so is the goroutine. A
//! command that a worker does not come to read is left in its box, and means nothing.
//!
//! # Safety
//!
//! A command holds a pointer to a control block; [`Worker::find`] says when it may be looked at.

#![allow(unsafe_code)]

use super::remote::{Command, Remote};
use super::shared::Shared;
use super::worker::{Worker, worker};
use crate::atomic::Ordering;
use crate::goroutine::cancel_mark::Barriers;
use crate::goroutine::{Goroutine, Status, Waiting, runtime_of};
use crate::limits::{CANCEL_HOLD_NS, CANCEL_LOOKS};
use core::ptr::NonNull;
use std::collections::VecDeque;
use std::sync::Arc;

/// A goroutine by block and id. The block may have been used again since; the id never is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub(crate) id: u64,
    block: NonNull<Goroutine>,
}

// SAFETY: the pointer is only a name, except for the goroutine's home worker, which knows when it may look.
unsafe impl Send for Named {}
// SAFETY: as above.
unsafe impl Sync for Named {}

impl Named {
    pub(crate) fn of(g: &Goroutine) -> Named {
        Named {
            id: g.id(),
            block: NonNull::from(g),
        }
    }
}

/// Any thread that keeps the goroutine's block from being freed. Cancels the goroutine; nothing happens if it is over.
/// Blocks nothing.
pub(crate) fn cancel(g: &Goroutine) {
    if g.join.is_done() {
        return;
    }
    let barriers = if urgo_sys::barrier::is_available() {
        Barriers::Asymmetric
    } else {
        Barriers::Fences
    };
    if g.mark.ask(barriers, || g.status() == Status::Started) {
        tell_home(g);
    }
}

fn tell_home(g: &Goroutine) {
    let home = g.home.load(Ordering::Relaxed).cast::<Remote>().cast_const();
    match worker() {
        Some(worker) if Arc::as_ptr(&worker.remote) == home => worker.cancel_in_turn(Named::of(g)),
        _ => {
            let Some(runtime) = runtime_of(g) else {
                return;
            };
            let shared = runtime.downcast::<Shared>();
            let shared = shared.expect("a slab belongs to a runtime");
            if let Some(remote) = shared.remotes.iter().find(|r| Arc::as_ptr(r) == home) {
                remote.command(Command::Cancel(Named::of(g)));
            }
        }
    }
}

/// Those whom a worker is to cancel, first told first.
#[derive(Debug)]
pub(crate) struct Line {
    names: VecDeque<Named>,
    /// Until when the first of them, which waits for the kernel, holds the others up; `u64::MAX` if it does not.
    hold_until: u64,
    /// Looks at the ring since then.
    looks: u32,
}

impl Line {
    pub(crate) fn new() -> Line {
        Line {
            names: VecDeque::new(),
            hold_until: u64::MAX,
            looks: 0,
        }
    }

    /// When the worker must look again by itself; `u64::MAX` if it need not.
    pub(crate) fn hold_until(&self) -> u64 {
        self.hold_until
    }
}

impl Worker {
    /// This worker's thread. The goroutine, if it is still there and has not ended.
    pub(crate) fn find(&self, named: Named) -> Option<&Goroutine> {
        if self.has_finished.get() {
            return None;
        }
        // SAFETY: control blocks are type-stable until all workers have finished, and this one has not. Only atomics are
        // read before it is known to be the goroutine of that id, which is homed here, so that the rest is this thread's.
        let g = unsafe { named.block.as_ref() };
        // In this order. If the goroutine has ended, then on this thread, so the join word says so, or the block has been taken
        // for another since: by whoever has stored that one's id before it reset the word (JW5), and before the one was started.
        let is_there = !g.join.is_done() && g.status() == Status::Started && g.id() == named.id;
        is_there.then_some(g)
    }

    /// This worker's thread. Cancels a goroutine of this worker when those before it have had their turn.
    pub(crate) fn cancel_in_turn(&self, named: Named) {
        self.with_cancels(|line| line.names.push_back(named));
        self.go_on_cancelling();
    }

    /// This worker's thread. Goes through the line as far as it gets.
    pub(crate) fn go_on_cancelling(&self) {
        while let Some(named) = self.with_cancels(|line| line.names.front().copied()) {
            if let Some(g) = self.find(named) {
                if !g.cancelled.get() {
                    self.cancel(g);
                }
                if matches!(g.waiting.get(), Waiting::Operation(_)) && self.holds_up() {
                    return;
                }
            }
            self.with_cancels(|line| {
                line.names.pop_front();
                line.hold_until = u64::MAX;
                line.looks = 0;
            });
        }
    }

    /// Whether the first in line, which waits for the kernel, is still to be waited for.
    fn holds_up(&self) -> bool {
        let now = self.shared.clock.now_ns();
        let looks = self.with_cancels(|line| {
            if line.hold_until == u64::MAX {
                line.hold_until = now.saturating_add(CANCEL_HOLD_NS);
            }
            line.looks += u32::from(now >= line.hold_until);
            line.looks
        });
        if looks > 0 {
            // A stall shows again at the next flush.
            let _ = self.with_driver(|driver| driver.flush_and_poll());
            self.reap();
        }
        looks <= CANCEL_LOOKS
    }
}
