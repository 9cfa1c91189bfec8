//! Waiting and waking, for goroutines and plain threads alike.
//!
//! # Safety
//!
//! Waiters and goroutines are reached through raw pointers that the wait protocol (see `park`) keeps alive.

#![allow(unsafe_code)]

use super::ambient;
use super::remote::Remote;
use super::worker::{Worker, current, worker};
use crate::atomic::Ordering;
use crate::goroutine::{CancelUnwind, Goroutine, Short, Waiting};
use crate::park::{Outcome, Target, Token, WaitReason, Waiter, Wake};
use crate::seam::{Choice, Clock, Entropy};
use crate::timer::{Action, TimerNode};
use core::cell::RefCell;
use core::ptr::NonNull;
use std::sync::Arc;

/// No deadline.
pub(crate) const NEVER: u64 = u64::MAX;
/// A deadline that does not come either, of a wait that may end as if one had passed.
pub(crate) const FAR: u64 = u64::MAX - 1;

/// Nanoseconds of the runtime's (or, on a plain thread, the system's) monotonic clock.
#[inline]
pub(crate) fn now_ns() -> u64 {
    worker()
        .map_or(Clock::Live, |worker| worker.shared.clock)
        .now_ns()
}

/// Whether the caller is a goroutine (and not a plain thread).
#[inline]
pub(crate) fn on_goroutine() -> bool {
    current().is_some()
}

/// The calling thread as the scheduler knows it, looked up once for several questions. A goroutine stays on its thread, so it
/// holds across waits.
#[derive(Clone, Copy)]
pub(crate) struct Here<'a>(Option<&'a Worker>);

/// See [`Here`].
#[inline]
pub(crate) fn here<'a>() -> Here<'a> {
    Here(worker())
}

impl Here<'_> {
    /// As [`thread_token`].
    #[inline]
    pub(crate) fn token(self) -> Token {
        self.0.map_or(Token::NOBODY, Worker::token)
    }

    /// As [`new_parked_waiter`].
    #[inline]
    pub(crate) fn new_parked_waiter(self) -> Waiter {
        Waiter::parked(self.caller())
    }

    #[inline]
    fn caller(self) -> Target {
        match self.0.and_then(|worker| worker.current.get()) {
            Some(g) => Target::Goroutine(g.cast()),
            None => Target::Thread,
        }
    }

    /// Whether `waiter` is a goroutine homed on the calling thread, so that its deadline and its cancellation cannot come at
    /// this moment.
    #[inline]
    pub(crate) fn is_local(self, waiter: &Waiter) -> bool {
        match (waiter.target, self.0) {
            (Target::Goroutine(g), Some(worker)) => {
                // SAFETY: a waiter in a queue belongs to a goroutine that is alive.
                let home = unsafe { g.cast::<Goroutine>().as_ref() }
                    .home
                    .load(Ordering::Relaxed);
                home.cast::<Remote>().cast_const() == Arc::as_ptr(&worker.remote)
            }
            _ => false,
        }
    }

    /// As [`settle`].
    #[inline]
    pub(crate) fn settle(self, wake: Wake) {
        if let (Wake::Goroutine(g), Some(worker)) = (wake, self.0) {
            let g = g.cast::<Goroutine>();
            // SAFETY: parked and not readied by anyone else, so alive until we have queued it.
            let home = unsafe { g.as_ref() }.home.load(Ordering::Relaxed);
            if home.cast::<Remote>().cast_const() == Arc::as_ptr(&worker.remote) {
                worker.ready(g);
                return;
            }
        }
        settle(wake);
    }

    /// As [`wait_parked`].
    #[inline]
    pub(crate) fn wait_parked(self, waiter: &Waiter, reason: WaitReason, deadline: u64) -> Outcome {
        match (waiter.target, self.0) {
            (Target::Goroutine(g), Some(worker)) => {
                // SAFETY: the caller's own block, which lives as long as the goroutine runs.
                let g = unsafe { g.cast::<Goroutine>().as_ref() };
                wait_parked_goroutine(worker, g, waiter, reason, deadline)
            }
            _ => signalled(waiter, deadline),
        }
    }
}

/// A waiter for whoever calls.
#[inline]
pub(crate) fn new_waiter() -> Waiter {
    Waiter::new(here().caller())
}

/// A waiter for whoever calls, born parked: for [`wait_parked`].
#[inline]
pub(crate) fn new_parked_waiter() -> Waiter {
    here().new_parked_waiter()
}

/// What biased locks know the calling thread by: nobody on threads that are no workers, and where nothing may be biased.
#[inline]
pub(crate) fn thread_token() -> Token {
    here().token()
}

/// Whether the calling goroutine's worker has others to run. `false` on plain threads.
#[inline]
pub(crate) fn has_others_ready() -> bool {
    worker().is_some_and(|worker| {
        !worker.run_queue.is_empty()
            || worker.fresh.len() > 0
            || worker.with_placed(|placed| !placed.is_empty())
            || !worker.remote.inbox.is_empty()
    })
}

/// Lets the other goroutines of the caller's worker have a turn; on a plain thread, other threads.
pub(crate) fn yield_now() {
    match worker().zip(current()) {
        Some((worker, g)) => worker.yield_now(g),
        None => std::thread::yield_now(),
    }
}

/// A number below `n` (not 0) from the choice seam: what the program leaves open.
#[inline]
pub(crate) fn choose(n: usize) -> usize {
    if n == 1 {
        return 0;
    }
    match worker() {
        Some(worker) => worker.with_choice(|choice| choice.below(n)),
        None => choose_off_worker(n),
    }
}

#[cold]
fn choose_off_worker(n: usize) -> usize {
    thread_local! {
        static CHOICE: RefCell<Choice> = RefCell::new(Choice::live(Entropy::Live.seed()));
    }
    // While the thread's locals are being dropped there is nothing left to be fair with.
    CHOICE
        .try_with(|choice| choice.borrow_mut().below(n))
        .unwrap_or(0)
}

/// Waits until `waiter` is finished by somebody, its deadline passes, or the goroutine is cancelled. Blocks the calling
/// goroutine or thread. A cancelled goroutine must clean up and then call [`unwind_if_cancelled`].
pub(crate) fn wait(waiter: &Waiter, reason: WaitReason, deadline: u64) -> Outcome {
    match waiter.target {
        Target::Goroutine(_) => wait_goroutine(waiter, reason, deadline),
        Target::Thread => wait_thread(waiter, deadline),
    }
}

/// As [`wait`], without a deadline and whatever happens: for waits that somebody else's memory depends on.
pub(crate) fn wait_uncancellable(waiter: &Waiter, reason: WaitReason) {
    uncancellable(|| wait(waiter, reason, NEVER));
}

/// Calls `f`; no wait in it is cut short by a cancellation. Nests up to 65,535 deep.
pub(crate) fn uncancellable<R>(f: impl FnOnce() -> R) -> R {
    struct Undo<'a>(&'a Goroutine);
    impl Drop for Undo<'_> {
        fn drop(&mut self) {
            self.0.uncancellable.set(self.0.uncancellable.get() - 1);
        }
    }
    let _undo = current().map(|g| {
        let depth = g.uncancellable.get().checked_add(1);
        g.uncancellable
            .set(depth.expect("uncancellable parts nest too deep"));
        Undo(g)
    });
    f()
}

/// Waits for the end of a wait whose waiter was born parked: comes back when the wake has been settled, the deadline has
/// passed or the goroutine was cancelled. Blocks the calling goroutine or thread. The outcome is exact: what was delivered
/// is delivered, however the wait would have gone on. A cancelled goroutine must clean up and then call
/// [`unwind_if_cancelled`].
#[inline]
pub(crate) fn wait_parked(waiter: &Waiter, reason: WaitReason, deadline: u64) -> Outcome {
    here().wait_parked(waiter, reason, deadline)
}

fn wait_parked_goroutine(
    worker: &Worker,
    g: &Goroutine,
    waiter: &Waiter,
    reason: WaitReason,
    deadline: u64,
) -> Outcome {
    debug_assert_eq!(worker.current.get(), Some(NonNull::from(g)));
    let cancellable = is_cancellable(g);
    if cancellable && g.cancelled.get() && waiter.finish(Outcome::Cancelled).is_some() {
        return Outcome::Cancelled;
    }
    if g.heeds_context.get() && g.uncancellable.get() == 0 {
        if deadline == NEVER {
            // Nobody expects this wait to end before its time.
            return unheeding(g, || {
                wait_parked_goroutine(worker, g, waiter, reason, NEVER)
            });
        }
        if ambient::has_ended(g) && waiter.finish(Outcome::TimedOut).is_some() {
            return Outcome::TimedOut;
        }
    }
    if deadline >= FAR {
        leave_parked(worker, g, reason, waiting_for(g, waiter, cancellable));
    } else {
        let timer = TimerNode::new(Action::FinishWaiter(NonNull::from(waiter).cast()));
        // SAFETY: removed below, before this frame goes; nothing in between unwinds.
        worker.with_timers(|timers| unsafe { timers.insert(deadline, &timer) });
        leave_parked(worker, g, reason, waiting_for(g, waiter, cancellable));
        worker.with_timers(|timers| timers.remove(&timer));
    }
    waiter.outcome().expect("the wait is over")
}

/// Calls `f`, whose waits do not heed the context.
#[cold]
fn unheeding<R>(g: &Goroutine, f: impl FnOnce() -> R) -> R {
    g.heeds_context.set(false);
    let result = f();
    g.heeds_context.set(true);
    result
}

#[inline(always)]
fn leave_parked(worker: &Worker, g: &Goroutine, reason: WaitReason, waiting: Waiting) {
    g.waiting.set(waiting);
    worker.suspend(g, reason);
    g.waiting.set(Waiting::No);
}

/// Who may cut a wait short that is about to begin. In a `Drop` while the goroutine unwinds it is the context alone that the caller heeds.
#[inline(always)]
fn waiting_for(g: &Goroutine, waiter: &Waiter, cancellable: bool) -> Waiting {
    if cancellable {
        Waiting::Word(waiter)
    } else if g.heeds_context.get() && g.uncancellable.get() == 0 {
        Waiting::Unwinding(Short::Word(waiter))
    } else {
        Waiting::No
    }
}

fn wait_goroutine(waiter: &Waiter, reason: WaitReason, deadline: u64) -> Outcome {
    let (Some(worker), Some(g)) = (worker(), current()) else {
        unreachable!("a goroutine's waiter off its goroutine")
    };
    let cancellable = is_cancellable(g);
    if cancellable && g.cancelled.get() {
        // A waker that comes now has lost and passes its delivery on.
        if let Some(Wake::Nothing) = waiter.finish(Outcome::Cancelled) {
            return Outcome::Cancelled;
        }
    }
    if g.heeds_context.get() && g.uncancellable.get() == 0 {
        if deadline == NEVER {
            return unheeding(g, || wait_goroutine(waiter, reason, NEVER));
        }
        // A waker that comes now has lost and passes its delivery on.
        if ambient::has_ended(g) && waiter.finish(Outcome::TimedOut).is_some() {
            return Outcome::TimedOut;
        }
    }
    if deadline >= FAR {
        park(
            worker,
            g,
            waiter,
            reason,
            waiting_for(g, waiter, cancellable),
        );
    } else {
        let timer = TimerNode::new(Action::FinishWaiter(NonNull::from(waiter).cast()));
        // SAFETY: removed below, before this frame goes; nothing in between unwinds.
        worker.with_timers(|timers| unsafe { timers.insert(deadline, &timer) });
        park(
            worker,
            g,
            waiter,
            reason,
            waiting_for(g, waiter, cancellable),
        );
        worker.with_timers(|timers| timers.remove(&timer));
    }
    waiter.outcome().expect("the wait is over")
}

#[inline]
fn park(worker: &Worker, g: &Goroutine, waiter: &Waiter, reason: WaitReason, waiting: Waiting) {
    if waiter.word.park() {
        g.waiting.set(waiting);
        worker.suspend(g, reason);
        g.waiting.set(Waiting::No);
    }
}

/// A wait inside a `Drop` while the goroutine unwinds is not cut short, as it would not be for a thread.
#[inline]
pub(super) fn is_cancellable(g: &Goroutine) -> bool {
    g.uncancellable.get() == 0 && !std::thread::panicking()
}

fn wait_thread(waiter: &Waiter, deadline: u64) -> Outcome {
    if waiter.word.park() {
        return signalled(waiter, deadline);
    }
    waiter.outcome().expect("the wait is over")
}

/// On a thread, with a parked waiter: until the wake is settled, or the deadline passes first, or the context that the thread heeds is
/// cancelled.
fn signalled(waiter: &Waiter, deadline: u64) -> Outcome {
    let heeded = if deadline == NEVER {
        None
    } else {
        ambient::heeded_by_thread()
    };
    let Some(node) = heeded else {
        return signalled_by(waiter, deadline);
    };
    // SAFETY: taken away before this returns, and nothing in between unwinds.
    match unsafe { node.add_waiter(waiter) } {
        Some(id) => {
            let outcome = signalled_by(waiter, deadline);
            node.remove_waiter(&id);
            outcome
        }
        None if waiter.finish(Outcome::TimedOut).is_some() => Outcome::TimedOut,
        None => signalled_by(waiter, NEVER),
    }
}

fn signalled_by(waiter: &Waiter, deadline: u64) -> Outcome {
    let mut until = (deadline < FAR).then_some(deadline);
    // Pairs with the release store in `settle`.
    while waiter.signal.load(Ordering::Acquire) == 0 {
        let outcome = urgo_sys::futex::wait(&waiter.signal, 0, until);
        if outcome == urgo_sys::futex::FutexOutcome::TimedOut {
            if waiter.finish(Outcome::TimedOut).is_some() {
                return Outcome::TimedOut;
            }
            // Somebody else has ended the wait: that stands, and the signal is on its way.
            until = None;
        }
    }
    waiter.outcome().expect("the wait is over")
}

/// Ends the running goroutine by unwinding if it is cancelled (and not unwinding already, nor in a part that must not
/// be cut short).
#[inline]
pub(crate) fn unwind_if_cancelled() {
    if let Some(g) = current()
        && g.cancelled.get()
        && is_cancellable(g)
    {
        unwind();
    }
}

#[cold]
fn unwind() -> ! {
    std::panic::resume_unwind(Box::new(CancelUnwind))
}

/// Any thread, outside every lock. Pays the debt of whoever ended a wait.
#[inline]
pub(crate) fn settle(wake: Wake) {
    match wake {
        Wake::Nothing => {}
        Wake::Goroutine(g) => ready(g.cast()),
        Wake::Thread(signal) => {
            // SAFETY: the waiter stays until its signal is set, which only the winner of its wait does, here.
            // The store pairs with the load in `signalled`; after it only the address is used.
            unsafe { signal.as_ref() }.store(1, Ordering::Release);
            urgo_sys::futex::wake_ptr(signal.as_ptr(), 1);
        }
    }
}

/// Any thread. Makes a parked goroutine ready whose wait the caller has ended.
pub(crate) fn ready(g: NonNull<Goroutine>) {
    // SAFETY: parked and not readied by anyone else, so alive until we have queued it.
    let home = unsafe { g.as_ref() }
        .home
        .load(Ordering::Relaxed)
        .cast::<Remote>();
    match worker() {
        Some(worker) if Arc::as_ptr(&worker.remote) == home => worker.ready(g),
        Some(worker)
            if worker
                .shared
                .remotes
                .iter()
                .any(|remote| Arc::as_ptr(remote) == home) =>
        {
            // SAFETY: a worker's record outlives all workers of its runtime, and this thread is one.
            let remote = unsafe { &*home };
            // SAFETY: parked, so in no queue; it stays alive until its worker dispatches it.
            unsafe { remote.inbox.push(g) };
            if remote.sleep.notify_after_post() {
                worker.rouse(remote);
            }
        }
        _ => ready_foreign(g, home),
    }
}

/// From a thread that the goroutine's runtime does not know: the runtime may end as soon as the goroutine has run, so
/// its worker's record is held until it has been roused.
fn ready_foreign(g: NonNull<Goroutine>, home: *const Remote) {
    // SAFETY: records are in `Arc`s; this one's runtime holds it, and cannot end before the goroutine, which is parked.
    let remote = unsafe {
        Arc::increment_strong_count(home);
        Arc::from_raw(home)
    };
    // SAFETY: parked, so in no queue; it stays alive until its worker dispatches it.
    unsafe { remote.inbox.push(g) };
    if remote.sleep.notify_after_post() {
        remote.rouse();
    }
}
