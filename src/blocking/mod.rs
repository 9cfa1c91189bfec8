//! # Purpose
//!
//! Calls that block an OS thread (a C library, a device, a long computation), run on threads of their own while the
//! goroutine waits.
//!
//! # Safety
//!
//! A job borrows from the stack of the goroutine that waits for it: the wait cannot be cut short.
//!
//! # Imports
//!
//! `sched` and below.

#![allow(unsafe_code)]

use crate::park::{Outcome, WaitReason};
use crate::sched;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs `f` on a thread of the blocking pool and returns what it returns.
///
/// Blocks the calling goroutine, not its worker. The pool grows on demand up to
/// [`Builder::blocking_threads`](crate::Builder::blocking_threads), beyond which calls wait for their turn; its threads are
/// not pinned and end after ten idle seconds. `f` may borrow from the caller. It runs to its end even if the goroutine is
/// cancelled meanwhile. On a plain thread `f` is simply called. Requests that can be called off are [operations](crate::host).
///
/// # Panics
///
/// With `f`'s own panic, if it panics.
///
/// ```
/// urgo::run(|| {
///     let text = String::from("borrowed");
///     let length = urgo::blocking(|| {
///         std::thread::sleep(std::time::Duration::from_millis(1)); // blocks a pool thread only
///         text.len()
///     });
///     assert_eq!(length, 8);
/// });
/// ```
pub fn blocking<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let Some(worker) = sched::worker().filter(|_| sched::on_goroutine()) else {
        return f();
    };
    let waiter = sched::new_waiter();
    let mut result = None;
    {
        let (slot, waiter_ref) = (
            SendPtr(&raw mut result),
            SendPtr((&raw const waiter).cast_mut()),
        );
        let job: Job<'_> = Box::new(move || {
            let (slot, waiter) = (slot, waiter_ref);
            let value = catch_unwind(AssertUnwindSafe(f));
            // SAFETY: the goroutine waits until the waiter is finished below, so both are alive; the slot is ours till then.
            let wake = unsafe {
                *slot.0 = Some(value);
                (*waiter.0).finish(Outcome::Woken)
            };
            sched::settle(wake.expect("an uncancellable wait without a deadline has one waker"));
        });
        // SAFETY: only the lifetime changes; the job is run (or dropped unrun, below) before this frame goes, because the
        // wait that follows ends only when the job has finished the waiter.
        let job = unsafe { std::mem::transmute::<Job<'_>, Job<'static>>(job) };
        if let Err((job, error)) = worker.shared.pool.submit(job) {
            tracing::warn!(%error, "no thread for a blocking call; it blocks the worker instead");
            job();
        }
    }
    sched::wait_uncancellable(&waiter, WaitReason::Blocking);
    match result {
        Some(Ok(value)) => value,
        Some(Err(payload)) => resume_unwind(payload),
        None => unreachable!("the job has finished the waiter"),
    }
}

/// Runs `job` on a thread of the pool, sooner or later, and does not wait for it. On a plain thread, or if no thread can be had, it runs at
/// once.
pub(crate) fn on_the_pool(job: impl FnOnce() + Send + 'static) {
    let Some(worker) = sched::worker().filter(|_| sched::on_goroutine()) else {
        return job();
    };
    if let Err((job, error)) = worker.shared.pool.submit(Box::new(job)) {
        tracing::warn!(%error, "no thread for a blocking call; it blocks the worker instead");
        job();
    }
}

struct SendPtr<P>(*mut P);

// SAFETY: what it points to is handed over to the job until it finishes the waiter; `F` and `T` are `Send`.
unsafe impl<P> Send for SendPtr<P> {}
