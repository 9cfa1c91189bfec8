//! Scopes: goroutines that may borrow, because they end before the scope does.
//!
//! # Safety
//!
//! Closures that borrow from outside the scope are spawned as if they did not: `scope` returns (or unwinds) only when all
//! of them have ended and dropped their closures and results, whatever happens.

#![allow(unsafe_code)]

use super::builder::{Builder, SpawnError};
use super::join::{JoinError, JoinHandle, RawJoin};
use crate::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use crate::goroutine::{CancelUnwind, ExitUnwind};
use crate::park::{Outcome, WaitReason, Waiter};
use crate::sched;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::{Arc, Mutex};

/// How many children are not over, and who waits for the last.
///
/// Ordering: SC1 `leave`'s exchange (AcqRel) pairs with `wait`'s load (Acquire): what the children did. SC2 `wait` stores
/// the waiter (Release) before it drops its own count (AcqRel), `leave` loads it after (Acquire).
#[derive(Debug)]
struct Children {
    /// Children that are not over, plus one for the scope itself while it does not wait.
    running: AtomicUsize,
    waiter: AtomicPtr<Waiter>,
    panicked: AtomicBool,
}

impl Children {
    fn enter(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// One child (or the scope itself) is over. Whoever is last finishes the waiter.
    fn leave(&self) {
        // SC1, pairs with itself and with the load in `wait`.
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SC2, pairs with the store in `wait`.
            let waiter = self.waiter.load(Ordering::Acquire);
            // SAFETY: the scope stored it before it dropped its own count, so it waits until this finishes it.
            if let Some(wake) = unsafe { &*waiter }.finish(Outcome::Woken) {
                sched::settle(wake);
            }
        }
    }

    /// The scope: waits for all children, whatever happens.
    fn wait(&self) {
        // SC1, pairs with the exchange in `leave`.
        if self.running.load(Ordering::Acquire) == 1 {
            return;
        }
        let waiter = sched::new_waiter();
        // SC2, pairs with the load in `leave`.
        self.waiter
            .store((&raw const waiter).cast_mut(), Ordering::Release);
        self.leave();
        sched::wait_uncancellable(&waiter, WaitReason::Scope);
    }
}

/// A scope to spawn goroutines in. Made by [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    children: Arc<Children>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Calls `f` with a scope in which goroutines may borrow from the surroundings, and waits for all of them.
///
/// Blocks the calling goroutine until every goroutine of the scope has ended, also if `f` panics or the caller is
/// cancelled. As `std::thread::scope`.
///
/// # Panics
///
/// With `f`'s own panic; or if a goroutine of the scope panicked whose handle was not joined.
///
/// ```
/// urgo::run(|| {
///     let words = ["stackful", "goroutines"];
///     let mut total = 0;
///     urgo::scope(|s| {
///         let handles = words.map(|word| s.spawn(|| word.len()));
///         total = handles.into_iter().map(|h| h.join().unwrap()).sum();
///     });
///     assert_eq!(total, 18);
/// });
/// ```
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let children = Arc::new(Children {
        running: AtomicUsize::new(1),
        waiter: AtomicPtr::new(ptr::null_mut()),
        panicked: AtomicBool::new(false),
    });
    let scope = Scope {
        children,
        scope: PhantomData,
        env: PhantomData,
    };
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    scope.children.wait();
    match result {
        Err(payload) => resume_unwind(payload),
        Ok(value) => {
            sched::unwind_if_cancelled();
            // The children's stores happen before `wait` returned (SC1).
            assert!(
                !scope.children.panicked.load(Ordering::Relaxed),
                "a scoped goroutine panicked"
            );
            value
        }
    }
}

/// Counts a child out.
struct Leave(Arc<Children>);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A scoped goroutine's closure. Fields are dropped in this order: what it borrows is gone before the child counts out,
/// also if it never starts.
struct Child<F, T> {
    f: F,
    slot: Arc<Slot<T>>,
    leave: Leave,
}

/// Where a scoped goroutine's result goes: not into its control block, because the block's result may be dropped only
/// after the goroutine's end, when the scope may be over.
struct Slot<T> {
    state: Mutex<SlotState<T>>,
}

enum SlotState<T> {
    Running,
    Ended(std::thread::Result<T>),
    /// The handle is gone, or has taken the result.
    Detached,
}

impl<T> Slot<T> {
    /// Puts `state` in and returns what was there; its lock is never held while user code runs.
    fn replace(&self, state: SlotState<T>) -> SlotState<T> {
        std::mem::replace(
            &mut *self.state.lock().unwrap_or_else(|e| e.into_inner()),
            state,
        )
    }
}

impl<F, T> Child<F, T>
where
    F: FnOnce() -> T,
{
    fn run(self) {
        let Child { f, slot, leave } = self;
        let result = catch_unwind(AssertUnwindSafe(f));
        // A cancellation (or an exit) goes on to the goroutine's own end, which says so to whoever joins.
        let result = match result {
            Err(payload) if payload.is::<CancelUnwind>() || payload.is::<ExitUnwind>() => {
                drop(slot);
                drop(leave);
                resume_unwind(payload);
            }
            result => result,
        };
        let panicked = result.is_err();
        if let SlotState::Detached = slot.replace(SlotState::Ended(result)) {
            // Nobody will take it: it goes now, while what it may borrow is there.
            leave.0.panicked.fetch_or(panicked, Ordering::Relaxed);
            let unwanted = slot.replace(SlotState::Detached);
            drop(catch_unwind(AssertUnwindSafe(|| drop(unwanted))));
        }
        drop(slot);
        drop(leave);
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a goroutine that may borrow from outside the scope.
    ///
    /// Blocks nothing.
    ///
    /// # Panics
    ///
    /// On a plain thread, or if no memory can be had for the control block.
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        match self.spawn_with(Builder::new(), f) {
            Ok(handle) => handle,
            Err(error) => panic!("Scope::spawn: {error}"),
        }
    }

    /// As [`spawn`](Self::spawn), for a goroutine that `builder` says more about.
    ///
    /// # Errors
    ///
    /// [`SpawnError`].
    #[track_caller]
    pub fn spawn_with<F, T>(
        &'scope self,
        builder: Builder,
        f: F,
    ) -> Result<ScopedJoinHandle<'scope, T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.children.enter();
        let leave = Leave(self.children.clone());
        let slot = Arc::new(Slot {
            state: Mutex::new(SlotState::Running),
        });
        let child = Child {
            f,
            slot: slot.clone(),
            leave,
        };
        // SAFETY: `Send` by the bounds; the scope ends only when the child has counted out, which is after its closure and
        // result are gone (`Child`).
        let raw = unsafe { builder.spawn_unchecked(move || child.run(), Location::caller()) }?;
        Ok(ScopedJoinHandle {
            raw: Some(raw),
            slot,
            children: self.children.clone(),
            scope: PhantomData,
        })
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("children", &self.children)
            .finish()
    }
}

/// The right to a scoped goroutine's result. Dropping it leaves the joining to the scope.
pub struct ScopedJoinHandle<'scope, T> {
    raw: Option<RawJoin<()>>,
    slot: Arc<Slot<T>>,
    children: Arc<Children>,
    scope: PhantomData<&'scope ()>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits for the goroutine's end and takes its value, as [`JoinHandle::join`](super::JoinHandle::join).
    ///
    /// # Errors
    ///
    /// [`JoinError`].
    pub fn join(mut self) -> Result<T, JoinError> {
        let Some(raw) = self.raw.take() else {
            unreachable!("join takes the handle")
        };
        let end = JoinHandle::new(raw).join();
        match self.slot.replace(SlotState::Detached) {
            SlotState::Ended(Ok(value)) => Ok(value),
            SlotState::Ended(Err(payload)) => Err(JoinError::Panic(payload)),
            SlotState::Running | SlotState::Detached => {
                Err(end.err().unwrap_or(JoinError::Cancelled))
            }
        }
    }

    /// Whether the goroutine has ended. Blocks nothing.
    pub fn is_finished(&self) -> bool {
        self.raw.as_ref().is_none_or(RawJoin::is_finished)
    }
}

impl<T> Drop for ScopedJoinHandle<'_, T> {
    fn drop(&mut self) {
        if let SlotState::Ended(result) = self.slot.replace(SlotState::Detached) {
            self.children
                .panicked
                .fetch_or(result.is_err(), Ordering::Relaxed);
        }
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle")
            .field("is_finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}
