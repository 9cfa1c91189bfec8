//! The running goroutine: who it is, letting others run, ending itself.

use crate::goroutine::{ExitUnwind, Goroutine};
use crate::sched;
use std::fmt;
use std::panic::{Location, resume_unwind};

/// Lets other goroutines of this worker run once; the caller stays ready.
///
/// Blocks the goroutine until its turn comes again, not the worker. On a plain thread this is `std::thread::yield_now`.
///
/// ```
/// urgo::run(|| {
///     let other = urgo::spawn(|| ());
///     while !other.is_finished() {
///         urgo::yield_now();
///     }
/// });
/// ```
#[inline]
pub fn yield_now() {
    match sched::worker().zip(sched::current()) {
        Some((worker, g)) => {
            worker.yield_now(g);
            if g.cancelled.get() {
                sched::unwind_if_cancelled();
            }
        }
        None => std::thread::yield_now(),
    }
}

/// A place where a long computation lets itself be interrupted: if the goroutine is cancelled it unwinds from here, and if
/// it has used up its share it lets others run.
///
/// Today nobody measures shares yet: others run only when this goroutine is to end. Costs a few loads.
///
/// ```
/// urgo::run(|| {
///     for chunk in 0..1000 {
///         std::hint::black_box(chunk); // compute
///         urgo::safepoint();
///     }
/// });
/// ```
#[inline]
pub fn safepoint() {
    if let Some((worker, g)) = sched::worker().zip(sched::current()) {
        // When the runtime ends, and when somebody has cancelled it, its worker must get a turn to see to it.
        if worker.shared.stop.is_stopping() || g.mark.is_set() {
            safepoint_slow(g);
        }
    }
}

#[cold]
fn safepoint_slow(g: &Goroutine) {
    yield_now();
    if g.mark.is_set() {
        // The worker has others to run before it comes to its commands.
        g.cancelled.set(true);
        sched::unwind_if_cancelled();
    }
}

/// Ends the running goroutine by unwinding, as Go's `Goexit` does: its destructors run, its handle reports
/// [`JoinError::Exited`](super::JoinError::Exited). Other goroutines are not affected. A `catch_unwind` on the way stops it.
///
/// # Panics
///
/// On a plain thread.
///
/// ```
/// urgo::run(|| {
///     let handle = urgo::spawn(|| {
///         if true {
///             urgo::exit_goroutine();
///         }
///     });
///     assert!(matches!(handle.join(), Err(urgo::JoinError::Exited)));
/// });
/// ```
#[track_caller]
pub fn exit_goroutine() -> ! {
    assert!(
        sched::on_goroutine(),
        "exit_goroutine was called on a plain thread"
    );
    resume_unwind(Box::new(ExitUnwind))
}

/// Who is running. Made by [`current`].
#[derive(Clone, Debug)]
pub struct Current {
    id: u64,
    name: Option<Box<str>>,
    site: &'static Location<'static>,
    worker: usize,
}

impl Current {
    /// The goroutine's id: unique in its runtime, in spawn order on each worker. The main goroutine's is 0.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The name its builder gave it.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Where it was spawned.
    pub fn spawn_site(&self) -> &'static Location<'static> {
        self.site
    }

    /// The index of the worker it runs on, from 0. It never changes once the goroutine has started.
    pub fn worker(&self) -> usize {
        self.worker
    }
}

impl fmt::Display for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "goroutine {}", self.id)?;
        if let Some(name) = self.name() {
            write!(f, " '{name}'")?;
        }
        write!(f, " spawned at {}:{}", self.site.file(), self.site.line())
    }
}

/// The running goroutine. Blocks nothing.
///
/// # Panics
///
/// On a plain thread; [`try_current`](Current::try_current) says `None` there.
///
/// ```
/// urgo::run(|| assert_eq!(urgo::current().name(), Some("main")));
/// ```
#[track_caller]
pub fn current() -> Current {
    Current::try_current().expect("urgo::current was called on a plain thread")
}

impl Current {
    /// The running goroutine, or `None` on a plain thread.
    pub fn try_current() -> Option<Current> {
        let (worker, g) = sched::worker().zip(sched::current())?;
        Some(Current {
            id: g.id(),
            name: g.name().map(Box::from),
            site: g.site(),
            worker: worker.remote.index,
        })
    }
}
