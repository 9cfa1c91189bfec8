//! Keeping each goroutine's panic count its own.
//!
//! std counts panics per thread: `thread::panicking` and lock poisoning go by that count. A goroutine that waits inside a
//! `Drop` while it unwinds would leave its count to the other goroutines of its worker. So when a goroutine leaves its stack
//! in the middle of a panic, the thread's count is lowered, and raised again when it comes back.
//!
//! # Algorithm
//!
//! The count has no public setter, but it goes up when an unwinding starts and down when it is caught, on whatever thread
//! that happens. A *counterweight* is a small stack of its own that does nothing but unwind: it starts an unwinding, stops
//! in the middle of it (inside a `Drop`) by switching out, and when it is switched to again lets the unwinding be caught and
//! switches out again. Switched to in the first state, it lowers the count of the thread it is on; in the second, it raises
//! it. Counterweights are made, and raised for the first time, on a thread that ends at once, which takes its count along.
//! They are kept for the process's life and reused; there are as many as goroutines ever waited in the middle of a panic at
//! once.
//!
//! # Safety
//!
//! Switches to and from a counterweight's stack, which is used by one thread at a time: whoever took it out of the pool.

#![allow(unsafe_code)]

use crate::seam::HostThreads;
use core::cell::Cell;
use core::ptr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, mpsc};
use urgo_sys::mapping::Mapping;

/// An unwinding through two frames needs a few KiB.
const STACK_BYTES: usize = 64 * 1024;

/// Raised ones, that is, in the middle of an unwinding.
static POOL: Mutex<Vec<Counterweight>> = Mutex::new(Vec::new());

struct Counterweight(Box<Contexts>);

struct Contexts {
    own: Cell<*mut u8>,
    host: Cell<*mut u8>,
    /// Holds the stack; never unmapped, as counterweights are never dropped.
    _stack: Mapping,
}

// SAFETY: its stack holds frames of std and of this file only, none of which is bound to a thread.
unsafe impl Send for Counterweight {}

impl Counterweight {
    /// Lowers or raises this thread's count, in turn.
    fn toggle(&self) {
        // SAFETY: `own` is a context saved by `switch_out` below (or made by `init`), and we alone have this counterweight.
        unsafe { urgo_arch::switch_in(self.0.host.as_ptr(), self.0.own.get()) };
    }

    fn switch_out(contexts: &Contexts) {
        // SAFETY: on the counterweight's stack, whose `host` was saved by the `toggle` that entered it.
        unsafe { urgo_arch::switch_out(contexts.own.as_ptr(), contexts.host.as_ptr()) };
    }

    /// A new one, raised on this thread.
    fn raised_here() -> Option<Counterweight> {
        let stack = Mapping::reserve(STACK_BYTES).ok()?;
        let top = stack.base().wrapping_add(STACK_BYTES);
        let contexts = Box::new(Contexts {
            own: Cell::new(ptr::null_mut()),
            host: Cell::new(ptr::null_mut()),
            _stack: stack,
        });
        let argument = ptr::from_ref(&*contexts).cast_mut().cast();
        // SAFETY: the stack is ours and unused; the boxed contexts stay where they are.
        contexts
            .own
            .set(unsafe { urgo_arch::init(top, unwind_for_ever, argument) });
        let counterweight = Counterweight(contexts);
        counterweight.toggle();
        Some(counterweight)
    }

    fn take() -> Option<Counterweight> {
        let pooled = POOL.lock().unwrap_or_else(|e| e.into_inner()).pop();
        pooled.or_else(|| {
            let (give, get) = mpsc::channel();
            let body = move || drop(give.send(Counterweight::raised_here()));
            let thread = HostThreads::Live.start("urgo-count".into(), body).ok()?;
            let made = get.recv().ok().flatten();
            let _ = thread.join();
            made
        })
    }

    fn give_back(self) {
        POOL.lock().unwrap_or_else(|e| e.into_inner()).push(self);
    }
}

/// Switches out in the middle of the unwinding that drops it.
struct Stop<'a>(&'a Contexts);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        Counterweight::switch_out(self.0);
    }
}

unsafe extern "C" fn unwind_for_ever(argument: *mut ()) -> ! {
    // SAFETY: the contexts are boxed and never dropped.
    let contexts = unsafe { &*argument.cast::<Contexts>() };
    loop {
        let unwinding = || {
            let _stop = Stop(contexts);
            resume_unwind(Box::new(()))
        };
        let _: Result<(), _> = catch_unwind(AssertUnwindSafe(unwinding));
        Counterweight::switch_out(contexts);
    }
}

/// What a goroutine has taken off this thread's count.
#[must_use = "the goroutine's panics must be counted again when it comes back"]
pub(super) struct Aside(Vec<Counterweight>);

/// Takes this goroutine's panics off the thread's count. Without memory or threads for a counterweight the count stays:
/// others then see a panic that is not theirs.
#[cold]
pub(super) fn set_aside() -> Aside {
    let mut lowered = Vec::new();
    while std::thread::panicking() {
        let Some(counterweight) = Counterweight::take() else {
            break;
        };
        counterweight.toggle();
        lowered.push(counterweight);
    }
    Aside(lowered)
}

impl Aside {
    /// Counts them again.
    #[cold]
    pub(super) fn put_back(self) {
        for counterweight in self.0 {
            counterweight.toggle();
            counterweight.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::panicking;

    struct Waits<'a>(&'a Cell<u32>);

    impl Drop for Waits<'_> {
        fn drop(&mut self) {
            assert!(panicking());
            let aside = set_aside();
            assert!(!panicking());
            // What others do meanwhile is counted as ever.
            assert!(catch_unwind(|| resume_unwind(Box::new(()))).is_err());
            assert!(!panicking());
            self.0.set(self.0.get() + 1);
            aside.put_back();
            assert!(panicking());
        }
    }

    #[test]
    fn panic_count_is_set_aside_and_back_also_when_nested() {
        let calls = Cell::new(0);
        for _ in 0..3 {
            let nested = || {
                let _outer = Waits(&calls);
                struct Inner<'a>(&'a Cell<u32>);
                impl Drop for Inner<'_> {
                    fn drop(&mut self) {
                        let inner = || {
                            let _waits = Waits(self.0);
                            resume_unwind(Box::new("inner"))
                        };
                        let _: Result<(), _> = catch_unwind(AssertUnwindSafe(inner));
                    }
                }
                let _inner = Inner(&calls);
                resume_unwind(Box::new("outer"))
            };
            let result: Result<(), _> = catch_unwind(AssertUnwindSafe(nested));
            assert!(result.is_err() && !panicking());
        }
        assert_eq!(calls.get(), 6);
    }
}
