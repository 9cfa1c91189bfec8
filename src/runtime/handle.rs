//! Spawning from outside.
//!
//! # Safety
//!
//! The main goroutine may borrow from its caller, who waits for it.

#![allow(unsafe_code)]

use crate::go::{self, JoinHandle, RawJoin, SpawnError};
use crate::sched::Shared;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// Spawns goroutines on a runtime from any thread. Clones are the same runtime; it ends without regard to its handles.
///
/// ```
/// # fn main() -> Result<(), urgo::BuildError> {
/// let runtime = urgo::Runtime::builder().build()?;
/// let handle = runtime.handle();
/// let from_a_thread = std::thread::spawn(move || handle.spawn(|| urgo::current().worker()).join());
/// assert!(from_a_thread.join().unwrap().is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    pub(super) fn new(shared: Arc<Shared>) -> Handle {
        Handle { shared }
    }

    /// The runtime of the running goroutine.
    ///
    /// # Panics
    ///
    /// On a plain thread.
    #[must_use]
    #[track_caller]
    pub fn current() -> Handle {
        let worker = crate::sched::worker().expect("Handle::current was called on a plain thread");
        Handle {
            shared: worker.shared.clone(),
        }
    }

    /// Spawns a goroutine on the handle's runtime. Blocks nothing.
    ///
    /// If the runtime is ending or has ended, the closure is dropped, and joining says
    /// [`JoinError::Cancelled`](crate::JoinError::Cancelled).
    ///
    /// # Panics
    ///
    /// If no memory can be had for the control block.
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.spawn_with(go::Builder::new(), f) {
            Ok(handle) => handle,
            Err(SpawnError::Stopped) => go::refused(&self.shared, Location::caller()),
            Err(error) => panic!("Handle::spawn: {error}"),
        }
    }

    /// Spawns a goroutine that `builder` says more about.
    ///
    /// # Errors
    ///
    /// [`SpawnError`]; its [`Stopped`](SpawnError::Stopped) if the runtime is ending or has ended. The closure is dropped.
    #[track_caller]
    pub fn spawn_with<F, T>(&self, builder: go::Builder, f: F) -> Result<JoinHandle<T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: the closure is `Send` and borrows nothing shorter than `'static`.
        unsafe { go::spawn_on(&self.shared, builder, f, Location::caller()) }.map(JoinHandle::new)
    }

    /// The runtime's counts. Blocks nothing.
    #[must_use]
    pub fn metrics(&self) -> crate::debug::Metrics {
        crate::debug::metrics_of(&self.shared)
    }

    /// The runtime's number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.shared.remotes.len()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("workers", &self.workers())
            .finish_non_exhaustive()
    }
}

/// Spawns the main goroutine, which may borrow: the caller joins it before anything else, and so does its unwinding,
/// because nothing between the spawn and the join can panic.
pub(super) fn spawn_borrowed<F, T>(
    shared: &Shared,
    builder: go::Builder,
    f: F,
    site: &'static Location<'static>,
) -> Result<RawJoin<T>, SpawnError>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    // SAFETY: `Send` by the bounds; `Runtime::try_run`, the only caller, joins at once.
    unsafe { go::spawn_on(shared, builder, f, site) }
}
