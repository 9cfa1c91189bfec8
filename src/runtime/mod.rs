//! # Purpose
//!
//! Building, running and ending a runtime.
//!
//! # Algorithm
//!
//! `build` starts the workers, each of which makes its own ring on its own thread; nothing runs on the caller's. `run` sends
//! the main goroutine in and waits for it as a plain thread. The end (see `sched::stop`) cancels what is left in spawn
//! order, waits until all operations are acked, closes the rings and joins the threads, all before `run` returns: no port
//! or file stays busy.
//!
//! # Imports
//!
//! All rooms.

mod builder;
mod error;
mod handle;
mod shutdown;

pub use builder::Builder;
pub use error::{BuildError, RunError};
pub use handle::Handle;
pub use shutdown::{ShutdownReport, Straggler};

use crate::go::{self, RawJoin};
use crate::goroutine::End;
use crate::sched::{self, Shared};
use std::fmt;
use std::panic::{Location, resume_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A set of workers that runs goroutines.
///
/// Dropping it ends it as the return of [`run`](Self::run) does. One of its own goroutines that drops it, there or in a
/// [`blocking`](crate::blocking) call, does not wait for the end.
///
/// ```
/// # fn main() -> Result<(), urgo::BuildError> {
/// let runtime = urgo::Runtime::builder().workers(1).build()?;
/// let sum = runtime.run(|| (1..=3).map(|n| urgo::spawn(move || n)).map(|h| h.join().unwrap()).sum::<i32>());
/// assert_eq!(sum, 6);
/// # Ok(())
/// # }
/// ```
pub struct Runtime {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Builds a runtime with the defaults, runs `f` as its main goroutine, and ends the runtime when `f` returns.
///
/// Blocks the calling thread. The rest of the goroutines are cancelled and unwound in the order of their ids
/// (spawn order, on each worker), operations are acked and
/// rings are closed before this returns. `f` may borrow from the caller.
///
/// # Panics
///
/// If no runtime can be built: the message is the [`BuildError`]'s, with cause and remedy. With `f`'s own panic.
///
/// ```
/// let greeting = String::from("hello");
/// let length = urgo::run(|| greeting.len());
/// assert_eq!(length, 5);
/// ```
#[track_caller]
pub fn run<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    match Runtime::builder().build() {
        Ok(runtime) => runtime.run(f),
        Err(error) => panic!("urgo::run: {error}"),
    }
}

impl Runtime {
    /// A builder with the defaults.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// A handle with which any thread can spawn here.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(self.shared.clone())
    }

    /// Runs `f` as the main goroutine and ends the runtime when it returns. As [`run`](fn@crate::run).
    ///
    /// # Panics
    ///
    /// With `f`'s own panic; with [`RunError`]'s message if `f` did not come to an end of its own.
    #[track_caller]
    pub fn run<F, T>(self, f: F) -> T
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        match self.try_run(f) {
            Ok(value) => value,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// [`RunError`]: the main goroutine did not come to an end of its own.
    ///
    /// # Panics
    ///
    /// With `f`'s own panic.
    #[track_caller]
    pub fn try_run<F, T>(mut self, f: F) -> Result<T, RunError>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        let main = go::Builder::new().name("main");
        let shared = self.shared.clone();
        let body = move || {
            // However it ends: nothing is to start any more when the main goroutine is over.
            let _stop = StopAtEnd(shared);
            f()
        };
        let raw: Result<RawJoin<T>, _> =
            handle::spawn_borrowed(&self.shared, main, body, Location::caller());
        // Not cut short if the caller is a goroutine (of another runtime) that is cancelled: `f` may borrow from it.
        let end = raw.map(|raw| sched::uncancellable(|| raw.join()));
        self.end();
        match end {
            Ok(End::Value(value)) => Ok(value),
            Ok(End::Panic(payload)) => resume_unwind(payload),
            Ok(End::Exited) => Err(RunError::Exited),
            Ok(End::Cancelled) => Err(RunError::Cancelled),
            Ok(End::NoStack(error)) => Err(RunError::NoStack(error)),
            Err(error) => Err(RunError::Spawn(error)),
        }
    }

    /// Ends the runtime within a time, and says who was late.
    ///
    /// New work is refused from now on: [`Handle::spawn_with`] says [`SpawnError::Stopped`](crate::go::SpawnError::Stopped). Goroutines that
    /// are there go on and may spawn. When all have ended by themselves, or after `grace`, the rest are cancelled and unwound in the order of their
    /// ids, as when [`run`](Self::run) returns.
    ///
    /// Blocks the calling thread or goroutine: for `grace`, and then for as long as goroutines go on ending. If some are left and
    /// none has ended for as long as `grace` (but at least 250 ms and at most 1 s), this returns without them, and the report says who they are: in
    /// a [`blocking`](crate::blocking) call that does not come back, in a call that blocks their worker, in an
    /// [`uncancellable`](crate::uncancellable) part or a `Drop` that waits. Nothing that they may still use is taken from
    /// them: their stacks, the workers' threads and rings, the threads of the blocking calls and the memory of the runtime stay, detached, and
    /// go when the last of them has ended, if ever. So do the threads of calls that nobody waits for any more, as lookups of names that their
    /// callers have given up: for these, too, this waits as long as their number goes down. Destructors may run after this has returned, then.
    ///
    /// Called by one of the runtime's own goroutines, or in a blocking call of one, which cannot wait for itself, it waits for the others'
    /// own ends, begins the end, and returns a report that is not complete.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), urgo::BuildError> {
    /// let runtime = urgo::Runtime::builder().workers(1).build()?;
    /// let (sender, receiver) = urgo::chan::unbounded::<u32>();
    /// let builder = urgo::go::Builder::new().name("consumer");
    /// runtime.handle().spawn_with(builder, move || receiver.iter().count()).unwrap();
    /// let report = runtime.shutdown(Duration::from_millis(10));
    /// assert!(report.is_complete());
    /// println!("{report}");
    /// for late in report.left() {
    ///     assert_eq!(late.name(), Some("consumer"));
    /// }
    /// # drop(sender);
    /// # Ok(())
    /// # }
    /// ```
    pub fn shutdown(mut self, grace: Duration) -> ShutdownReport {
        sched::uncancellable(|| {
            let report = shutdown::shut_down(&self.shared, grace);
            if report.is_complete() {
                self.end();
            } else if self.shared.stop.is_over() {
                // The pool's threads, which still have calls to run, are detached.
                self.join_workers();
            } else {
                // Detached.
                self.threads.clear();
            }
            report
        })
    }

    /// Ends the runtime: cancels all goroutines, waits for them and for the operations in flight, closes the rings, joins
    /// the threads. Blocks the calling thread, unless that is one of the runtime's own.
    fn end(&mut self) {
        if self.threads.is_empty() {
            return;
        }
        self.shared.begin_stop();
        if self.shared.is_own_thread() {
            // Dropped by one of its own goroutines, or in a blocking call of one, which cannot wait for itself: the workers end on their own,
            // and the last of them lets the pool's threads end.
            self.threads.clear();
            return;
        }
        self.join_workers();
        self.shared.pool.stop();
    }

    /// Blocks the calling thread until all workers have left.
    fn join_workers(&mut self) {
        for thread in self.threads.drain(..) {
            // Goroutines' panics do not reach a worker's loop; a worker that dies of a broken invariant has said so.
            let _ = thread.join();
        }
    }
}

/// Begins the end of a runtime when the main goroutine's frame goes.
struct StopAtEnd(Arc<Shared>);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.begin_stop();
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("workers", &self.shared.remotes.len())
            .finish_non_exhaustive()
    }
}
