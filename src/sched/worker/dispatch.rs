//! Changing stacks: leaving a goroutine, dispatching one, starting and finishing them.
//!
//! # Safety
//!
//! Switches stacks by the contexts that suspended goroutines and the host have saved on this thread. A queued goroutine is
//! suspended and alive; a fresh one is its holder's.

#![allow(unsafe_code)]

use super::super::task::Task;
use super::super::{entry, panic_count};
use super::{Worker, bump};
use crate::atomic::Ordering;
use crate::goroutine::{Goroutine, Stack, Status, end_uncalled};
use crate::limits::DIRECT_TICKS;
use crate::park::WaitReason;
use core::ptr::NonNull;

impl Worker {
    /// On a goroutine's stack: leaves it; `HEEDED` if a call of the ring has just been heeded. Whoever is to ready `g` knows it already, or `g` is queued. Returns when the
    /// goroutine is dispatched again.
    #[inline(always)]
    pub(super) fn leave<const HEEDED: bool>(&self, g: &Goroutine) {
        let ticks = self.ticks.get();
        // Every so often, when submissions wait too long or for nobody, and when something has come, through the host stack, which looks at
        // everything else. (A goroutine that computes for long between its yields would keep it away for all those turns.)
        if ticks & (DIRECT_TICKS - 1) != 0
            && (HEEDED || !self.is_to_look())
            && !self.is_flush_worth_it()
            && (ticks & 7 != 0 || !self.is_flush_due())
            && let Some(next) = self.run_queue.pop()
        {
            self.ticks.set(ticks.wrapping_add(1));
            self.tell_watch(Some(next));
            if next == NonNull::from(g) {
                return;
            }
            self.current.set(Some(next));
            // SAFETY: a goroutine in the run queue is suspended (its `sp` is a saved context), and it is homed here, on
            // this thread; `g`'s own slot receives its context.
            unsafe { urgo_arch::switch_across(g.sp.as_ptr(), next.as_ref().sp.get()) };
        } else {
            // SAFETY: `host_sp` was saved by the `switch_in` that this thread's host is in.
            unsafe { urgo_arch::switch_out(g.sp.as_ptr(), self.host_sp.as_ptr()) };
        }
    }

    /// On a goroutine's stack: lets others run; the goroutine stays ready.
    #[inline]
    pub(crate) fn yield_now(&self, g: &Goroutine) {
        if self.is_called() {
            self.heed_call();
        }
        self.run_queue.push(NonNull::from(g));
        self.leave_alone::<true>(g);
    }

    /// On a goroutine's stack: waits until somebody readies the goroutine.
    #[inline]
    pub(crate) fn suspend(&self, g: &Goroutine, reason: WaitReason) {
        g.reason.store(reason as u8, Ordering::Relaxed);
        self.leave_alone::<false>(g);
        g.reason.store(WaitReason::None as u8, Ordering::Relaxed);
    }

    /// As `leave`; a goroutine that leaves in the middle of a panic takes its panic count along.
    #[inline(always)]
    pub(super) fn leave_alone<const HEEDED: bool>(&self, g: &Goroutine) {
        let aside = std::thread::panicking().then(panic_count::set_aside);
        self.leave::<HEEDED>(g);
        if let Some(aside) = aside {
            aside.put_back();
        }
    }

    /// On the host stack: runs `g` until it leaves.
    #[inline]
    pub(super) fn dispatch(&self, g: NonNull<Goroutine>) {
        self.ticks.set(self.ticks.get().wrapping_add(1));
        self.current.set(Some(g));
        self.tell_watch(Some(g));
        // SAFETY: `g` is ready, so its `sp` is a saved context (or a fresh one from `start`), homed on this thread.
        unsafe { urgo_arch::switch_in(self.host_sp.as_ptr(), g.as_ref().sp.get()) };
        self.current.set(None);
        self.tell_watch(None);
    }

    /// Says which goroutine runs from here on, if anybody wants to know.
    #[inline(always)]
    fn tell_watch(&self, g: Option<NonNull<Goroutine>>) {
        if self.is_watched {
            self.tell_watch_slow(g);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_watch_slow(&self, g: Option<NonNull<Goroutine>>) {
        let Some(running) = &self.remote.running else {
            return;
        };
        match g {
            Some(g) => {
                // SAFETY: about to run here: alive, and homed on this thread.
                let g = unsafe { g.as_ref() };
                running.enter(g.id(), g.name(), g.site());
            }
            None => running.leave(),
        }
    }

    /// On the host stack: gives a fresh goroutine its stack. `None` if there is no stack for it (it has ended, then).
    pub(super) fn start(&self, g: NonNull<Goroutine>) -> Option<NonNull<Goroutine>> {
        // SAFETY: fresh and ours: taken from a queue, or placed here.
        let block = unsafe { g.as_ref() };
        if block.pinned.get() {
            self.remote.placed.fetch_sub(1, Ordering::Relaxed);
        }
        match self.with_stacks(|stacks| stacks.take(block.stack_bytes())) {
            Ok(stack) => {
                // SAFETY: the stack is ours and unused; the block outlives the goroutine's run.
                let sp = unsafe { urgo_arch::init(stack.top(), entry::entry, g.as_ptr().cast()) };
                block.sp.set(sp);
                self.take_up(block, stack);
                self.live.set(self.live.get() + 1);
                self.publish_live();
                Some(g)
            }
            Err(error) => {
                tracing::error!(goroutine = block.id(), %error, "a goroutine could not start");
                // On the host stack, for want of another: a `Drop` that waits here holds the worker.
                // SAFETY: fresh and ours.
                unsafe { end_uncalled(block, Some(error)) };
                self.complete(block);
                None
            }
        }
    }

    /// On the goroutine's stack: everything that is left to do for it. Returns a fresh goroutine that is to start on this
    /// stack next; otherwise the stack is back in the pool, and the caller leaves it for ever.
    #[inline]
    pub(crate) fn finish(&self, g: &Goroutine) -> Option<NonNull<Goroutine>> {
        let stack = g.stack.get().expect("a running goroutine has a stack");
        // May run a detached result's `Drop`, on this stack.
        self.complete(g);
        if let Some(next) = self.next_on_this_stack(stack) {
            return Some(next);
        }
        // We are still on it, but nobody else on this thread takes a stack before we have left.
        self.with_stacks(|stacks| stacks.give_back(stack));
        self.live.set(self.live.get() - 1);
        self.publish_live();
        None
    }

    /// In a burst of fresh goroutines: the next of them, if it is content with `stack`.
    #[inline]
    pub(super) fn next_on_this_stack(&self, stack: Stack) -> Option<NonNull<Goroutine>> {
        let (ticks, fresh_left) = (self.ticks.get(), self.fresh_left.get());
        if fresh_left == 0
            || ticks & (DIRECT_TICKS - 1) == 0
            || !self.with_stacks(|s| s.is_default(stack))
        {
            return None;
        }
        let Task(next) = self.pop_fresh()?;
        // SAFETY: fresh and ours: out of a queue.
        let block = unsafe { next.as_ref() };
        if block.stack_bytes().is_some() {
            // The host gives it a stack of its own.
            self.with_placed(|placed| placed.push_front(Task(next)));
            return None;
        }
        self.fresh_left.set(fresh_left - 1);
        self.ticks.set(ticks.wrapping_add(1));
        if block.pinned.get() {
            self.remote.placed.fetch_sub(1, Ordering::Relaxed);
        }
        self.take_up(block, stack);
        self.current.set(Some(next));
        self.tell_watch(Some(next));
        Some(next)
    }

    /// A fresh goroutine becomes this worker's own, on `stack`.
    #[inline]
    pub(super) fn take_up(&self, block: &Goroutine, stack: Stack) {
        block.stack.set(Some(stack));
        self.accepted.set(self.accepted.get().saturating_sub(1));
        block.home.store(self.remote.as_home(), Ordering::Relaxed);
        block.set_status(Status::Started);
        // Behind the status, see `goroutine::cancel_mark`.
        if self.shared.stop.is_stopping() {
            self.name_late_starter(block);
            // Its closure is only dropped, on its own stack, where its destructors may wait.
            block.cancelled.set(true);
        } else if block.mark.is_set_at_start(self.barriers()) {
            // As above.
            block.cancelled.set(true);
        }
        bump(&self.remote.counts.started, 1);
    }

    /// The result is in the block: hands it over. The block may be gone afterwards.
    pub(crate) fn complete(&self, g: &Goroutine) {
        self.hand_over(g);
        bump(&self.remote.counts.ended, 1);
        if self.shared.stop.is_stopping() {
            self.ended_while_stopping();
        }
    }

    pub(crate) fn host_sp(&self) -> *const *mut u8 {
        self.host_sp.as_ptr()
    }

    /// Publishes the load in steps of a sixteenth, so that others' caches are not disturbed at every start and end.
    #[inline]
    pub(super) fn publish_live(&self) {
        let (live, published) = (self.live.get(), self.live_published.get());
        if live.abs_diff(published) > published / 16 {
            self.live_published.set(live);
            self.remote.live.store(live, Ordering::Relaxed);
        }
    }
}
