//! Scopes whose goroutines may fail: the first error ends the others.

use super::builder::{Builder, SpawnError};
use super::children::Kin;
use super::scope::Scope;
use crate::goroutine::{CancelUnwind, ExitUnwind};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, MutexGuard};

/// A scope for goroutines that may fail. Made by [`try_scope`].
pub struct TryScope<'scope, 'env: 'scope, E> {
    scope: Scope<'scope, 'env>,
    first: Mutex<Option<E>>,
}

/// Calls `f` with a scope in which goroutines may borrow from the surroundings and may fail, and waits for all of them. The
/// first error cancels the others and is returned.
///
/// As [`scope`](super::scope), and besides: if a goroutine of the scope, or `f` itself, returns an error, the other goroutines are
/// [cancelled](crate::JoinHandle::cancel), and what is spawned later is dropped without being called. The first error is what this returns;
/// further ones are dropped. A goroutine that panics cancels the others as well, and so does one for which there is no stack. `f` is not cut short by its goroutines' errors, as in
/// Go's `errgroup`; it can ask [`is_cancelled`](TryScope::is_cancelled).
///
/// Goroutines hand over results through what they borrow.
///
/// # Errors
///
/// The first error of a goroutine of the scope or of `f`.
///
/// # Panics
///
/// With `f`'s own panic, or if a goroutine of the scope panicked, or could not start because there was no stack for it. A panic in the
/// `Drop` of a further error is that of whoever returned it.
///
/// ```
/// use std::time::Duration;
///
/// urgo::run(|| {
///     let (mut a, mut b) = (0, 0);
///     let done: Result<(), String> = urgo::try_scope(|s| {
///         s.spawn(|| Ok(a = 1));
///         s.spawn(|| Ok(b = 2));
///         Ok(())
///     });
///     assert_eq!((done, a + b), (Ok(()), 3));
///
///     let failed: Result<(), &str> = urgo::try_scope(|s| {
///         for _ in 0..10 {
///             s.spawn(|| Ok(urgo::sleep(Duration::MAX)));
///         }
///         s.spawn(|| Err("no such thing"));
///         Ok(())
///     });
///     assert_eq!(failed, Err("no such thing"));
/// });
/// ```
#[track_caller]
pub fn try_scope<'env, F, T, E>(f: F) -> Result<T, E>
where
    F: for<'scope> FnOnce(&'scope TryScope<'scope, 'env, E>) -> Result<T, E>,
{
    let scope = TryScope {
        scope: Scope::new(Kin::Together),
        first: Mutex::new(None),
    };
    let result = scope.watch(|| f(&scope));
    let value = scope.scope.end(result);
    let first = scope.lock_first().take();
    match (first, value) {
        (Some(error), _) => Err(error),
        (None, Some(value)) => Ok(value),
        (None, None) => unreachable!("a failure leaves its error"),
    }
}

impl<E> TryScope<'_, '_, E> {
    /// Calls `f`. If it fails or panics, the goroutines of the scope are cancelled, all but the caller.
    fn watch<T>(&self, f: impl FnOnce() -> Result<T, E>) -> std::thread::Result<Option<T>> {
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(Ok(value)) => Ok(Some(value)),
            Ok(Err(error)) => {
                // A late error's `Drop` is user code.
                let kept = catch_unwind(AssertUnwindSafe(|| self.keep(error)));
                self.scope.cancel_others();
                kept.map(|()| None)
            }
            Err(payload) => {
                // Who is cancelled, or exits, has not failed.
                if !payload.is::<CancelUnwind>() && !payload.is::<ExitUnwind>() {
                    self.scope.cancel_others();
                }
                Err(payload)
            }
        }
    }

    fn lock_first(&self) -> MutexGuard<'_, Option<E>> {
        self.first.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Keeps the first error, and drops a later one outside the lock.
    fn keep(&self, error: E) {
        let late = {
            let mut first = self.lock_first();
            if first.is_none() {
                first.replace(error)
            } else {
                Some(error)
            }
        };
        drop(late);
    }

    /// From now on, spawning in this scope waits while `n` of its goroutines are alive. As [`Scope::limit`].
    ///
    /// # Panics
    ///
    /// If `n` is 0.
    #[track_caller]
    pub fn limit(&self, n: usize) {
        self.scope.limit(n);
    }

    /// Cancels every goroutine of the scope, without an error. As [`Scope::cancel`].
    pub fn cancel(&self) {
        self.scope.cancel();
    }

    /// Whether the scope was cancelled, by an error or otherwise. Blocks nothing.
    pub fn is_cancelled(&self) -> bool {
        self.scope.is_cancelled()
    }
}

impl<'scope, E> TryScope<'scope, '_, E> {
    /// Spawns a goroutine that may borrow from outside the scope, and may fail.
    ///
    /// Blocks nothing, unless the scope has a [`limit`](Self::limit).
    ///
    /// # Panics
    ///
    /// On a plain thread, or if no memory can be had for the control block.
    #[track_caller]
    pub fn spawn<F>(&'scope self, f: F)
    where
        F: FnOnce() -> Result<(), E> + Send + 'scope,
        E: Send,
    {
        if let Err(error) = self.spawn_with(Builder::new(), f) {
            panic!("TryScope::spawn: {error}");
        }
    }

    /// As [`spawn`](Self::spawn), for a goroutine that `builder` says more about.
    ///
    /// # Errors
    ///
    /// [`SpawnError`].
    #[track_caller]
    pub fn spawn_with<F>(&'scope self, builder: Builder, f: F) -> Result<(), SpawnError>
    where
        F: FnOnce() -> Result<(), E> + Send + 'scope,
        E: Send,
    {
        let child = move || match self.watch(f) {
            Ok(_) => {}
            Err(payload) => resume_unwind(payload),
        };
        self.scope.spawn_with(builder, child).map(drop)
    }
}

impl<E> fmt::Debug for TryScope<'_, '_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryScope")
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}
