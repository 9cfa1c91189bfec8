//! A goroutine's first and last frames.
//!
//! # Safety
//!
//! The last switch out of a goroutine's stack, which is never entered again.

#![allow(unsafe_code)]

use super::ambient;
use super::worker::worker;
use crate::goroutine::{Goroutine, discard, drain_locals, end_uncalled};
use std::process::abort;

/// Runs a goroutine's closure under the context that its spawner had, or only drops it if the goroutine is cancelled.
///
/// # Safety
///
/// On the goroutine's own stack, once, with the closure still in the block.
#[inline]
unsafe fn run(g: &Goroutine) {
    let run = || {
        // SAFETY: by this function's contract.
        unsafe {
            if g.cancelled.get() {
                end_uncalled(g, None);
            } else {
                (g.vtable().run)(g);
            }
        }
    };
    match g.take_inherited() {
        None => run(),
        Some(node) => {
            ambient::enter(Some(&node), run);
            // Perhaps the last to hold it: then the values of contexts are dropped here, whose `Drop` is user code.
            discard(node);
            drain_locals(g);
        }
    }
}

/// Where every goroutine begins, on its own stack. A panic cannot get here: `VTable::run` catches it.
///
/// When a goroutine is over and another fresh one is to start next, that one starts right here, on the same stack.
pub(super) unsafe extern "C" fn entry(block: *mut ()) -> ! {
    // SAFETY: `Worker::start` passes the block, which lives until the goroutine is over.
    let mut g = unsafe { &*block.cast::<Goroutine>() };
    loop {
        // SAFETY: on the goroutine's own stack, once, with the closure still in the block.
        unsafe {
            run(g);
        }
        let Some(worker) = worker() else { abort() };
        match worker.finish(g) {
            // SAFETY: fresh and this worker's; it lives until it is over.
            Some(next) => g = unsafe { next.as_ref() },
            None => break,
        }
    }
    let Some(worker) = worker() else { abort() };
    let mut nowhere = std::ptr::null_mut();
    // SAFETY: `host_sp` was saved by the `switch_in` that this thread's host is in; our own context is not kept.
    unsafe { urgo_arch::switch_out(&raw mut nowhere, worker.host_sp()) };
    // Nobody has this context.
    abort()
}
