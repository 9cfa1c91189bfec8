//! Counts of a runtime.

use crate::atomic::Ordering;
use crate::host::HostCounters;
use crate::sched::{self, Shared};

/// What [`metrics`] counts.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// Goroutines that were spawned and have not ended.
    pub goroutines: usize,
    /// Goroutines spawned since the runtime was built.
    pub spawned: u64,
    /// One entry per worker, by index.
    pub workers: Vec<WorkerMetrics>,
    /// Threads of the blocking pool.
    pub blocking_threads: usize,
    /// Operations that outside threads carry out.
    pub host: HostCounters,
}

/// One worker's part of [`Metrics`]. Workers publish their counts at every turn, so they may lag a little.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// The CPU it is pinned to.
    pub cpu: Option<usize>,
    /// Goroutines that started here and have not ended, within a sixteenth.
    pub goroutines: usize,
    /// Fresh goroutines in its deque.
    pub fresh: usize,
    /// Goroutines started here.
    pub started: u64,
    /// Fresh goroutines taken from other workers.
    pub stolen: u64,
    /// Dispatches, modulo 2³².
    pub dispatched: u64,
    /// Times it went to sleep.
    pub sleeps: u64,
    /// Its ring.
    pub ring: RingMetrics,
}

/// One ring's part of [`Metrics`].
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct RingMetrics {
    /// Operations queued or in the kernel.
    pub in_flight: usize,
    /// Operations begun.
    pub operations: u64,
    /// Operations ended.
    pub completions: u64,
    /// `io_uring_enter` calls.
    pub enters: u64,
    /// Times the completion queue was seen overflowing.
    pub overflows: u64,
}

/// The counts of the running goroutine's runtime. Blocks nothing.
///
/// # Panics
///
/// On a plain thread; see [`Handle::metrics`](crate::Handle::metrics).
///
/// ```
/// urgo::run(|| {
///     let before = urgo::debug::metrics().goroutines;
///     let handle = urgo::spawn(|| ());
///     assert_eq!(before, 1); // the main goroutine
///     handle.join().unwrap();
/// });
/// ```
#[must_use]
#[track_caller]
pub fn metrics() -> Metrics {
    let worker = sched::worker().expect("debug::metrics was called on a plain thread");
    of(&worker.shared)
}

pub(crate) fn of(shared: &Shared) -> Metrics {
    let workers = shared.remotes.iter().map(|remote| {
        let counts = &remote.counts;
        WorkerMetrics {
            cpu: remote.cpu,
            goroutines: remote.load(),
            fresh: remote.fresh_len(),
            started: counts.started.load(Ordering::Relaxed),
            stolen: counts.stolen.load(Ordering::Relaxed),
            dispatched: counts.dispatched.load(Ordering::Relaxed),
            sleeps: counts.sleeps.load(Ordering::Relaxed),
            ring: RingMetrics {
                in_flight: counts.in_flight.load(Ordering::Relaxed),
                operations: counts.operations.load(Ordering::Relaxed),
                completions: counts.completions.load(Ordering::Relaxed),
                enters: counts.enters.load(Ordering::Relaxed),
                overflows: counts.overflows.load(Ordering::Relaxed),
            },
        }
    });
    let mut host = HostCounters::default();
    for remote in &shared.remotes {
        host.add(&remote.outside.counters());
    }
    Metrics {
        goroutines: shared.alive() as usize,
        spawned: shared.spawned(),
        workers: workers.collect(),
        blocking_threads: shared.pool.threads(),
        host,
    }
}
