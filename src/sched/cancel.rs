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
//!    goes on to the next; but if the first waits for the kernel, the next has its turn when that one runs again. So they unwind in the
//!    order in which one thread has cancelled them. A kernel that does not answer holds the line for [`CANCEL_HOLD_NS`] at
//!    most: order is worth a moment, not the others' end. (It has not answered if that time has passed *and* some looks at the
//!    ring after it have brought nothing: on a busy machine it may be the worker that is late.)
//! 4. Those behind the first that wait for the kernel, too, are asked for together with it, up to the next that does not: a line of many
//!    costs one trip to the kernel, not one each. It mostly answers in the order in which it was asked. Whoever runs again before its
//!    turn waits once more, for that ([`Worker::take_turn`]).
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
use crate::park::WaitReason;
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
    if g.mark.ask(barriers, || g.status() == Status::Started)
        && let Some(marked) = Marked::of(g)
    {
        marked.tell_home();
    }
}

/// Any thread that keeps the goroutine's block from being freed, and knows from the goroutine itself that it has started. The first half of
/// [`cancel`]: sets the mark, and neither leaves the processor nor takes a lock. What it returns cancels the goroutine.
#[must_use]
pub(crate) fn mark_started(g: &Goroutine) -> Option<Marked> {
    if g.join.is_done() || !g.mark.ask_started() {
        return None;
    }
    Marked::of(g)
}

/// A goroutine whose mark is set and whose home is to hear of it. Its block need not be kept any longer.
pub(crate) struct Marked {
    named: Named,
    home: *const Remote,
    /// `None`: the calling thread is its home.
    runtime: Option<Arc<Shared>>,
}

impl Marked {
    /// `None`: its runtime is gone, and so is the goroutine.
    fn of(g: &Goroutine) -> Option<Marked> {
        let home = g.home.load(Ordering::Relaxed).cast::<Remote>().cast_const();
        let is_here = worker().is_some_and(|worker| Arc::as_ptr(&worker.remote) == home);
        let runtime = if is_here {
            None
        } else {
            let shared = runtime_of(g)?.downcast::<Shared>();
            Some(shared.expect("a slab belongs to a runtime"))
        };
        Some(Marked {
            named: Named::of(g),
            home,
            runtime,
        })
    }

    /// The thread that has made it. Blocks nothing.
    pub(crate) fn tell_home(self) {
        match (self.runtime, worker()) {
            (Some(shared), _) => {
                let is_home = |remote: &&Arc<Remote>| Arc::as_ptr(remote) == self.home;
                if let Some(remote) = shared.remotes.iter().find(is_home) {
                    remote.command(Command::Cancel(self.named));
                }
            }
            (None, Some(worker)) => worker.cancel_in_turn(self.named),
            (None, None) => unreachable!("its home is a worker"),
        }
    }
}

/// Those whom a worker is to cancel, first told first.
#[derive(Debug)]
pub(crate) struct Line {
    names: VecDeque<Queued>,
    /// How many of them, from the first, were asked for: their waits are over, or end as soon as the kernel answers.
    asked: usize,
    /// Until when the first of them, which waits for the kernel, holds the others up; `u64::MAX` if it does not.
    hold_until: u64,
    /// Looks at the ring since then.
    looks: u32,
}

/// One in line.
#[derive(Clone, Copy, Debug)]
struct Queued {
    named: Named,
    turn: Turn,
}

/// How far one in line has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// In a wait that is to be ended, or elsewhere.
    ToCome,
    /// Its wait for the kernel is over before its turn: it is suspended in [`Worker::take_turn`].
    Early,
    /// It was, and is in the run queue now that its turn has come.
    Come,
}

impl Line {
    pub(crate) fn new() -> Line {
        Line {
            names: VecDeque::new(),
            asked: 0,
            hold_until: u64::MAX,
            looks: 0,
        }
    }

    fn pop(&mut self) {
        self.names.pop_front();
        self.asked = self.asked.saturating_sub(1);
        self.hold_until = u64::MAX;
        self.looks = 0;
    }

    /// Where the goroutine of this id stands, if it was asked for.
    fn place_of(&self, id: u64) -> Option<usize> {
        let asked = self.names.iter().take(self.asked);
        asked.map(|queued| queued.named.id).position(|i| i == id)
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
        let turn = Turn::ToCome;
        self.with_cancels(|line| line.names.push_back(Queued { named, turn }));
        self.go_on_cancelling();
    }

    /// This worker's thread. Goes through the line as far as it gets.
    pub(crate) fn go_on_cancelling(&self) {
        while let Some(first) = self.with_cancels(|line| line.names.front().copied()) {
            if let Some(g) = self.find(first.named) {
                match first.turn {
                    Turn::ToCome => {}
                    Turn::Early => {
                        self.with_cancels(|line| line.names[0].turn = Turn::Come);
                        return self.run_queue.push(NonNull::from(g));
                    }
                    Turn::Come => return,
                }
                if !g.cancelled.get() {
                    self.cancel(g);
                }
                if matches!(g.waiting.get(), Waiting::Operation(_)) && self.holds_up() {
                    return self.ask_for_those_behind();
                }
            }
            self.with_cancels(Line::pop);
        }
    }

    /// The first in line was asked for and waits for the kernel: so are those behind it who wait for the kernel, too.
    fn ask_for_those_behind(&self) {
        self.with_cancels(|line| line.asked = line.asked.max(1));
        while let Some(next) = self.with_cancels(|line| line.names.get(line.asked).copied()) {
            if let Some(g) = self.find(next.named) {
                if !matches!(g.waiting.get(), Waiting::Operation(_)) {
                    return;
                }
                if !g.cancelled.get() {
                    self.cancel(g);
                }
            }
            self.with_cancels(|line| line.asked += 1);
        }
    }

    /// The running goroutine `g`, which is cancelled, when its wait for the kernel is over: lets those before it in line go first, and
    /// those behind it have their turn. Suspends it for [`CANCEL_HOLD_NS`] and some looks at the ring for each of those before it, at most.
    #[cold]
    pub(crate) fn take_turn(&self, g: &Goroutine, reason: WaitReason) {
        match self.with_cancels(|line| line.place_of(g.id())) {
            None => return,
            Some(0) => {}
            Some(place) => {
                self.with_cancels(|line| line.names[place].turn = Turn::Early);
                self.suspend(g, reason);
            }
        }
        // It is the first by now.
        self.with_cancels(Line::pop);
        self.go_on_cancelling();
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
