//! # Purpose
//!
//! Goroutines as their users see them: spawning and joining, scopes, yielding, who is running, goroutine-locals.
//!
//! # Imports
//!
//! `sched` and below.

mod builder;
mod children;
mod current;
mod join;
mod local;
mod scope;
mod try_scope;
mod uncancellable;

pub use crate::goroutine::StackError;
pub use crate::sched::Placement;
pub use builder::{Builder, SpawnError};
pub use current::{Current, current, exit_goroutine, safepoint, yield_now};
pub use join::{JoinError, JoinHandle};
pub use local::{AccessError, LocalKey};
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use try_scope::{TryScope, try_scope};
pub use uncancellable::uncancellable;

pub(crate) use builder::{refused, spawn_on};
pub(crate) use join::RawJoin;

/// Spawns a goroutine.
///
/// Blocks nothing. The goroutine may be taken over by another worker until it first runs; from then on it stays on one OS
/// thread, so what it keeps across a wait need not be `Send`: only the closure must be. Dropping the handle detaches the
/// goroutine.
///
/// # Panics
///
/// Outside a runtime (use [`Handle::spawn`](crate::Handle::spawn) there), or if no memory can be had for the control block.
///
/// ```
/// urgo::run(|| {
///     let handle = urgo::spawn(|| 6 * 7);
///     assert_eq!(handle.join().unwrap(), 42);
/// });
/// ```
///
/// A closure that is not `Send` is refused; [`spawn_local`] takes it:
///
/// ```compile_fail,E0277
/// urgo::run(|| {
///     let rc = std::rc::Rc::new(1);
///     urgo::spawn(move || *rc);
/// });
/// ```
///
/// So is one that borrows from its surroundings; [`scope`] takes that:
///
/// ```compile_fail,E0597
/// urgo::run(|| {
///     let local = 1;
///     let borrowed = &local;
///     urgo::spawn(move || *borrowed);
/// });
/// ```
#[inline]
#[track_caller]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    match Builder::new().spawn(f) {
        Ok(handle) => handle,
        Err(error) => panic!("urgo::spawn: {error}"),
    }
}

/// Spawns a goroutine on the caller's own worker. Its closure and result need not be `Send`.
///
/// Blocks nothing.
///
/// # Panics
///
/// As [`spawn`].
///
/// ```
/// use std::rc::Rc;
///
/// urgo::run(|| {
///     let shared = Rc::new(5);
///     let other = shared.clone();
///     assert_eq!(urgo::spawn_local(move || *other + 1).join().unwrap(), 6);
/// });
/// ```
///
/// Its handle stays on the worker, too:
///
/// ```compile_fail,E0277
/// urgo::run(|| {
///     let handle = urgo::spawn_local(|| std::rc::Rc::new(1));
///     urgo::spawn(move || handle.join());
/// });
/// ```
#[track_caller]
pub fn spawn_local<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + 'static,
    T: 'static,
{
    match Builder::new().spawn_local(f) {
        Ok(handle) => handle,
        Err(error) => panic!("urgo::spawn_local: {error}"),
    }
}
