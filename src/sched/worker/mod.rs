//! The worker: one OS thread's run queue, fresh deque, timers, ring, stacks and control blocks, and its loop.
//!
//! The loop is here; what a turn of it consists of is in the files beside: `dispatch` (changing stacks,
//! starting and finishing goroutines), `sources` (inbox, ring and timers into the run queue, submissions
//! to the kernel), `sleep` (searching, falling asleep, waking up) and `upkeep` (trimming,
//! counts).
//!
//! # Safety
//!
//! A worker is used by its own thread alone, from its host stack and from the goroutines it runs, which are on that
//! thread too. Its cells are borrowed only for the length of one call that runs no user code and switches no stack, so
//! no two borrows of one cell overlap.

#![allow(unsafe_code)]

mod dispatch;
mod sleep;
mod sources;
mod upkeep;

pub(crate) use upkeep::bump;

use super::ambient::Frames;
use super::cancel::Line;
use super::fresh::Fresh;
use super::presence;
use super::remote::Remote;
use super::run_queue::RunQueue;
use super::shared::Shared;
use super::stop::Stopping;
use super::task::Task;
use crate::atomic::Ordering;
use crate::goroutine::cancel_mark::Barriers;
use crate::goroutine::{Goroutine, Slab, StackPool, Waiting};
use crate::limits::{
    FAIR_TICKS, FLUSH_AGE_US, FRESH_BATCH, LOOK_AGE_US, LOOK_CALLED_US, SPIN_US, TALK_SPIN_US,
};
use crate::park::{Outcome, Presence, Token, WaitQueue, Wake};
use crate::seam::{Choice, Driver};
use crate::timer::Timers;
use core::cell::{Cell, UnsafeCell};
use core::ptr::{self, NonNull};
use crossbeam_deque::Steal;
use std::collections::VecDeque;
use std::sync::Arc;
use urgo_uring::Capabilities;

thread_local! {
    static WORKER: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

/// The worker whose thread this is.
///
/// The reference is good until the thread's worker loop ends, which outlives every goroutine on it: callers are
/// goroutines of this worker, or its own loop, and keep the reference on their stack.
#[inline]
pub(crate) fn worker<'a>() -> Option<&'a Worker> {
    // SAFETY: set by `Worker::run` for as long as it runs, see above.
    unsafe { WORKER.get().as_ref() }
}

/// The running goroutine. As with [`worker`], the reference is for the goroutine's own stack.
#[inline]
pub(crate) fn current<'a>() -> Option<&'a Goroutine> {
    let g = worker()?.current.get()?;
    // SAFETY: the current goroutine's block lives at least until the goroutine has ended.
    Some(unsafe { g.as_ref() })
}

/// See the module.
pub(crate) struct Worker {
    pub(crate) remote: Arc<Remote>,
    pub(crate) shared: Arc<Shared>,
    /// By which biased locks know this thread.
    presence: Option<&'static Presence>,
    pub(crate) run_queue: RunQueue,
    pub(crate) current: Cell<Option<NonNull<Goroutine>>>,
    /// Whether it says what it runs, see `tell_watch`.
    is_watched: bool,
    host_sp: Cell<*mut u8>,
    /// Dispatches so far.
    ticks: Cell<u32>,
    last_fair: Cell<u32>,
    /// `Clock::ticks` at which all sources are looked at again, whatever the number of dispatches.
    look_at: Cell<u64>,
    look_age: u64,
    /// The same if the ring says that something has come.
    look_called_at: Cell<u64>,
    look_called_age: u64,
    /// Whose turn it was at the last start, see `pop_fresh`.
    is_fresh_turn: Cell<bool>,
    /// See `turn`.
    pub(crate) turns_spent: Cell<u32>,
    /// `Clock::ticks` from which on the oldest fresh goroutines are started, see `fresh`.
    oldest_at: Cell<u64>,
    /// Fresh goroutines that may start before the run queue is looked at again.
    fresh_left: Cell<u32>,
    pub(crate) fresh: Fresh,
    pub(crate) live: Cell<usize>,
    live_published: Cell<usize>,
    /// `Clock::ticks` at which waiting submissions are too old; `u64::MAX` when none wait.
    pub(crate) flush_at: Cell<u64>,
    flush_age: u64,
    spin: u64,
    talk_spin: u64,
    /// The last sleep was short and ended by another worker: goroutines talk across workers, so the next search is longer.
    is_talking: Cell<bool>,
    trim_at: Cell<u64>,
    /// The clock as timers saw it last: what is past by it is past.
    pub(crate) seen_ns: Cell<u64>,
    pub(crate) ids: Cell<(u64, u64)>,
    /// `Stop::epoch` as of this worker's last stop turn.
    pub(crate) stop_epoch: Cell<u32>,
    /// It has said that it has nothing more to do for the end of the runtime; others may unmap control blocks from then on.
    pub(crate) has_finished: Cell<bool>,
    /// Goroutines that wait for room in the submission queue.
    pub(crate) submission_waiters: WaitQueue,
    /// Connections that were accepted in a row, whose goroutines have hardly started yet. Placement counts them as live: such a burst
    /// starts where it lies before anybody has come to steal.
    pub(crate) accepted: Cell<usize>,
    /// The running goroutine's own operation was among those just reaped.
    came_early: Cell<bool>,
    driver: UnsafeCell<Driver>,
    timers: UnsafeCell<Timers>,
    /// What its goroutines run under.
    frames: UnsafeCell<Frames>,
    /// Fresh goroutines that must start here.
    placed: UnsafeCell<VecDeque<Task>>,
    /// Whom it is to cancel.
    cancels: UnsafeCell<Line>,
    stacks: UnsafeCell<StackPool>,
    slab: UnsafeCell<Slab>,
    choice: UnsafeCell<Choice>,
    /// Others by distance: (up to and excluding, worker indices). Nearest first.
    victims: Vec<Vec<usize>>,
}

impl Worker {
    pub(crate) fn new(
        remote: Arc<Remote>,
        shared: Arc<Shared>,
        fresh: Fresh,
        driver: Driver,
    ) -> Worker {
        let runtime = Arc::downgrade(&shared);
        let slab = Slab::new(runtime);
        shared
            .observers
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .push(slab.observer());
        let victims = super::steal::victims_by_distance(&shared, &remote);
        let clock = shared.clock;
        Worker {
            run_queue: RunQueue::new(),
            current: Cell::new(None),
            is_watched: remote.running.is_some(),
            host_sp: Cell::new(ptr::null_mut()),
            ticks: Cell::new(0),
            last_fair: Cell::new(0),
            look_at: Cell::new(0),
            look_age: clock.ticks_of_us(LOOK_AGE_US),
            look_called_at: Cell::new(0),
            look_called_age: clock.ticks_of_us(LOOK_CALLED_US),
            is_fresh_turn: Cell::new(false),
            turns_spent: Cell::new(0),
            oldest_at: Cell::new(0),
            fresh_left: Cell::new(0),
            fresh,
            live: Cell::new(0),
            live_published: Cell::new(0),
            flush_at: Cell::new(u64::MAX),
            flush_age: clock.ticks_of_us(FLUSH_AGE_US),
            spin: clock.ticks_of_us(SPIN_US),
            talk_spin: clock.ticks_of_us(TALK_SPIN_US),
            is_talking: Cell::new(false),
            trim_at: Cell::new(u64::MAX),
            seen_ns: Cell::new(0),
            ids: Cell::new((0, 0)),
            stop_epoch: Cell::new(0),
            has_finished: Cell::new(false),
            submission_waiters: WaitQueue::new(),
            accepted: Cell::new(0),
            came_early: Cell::new(false),
            driver: UnsafeCell::new(driver),
            timers: UnsafeCell::new(Timers::default()),
            frames: UnsafeCell::default(),
            placed: UnsafeCell::default(),
            cancels: UnsafeCell::new(Line::new()),
            stacks: UnsafeCell::new(StackPool::new(shared.stack_bytes)),
            slab: UnsafeCell::new(slab),
            choice: UnsafeCell::new(Choice::live(shared.entropy.seed())),
            victims,
            presence: presence::take(),
            remote,
            shared,
        }
    }

    /// This worker's thread, as biased locks know it.
    #[inline]
    pub(crate) fn token(&self) -> Token {
        presence::token(self.presence)
    }

    /// How its goroutines' starts and their cancellations are kept from missing each other.
    #[inline]
    fn barriers(&self) -> Barriers {
        if self.presence.is_some() {
            Barriers::Asymmetric
        } else {
            Barriers::Fences
        }
    }

    // ------------------------------------------------------------------------------------------------- cells, borrowed

    #[inline]
    pub(crate) fn with_driver<R>(&self, f: impl FnOnce(&mut Driver) -> R) -> R {
        // SAFETY: see the module: one thread, and `f` neither runs user code nor switches.
        f(unsafe { &mut *self.driver.get() })
    }

    #[inline]
    pub(crate) fn with_timers<R>(&self, f: impl FnOnce(&mut Timers) -> R) -> R {
        // SAFETY: as in `with_driver`.
        f(unsafe { &mut *self.timers.get() })
    }

    #[inline]
    pub(crate) fn with_frames<R>(&self, f: impl FnOnce(&mut Frames) -> R) -> R {
        // SAFETY: as in `with_driver`.
        f(unsafe { &mut *self.frames.get() })
    }

    #[inline]
    pub(crate) fn with_placed<R>(&self, f: impl FnOnce(&mut VecDeque<Task>) -> R) -> R {
        // SAFETY: as in `with_driver`.
        f(unsafe { &mut *self.placed.get() })
    }

    #[inline]
    pub(crate) fn with_cancels<R>(&self, f: impl FnOnce(&mut Line) -> R) -> R {
        // SAFETY: as in `with_driver`.
        f(unsafe { &mut *self.cancels.get() })
    }

    #[inline]
    fn with_stacks<R>(&self, f: impl FnOnce(&mut StackPool) -> R) -> R {
        // SAFETY: as in `with_driver`.
        f(unsafe { &mut *self.stacks.get() })
    }

    #[inline]
    pub(crate) fn with_slab<R>(&self, f: impl FnOnce(&mut Slab) -> R) -> R {
        // SAFETY: as in `with_driver`.
        f(unsafe { &mut *self.slab.get() })
    }

    #[inline]
    pub(crate) fn with_choice<R>(&self, f: impl FnOnce(&mut Choice) -> R) -> R {
        // SAFETY: as in `with_driver`.
        f(unsafe { &mut *self.choice.get() })
    }

    /// The running goroutine. On its own stack.
    #[inline]
    pub(crate) fn current_ref(&self) -> Option<&Goroutine> {
        // SAFETY: the current goroutine's block lives at least until the goroutine has ended.
        self.current.get().map(|g| unsafe { g.as_ref() })
    }

    /// This worker's thread. Makes a suspended goroutine of this worker ready.
    #[inline]
    pub(crate) fn ready(&self, g: NonNull<Goroutine>) {
        if self.current.get().is_some() {
            self.run_queue.push_next(g);
        } else {
            self.run_queue.push(g);
        }
    }

    /// This worker's thread. Rouses another worker of the same runtime.
    pub(crate) fn rouse(&self, remote: &Remote) {
        // A kick that is refused goes out late: this worker may be busy for long before it submits anything again.
        let by_ring = self.with_driver(|driver| {
            driver.capabilities().contains(Capabilities::MSG_RING)
                && driver.kick(remote.ring_fd.load(Ordering::Relaxed))
        });
        if !by_ring {
            remote.rouse();
        }
    }

    /// This worker's thread. Ends the current wait of a goroutine of this worker, if it can be cut short, and lets its
    /// next waits end at once.
    pub(crate) fn cancel(&self, g: &Goroutine) {
        g.cancelled.set(true);
        match g.waiting.get() {
            Waiting::No | Waiting::Unwinding(_) => {}
            Waiting::Word(waiter) => {
                // SAFETY: `waiting` names a waiter only while the goroutine is suspended in it.
                if let Some(Wake::Goroutine(_)) = unsafe { &*waiter }.finish(Outcome::Cancelled) {
                    self.run_queue.push(NonNull::from(g));
                }
            }
            Waiting::Operation(operation) => self.cancel_operation(operation),
        }
    }

    // ------------------------------------------------------------------------------------------------------- the loop

    /// Runs goroutines until the runtime stops. Blocks the thread.
    pub(crate) fn run(self) {
        WORKER.set(&raw const self);
        let mut stopping = Stopping::default();
        loop {
            if self.shared.stop.is_stopping() {
                self.poll_sources();
                if self.stop_turn(&mut stopping) {
                    break;
                }
            }
            // One look at the clock per turn of the loop.
            let now = self.shared.clock.ticks();
            if self.ticks.get().wrapping_sub(self.last_fair.get()) >= FAIR_TICKS
                || now >= self.look_at.get()
                || (now >= self.look_called_at.get() && self.is_called())
            {
                self.look_around(now);
            }
            self.flush_if_due(now);
            match self.pick() {
                Some(g) => self.dispatch(g),
                None => self.idle(),
            }
        }
        WORKER.set(ptr::null());
        let Worker {
            slab,
            driver,
            shared,
            remote,
            presence,
            ..
        } = self;
        // The ring goes first: nothing the kernel could write to is left behind it.
        drop(driver);
        remote.outside.retire();
        shared
            .observers
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .clear();
        slab.into_inner().retire();
        presence::give_back(presence);
    }

    /// The next goroutine to dispatch, in the order: next slot, run queue, fresh deque, inbox, ring, injector.
    #[inline]
    fn pick(&self) -> Option<NonNull<Goroutine>> {
        let fresh_left = self.fresh_left.get();
        if fresh_left > 0 {
            self.fresh_left.set(fresh_left - 1);
            if let Some(g) = self.pick_fresh() {
                return Some(g);
            }
            self.fresh_left.set(0);
        }
        if let Some(g) = self.run_queue.pop() {
            return Some(g);
        }
        // A burst of fresh ones, so that whoever waits for them is not woken after each.
        self.fresh_left.set(FRESH_BATCH);
        if let Some(g) = self.pick_fresh() {
            return Some(g);
        }
        self.poll_sources();
        let ready = self.run_queue.pop();
        ready
            .or_else(|| self.pick_fresh())
            .or_else(|| self.take_injected())
    }

    /// A fresh goroutine, in turn of those that must start here (the oldest) and those that others could take (the newest), so that
    /// an endless chain of the one kind does not starve the other.
    #[inline]
    fn pop_fresh(&self) -> Option<Task> {
        if self.with_placed(|placed| placed.is_empty()) {
            return self.fresh.pop();
        }
        let is_fresh_turn = !self.is_fresh_turn.get();
        self.is_fresh_turn.set(is_fresh_turn);
        let fresh = if is_fresh_turn {
            self.fresh.pop()
        } else {
            None
        };
        fresh.or_else(|| self.with_placed(VecDeque::pop_front))
    }

    #[inline]
    fn pick_fresh(&self) -> Option<NonNull<Goroutine>> {
        loop {
            let Task(g) = self.pop_fresh()?;
            if let Some(g) = self.start(g) {
                return Some(g);
            }
        }
    }

    /// Takes a batch from the injector into the fresh deque and starts one.
    fn take_injected(&self) -> Option<NonNull<Goroutine>> {
        loop {
            match self.fresh.take_injected(&self.shared.injector) {
                Steal::Success(Task(g)) => {
                    if let Some(g) = self.start(g) {
                        return Some(g);
                    }
                }
                Steal::Retry => {}
                Steal::Empty => return None,
            }
        }
    }
}
