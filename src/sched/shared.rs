//! What all workers of one runtime share.

use super::idle::Idle;
use super::pool::Pool;
use super::remote::{Command, Remote};
use super::stop::Stop;
use super::task::Task;
use super::watch::Watch;
use super::worker::worker;
use crate::atomic::{AtomicU64, Ordering};
use crate::goroutine::{Observer, Slab};
use crate::limits::ID_BATCH;
use crate::seam::{Clock, Entropy};
use crossbeam_deque::Injector;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, Weak};
use urgo_sys::topology::Topology;

/// See the module.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) remotes: Box<[Arc<Remote>]>,
    pub(crate) idle: Idle,
    pub(crate) injector: Injector<Task>,
    pub(crate) stop: Stop,
    /// Goroutines that foreign threads have spawned.
    pub(crate) foreign_spawned: AtomicU64,
    ids: AtomicU64,
    /// From 1; no two runtimes of the process have the same.
    pub(crate) number: u64,
    /// Control blocks of goroutines that foreign threads spawn; `None` once the runtime has ended.
    pub(crate) foreign: Mutex<Option<Slab>>,
    /// One per slab, for whoever walks all goroutines.
    pub(crate) observers: Mutex<Vec<Observer>>,
    pub(crate) stack_bytes: usize,
    pub(crate) topology: Topology,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) pool: Pool,
    /// Whoever looks for stuck workers, if anybody does.
    pub(crate) watch: Option<Watch>,
}

/// Every runtime of the process, for requests that concern all of them.
static RUNTIMES: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());
/// The number of the last one that was made.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

impl Shared {
    pub(crate) fn new(
        remotes: Box<[Arc<Remote>]>,
        stack_bytes: usize,
        topology: Topology,
        pool: Pool,
        watch: Option<Watch>,
    ) -> Arc<Shared> {
        let workers = remotes.len();
        let shared = Arc::new_cyclic(|weak: &Weak<Shared>| {
            let foreign = Slab::new(weak.clone());
            Shared {
                remotes,
                idle: Idle::new(),
                injector: Injector::new(),
                stop: Stop::new(workers),
                foreign_spawned: AtomicU64::new(0),
                ids: AtomicU64::new(0),
                number: NUMBERS.fetch_add(1, Ordering::Relaxed) + 1,
                observers: Mutex::new(vec![foreign.observer()]),
                foreign: Mutex::new(Some(foreign)),
                stack_bytes,
                topology,
                clock: Clock::Live,
                entropy: Entropy::Live,
                pool,
                watch,
            }
        });
        let mut all = RUNTIMES.lock().unwrap_or_else(|e| e.into_inner());
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&shared));
        shared
    }

    /// Goroutines that were spawned and have not ended, at some moment during the call.
    ///
    /// Both sums only grow and the second is never behind the first, so reading the first first makes a zero true.
    pub(crate) fn alive(&self) -> u64 {
        let ended = self.ended();
        self.spawned() - ended
    }

    /// Goroutines ended so far, those whose spawn was refused among them.
    fn ended(&self) -> u64 {
        // Pairs with the store in `bump`.
        self.remotes
            .iter()
            .map(|r| r.counts.ended.load(Ordering::Acquire))
            .sum()
    }

    /// Goroutines spawned so far.
    pub(crate) fn spawned(&self) -> u64 {
        // Pairs with the store in `bump`.
        let spawned: u64 = self
            .remotes
            .iter()
            .map(|r| r.counts.spawned.load(Ordering::Acquire))
            .sum();
        // Pairs with the addition in `spawn_foreign`.
        spawned + self.foreign_spawned.load(Ordering::Acquire)
    }

    /// Whether the calling thread is a worker of this runtime or a thread of its pool, which cannot wait for the runtime's end.
    pub(crate) fn is_own_thread(&self) -> bool {
        worker().is_some_and(|worker| std::ptr::eq(&*worker.shared, self))
            || self.pool.is_own_thread()
    }

    /// A range of goroutine ids for one worker (or one foreign spawn).
    pub(crate) fn take_ids(&self) -> std::ops::Range<u64> {
        let first = self.ids.fetch_add(ID_BATCH, Ordering::Relaxed);
        first..first + ID_BATCH
    }

    /// One id for a goroutine that a foreign thread spawns.
    pub(crate) fn take_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Any thread. After fresh work was posted for anyone: rouses a sleeper if that is called for.
    #[inline]
    pub(crate) fn rouse_anyone(&self, rouse: impl Fn(&Remote)) {
        self.idle.after_post(
            || self.someone_sleeps(),
            || self.has_fresh(),
            || self.draft(&rouse),
        );
    }

    /// Worker: ends its search with work in hand, see [`Idle::leave_search`].
    pub(crate) fn leave_search(&self, rouse: impl Fn(&Remote)) {
        self.idle.leave_search(
            || self.someone_sleeps(),
            || self.has_fresh(),
            || self.draft(&rouse),
        );
    }

    fn someone_sleeps(&self) -> bool {
        self.remotes.iter().any(|remote| remote.sleep.is_sleeping())
    }

    fn draft(&self, rouse: impl Fn(&Remote)) -> bool {
        let drafted = self.remotes.iter().find(|remote| remote.sleep.draft());
        drafted.inspect(|remote| rouse(remote)).is_some()
    }

    /// Whether there are fresh goroutines that any worker could start.
    pub(crate) fn has_fresh(&self) -> bool {
        !self.injector.is_empty() || self.remotes.iter().any(|remote| remote.fresh_len() > 0)
    }

    /// Any thread. Makes every worker look around.
    pub(crate) fn rouse_all(&self) {
        for remote in &self.remotes {
            if remote.sleep.notify_after_post() {
                remote.rouse();
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(slab) = self
            .foreign
            .get_mut()
            .unwrap_or_else(|e| e.into_inner())
            .take()
        {
            slab.retire();
        }
    }
}

/// The runtime with this number, while it is there.
pub(crate) fn runtime(number: u64) -> Option<Arc<Shared>> {
    all_runtimes()
        .into_iter()
        .find(|shared| shared.number == number)
}

/// Whoever lets one of them go may be the last to do so, which is not to happen under the lock.
fn all_runtimes() -> Vec<Arc<Shared>> {
    let all = RUNTIMES.lock().unwrap_or_else(|e| e.into_inner());
    all.iter().filter_map(Weak::upgrade).collect()
}

/// Any thread. Asks every worker of every runtime to cancel the operations in flight on descriptor number `fd`.
pub(crate) fn cancel_fd(fd: RawFd) {
    for remote in all_runtimes().iter().flat_map(|shared| &shared.remotes) {
        remote.command(Command::CancelFd(fd));
    }
}
