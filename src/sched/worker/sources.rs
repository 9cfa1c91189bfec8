//! What becomes ready, into the run queue: inbox, commands, completions, timers. And submissions, out to the kernel.
//!
//! # Safety
//!
//! Reaches goroutines that wait, and their waiters, through pointers that the wait protocol keeps alive.

#![allow(unsafe_code)]

use super::super::operation::Operation;
use super::super::remote::Command;
use super::super::task::Task;
use super::super::wait::settle;
use super::Worker;
use crate::goroutine::{Goroutine, Status};
use crate::limits::{FAIR_TICKS, FLUSH_BATCH, FRESH_BATCH, TIMERS_AT_ONCE};
use crate::park::{Outcome, Waiter, Wake};
use crate::timer::Action;
use core::ptr::NonNull;

impl Worker {
    /// Every `FAIR_TICKS` dispatches: nobody else is to starve behind a full run queue.
    pub(super) fn look_around(&self, now: u64) {
        self.last_fair.set(self.ticks.get());
        self.look_at.set(now.saturating_add(self.look_age));
        self.look_called_at
            .set(now.saturating_add(self.look_called_age));
        self.with_driver(|driver| {
            // A stall shows again at the next flush.
            let _ = driver.flush_and_poll();
            driver.poll();
        });
        if self.has_contexts() {
            // Calls that do not wait have no timer that would tell them.
            self.seen_ns.set(self.shared.clock.now_ns());
        }
        self.poll_sources();
        // Deadlines that have passed cancel operations: the kernel is to hear of it, and we of the answer, in this round.
        if self.with_driver(|driver| driver.sq_pending()) > 0 {
            let _ = self.with_driver(|driver| driver.flush_and_poll());
            self.reap();
        }
        if !self.shared.injector.is_empty()
            && let Some(g) = self.take_injected()
        {
            self.run_queue.push_next(g);
        }
        self.start_oldest(now);
        self.fresh_left.set(FRESH_BATCH);
        self.plan_trim();
        if self.trim_at.get() != u64::MAX {
            self.trim_if_due();
        }
        self.publish_counts();
    }

    /// Those that have waited longest for their start, behind newer ones. From time to time only, not by the number of dispatches,
    /// since it makes a tree of goroutines grow in breadth; unless so many are ready that this is no tree but a server.
    fn start_oldest(&self, now: u64) {
        if now < self.oldest_at.get() && self.run_queue.len() < FAIR_TICKS as usize {
            return;
        }
        self.oldest_at.set(now.saturating_add(self.look_age));
        for _ in 0..FRESH_BATCH {
            let Some(Task(g)) = self.fresh.pop_oldest(self.remote.stealer.as_ref()) else {
                return;
            };
            if let Some(g) = self.start(g) {
                self.run_queue.push(g);
            }
        }
    }

    /// Inbox, commands, completions, timers: into the run queue.
    pub(super) fn poll_sources(&self) {
        for g in self.remote.inbox.take_all() {
            self.take_in(g);
        }
        for command in self.remote.take_commands() {
            match command {
                Command::CancelFd(fd) => {
                    self.with_driver(|driver| driver.cancel_matching_fd(fd));
                }
                Command::ContextEnded(key) => self.context_ended(key),
                Command::Cancel(named) => self.cancel_in_turn(named),
                Command::Apply(token) => {
                    if let Some(wake) = self.remote.outside.apply(token) {
                        settle(wake);
                    }
                }
            }
        }
        self.reap();
        self.fire_timers();
        self.go_on_cancelling();
    }

    /// A goroutine from the inbox: readied by others, or fresh and placed here.
    pub(super) fn take_in(&self, g: NonNull<Goroutine>) {
        // SAFETY: in our inbox, so alive and ours.
        if unsafe { g.as_ref() }.status() == Status::Fresh {
            self.with_placed(|placed| placed.push_back(Task(g)));
        } else {
            self.run_queue.push(g);
        }
    }

    pub(crate) fn reap(&self) {
        self.with_driver(|driver| {
            if driver.cq_ready() {
                // The owner of an operation is the goroutine that waits for it, or is about to.
                let running = self.current.get();
                driver.reap(|owner| match owner.cast() {
                    owner if running == Some(owner) => self.came_early.set(true),
                    owner => self.run_queue.push_fetched(owner),
                });
            }
        });
        if !self.submission_waiters.is_empty() {
            self.admit_submission_waiters();
        }
    }

    /// On a goroutine's stack: hands over what is queued, the running goroutine's own operation among it, and says whether that one
    /// is complete. If not, it is to be waited for.
    pub(crate) fn is_done_at_once(&self) -> bool {
        self.came_early.set(false);
        // A stall shows again at the next flush.
        let left = self.with_driver(|driver| {
            let _ = driver.flush_and_poll();
            driver.sq_pending()
        });
        if left == 0 {
            self.flush_at.set(u64::MAX);
        }
        self.reap();
        self.came_early.get()
    }

    #[cold]
    pub(super) fn admit_submission_waiters(&self) {
        // SAFETY: the queue is this thread's, and waiters remove themselves before they go.
        while let Some(wake) = unsafe { self.submission_waiters.wake_one() } {
            if let Wake::Goroutine(g) = wake {
                self.run_queue.push(g.cast());
            }
        }
    }

    pub(super) fn fire_timers(&self) {
        if self.with_timers(|timers| timers.earliest()).is_none() {
            return;
        }
        let now = self.shared.clock.now_ns();
        self.seen_ns.set(now);
        // Not all at once: what firing has brought into the cache is still there when those that it readied run.
        for _ in 0..TIMERS_AT_ONCE {
            let Some(action) = self.with_timers(|timers| timers.pop_due(now)) else {
                return;
            };
            match action {
                Action::FinishWaiter(waiter) => {
                    // SAFETY: a registered timer's waiter is on the stack of a goroutine that is suspended in it.
                    let waiter = unsafe { waiter.cast::<Waiter>().as_ref() };
                    if let Some(Wake::Goroutine(g)) = waiter.finish(Outcome::TimedOut) {
                        self.run_queue.push_fetched(g.cast());
                    }
                }
                Action::CancelOperation(operation) => {
                    self.cancel_operation(operation);
                }
            }
        }
    }

    /// Asks the kernel to end an operation of a goroutine that is suspended in it.
    pub(crate) fn cancel_operation(&self, operation: NonNull<()>) {
        // SAFETY: an `Operation` on the stack of a goroutine that is suspended in it.
        let token = unsafe { operation.cast::<Operation>().as_ref() }.token;
        self.with_driver(|driver| driver.cancel(token));
        self.note_submission();
    }

    /// Whether the ring says that something has come. Reads one word that the kernel seldom writes.
    #[inline]
    pub(super) fn is_called(&self) -> bool {
        self.with_driver(|driver| driver.has_work_flag())
    }

    #[inline]
    pub(super) fn is_flush_due(&self) -> bool {
        self.flush_at.get() != u64::MAX && self.shared.clock.ticks() >= self.flush_at.get()
    }

    /// Submissions wait behind one last ready goroutine: no batch will come of them, and that one may run for long. (With none
    /// at all they go out with the enter in which the worker sleeps.)
    #[inline]
    pub(super) fn is_flush_worth_it(&self) -> bool {
        self.flush_at.get() != u64::MAX && self.is_last_ready()
    }

    #[inline]
    fn is_last_ready(&self) -> bool {
        self.run_queue.is_last()
            && self.fresh.len() == 0
            && self.with_placed(|placed| placed.is_empty())
    }

    /// Everything is to be looked at, whatever the number of dispatches.
    #[inline]
    pub(crate) fn is_look_due(&self) -> bool {
        self.shared.clock.ticks() >= self.look_at.get()
    }

    /// The ring calls, and a look is due.
    #[inline]
    pub(super) fn is_to_look(&self) -> bool {
        self.is_called() && self.shared.clock.ticks() >= self.look_called_at.get()
    }

    /// On the stack of a goroutine that is about to yield, when the ring calls: those who have waited for it go first.
    #[cold]
    pub(super) fn heed_call(&self) {
        let now = self.shared.clock.ticks();
        if now < self.look_called_at.get() {
            return;
        }
        self.look_called_at
            .set(now.saturating_add(self.look_called_age));
        // A stall shows again at the next flush.
        let _ = self.with_driver(|driver| driver.flush_and_poll());
        self.reap();
    }

    #[inline]
    pub(super) fn flush_if_due(&self, now: u64) {
        if self.flush_at.get() != u64::MAX {
            self.flush_due(now);
        }
    }

    pub(super) fn flush_due(&self, now: u64) {
        let is_due = now >= self.flush_at.get() || self.is_last_ready();
        let is_flushed = self.with_driver(|driver| {
            let pending = driver.sq_pending();
            let is_flushed = pending >= FLUSH_BATCH || (pending > 0 && is_due);
            if is_flushed {
                let _ = driver.flush();
            }
            if driver.sq_pending() == 0 {
                self.flush_at.set(u64::MAX);
            }
            is_flushed
        });
        if is_flushed {
            // What has completed while it was submitted: nobody calls for it.
            self.reap();
        }
    }

    /// An operation was queued: it is to reach the kernel within `FLUSH_AGE_US` if the worker stays busy.
    #[inline]
    pub(crate) fn note_submission(&self) {
        if self.flush_at.get() == u64::MAX {
            self.flush_at
                .set(self.shared.clock.ticks().saturating_add(self.flush_age));
        }
    }
}
