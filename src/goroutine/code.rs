//! A goroutine's closure and result inside its control block.
//!
//! The block's storage first holds the closure (or a box of it, if it is too large or too aligned), then, once the
//! closure has run, its result (likewise). `outcome` says which kind of result.
//!
//! # Safety
//!
//! Storage is untyped; each function says what it must hold. The functions of one [`VTable`] belong together, so a
//! block filled by [`fill`] holds what its own vtable expects.

#![allow(unsafe_code)]

use super::block::{EndKind, Goroutine, Storage, VTable};
use super::local::drop_locals;
use super::stack::StackError;
use core::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Payload of the unwinding that ends a cancelled goroutine.
#[derive(Debug)]
pub(crate) struct CancelUnwind;

/// Payload of the unwinding that `exit_goroutine` starts.
#[derive(Debug)]
pub(crate) struct ExitUnwind;

/// A panic's payload.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Payloads that panic one out of the other, before the next is leaked rather than dropped.
const PAYLOADS_MAX: u32 = 64;

/// Drops a value whose `Drop` may panic, and what such a panic carries, and so on.
pub(crate) fn discard<V>(value: V) {
    let mut payload = catch_unwind(AssertUnwindSafe(|| drop(value))).err();
    for _ in 0..PAYLOADS_MAX {
        let Some(next) = payload else { return };
        payload = catch_unwind(AssertUnwindSafe(|| drop(next))).err();
    }
    std::mem::forget(payload);
}

const fn is_inline<V>() -> bool {
    size_of::<V>() <= size_of::<Storage>() && align_of::<V>() <= align_of::<Storage>()
}

impl Storage {
    /// # Safety
    ///
    /// The caller has the storage to itself, and it holds nothing.
    unsafe fn put<V>(&self, value: V) {
        let place = self.0.get();
        // SAFETY: ours by contract; inline values fit and are aligned (`is_inline`), and so does a box.
        unsafe {
            if is_inline::<V>() {
                place.cast::<V>().write(value);
            } else {
                place.cast::<Box<V>>().write(Box::new(value));
            }
        }
    }

    /// # Safety
    ///
    /// The caller has the storage to itself, and it holds a `V`, which is gone from it afterwards.
    unsafe fn take<V>(&self) -> V {
        let place = self.0.get();
        // SAFETY: the counterpart of `put`.
        unsafe {
            if is_inline::<V>() {
                place.cast::<V>().read()
            } else {
                *place.cast::<Box<V>>().read()
            }
        }
    }
}

/// Puts a closure into a fresh block.
///
/// # Safety
///
/// The caller has the block to itself. What the closure borrows outlives the goroutine.
#[inline]
pub(crate) unsafe fn fill<F, T>(g: &Goroutine, closure: F)
where
    F: FnOnce() -> T,
{
    // SAFETY: the caller has the block to itself; a fresh block's storage holds nothing.
    unsafe { g.storage.put(closure) };
    g.vtable.set(
        const {
            &VTable {
                run: run::<F, T>,
                drop_closure: drop_closure::<F>,
                drop_result: drop_result::<T>,
            }
        },
    );
}

/// SAFETY contract of all `VTable::run`: called once, on the goroutine's stack, with the closure in storage.
unsafe fn run<F, T>(g: &Goroutine)
where
    F: FnOnce() -> T,
{
    // SAFETY: filled with an `F`, not yet taken.
    let closure = unsafe { g.storage.take::<F>() };
    let mut result = catch_unwind(AssertUnwindSafe(closure));
    while let Some(payload) = drop_own_locals(g) {
        if result.is_ok() {
            result = Err(payload);
        } else {
            // Which may make locals anew, so go round again.
            discard(payload);
        }
    }
    let kind = match result {
        Ok(value) => {
            // SAFETY: the closure is gone from storage.
            unsafe { g.storage.put(value) };
            EndKind::Value
        }
        Err(payload) if payload.is::<CancelUnwind>() => EndKind::Cancelled,
        Err(payload) if payload.is::<ExitUnwind>() => EndKind::Exited,
        Err(payload) => {
            // SAFETY: as above.
            unsafe { g.storage.put::<Payload>(payload) };
            EndKind::Panic
        }
    };
    g.outcome.set(kind);
}

/// Drops locals that were made after the closure's end, by the `Drop` of the closure or of the result.
pub(crate) fn drain_locals(g: &Goroutine) {
    while let Some(payload) = drop_own_locals(g) {
        discard(payload);
    }
}

fn drop_own_locals(g: &Goroutine) -> Option<Payload> {
    if g.extra.get().is_null() {
        return None;
    }
    // SAFETY: the goroutine's own locals, on its own stack.
    unsafe { drop_locals(g.locals()) }
}

/// SAFETY contract of all `VTable::drop_closure`: the goroutine never started; the caller has the block.
unsafe fn drop_closure<F>(g: &Goroutine) {
    // SAFETY: filled with an `F`, not yet taken.
    let closure = unsafe { g.storage.take::<F>() };
    // A panicking `Drop` of a captured value must not end a worker.
    discard(closure);
}

/// SAFETY contract of all `VTable::drop_result`: the goroutine is done; the caller has the block.
unsafe fn drop_result<T>(g: &Goroutine) {
    // SAFETY: by contract.
    let result = unsafe { take_result::<T>(g) };
    discard(result);
    drain_locals(g);
}

/// What a goroutine left in its block.
pub(crate) enum End<T> {
    Value(T),
    Panic(Payload),
    Cancelled,
    Exited,
    NoStack(StackError),
}

/// Takes the result out of a block that is done.
///
/// # Safety
///
/// The goroutine's result type is `T`, it is done, its result was not taken, and the caller has the block.
#[inline]
pub(crate) unsafe fn take_result<T>(g: &Goroutine) -> End<T> {
    // SAFETY: `outcome` says what is in storage (see `EndKind`).
    unsafe {
        match g.outcome.get() {
            EndKind::Value => End::Value(g.storage.take()),
            EndKind::Panic => End::Panic(g.storage.take()),
            EndKind::Cancelled => End::Cancelled,
            EndKind::Exited => End::Exited,
            EndKind::NoStack => End::NoStack(g.storage.take()),
        }
    }
}

/// Ends a goroutine whose closure was not called: drops the closure and records why. Runs the closure's destructors on the
/// caller's stack.
///
/// # Safety
///
/// The closure is still in the block and the caller has the block.
pub(crate) unsafe fn end_uncalled(g: &Goroutine, no_stack: Option<StackError>) {
    let inherited = g.take_inherited();
    // SAFETY: the closure is in storage.
    unsafe { (g.vtable.get().drop_closure)(g) };
    // Perhaps the last to hold it: then the values of contexts are dropped here.
    discard(inherited);
    drain_locals(g);
    match no_stack {
        None => g.outcome.set(EndKind::Cancelled),
        Some(error) => {
            // SAFETY: the closure is gone from storage.
            unsafe { g.storage.put(error) };
            g.outcome.set(EndKind::NoStack);
        }
    }
}
