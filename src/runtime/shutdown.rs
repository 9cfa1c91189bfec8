//! Ending a runtime within a time: who was still there, and who could not be ended.
//!
//! # Algorithm
//!
//! 1. Goroutines from outside are refused. Those that are there go on, and may spawn.
//! 2. Wait until all have ended by themselves, for the grace time at most.
//! 3. Call the roll, and begin the end as `sched::stop` has it: cancel in spawn order, unwind, ack, close the rings.
//! 4. Wait for that as long as it gets on. If for a while there have not become fewer goroutines, though some are left, they cannot be ended, or
//!    a stuck worker keeps those behind it from being cancelled in their turn. In that case cancel all that are there out of turn, and
//!    wait once more. Then call the roll again: those cannot be ended.
//! 5. If all have ended, wait in the same way for the calls on the pool that nobody waits for any more.
//! 6. If nothing is left, join the threads. If goroutines are, let go of the threads; if only calls are, of the pool's.
//!
//! What cannot be ended is left as it is: its stack, its worker's thread and ring, the blocking thread that runs a call for it, and the
//! memory that all of them share stay until it ends by itself, since each of them may still be used. Then they go as they would have gone.

use crate::debug::WaitReason;
use crate::limits::{NAP_NS_FIRST, NAP_NS_MAX, SHUTDOWN_PATIENCE_NS_MAX, SHUTDOWN_PATIENCE_NS_MIN};
use crate::sched::{self, Seen, Shared};
use crate::time;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A goroutine that was still there.
#[derive(Clone, Debug)]
pub struct Straggler {
    id: u64,
    name: Option<Box<str>>,
    site: &'static Location<'static>,
    reason: WaitReason,
    worker: Option<usize>,
}

impl Straggler {
    /// The goroutine's id.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The name its builder gave it. Missing if its worker was stuck and could not tell.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Where it was spawned.
    pub fn spawn_site(&self) -> &'static Location<'static> {
        self.site
    }

    /// What it waited for. [`WaitReason::None`] if it ran, was ready to run, or had not started.
    pub fn wait_reason(&self) -> WaitReason {
        self.reason
    }

    /// The index of its worker; `None` if it had not started.
    pub fn worker(&self) -> Option<usize> {
        self.worker
    }
}

impl fmt::Display for Straggler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "goroutine {}", self.id)?;
        if let Some(name) = self.name() {
            write!(f, " '{name}'")?;
        }
        write!(f, " spawned at {}:{}", self.site.file(), self.site.line())?;
        match (self.worker, self.reason) {
            (None, _) => f.write_str(", not started"),
            (Some(worker), WaitReason::None) => write!(f, ", running on worker {worker}"),
            (Some(worker), reason) => write!(f, ", waiting on worker {worker}: {reason:?}"),
        }
    }
}

/// What [`Runtime::shutdown`](super::Runtime::shutdown) found.
#[derive(Clone, Debug)]
#[must_use = "it says who could not be ended"]
pub struct ShutdownReport {
    left: Vec<Straggler>,
    not_ended: Vec<Straggler>,
    blocking_calls: usize,
    is_complete: bool,
}

impl ShutdownReport {
    /// Who was still there when the grace time was over, in the order of ids. Empty if all had ended by themselves.
    pub fn left(&self) -> &[Straggler] {
        &self.left
    }

    /// Who of those could not be ended, and what they were at in the end. Empty if all have ended.
    pub fn not_ended(&self) -> &[Straggler] {
        &self.not_ended
    }

    /// Calls of [`blocking`](crate::blocking), and lookups of names that nobody waits for any more, that still run or wait for a thread.
    pub fn blocking_calls(&self) -> usize {
        self.blocking_calls
    }

    /// Whether the runtime has ended: all goroutines unwound, all operations acked, all rings closed, no
    /// [call](Self::blocking_calls) left, all threads joined.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (left, not_ended) = (self.left.len(), self.not_ended.len());
        write!(
            f,
            "{left} goroutine(s) were left when the grace time was over; {not_ended} could not be ended"
        )?;
        for straggler in &self.not_ended {
            write!(f, "\n  {straggler}")?;
        }
        if self.blocking_calls > 0 {
            write!(f, "\n  {} blocking call(s) still run", self.blocking_calls)?;
        }
        Ok(())
    }
}

/// Steps 1 to 5. The caller has the last: to join the threads, and not the pool's unless the report is complete.
pub(super) fn shut_down(shared: &Arc<Shared>, grace: Duration) -> ShutdownReport {
    let own = sched::worker()
        .filter(|worker| Arc::ptr_eq(&worker.shared, shared))
        .and_then(|_| sched::current().map(|g| g.id()));
    // Also in a blocking call of one of its goroutines, which is none on this thread, and waits.
    let is_own = shared.is_own_thread();
    shared.begin_close();
    let alone = u64::from(is_own);
    nap_until(grace, || shared.alive() <= alone);
    let mut seen = shared.call_roll();
    seen.retain(|seen| Some(seen.named.id) != own);
    let roll = shared.keep_roll(seen);
    shared.begin_stop();
    let patience = grace.clamp(
        Duration::from_nanos(SHUTDOWN_PATIENCE_NS_MIN),
        Duration::from_nanos(SHUTDOWN_PATIENCE_NS_MAX),
    );
    let has_ended = !is_own
        && (has_ended(shared, patience) || {
            // A stuck worker keeps the others from being cancelled in order; then in disorder.
            shared.cancel_unlisted() && has_ended(shared, patience)
        });
    if has_ended {
        // Calls that nobody waits for any more.
        gets_to_zero(patience, || shared.pool.calls() as u64);
    }
    let blocking_calls = shared.pool.calls();
    let describe = |seen: &Seen| Straggler {
        id: seen.named.id,
        name: roll.name_of(seen.named.id),
        site: seen.site,
        reason: seen.reason,
        worker: seen.home,
    };
    let mut not_ended = Vec::new();
    if !has_ended {
        not_ended = shared.call_roll();
        not_ended.retain(|seen| Some(seen.named.id) != own);
    }
    ShutdownReport {
        left: roll.seen.iter().map(describe).collect(),
        not_ended: not_ended.iter().map(describe).collect(),
        blocking_calls,
        is_complete: has_ended && blocking_calls == 0,
    }
}

/// Waits for the end of all workers' work for as long as it gets on. Blocks the calling goroutine or thread.
fn has_ended(shared: &Shared, patience: Duration) -> bool {
    if !gets_to_zero(patience, || shared.alive()) {
        return false;
    }
    // Nothing is left that could keep the workers.
    nap_until(Duration::MAX, || shared.stop.is_over())
}

/// Waits until `left` is zero for as long as it gets less than it ever was: within each `patience`. (What goes up and down again is no
/// progress: a goroutine that goes on spawning, and is refused, is counted twice each time.) Blocks the calling goroutine or thread.
fn gets_to_zero(patience: Duration, left: impl Fn() -> u64) -> bool {
    let mut least = left();
    while least > 0 {
        let before = least;
        let gets_less = || {
            least = least.min(left());
            least < before
        };
        if !nap_until(patience, gets_less) {
            return false;
        }
    }
    true
}

/// Waits until `condition` holds, for `limit` at most; whether it holds. Nobody tells when it does, so that ending a goroutine costs
/// nothing more; naps grow with the time waited. Blocks the calling goroutine or thread.
fn nap_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    let mut nap = Duration::from_nanos(NAP_NS_FIRST);
    while !condition() {
        let left = limit.saturating_sub(started.elapsed());
        if left.is_zero() {
            return condition();
        }
        time::sleep(nap.min(left));
        nap = (nap * 2).min(Duration::from_nanos(NAP_NS_MAX));
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::Runtime;
    use std::sync::mpsc;
    use std::time::Duration;

    /// As a lookup that its caller has given up.
    #[test]
    fn a_call_that_nobody_waits_for_does_not_keep_the_shutdown() {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let (pool, handle) = (runtime.shared.pool.clone(), runtime.handle());
        let (release, released) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let job = Box::new(move || {
            tell.send(()).unwrap();
            assert!(released.recv().is_err());
        });
        assert!(pool.submit(job).is_ok());
        told.recv().unwrap();
        drop(handle.spawn(|| crate::sleep(Duration::MAX)));
        let report = runtime.shutdown(Duration::ZERO);
        assert!(report.not_ended().is_empty(), "{report}");
        assert_eq!(report.blocking_calls(), 1);
        assert!(!report.is_complete());
        drop(release);
        while pool.threads() > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_call_that_comes_to_its_end_in_time_leaves_the_shutdown_complete() {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        let (pool, shared) = (runtime.shared.pool.clone(), runtime.shared.clone());
        let job = Box::new(move || {
            // Until all workers have left: nobody waits for this.
            while !shared.stop.is_over() {
                std::thread::yield_now();
            }
        });
        assert!(pool.submit(job).is_ok());
        let report = runtime.shutdown(Duration::MAX);
        assert!(report.is_complete(), "{report}");
        assert_eq!((pool.calls(), pool.threads()), (0, 0));
    }
}
