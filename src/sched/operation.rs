//! One operation of the running goroutine, from registration to its last completion.
//!
//! # Algorithm
//!
//! 1. Register in the table, so that a completion finds its owner, then write the entry, then suspend. If the
//!    submission queue is full, submit; if that does not help, wait in line behind those who came before.
//!    An accept is handed over at once, though, and goes on without a switch if it has completed: with a turn of the run queue for
//!    each, a listener would fall behind as soon as its connections keep the worker busy.
//! 2. With a deadline, a timer on this stack cancels the operation when it passes. Cancelling only asks: the goroutine
//!    goes on waiting for the operation's own last record.
//!    A context (see `ambient`) may have an earlier deadline, and may be cancelled: then its worker does the same.
//! 3. The result wins: only an operation that the kernel reports as cancelled counts as timed out.
//!
//! The goroutine cannot leave before that record, by return, cancellation or unwinding, so borrowed buffers are sound.
//!
//! # Safety
//!
//! The memory that an entry names is the caller's until `perform` returns; nothing between registration and the last
//! record unwinds.

#![allow(unsafe_code)]

use super::ambient::node_of;
use super::wait::{NEVER, is_cancellable, new_waiter, unwind_if_cancelled};
use super::worker::{Worker, current, worker};
use crate::ambient::{ContextError, Node};
use crate::goroutine::{Goroutine, Short, Waiting};
use crate::park::{WaitReason, Wake};
use crate::seam::Token;
use crate::timer::{Action, TimerNode};
use core::ptr::NonNull;
use std::os::fd::RawFd;
use urgo_uring::{Kind, Outcome, squeue};

/// What a suspended goroutine's `Waiting::Operation` points to.
pub(crate) struct Operation {
    pub(crate) token: Token,
}

/// What came of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Performed {
    /// The kernel's result: ≥ 0, or a negated errno.
    Done {
        /// The result.
        res: i32,
    },
    /// The deadline passed and the kernel has cancelled the operation without an effect.
    TimedOut,
    /// The goroutine's context is over. If that was so at the start nothing was done; otherwise the kernel has cancelled the operation
    /// without an effect.
    ContextEnded(ContextError),
    /// The goroutine is being cancelled, and this call, in a `Drop` of its unwinding, would have had to wait. It has had no
    /// effect.
    Cancelled,
    /// The caller is a plain thread. Nothing was done.
    NotAGoroutine,
}

/// Carries out `entry` on the running goroutine's ring and waits for its last completion. Blocks the goroutine.
///
/// `deadline` is nanoseconds of the monotonic clock, [`NEVER`] for none. A goroutine that is cancelled unwinds from here
/// once the operation has ended without an effect; if it is unwinding already (a `Drop` calls), the operation gets its
/// one try and is not waited for.
///
/// # Safety
///
/// All memory that `entry` names stays valid until the call returns or unwinds. `entry` is a one-shot operation that is
/// not linked to another.
pub(crate) unsafe fn perform(
    entry: squeue::Entry,
    fd: RawFd,
    reason: WaitReason,
    deadline: u64,
) -> Performed {
    let (Some(worker), Some(g)) = (worker(), current()) else {
        return Performed::NotAGoroutine;
    };
    if g.cancelled.get() {
        unwind_if_cancelled();
    }
    let context = node_of(g);
    if let Some(error) = context.and_then(|node| ended_before(worker, node)) {
        return Performed::ContextEnded(error);
    }
    let until = context.map_or(deadline, |node| deadline.min(node.deadline()));
    // SAFETY: by this function's contract; `run` returns only after the last completion.
    let outcome = unsafe { run(worker, g, context, entry, fd, reason, until) };
    // The kernel reports a cancelled call as such, or as interrupted.
    if outcome.cancel_marked && (outcome.res == -libc::ECANCELED || outcome.res == -libc::EINTR) {
        unwind_if_cancelled();
        let is_past = |at| at != NEVER && worker.shared.clock.now_ns() >= at;
        if let Some(error) = context.and_then(Node::ended) {
            return Performed::ContextEnded(error);
        }
        if until != deadline && is_past(until) {
            return Performed::ContextEnded(ContextError::DeadlineExceeded);
        }
        if is_past(deadline) {
            return Performed::TimedOut;
        }
        if g.cancelled.get() {
            return Performed::Cancelled;
        }
    }
    Performed::Done { res: outcome.res }
}

/// Whether a call under `node` begins too late. By the clock as the worker saw it last: a look of its own would cost as much as the
/// rest of the call, and the deadline's timer ends what this lets through.
#[inline]
fn ended_before(worker: &Worker, node: &Node) -> Option<ContextError> {
    node.ended_at(|| worker.seen_ns.get())
}

/// # Safety
///
/// As [`perform`].
#[inline]
unsafe fn run(
    worker: &Worker,
    g: &Goroutine,
    context: Option<&Node>,
    mut entry: squeue::Entry,
    fd: RawFd,
    reason: WaitReason,
    deadline: u64,
) -> Outcome {
    let token = loop {
        match worker
            .with_driver(|driver| driver.register(Kind::OneShot, fd, NonNull::from(g).cast()))
        {
            Ok(token) => break token,
            Err(_) => wait_for_room(worker),
        }
    };
    loop {
        // SAFETY: by this function's contract, the entry's memory is valid until the last record, and the frame stays
        // until then.
        match worker.with_driver(|driver| unsafe { driver.queue(token, entry) }) {
            Ok(()) => break,
            Err(full) => entry = full.0,
        }
        let flushed = worker.with_driver(|driver| driver.flush());
        if flushed == urgo_uring::Flushed::Stalled {
            wait_for_room(worker);
        }
    }
    worker.note_submission();
    if g.cancelled.get() && g.uncancellable.get() == 0 {
        // A `Drop` of a goroutine that is being cancelled: what can be done at once is done (a buffer is flushed), what
        // would have to wait is not waited for.
        worker.with_driver(|driver| driver.cancel(token));
    } else if context.is_some_and(|node| node.ended().is_some()) {
        // While it waited for room: its worker has told it, and does not again.
        worker.with_driver(|driver| driver.cancel(token));
    }
    if reason == WaitReason::Accept && worker.is_done_at_once() {
        // Others have their turn after some of these, and after some time, since this goroutine has not waited; and after each
        // that failed, because it may be tried again and again.
        let outcome = worker.with_driver(|driver| driver.outcome(token));
        if outcome.res >= 0 {
            worker.accepted.set(worker.accepted.get() + 1);
        }
        if outcome.res < 0 || worker.is_look_due() {
            super::turn::give_turn();
        } else {
            super::turn::spend_turn();
        }
        return outcome;
    }
    let operation = Operation { token };
    if g.uncancellable.get() == 0 {
        let operation = NonNull::from(&operation).cast();
        g.waiting.set(if is_cancellable(g) {
            Waiting::Operation(operation)
        } else {
            Waiting::Unwinding(Short::Operation(operation))
        });
    }
    if deadline == NEVER {
        worker.suspend(g, reason);
    } else {
        let timer = TimerNode::new(Action::CancelOperation(NonNull::from(&operation).cast()));
        // SAFETY: removed below, before this frame goes; nothing in between unwinds.
        worker.with_timers(|timers| unsafe { timers.insert(deadline, &timer) });
        worker.suspend(g, reason);
        worker.with_timers(|timers| timers.remove(&timer));
    }
    g.waiting.set(Waiting::No);
    if g.cancelled.get() {
        worker.take_turn(g, reason);
    }
    let outcome = worker.with_driver(|driver| driver.outcome(token));
    if reason == WaitReason::Accept && outcome.res >= 0 {
        worker.accepted.set(worker.accepted.get() + 1);
    }
    outcome
}

/// The kernel takes no more for now: wait in line until completions were reaped.
#[cold]
fn wait_for_room(worker: &Worker) {
    let waiter = new_waiter();
    // SAFETY: the queue is this thread's; the waiter is popped before its wait ends, so it outlives its place in line.
    unsafe { worker.submission_waiters.push(&waiter) };
    super::wait::wait_uncancellable(&waiter, WaitReason::Submission);
    debug_assert!(!matches!(
        waiter.finish(crate::park::Outcome::Woken),
        Some(Wake::Goroutine(_))
    ));
}
