//! The goroutine builder: name, stack size, placement.
//!
//! # Safety
//!
//! Closures are handed to the scheduler with the promise that what they borrow outlives the goroutine: by their `'static`
//! bound, or by the scope that joins them.

#![allow(unsafe_code)]

use super::join::{JoinHandle, RawJoin};
use crate::goroutine::{Extra, class_of};
use crate::limits::STACK_BYTES_MAX;
use crate::sched::{self, Placement, Plan, Shared, SpawnRefused};
use std::fmt;
use std::panic::Location;

/// Says more about a goroutine than [`spawn`](crate::spawn) does.
///
/// ```
/// use urgo::go::{Builder, Placement};
///
/// urgo::run(|| {
///     let handle = Builder::new()
///         .name("parser")
///         .stack_size(1 << 20)
///         .placement(Placement::Spread)
///         .spawn(|| urgo::current().name().map(String::from))?;
///     assert_eq!(handle.join().unwrap().as_deref(), Some("parser"));
///     Ok::<(), urgo::go::SpawnError>(())
/// })
/// .unwrap();
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it spawns"]
pub struct Builder {
    name: Option<Box<str>>,
    stack_bytes: Option<usize>,
    placement: Placement,
}

/// Why a goroutine was not spawned. Its closure has been dropped.
#[derive(Debug)]
#[non_exhaustive]
pub enum SpawnError {
    /// The caller is no goroutine: spawn through a [`Handle`](crate::Handle).
    NoRuntime,
    /// The runtime is ending or has ended.
    Stopped,
    /// The stack size in bytes is 0 or beyond 1 GiB.
    StackSize(usize),
    /// There is no worker with this index.
    NoSuchWorker {
        /// The index asked for.
        index: usize,
        /// How many workers there are.
        workers: usize,
    },
    /// No memory for the control block.
    OutOfMemory,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::NoRuntime => f.write_str(
                "not called from a goroutine: wrap the program in urgo::run, or spawn through a runtime's Handle",
            ),
            SpawnError::Stopped => f.write_str("the runtime is ending or has ended"),
            SpawnError::StackSize(bytes) => {
                write!(f, "a stack of {bytes} bytes was asked for; it must be more than 0 and at most {STACK_BYTES_MAX}")
            }
            SpawnError::NoSuchWorker { index, workers } => {
                write!(f, "placed on worker {index}, but there are only workers 0 to {}", workers - 1)
            }
            SpawnError::OutOfMemory => f.write_str("no address space for the goroutine's control block"),
        }
    }
}

impl std::error::Error for SpawnError {}

impl From<SpawnError> for std::io::Error {
    fn from(error: SpawnError) -> std::io::Error {
        let kind = match error {
            SpawnError::StackSize(_) | SpawnError::NoSuchWorker { .. } => {
                std::io::ErrorKind::InvalidInput
            }
            SpawnError::OutOfMemory => std::io::ErrorKind::OutOfMemory,
            SpawnError::NoRuntime | SpawnError::Stopped => std::io::ErrorKind::Other,
        };
        std::io::Error::new(kind, error)
    }
}

impl Builder {
    /// A builder with nothing said.
    #[inline]
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Names the goroutine, for reports and dumps.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into().into_boxed_str());
        self
    }

    /// Sets the stack's reserve in bytes, rounded up to a power of two of at least 16 KiB. Only touched pages cost memory.
    /// Below 32 KiB a panic that prints a backtrace (`RUST_BACKTRACE=1`) may overflow the stack.
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_bytes = Some(bytes);
        self
    }

    /// Says where the goroutine may run.
    pub fn placement(mut self, placement: Placement) -> Builder {
        self.placement = placement;
        self
    }

    /// Spawns a goroutine as [`urgo::spawn`](crate::spawn) does.
    ///
    /// # Errors
    ///
    /// [`SpawnError`].
    #[inline]
    #[track_caller]
    pub fn spawn<F, T>(self, f: F) -> Result<JoinHandle<T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: the closure is `Send` and borrows nothing shorter than `'static`.
        unsafe { self.spawn_unchecked(f, Location::caller()) }.map(JoinHandle::new)
    }

    /// Spawns a goroutine as [`urgo::spawn_local`](crate::spawn_local) does; a placement that was set is ignored.
    ///
    /// # Errors
    ///
    /// [`SpawnError`].
    #[track_caller]
    pub fn spawn_local<F, T>(mut self, f: F) -> Result<JoinHandle<T>, SpawnError>
    where
        F: FnOnce() -> T + 'static,
        T: 'static,
    {
        self.placement = Placement::Local;
        // SAFETY: placed locally, so the closure stays on this thread; it borrows nothing shorter than `'static`.
        unsafe { self.spawn_unchecked(f, Location::caller()) }.map(JoinHandle::new)
    }

    /// # Safety
    ///
    /// What the closure borrows outlives the goroutine; it is `Send`, or the placement is local.
    #[inline]
    pub(super) unsafe fn spawn_unchecked<F, T>(
        self,
        f: F,
        site: &'static Location<'static>,
    ) -> Result<RawJoin<T>, SpawnError>
    where
        F: FnOnce() -> T,
    {
        let Some(worker) = sched::worker() else {
            return Err(SpawnError::NoRuntime);
        };
        let plan = self.plan(site, worker.shared.remotes.len())?;
        // SAFETY: by this function's contract.
        let block = unsafe { worker.spawn(plan, f) }.map_err(|_| SpawnError::OutOfMemory)?;
        // SAFETY: the goroutine's result type is `T`, and this is its only handle.
        Ok(unsafe { RawJoin::new(block) })
    }

    #[inline]
    fn plan(self, site: &'static Location<'static>, workers: usize) -> Result<Plan, SpawnError> {
        if let Placement::Worker(index) = self.placement
            && index >= workers
        {
            return Err(SpawnError::NoSuchWorker { index, workers });
        }
        let placement = self.placement;
        let extra = if self.name.is_some() || self.stack_bytes.is_some() {
            self.extra()?
        } else {
            None
        };
        Ok(Plan {
            site,
            extra,
            placement,
        })
    }

    #[cold]
    fn extra(self) -> Result<Option<Box<Extra>>, SpawnError> {
        let stack_bytes = match self.stack_bytes {
            Some(bytes) if bytes == 0 || class_of(bytes).is_none() => {
                return Err(SpawnError::StackSize(bytes));
            }
            bytes => bytes.unwrap_or(0),
        };
        Ok(Some(Box::new(Extra {
            name: self.name,
            stack_bytes,
            ..Extra::default()
        })))
    }
}

/// Spawns on the runtime of `shared`, from any thread.
///
/// # Safety
///
/// The closure is `Send`, and what it borrows outlives the goroutine.
pub(crate) unsafe fn spawn_on<F, T>(
    shared: &Shared,
    builder: Builder,
    f: F,
    site: &'static Location<'static>,
) -> Result<RawJoin<T>, SpawnError>
where
    F: FnOnce() -> T,
{
    if let Some(worker) = sched::worker()
        && std::ptr::eq(&*worker.shared, shared)
    {
        // SAFETY: by this function's contract.
        return unsafe { builder.spawn_unchecked(f, site) };
    }
    let plan = builder.plan(site, shared.remotes.len())?;
    // SAFETY: by this function's contract.
    match unsafe { shared.spawn_foreign(plan, f) } {
        // SAFETY: the goroutine's result type is `T`, and this is its only handle.
        Ok(block) => Ok(unsafe { RawJoin::new(block) }),
        Err(SpawnRefused::Stopped) => Err(SpawnError::Stopped),
        Err(SpawnRefused::NoMemory) => Err(SpawnError::OutOfMemory),
    }
}

/// The handle of a goroutine that the runtime of `shared`, which is ending or has ended, has refused: it counts as cancelled.
///
/// # Panics
///
/// If no memory can be had for the control block.
#[track_caller]
pub(crate) fn refused<T>(shared: &Shared, site: &'static Location<'static>) -> JoinHandle<T> {
    match shared.spawn_refused::<T>(site) {
        // SAFETY: the goroutine's result type is `T`, and this is its only handle.
        Ok(block) => JoinHandle::new(unsafe { RawJoin::new(block) }),
        Err(_) => panic!("Handle::spawn: {}", SpawnError::OutOfMemory),
    }
}
