//! The end of a runtime: every goroutine that is left is cancelled and unwound in spawn order, operations are acked, and
//! only then do workers leave their threads.
//!
//! # Algorithm
//!
//! 0. `begin_close`, if there is time: goroutines from outside are refused, nothing else.
//! 1. `begin_stop`: the phase becomes *stopping*. From here on a goroutine that starts is cancelled from the first: its
//!    closure is dropped on its own stack, where destructors may wait. A spawn is refused.
//! 2. Each worker says that it is quiet: what it starts from then on is cancelled already. The last to do so lists all
//!    goroutines that have started and not ended, in the order of their ids.
//! 3. A cursor goes through the list. The home worker of the goroutine under the cursor cancels it and moves the cursor
//!    on when that goroutine has ended, or when it waits for something that cannot be cut short (a wait inside a `Drop`,
//!    the children of a scope, a blocking task, an outside thread that has been asked to let go): then the others must go on, since it may wait for them. So it may if it
//!    does not wait at all but looks again and again and lets others run in between, which nobody can tell from a long way to its end:
//!    it holds the cursor for a moment only, but until it has had a turn.
//!    If nothing moves for a while because a worker's thread is stuck, and somebody has no time for that, the others are cancelled out of
//!    order (`cancel_unlisted`).
//! 4. When nobody is alive any more, each worker drains its ring, says that it has finished, and leaves when all have:
//!    until then it may be kicked.
//!
//! Every change that another worker may wait for moves the [`Epoch`] and rouses, so that no worker sleeps over it.
//!
//! # Safety
//!
//! The list holds pointers to control blocks, which are type-stable; an entry counts only while its id is that of the
//! block (`cancel`), and only its home worker looks behind the atomics.

#![allow(unsafe_code)]

use super::cancel::Named;
use super::epoch::Epoch;
use super::remote::Command;
use super::roll::Roll;
use super::shared::Shared;
use super::worker::Worker;
use crate::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use crate::goroutine::{Goroutine, Status, Waiting};
use crate::limits::{CANCEL_HOLD_NS, CANCEL_LOOKS};
use crate::park::{Outcome, WaitReason};
use std::sync::OnceLock;

const RUNNING: u32 = 0;
const CLOSING: u32 = 1;
const STOPPING: u32 = 2;

#[derive(Debug)]
struct Entry {
    named: Named,
    home: usize,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Stop {
    phase: AtomicU32,
    workers: usize,
    /// Moved by every change below.
    epoch: Epoch,
    quiet: AtomicUsize,
    list: OnceLock<Vec<Entry>>,
    cursor: AtomicUsize,
    finished: AtomicUsize,
    /// Who was there when it began, if anybody wants to know.
    pub(super) roll: OnceLock<Roll>,
}

impl Stop {
    pub(crate) fn new(workers: usize) -> Stop {
        Stop {
            phase: AtomicU32::new(RUNNING),
            workers,
            epoch: Epoch::new(),
            quiet: AtomicUsize::new(0),
            list: OnceLock::new(),
            cursor: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            roll: OnceLock::new(),
        }
    }

    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        // Pairs with the store in `begin_stop`.
        self.phase.load(Ordering::Acquire) == STOPPING
    }

    /// Under the lock of foreign spawns: whether goroutines from outside are let in.
    pub(crate) fn is_open(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == RUNNING
    }

    /// Any thread. Whether all workers have done their part and leave their threads.
    pub(crate) fn is_over(&self) -> bool {
        // Pairs with the addition in `stop_turn`.
        self.finished.load(Ordering::Acquire) == self.workers
    }

    /// Worker, behind its ID2 fence: whether anything has changed since its last stop turn (or since it began).
    pub(crate) fn has_moved(&self, epoch: u32) -> bool {
        self.epoch.has_moved_since(epoch)
    }
}

impl Shared {
    /// Any thread. Goroutines from outside are refused from now on; those that are there go on, and may spawn.
    pub(crate) fn begin_close(&self) {
        let _foreign = self.foreign.lock().unwrap_or_else(|e| e.into_inner());
        if self.stop.is_open() {
            // Read under the lock, and by nobody for what came before.
            self.stop.phase.store(CLOSING, Ordering::Relaxed);
        }
    }

    /// Any thread, some time after the end has begun, when it does not get on. If the cursor has not come to the end of the list, or there
    /// is no list, because a worker does not do its part: cancels all who are there and have started, each by its own home, and says so.
    /// (Who starts later is cancelled from the first.)
    pub(crate) fn cancel_unlisted(&self) -> bool {
        let stop = &self.stop;
        // Pairs with the store in `cancel_in_order`.
        let is_through = |list: &Vec<Entry>| stop.cursor.load(Ordering::Acquire) >= list.len();
        if stop.list.get().is_some_and(is_through) {
            return false;
        }
        for seen in self.call_roll() {
            if let Some(home) = seen.home {
                self.remotes[home].command(Command::Cancel(seen.named));
            }
        }
        true
    }

    /// Any thread. Starts the end; returns at once.
    pub(crate) fn begin_stop(&self) {
        {
            // Under the lock of foreign spawns: each of them either is counted by now or sees the phase.
            let _foreign = self.foreign.lock().unwrap_or_else(|e| e.into_inner());
            // Pairs with the load in `is_stopping`.
            self.stop.phase.store(STOPPING, Ordering::Release);
        }
        self.stop_moved();
    }

    /// Builder only: some workers could not start, so the others must not wait for them.
    pub(crate) fn abandon_start(&self, threads: usize) {
        let missing = self.stop.workers - threads;
        self.stop.quiet.fetch_add(missing, Ordering::Relaxed);
        self.stop.finished.fetch_add(missing, Ordering::Relaxed);
        self.begin_stop();
    }

    /// Any thread, when no worker runs goroutines any more.
    pub(super) fn end_watch(&self) {
        if let Some(watch) = &self.watch {
            watch.begin_stop();
        }
    }

    /// A worker has changed something that others may wait for.
    fn stop_moved(&self) {
        self.stop.epoch.advance();
        self.rouse_all();
    }

    fn list_started(&self) -> Vec<Entry> {
        let mut list = Vec::new();
        let observers = self
            .observers
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .clone();
        for observer in observers {
            // SAFETY: slabs are retired only after all workers have finished, and this one has not.
            unsafe {
                observer.for_each(|g| {
                    if g.status() == Status::Started && !g.join.is_done() {
                        let home = g.home.load(Ordering::Relaxed);
                        if let Some(home) = self.remotes.iter().position(|r| r.as_home() == home) {
                            list.push(Entry {
                                named: Named::of(g),
                                home,
                            });
                        }
                    }
                });
            }
        }
        list.sort_unstable_by_key(|entry| entry.named.id);
        list
    }
}

/// One worker's part of the end.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    is_quiet: bool,
    hold: Option<Hold>,
}

/// A cancelled goroutine under the cursor that does not wait.
#[derive(Debug)]
struct Hold {
    at: usize,
    /// `Clock::now_ns` from which on the cursor may leave it.
    until: u64,
    /// Looks at it that must have been as well: one per dispatch or so of those that were ready before it, and some of its own.
    looks: usize,
}

impl Worker {
    /// Worker loop, in every turn once the phase is *stopping*. `true`: leave.
    pub(crate) fn stop_turn(&self, stopping: &mut Stopping) -> bool {
        let stop = &self.shared.stop;
        self.stop_epoch.set(stop.epoch.now());
        if !stopping.is_quiet {
            stopping.is_quiet = true;
            self.name_those_left();
            // Pairs with itself: the last worker sees what the others did before.
            if stop.quiet.fetch_add(1, Ordering::AcqRel) + 1 == stop.workers {
                stop.list.get_or_init(|| self.shared.list_started());
                self.shared.stop_moved();
            }
        }
        // Once this worker has finished, others may unmap the blocks that the list names.
        if !self.has_finished.get()
            && let Some(list) = stop.list.get()
        {
            self.cancel_in_order(list, &mut stopping.hold);
        }
        if !self.has_finished.get()
            && self.shared.alive() == 0
            && self.run_queue.is_empty()
            && self.in_flight() == 0
        {
            self.has_finished.set(true);
            // Pairs with the load in `is_over`.
            stop.finished.fetch_add(1, Ordering::AcqRel);
            // Always: another worker may have looked at its conditions just before our last goroutine's end reached it.
            self.shared.stop_moved();
        }
        let all_finished = stop.is_over();
        if all_finished {
            self.shared.pool.begin_stop();
            self.shared.end_watch();
        }
        all_finished
    }

    /// Called at each goroutine's end once the phase is *stopping*: wakes the others if that was the last one.
    #[cold]
    pub(crate) fn ended_while_stopping(&self) {
        // Pairs with itself: of two workers whose last goroutines end at once, one sees both ends.
        fence(Ordering::SeqCst);
        if self.shared.alive() == 0 {
            self.shared.stop_moved();
        }
    }

    /// Whether the wait of a cancelled goroutine cannot be cut short: it is one that must not be, or somebody has claimed the
    /// goroutine and not let it go yet (a select that still makes its message). Whom a waker has let go is in a queue here, and
    /// will run.
    fn waits_regardless(&self, g: &Goroutine) -> bool {
        match g.waiting.get() {
            Waiting::No | Waiting::Unwinding(_) => true,
            Waiting::Word(waiter) => {
                // SAFETY: `waiting` names a waiter only while the goroutine is suspended in it.
                let outcome = unsafe { &*waiter }.outcome();
                !matches!(outcome, None | Some(Outcome::Cancelled))
                    && self.run_queue.is_empty()
                    && self.remote.inbox.is_empty()
            }
            Waiting::Operation(_) => false,
        }
    }

    /// Whether the goroutine at `at`, which does not wait, still holds the cursor.
    fn is_held_at(&self, at: usize, hold: &mut Option<Hold>) -> bool {
        let now = self.shared.clock.now_ns();
        hold.take_if(|hold| hold.at != at);
        let hold = hold.get_or_insert_with(|| Hold {
            at,
            until: now.saturating_add(CANCEL_HOLD_NS),
            looks: self.run_queue.len() + CANCEL_LOOKS as usize,
        });
        hold.looks = hold.looks.saturating_sub(1);
        now < hold.until || hold.looks > 0
    }

    fn cancel_in_order(&self, list: &[Entry], hold: &mut Option<Hold>) {
        let cursor = &self.shared.stop.cursor;
        loop {
            // Pairs with the store below: the cursor comes with what its last holder did.
            let at = cursor.load(Ordering::Acquire);
            let Some(entry) = list.get(at) else { return };
            if entry.home != self.remote.index {
                return;
            }
            if let Some(g) = self.find(entry.named) {
                if !g.cancelled.get() {
                    self.cancel(g);
                }
                let is_held = match g.wait_reason() {
                    WaitReason::None => self.is_held_at(at, hold),
                    _ => !self.waits_regardless(g),
                };
                if is_held {
                    return;
                }
            }
            // Pairs with the load above, and the one in `cancel_unlisted`.
            cursor.store(at + 1, Ordering::Release);
            if list.get(at + 1).is_none_or(|next| next.home != entry.home) {
                self.shared.stop_moved();
            }
        }
    }
}
