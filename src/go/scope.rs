//! Scopes: goroutines that may borrow, because they end before the scope does.
//!
//! # Safety
//!
//! Closures that borrow from outside the scope are spawned as if they did not: `scope` returns (or unwinds) only when all
//! of them have ended and dropped their closures and results, whatever happens. User code is called under `catch_unwind` there; and
//! should anything else unwind, [`Joined`], which the scope's own frame holds, lets it go no further before the last has ended.

#![allow(unsafe_code)]

use super::builder::{Builder, SpawnError};
use super::children::{Children, Joined, Kin, Membership, Spared};
use super::join::{JoinError, JoinHandle, RawJoin};
use crate::goroutine::{CancelUnwind, ExitUnwind, Payload, discard};
use crate::sched;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};

/// A scope to spawn goroutines in. Made by [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    children: Joined,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Calls `f` with a scope in which goroutines may borrow from the surroundings, and waits for all of them.
///
/// Blocks the calling goroutine until every goroutine of the scope has ended, also if `f` panics or handles are forgotten. As
/// `std::thread::scope`. If the caller is [cancelled](crate::JoinHandle::cancel), its wait inside `f` or for the scope's goroutines ends,
/// these are cancelled, too, in the order of their ids, and the caller unwinds when they have ended.
///
/// [`try_scope`](super::try_scope) is for goroutines that may fail.
///
/// # Panics
///
/// With `f`'s own panic; or if a goroutine of the scope panicked, or could not start because there was no stack for it, whose handle was
/// not joined.
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
    let scope = Scope::new(Kin::Apart);
    let result = catch_unwind(AssertUnwindSafe(|| f(&scope)));
    scope.end(result)
}

impl Scope<'_, '_> {
    pub(super) fn new(kin: Kin) -> Self {
        Scope {
            children: Joined(Children::new(kin)),
            scope: PhantomData,
            env: PhantomData,
        }
    }

    /// Waits for all children, whatever happens; then it is as if nobody had caught `result`.
    #[track_caller]
    pub(super) fn end<T>(&self, result: std::thread::Result<T>) -> T {
        if result
            .as_ref()
            .is_err_and(|payload| payload.is::<CancelUnwind>())
        {
            self.children.follow_parent();
        }
        self.children.wait();
        match result {
            Err(payload) => resume_unwind(payload),
            Ok(value) => {
                sched::unwind_if_cancelled();
                assert!(!self.children.has_panicked(), "a scoped goroutine panicked");
                assert!(
                    !self.children.has_unstarted(),
                    "a scoped goroutine could not start: there was no stack for it"
                );
                value
            }
        }
    }
}

/// A scoped goroutine's closure. Fields are dropped in this order: what it borrows is gone before the child counts out,
/// also if it never starts.
struct Child<F, T> {
    f: F,
    place: Place<T>,
}

/// What a child leaves behind it: first its result, then the scope.
struct Place<T> {
    slot: Arc<Slot<T>>,
    membership: Membership,
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        if self.membership.is_without_stack()
            && let SlotState::Detached = self.slot.replace(SlotState::Unstarted)
        {
            self.membership.children.note_unstarted();
        }
    }
}

/// Where a scoped goroutine's result goes: not into its control block, because the block's result may be dropped only
/// after the goroutine's end, when the scope may be over.
struct Slot<T> {
    state: Mutex<SlotState<T>>,
}

enum SlotState<T> {
    Running,
    Ended(std::thread::Result<T>),
    /// There was no stack for it.
    Unstarted,
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
        let Child { f, mut place } = self;
        let result = if place.membership.start() {
            catch_unwind(AssertUnwindSafe(f))
        } else {
            discard(f);
            Err(Box::new(CancelUnwind) as Payload)
        };
        // A cancellation (or an exit) goes on to the goroutine's own end, which says so to whoever joins.
        let result = match result {
            Err(payload) if payload.is::<CancelUnwind>() || payload.is::<ExitUnwind>() => {
                drop(place);
                resume_unwind(payload);
            }
            result => result,
        };
        let panicked = result.is_err();
        if let SlotState::Detached = place.slot.replace(SlotState::Ended(result)) {
            // Nobody will take it: it goes now, while what it may borrow is there.
            place.membership.children.note_panic(panicked);
            discard(place.slot.replace(SlotState::Detached));
        }
        drop(place);
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a goroutine that may borrow from outside the scope.
    ///
    /// Blocks nothing, unless the scope has a [`limit`](Self::limit).
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
        let membership = self.children.enter();
        let slot = Arc::new(Slot {
            state: Mutex::new(SlotState::Running),
        });
        let child = Child {
            f,
            place: Place {
                slot: slot.clone(),
                membership,
            },
        };
        // SAFETY: `Send` by the bounds; the scope ends only when the child has counted out, which is after its closure and
        // result are gone (`Child`).
        let raw = unsafe { builder.spawn_unchecked(move || child.run(), Location::caller()) }?;
        Ok(ScopedJoinHandle {
            raw: Some(raw),
            slot,
            children: self.children.0.clone(),
            scope: PhantomData,
        })
    }
}

impl Scope<'_, '_> {
    /// From now on, spawning in this scope waits while `n` of its goroutines are alive.
    ///
    /// The wait blocks the goroutine that spawns, and counts as a wait: if that one is cancelled it unwinds from there. A goroutine of the
    /// scope that spawns in it is alive meanwhile: if all of them do, they wait for ever. Those that are
    /// alive when the limit is set stay, even if they are more.
    ///
    /// # Panics
    ///
    /// If `n` is 0.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// urgo::run(|| {
    ///     let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    ///     urgo::scope(|s| {
    ///         s.limit(3);
    ///         for _ in 0..100 {
    ///             s.spawn(|| {
    ///                 most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    ///                 urgo::yield_now();
    ///                 now.fetch_sub(1, Ordering::SeqCst);
    ///             });
    ///         }
    ///     });
    ///     assert!(most.into_inner() <= 3);
    /// });
    /// ```
    #[track_caller]
    pub fn limit(&self, n: usize) {
        assert!(n > 0, "a scope with a limit of 0 could spawn nothing");
        self.children.set_limit(n);
    }

    /// Cancels every goroutine of the scope as [`JoinHandle::cancel`](super::JoinHandle::cancel) does, in the order of their ids; the caller,
    /// too, if it is one of them. What is spawned from then on is dropped without being called. Blocks nothing.
    ///
    /// ```
    /// urgo::run(|| {
    ///     urgo::scope(|s| {
    ///         for _ in 0..10 {
    ///             s.spawn(|| urgo::sleep(std::time::Duration::MAX));
    ///         }
    ///         s.cancel();
    ///     });
    /// });
    /// ```
    pub fn cancel(&self) {
        self.children.cancel(Spared::Nobody);
    }

    /// Whether the scope was cancelled. Blocks nothing.
    pub fn is_cancelled(&self) -> bool {
        self.children.is_cancelled()
    }

    pub(super) fn cancel_others(&self) {
        self.children.cancel(Spared::Caller);
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("children", &self.children.0)
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
            SlotState::Running | SlotState::Unstarted | SlotState::Detached => {
                Err(end.err().unwrap_or(JoinError::Cancelled))
            }
        }
    }

    /// Whether the goroutine has ended. Blocks nothing.
    pub fn is_finished(&self) -> bool {
        self.raw.as_ref().is_none_or(RawJoin::is_finished)
    }

    /// Ends the goroutine from outside, as [`JoinHandle::cancel`](super::JoinHandle::cancel). Blocks nothing.
    pub fn cancel(&self) {
        if let Some(raw) = &self.raw {
            raw.cancel();
        }
    }
}

impl<T> Drop for ScopedJoinHandle<'_, T> {
    fn drop(&mut self) {
        match self.slot.replace(SlotState::Detached) {
            SlotState::Ended(result) => self.children.note_panic(result.is_err()),
            // Not if it was joined: that has said so.
            SlotState::Unstarted => self.children.note_unstarted(),
            SlotState::Running | SlotState::Detached => {}
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
