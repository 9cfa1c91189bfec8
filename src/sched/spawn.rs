//! Making goroutines, placing them, handing their results over, and freeing their control blocks.
//!
//! # Algorithm: placement
//!
//! A fresh goroutine goes to its spawner's own deque, where others may steal it, unless
//!
//! * it is local (`spawn_local`) or placed on a worker by its builder: then it goes to that worker's queue;
//! * its spawner's worker has many more live homed goroutines than a random other one: then it is
//!   placed there. So an accept loop that spawns a goroutine per connection does not pile all of them on its worker.
//!
//! # Safety
//!
//! Control blocks are handled as raw pointers: a block belongs to its creator until it is queued.

#![allow(unsafe_code)]

use super::ambient::inherit;
use super::remote::Remote;
use super::shared::Shared;
use super::task::Task;
use super::wait::settle;
use super::worker::{Worker, bump, current, worker};
use crate::atomic::Ordering;
use crate::goroutine::join_word::Completed;
use crate::goroutine::{Extra, Goroutine, Slab, Status, Waiting, end_uncalled, fill, free_remote};
use crate::limits::PLACED_LIVE_MIN;
use crate::park::Outcome;
use core::panic::Location;
use core::ptr::{self, NonNull};

/// Where a goroutine may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// Where it is spawned, unless that worker is much more loaded than another; stealable until it starts.
    #[default]
    Auto,
    /// On the worker that spawns it, whatever the load.
    Local,
    /// On the least loaded of a few workers.
    Spread,
    /// On the worker with this index (from 0).
    Worker(usize),
}

/// What a spawner says about a goroutine besides its closure.
pub(crate) struct Plan {
    pub(crate) site: &'static Location<'static>,
    pub(crate) extra: Option<Box<Extra>>,
    pub(crate) placement: Placement,
}

/// No control block could be had: the address space is exhausted.
#[derive(Debug)]
pub(crate) struct NoBlock;

/// Fills a block for a goroutine that will run `closure`. Outside every borrow and lock: dropping a closure is user code.
///
/// # Safety
///
/// As [`fill`]: what the closure borrows outlives the goroutine. The block is just allocated.
#[inline]
unsafe fn create<F, T>(
    block: NonNull<Goroutine>,
    id: u64,
    spawner: Option<&Goroutine>,
    plan: &mut Plan,
    closure: F,
) where
    F: FnOnce() -> T,
{
    // SAFETY: just allocated, so initialised and ours.
    let g = unsafe { block.as_ref() };
    g.id.store(id, Ordering::Relaxed);
    g.set_site(plan.site);
    g.join.reset();
    g.joiner.set(ptr::null());
    g.stack.set(None);
    g.cancelled.set(false);
    g.uncancellable.set(0);
    g.pinned.set(false);
    g.mark.reset();
    g.waiting.set(Waiting::No);
    inherit(g, spawner);
    if let Some(extra) = plan.extra.take() {
        g.extra.set(Box::into_raw(extra));
    }
    // SAFETY: the block is ours; the rest by this function's contract.
    unsafe { fill(g, closure) };
    g.set_status(Status::Fresh);
}

impl Worker {
    /// Spawns from this worker. The closure is `Send` unless `plan` says `Local`.
    ///
    /// # Safety
    ///
    /// What the closure borrows outlives the goroutine; if it is not `Send`, the placement is `Local`.
    #[inline]
    pub(crate) unsafe fn spawn<F, T>(
        &self,
        mut plan: Plan,
        closure: F,
    ) -> Result<NonNull<Goroutine>, NoBlock>
    where
        F: FnOnce() -> T,
    {
        let (id, end) = self.ids.get();
        let (id, end) = if id < end { (id, end) } else { self.more_ids() };
        let block = self.with_slab(Slab::allocate).ok_or(NoBlock)?;
        // SAFETY: just allocated; the rest by this function's contract.
        unsafe { create(block, id, self.current_ref(), &mut plan, closure) };
        self.ids.set((id + 1, end));
        bump(&self.remote.counts.spawned, 1);
        if self.shared.stop.is_stopping() {
            self.refuse(block);
        } else {
            self.place(block, plan.placement);
        }
        Ok(block)
    }

    #[cold]
    fn more_ids(&self) -> (u64, u64) {
        let ids = self.shared.take_ids();
        (ids.start, ids.end)
    }

    /// The runtime stops: the goroutine ends before it has begun.
    #[cold]
    fn refuse(&self, block: NonNull<Goroutine>) {
        // SAFETY: fresh and ours.
        let g = unsafe { block.as_ref() };
        // SAFETY: as above.
        unsafe { end_uncalled(g, None) };
        self.complete(g);
    }

    #[inline]
    fn place(&self, block: NonNull<Goroutine>, placement: Placement) {
        match placement {
            Placement::Auto => match self.less_loaded() {
                None => {
                    self.fresh.push(Task(block));
                    self.rouse_anyone();
                }
                Some(remote) => self.place_on(block, remote),
            },
            Placement::Local => self.place_here(block),
            Placement::Spread => {
                let all = &self.shared.remotes;
                let (a, b) =
                    self.with_choice(|choice| (choice.below(all.len()), choice.below(all.len())));
                let least = [a, b, self.remote.index]
                    .into_iter()
                    .min_by_key(|&i| self.load_of(&all[i]));
                self.place_on(block, &all[least.unwrap_or(a)]);
            }
            Placement::Worker(index) => self.place_on(block, &self.shared.remotes[index]),
        }
    }

    fn load_of(&self, remote: &Remote) -> usize {
        if remote.index == self.remote.index {
            self.live.get() + remote.placed.load(Ordering::Relaxed)
        } else {
            remote.load()
        }
    }

    /// A random other worker, if this one has many more live goroutines: power of two choices, one of them always this one. If not,
    /// this one for a connection that was just accepted: connections are dealt out, not left for a thief that has nothing to do at
    /// the moment, who would take one after the other as they come and keep them for good.
    #[inline]
    fn less_loaded(&self) -> Option<&Remote> {
        let all = &self.shared.remotes;
        let accepted = self.accepted_here();
        let mut live = self.live.get() + accepted;
        if accepted > 0 {
            live += self.remote.placed.load(Ordering::Relaxed);
        }
        if all.len() == 1 || live < PLACED_LIVE_MIN {
            return None;
        }
        let other = match all.len() {
            2 => 1 - self.remote.index,
            many => {
                (self.remote.index + 1 + self.with_choice(|choice| choice.below(many - 1))) % many
            }
        };
        let load = all[other].load();
        let is_behind = live > load + load / 8 + 2;
        self.accepted.set(accepted.saturating_sub(1));
        if is_behind {
            Some(&all[other])
        } else {
            (accepted > 0).then_some(&*self.remote)
        }
    }

    /// Connections that were accepted in a row and whose goroutines still lie here, or are about to.
    #[inline]
    fn accepted_here(&self) -> usize {
        let accepted = self.accepted.get();
        if accepted == 0 {
            return 0;
        }
        // Some may have been stolen.
        let here = accepted.min(self.fresh.len() + 1);
        self.accepted.set(here);
        here
    }

    /// On this worker, whatever happens.
    fn place_here(&self, block: NonNull<Goroutine>) {
        // SAFETY: fresh and ours until it is pushed.
        unsafe { block.as_ref() }.pinned.set(true);
        self.remote.placed.fetch_add(1, Ordering::Relaxed);
        self.with_placed(|placed| placed.push_back(Task(block)));
    }

    fn place_on(&self, block: NonNull<Goroutine>, remote: &Remote) {
        if remote.index == self.remote.index {
            return self.place_here(block);
        }
        // SAFETY: fresh and ours until it is pushed.
        unsafe { block.as_ref() }.pinned.set(true);
        remote.placed.fetch_add(1, Ordering::Relaxed);
        // SAFETY: in no queue; it lives until the worker takes it.
        unsafe { remote.inbox.push(block) };
        if remote.sleep.notify_after_post() {
            self.rouse(remote);
        }
    }
}

impl Worker {
    /// The goroutine's side, once, when its result is in the block. Drops a detached goroutine's result, on the current
    /// stack.
    #[inline]
    pub(super) fn hand_over(&self, g: &Goroutine) {
        match g.join.complete() {
            Completed::Nothing => {}
            Completed::WakeJoiner => {
                // SAFETY: the joiner announced this address and keeps the waiter until it is woken or `release` is called.
                match unsafe { &*g.joiner.get() }.finish(Outcome::Woken) {
                    Some(wake) => settle(wake),
                    None => g.join.release(),
                }
            }
            Completed::Free => self.drop_detached(g),
        }
    }

    #[cold]
    fn drop_detached(&self, g: &Goroutine) {
        // The result's destructors are the goroutine's last code: they may wait, and are cancelled if the runtime stops.
        g.join.reopen();
        if self.shared.stop.is_stopping() {
            // The list of those to cancel may have been drawn up in the moment when we seemed to be over.
            g.cancelled.set(true);
        }
        // SAFETY: done and detached, so the block is ours alone.
        unsafe {
            (g.vtable().drop_result)(g);
            free(NonNull::from(g));
        }
    }
}

impl Shared {
    /// Spawns from any thread that is no worker of this runtime. `None`: the runtime has ended; the closure is dropped.
    ///
    /// # Safety
    ///
    /// The closure is `Send`, and what it borrows outlives the goroutine.
    pub(crate) unsafe fn spawn_foreign<F, T>(
        &self,
        mut plan: Plan,
        closure: F,
    ) -> Result<NonNull<Goroutine>, SpawnRefused>
    where
        F: FnOnce() -> T,
    {
        let placement = plan.placement;
        let block = {
            let mut slab = self.foreign.lock().unwrap_or_else(|e| e.into_inner());
            // Under the lock, which the end takes too when it begins: either it sees our count, or we see it.
            if !self.stop.is_open() {
                return Err(SpawnRefused::Stopped);
            }
            let slab = slab.as_mut().ok_or(SpawnRefused::Stopped)?;
            let block = slab.allocate().ok_or(SpawnRefused::NoMemory)?;
            // Pairs with the load in `alive`.
            self.foreign_spawned.fetch_add(1, Ordering::Release);
            block
        };
        // SAFETY: just allocated; the rest by this function's contract.
        unsafe { create(block, self.take_id(), current(), &mut plan, closure) };
        let remote = match placement {
            Placement::Worker(index) => Some(&self.remotes[index]),
            Placement::Spread => self.remotes.iter().min_by_key(|remote| remote.load()),
            // A plain thread has no worker of its own to be local to.
            Placement::Auto | Placement::Local => None,
        };
        if let Some(remote) = remote {
            // SAFETY: fresh and ours until it is pushed.
            unsafe { block.as_ref() }.pinned.set(true);
            remote.placed.fetch_add(1, Ordering::Relaxed);
            // SAFETY: in no queue; it lives until the worker takes it.
            unsafe { remote.inbox.push(block) };
            if remote.sleep.notify_after_post() {
                remote.rouse();
            }
        } else {
            self.injector.push(Task(block));
            self.rouse_anyone(Remote::rouse);
        }
        Ok(block)
    }

    /// A goroutine that is over before it has begun: cancelled.
    pub(crate) fn spawn_refused<T>(
        &self,
        site: &'static Location<'static>,
    ) -> Result<NonNull<Goroutine>, NoBlock> {
        let block = {
            let mut slab = self.foreign.lock().unwrap_or_else(|e| e.into_inner());
            slab.as_mut().and_then(Slab::allocate).ok_or(NoBlock)?
        };
        let mut plan = Plan {
            site,
            extra: None,
            placement: Placement::Auto,
        };
        let never = || -> T { unreachable!("a refused goroutine does not run") };
        // SAFETY: just allocated; the closure borrows nothing.
        unsafe { create(block, self.take_id(), None, &mut plan, never) };
        // SAFETY: ours until it is returned.
        let g = unsafe { block.as_ref() };
        // SAFETY: the closure is in the block.
        unsafe { end_uncalled(g, None) };
        let done = g.join.complete();
        debug_assert_eq!(done, Completed::Nothing, "nobody has a handle yet");
        Ok(block)
    }
}

/// Why a foreign spawn came to nothing.
#[derive(Debug)]
pub(crate) enum SpawnRefused {
    /// The runtime is ending or has ended.
    Stopped,
    /// See [`NoBlock`].
    NoMemory,
}

/// Gives a block back to its slab.
///
/// # Safety
///
/// The goroutine is done, its result was taken or dropped, and nobody else has the block.
pub(crate) unsafe fn free(block: NonNull<Goroutine>) {
    // SAFETY: by this function's contract.
    let g = unsafe { block.as_ref() };
    if !g.extra.get().is_null() {
        g.drop_extra();
    }
    g.set_status(Status::Free);
    let is_own = worker().is_some_and(|worker| worker.with_slab(|slab| slab.free_own(block)));
    if !is_own {
        free_remote(block);
    }
}
