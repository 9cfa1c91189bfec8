//! The worker: one OS thread's run queue, fresh deque, timers, ring, stacks and control blocks, and its loop.
//!
//! # Safety
//!
//! A worker is used by its own thread alone, from its host stack and from the goroutines it runs, which are on that
//! thread too. Its cells are borrowed only for the length of one call that runs no user code and switches no stack, so
//! no two borrows of one cell overlap.

#![allow(unsafe_code)]

use super::fresh::Fresh;
use super::operation::Operation;
use super::panic_count;
use super::remote::{Command, Remote};
use super::run_queue::RunQueue;
use super::shared::Shared;
use super::stop::Stopping;
use super::task::Task;
use crate::atomic::{AtomicU64, Ordering};
use crate::goroutine::{Goroutine, Slab, Stack, StackPool, Status, Waiting, end_uncalled};
use crate::limits::{
    BUSY_SUBMISSIONS, DIRECT_TICKS, FAIR_TICKS, FLUSH_AGE_US, FLUSH_BATCH, FRESH_BATCH, SPIN_US,
    TRIM_DELAY_NS,
};
use crate::park::{Outcome, WaitQueue, WaitReason, Waiter, Wake};
use crate::seam::{Choice, Driver};
use crate::timer::{Action, Timers};
use core::cell::{Cell, UnsafeCell};
use core::ptr::{self, NonNull};
use crossbeam_deque::Steal;
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use urgo_sys::event_fd::EventFd;
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
    pub(crate) run_queue: RunQueue,
    pub(crate) current: Cell<Option<NonNull<Goroutine>>>,
    host_sp: Cell<*mut u8>,
    /// Dispatches so far.
    ticks: Cell<u32>,
    last_fair: Cell<u32>,
    /// Fresh goroutines that may start before the run queue is looked at again.
    fresh_left: Cell<u32>,
    pub(crate) fresh: Fresh,
    pub(crate) live: Cell<usize>,
    live_published: Cell<usize>,
    /// `Clock::ticks` at which waiting submissions are too old; `u64::MAX` when none wait.
    pub(crate) flush_at: Cell<u64>,
    flush_age: u64,
    spin: u64,
    trim_at: Cell<u64>,
    pub(crate) ids: Cell<(u64, u64)>,
    /// `Stop::epoch` as of this worker's last stop turn.
    pub(crate) stop_epoch: Cell<u32>,
    /// Goroutines that wait for room in the submission queue.
    pub(crate) submission_waiters: WaitQueue,
    driver: UnsafeCell<Driver>,
    timers: UnsafeCell<Timers>,
    /// Fresh goroutines that must start here.
    placed: UnsafeCell<VecDeque<Task>>,
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
        let slab = Slab::new();
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
            host_sp: Cell::new(ptr::null_mut()),
            ticks: Cell::new(0),
            last_fair: Cell::new(0),
            fresh_left: Cell::new(0),
            fresh,
            live: Cell::new(0),
            live_published: Cell::new(0),
            flush_at: Cell::new(u64::MAX),
            flush_age: clock.ticks_of_us(FLUSH_AGE_US),
            spin: clock.ticks_of_us(SPIN_US),
            trim_at: Cell::new(u64::MAX),
            ids: Cell::new((0, 0)),
            stop_epoch: Cell::new(0),
            submission_waiters: WaitQueue::new(),
            driver: UnsafeCell::new(driver),
            timers: UnsafeCell::new(Timers::default()),
            placed: UnsafeCell::default(),
            stacks: UnsafeCell::new(StackPool::new(shared.stack_bytes)),
            slab: UnsafeCell::new(slab),
            choice: UnsafeCell::new(Choice::live(shared.entropy.seed())),
            victims,
            remote,
            shared,
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
    pub(crate) fn with_placed<R>(&self, f: impl FnOnce(&mut VecDeque<Task>) -> R) -> R {
        // SAFETY: as in `with_driver`.
        f(unsafe { &mut *self.placed.get() })
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

    // ------------------------------------------------------------------------------------------------------- switching

    /// On a goroutine's stack: leaves it. Whoever is to ready `g` knows it already, or `g` is queued. Returns when the
    /// goroutine is dispatched again.
    #[inline(always)]
    fn leave(&self, g: &Goroutine) {
        let ticks = self.ticks.get();
        // Every so often, and when submissions wait too long, through the host stack, which looks at everything else.
        if ticks & (DIRECT_TICKS - 1) != 0
            && (ticks & 3 != 0 || !self.is_flush_due())
            && let Some(next) = self.run_queue.pop()
        {
            self.ticks.set(ticks.wrapping_add(1));
            if next == NonNull::from(g) {
                return;
            }
            self.current.set(Some(next));
            // SAFETY: a goroutine in the run queue is suspended (its `sp` is a saved context), and it is homed here, on
            // this thread; `g`'s own slot receives its context.
            unsafe { urgo_arch::switch_across(g.sp.as_ptr(), next.as_ref().sp.get()) };
        } else {
            // SAFETY: `host_sp` was saved by the `switch_in` that this thread's host is in.
            unsafe { urgo_arch::switch_out(g.sp.as_ptr(), self.host_sp.as_ptr()) };
        }
    }

    /// On a goroutine's stack: lets others run; the goroutine stays ready.
    #[inline]
    pub(crate) fn yield_now(&self, g: &Goroutine) {
        self.run_queue.push(NonNull::from(g));
        self.leave_alone(g);
    }

    /// On a goroutine's stack: waits until somebody readies the goroutine.
    #[inline]
    pub(crate) fn suspend(&self, g: &Goroutine, reason: WaitReason) {
        g.reason.store(reason as u8, Ordering::Relaxed);
        self.leave_alone(g);
        g.reason.store(WaitReason::None as u8, Ordering::Relaxed);
    }

    /// As `leave`; a goroutine that leaves in the middle of a panic takes its panic count along.
    #[inline(always)]
    fn leave_alone(&self, g: &Goroutine) {
        let aside = std::thread::panicking().then(panic_count::set_aside);
        self.leave(g);
        if let Some(aside) = aside {
            aside.put_back();
        }
    }

    /// On the host stack: runs `g` until it leaves.
    #[inline]
    fn dispatch(&self, g: NonNull<Goroutine>) {
        self.ticks.set(self.ticks.get().wrapping_add(1));
        self.current.set(Some(g));
        // SAFETY: `g` is ready, so its `sp` is a saved context (or a fresh one from `start`), homed on this thread.
        unsafe { urgo_arch::switch_in(self.host_sp.as_ptr(), g.as_ref().sp.get()) };
        self.current.set(None);
    }

    /// On the host stack: gives a fresh goroutine its stack. `None` if there is no stack for it (it has ended, then).
    fn start(&self, g: NonNull<Goroutine>) -> Option<NonNull<Goroutine>> {
        // SAFETY: fresh and ours: taken from a queue, or placed here.
        let block = unsafe { g.as_ref() };
        if block.pinned.get() {
            self.remote.placed.fetch_sub(1, Ordering::Relaxed);
        }
        match self.with_stacks(|stacks| stacks.take(block.stack_bytes())) {
            Ok(stack) => {
                // SAFETY: the stack is ours and unused; the block outlives the goroutine's run.
                let sp =
                    unsafe { urgo_arch::init(stack.top(), super::entry::entry, g.as_ptr().cast()) };
                block.sp.set(sp);
                self.take_up(block, stack);
                self.live.set(self.live.get() + 1);
                self.publish_live();
                Some(g)
            }
            Err(error) => {
                tracing::error!(goroutine = block.id(), %error, "a goroutine could not start");
                // On the host stack, for want of another: a `Drop` that waits here holds the worker.
                // SAFETY: fresh and ours.
                unsafe { end_uncalled(block, Some(error)) };
                self.complete(block);
                None
            }
        }
    }

    /// On the goroutine's stack: everything that is left to do for it. Returns a fresh goroutine that is to start on this
    /// stack next; otherwise the stack is back in the pool, and the caller leaves it for ever.
    #[inline]
    pub(crate) fn finish(&self, g: &Goroutine) -> Option<NonNull<Goroutine>> {
        let stack = g.stack.get().expect("a running goroutine has a stack");
        // May run a detached result's `Drop`, on this stack.
        self.complete(g);
        if let Some(next) = self.next_on_this_stack(stack) {
            return Some(next);
        }
        // We are still on it, but nobody else on this thread takes a stack before we have left.
        self.with_stacks(|stacks| stacks.give_back(stack));
        self.live.set(self.live.get() - 1);
        self.publish_live();
        None
    }

    /// In a burst of fresh goroutines: the next of them, if it is content with `stack`.
    #[inline]
    fn next_on_this_stack(&self, stack: Stack) -> Option<NonNull<Goroutine>> {
        let (ticks, fresh_left) = (self.ticks.get(), self.fresh_left.get());
        if fresh_left == 0
            || ticks & (DIRECT_TICKS - 1) == 0
            || !self.with_stacks(|s| s.is_default(stack))
        {
            return None;
        }
        let Task(next) = self.pop_fresh()?;
        // SAFETY: fresh and ours: out of a queue.
        let block = unsafe { next.as_ref() };
        if block.stack_bytes().is_some() {
            // The host gives it a stack of its own.
            self.with_placed(|placed| placed.push_front(Task(next)));
            return None;
        }
        self.fresh_left.set(fresh_left - 1);
        self.ticks.set(ticks.wrapping_add(1));
        if block.pinned.get() {
            self.remote.placed.fetch_sub(1, Ordering::Relaxed);
        }
        self.take_up(block, stack);
        self.current.set(Some(next));
        Some(next)
    }

    /// A fresh goroutine becomes this worker's own, on `stack`.
    #[inline]
    fn take_up(&self, block: &Goroutine, stack: Stack) {
        block.stack.set(Some(stack));
        block.home.store(self.remote.as_home(), Ordering::Relaxed);
        if self.shared.stop.is_stopping() {
            // Its closure is only dropped, on its own stack, where its destructors may wait.
            block.cancelled.set(true);
        }
        block.set_status(Status::Started);
        bump(&self.remote.counts.started, 1);
    }

    /// The result is in the block: hands it over. The block may be gone afterwards.
    pub(crate) fn complete(&self, g: &Goroutine) {
        self.hand_over(g);
        bump(&self.remote.counts.ended, 1);
        if self.shared.stop.is_stopping() {
            self.ended_while_stopping();
        }
    }

    pub(crate) fn host_sp(&self) -> *const *mut u8 {
        self.host_sp.as_ptr()
    }

    /// Publishes the load in steps of a sixteenth, so that others' caches are not disturbed at every start and end.
    #[inline]
    fn publish_live(&self) {
        let (live, published) = (self.live.get(), self.live_published.get());
        if live.abs_diff(published) > published / 16 {
            self.live_published.set(live);
            self.remote.live.store(live, Ordering::Relaxed);
        }
    }

    // ----------------------------------------------------------------------------------------------------------- ready

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
        let by_ring = self.with_driver(|driver| {
            let can = driver.capabilities().contains(Capabilities::MSG_RING);
            if can {
                driver.kick(remote.ring_fd.load(Ordering::Relaxed));
            }
            can
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
            Waiting::No => {}
            Waiting::Word(waiter) => {
                // SAFETY: `waiting` names a waiter only while the goroutine is suspended in it.
                if let Some(Wake::Goroutine(_)) = unsafe { &*waiter }.finish(Outcome::Cancelled) {
                    self.run_queue.push(NonNull::from(g));
                }
            }
            Waiting::Operation(operation) => {
                // SAFETY: as above; it is an `Operation`, set by `operation::perform`.
                let token = unsafe { operation.cast::<Operation>().as_ref() }.token;
                self.with_driver(|driver| driver.cancel(token));
            }
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
            if self.ticks.get().wrapping_sub(self.last_fair.get()) >= FAIR_TICKS {
                self.look_around();
            }
            self.flush_if_due();
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
            ..
        } = self;
        // The ring goes first: nothing the kernel could write to is left behind it.
        drop(driver);
        shared
            .observers
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .clear();
        slab.into_inner().retire();
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

    /// The oldest fresh goroutine: those placed here first, which nobody else can take.
    #[inline]
    fn pop_fresh(&self) -> Option<Task> {
        let placed = self.with_placed(VecDeque::pop_front);
        placed.or_else(|| self.fresh.pop())
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

    /// Every `FAIR_TICKS` dispatches: nobody else is to starve behind a full run queue.
    fn look_around(&self) {
        self.last_fair.set(self.ticks.get());
        self.with_driver(|driver| {
            if driver.sq_pending() > 0 {
                // A stall shows again at the next flush.
                let _ = driver.flush();
            }
            driver.poll();
        });
        self.poll_sources();
        if !self.shared.injector.is_empty()
            && let Some(g) = self.take_injected()
        {
            self.run_queue.push_next(g);
        }
        self.fresh_left.set(FRESH_BATCH);
        self.plan_trim();
        if self.trim_at.get() != u64::MAX {
            self.trim_if_due();
        }
        self.publish_counts();
    }

    /// Inbox, commands, completions, timers: into the run queue.
    fn poll_sources(&self) {
        for g in self.remote.inbox.take_all() {
            self.take_in(g);
        }
        for command in self.remote.take_commands() {
            match command {
                Command::CancelFd(fd) => {
                    self.with_driver(|driver| driver.cancel_matching_fd(fd));
                }
            }
        }
        self.reap();
        self.fire_timers();
    }

    /// A goroutine from the inbox: readied by others, or fresh and placed here.
    fn take_in(&self, g: NonNull<Goroutine>) {
        // SAFETY: in our inbox, so alive and ours.
        if unsafe { g.as_ref() }.status() == Status::Fresh {
            self.with_placed(|placed| placed.push_back(Task(g)));
        } else {
            self.run_queue.push(g);
        }
    }

    fn reap(&self) {
        self.with_driver(|driver| {
            if driver.cq_ready() {
                // The owner of an operation is the goroutine that waits for it.
                driver.reap(|owner| self.run_queue.push_fetched(owner.cast()));
            }
        });
        if !self.submission_waiters.is_empty() {
            self.admit_submission_waiters();
        }
    }

    #[cold]
    fn admit_submission_waiters(&self) {
        // SAFETY: the queue is this thread's, and waiters remove themselves before they go.
        while let Some(wake) = unsafe { self.submission_waiters.wake_one() } {
            if let Wake::Goroutine(g) = wake {
                self.run_queue.push(g.cast());
            }
        }
    }

    fn fire_timers(&self) {
        if self.with_timers(|timers| timers.earliest()).is_none() {
            return;
        }
        let now = self.shared.clock.now_ns();
        while let Some(action) = self.with_timers(|timers| timers.pop_due(now)) {
            match action {
                Action::FinishWaiter(waiter) => {
                    // SAFETY: a registered timer's waiter is on the stack of a goroutine that is suspended in it.
                    let waiter = unsafe { waiter.cast::<Waiter>().as_ref() };
                    if let Some(Wake::Goroutine(g)) = waiter.finish(Outcome::TimedOut) {
                        self.run_queue.push(g.cast());
                    }
                }
                Action::CancelOperation(operation) => {
                    // SAFETY: as above, for the operation.
                    let token = unsafe { operation.cast::<Operation>().as_ref() }.token;
                    self.with_driver(|driver| driver.cancel(token));
                }
            }
        }
    }

    #[inline]
    fn is_flush_due(&self) -> bool {
        self.flush_at.get() != u64::MAX && self.shared.clock.ticks() >= self.flush_at.get()
    }

    #[inline]
    fn flush_if_due(&self) {
        if self.flush_at.get() != u64::MAX {
            self.flush_due();
        }
    }

    fn flush_due(&self) {
        self.with_driver(|driver| {
            let pending = driver.sq_pending();
            if pending >= FLUSH_BATCH
                || (pending > 0 && self.shared.clock.ticks() >= self.flush_at.get())
            {
                let _ = driver.flush();
            }
            if driver.sq_pending() == 0 {
                self.flush_at.set(u64::MAX);
            }
        });
    }

    /// An operation was queued: it is to reach the kernel within `FLUSH_AGE_US` if the worker stays busy.
    #[inline]
    pub(crate) fn note_submission(&self) {
        if self.flush_at.get() == u64::MAX {
            self.flush_at
                .set(self.shared.clock.ticks().saturating_add(self.flush_age));
        }
    }

    // ------------------------------------------------------------------------------------------------------------ idle

    /// Nothing to run: looks for work of others, then sleeps in the ring until there is some.
    fn idle(&self) {
        // Submit, and see what comes of it, before the trouble of falling asleep: under load most operations complete
        // while they are submitted.
        let busy = self.with_driver(|driver| {
            driver.sq_pending() >= BUSY_SUBMISSIONS && {
                // A stall shows again at the next flush.
                let _ = driver.flush_and_poll();
                driver.cq_ready()
            }
        });
        if busy {
            self.flush_at.set(u64::MAX);
            return;
        }
        self.publish_counts();
        if self.search() {
            return;
        }
        if self.shared.stop.is_stopping() && self.await_stop_move() {
            return;
        }
        let deadline = self.deadline();
        if deadline.is_some_and(|at| at <= self.shared.clock.now_ns()) {
            self.trim_if_due();
            self.fire_timers();
            if !self.run_queue.is_empty() {
                return;
            }
        }
        let idle = &self.shared.idle;
        idle.announce_sleep(&self.remote.sleep);
        let stays_awake =
            self.has_work() || self.shared.stop.has_moved(self.stop_epoch.get()) || !self.arm();
        if !stays_awake {
            bump(&self.remote.counts.sleeps, 1);
            // Whatever ended the wait, the loop looks at every source next.
            let _ = self.with_driver(|driver| driver.wait(deadline));
            self.flush_at.set(u64::MAX);
        } else if self.with_driver(|driver| driver.sq_pending()) > 0 {
            let _ = self.with_driver(|driver| driver.flush());
        }
        if idle.wake_up(&self.remote.sleep) == super::idle::Roused::Drafted {
            // Work for anyone was posted, and we count as searching for it.
            self.search_drafted();
        }
    }

    /// While the runtime ends workers wait for each other at every hand-over of the cursor: waits a little without sleeping,
    /// since a wake from sleep takes a hundred times as long. `true` if something has changed.
    #[cold]
    fn await_stop_move(&self) -> bool {
        let until = self.shared.clock.ticks().saturating_add(self.spin * 8);
        loop {
            if self.shared.stop.has_moved(self.stop_epoch.get())
                || !self.remote.inbox.is_empty()
                || self.with_driver(|driver| driver.cq_ready())
            {
                return true;
            }
            if self.shared.clock.ticks() >= until
                || self.with_driver(|driver| driver.has_work_flag())
            {
                return false;
            }
            std::thread::yield_now();
        }
    }

    /// Makes sure that others can rouse this worker out of its ring. `false`: do not sleep this time.
    fn arm(&self) -> bool {
        self.with_driver(|driver| {
            if self.remote.eventfd.get().is_none() {
                // SAFETY: the sleep word is in `Remote`, which this worker holds until after its driver is dropped.
                let word = unsafe {
                    driver.arm_sleep_word(self.remote.sleep.raw(), super::idle::SLEEPING)
                };
                if word || driver.capabilities().contains(Capabilities::FUTEX_WAIT) {
                    return word;
                }
                // The kernel has refused the futex operation for good. Whoever wakes us from now on sees the eventfd;
                // whoever did not see it yet woke a word on which nobody sleeps, but then the word is no longer
                // `SLEEPING`, so look around once more.
                match EventFd::new(true) {
                    Ok(eventfd) => drop(self.remote.eventfd.set(eventfd)),
                    Err(_) => return false,
                }
                driver.arm_eventfd(self.remote.eventfd.get().map_or(-1, AsRawFd::as_raw_fd));
                return false;
            }
            driver.arm_eventfd(self.remote.eventfd.get().map_or(-1, AsRawFd::as_raw_fd))
        })
    }

    /// Every source, as step 4 of the idle protocol demands.
    fn has_work(&self) -> bool {
        !self.remote.inbox.is_empty()
            || self.remote.has_commands.load(Ordering::Relaxed)
            || !self.shared.injector.is_empty()
            || self.with_driver(|driver| driver.cq_ready())
            || self
                .shared
                .remotes
                .iter()
                .any(|remote| remote.stealer.as_ref().is_some_and(|s| !s.is_empty()))
    }

    /// Looks for fresh goroutines of others. `true` if something is there to run.
    fn search(&self) -> bool {
        if self.victims.is_empty() || !self.shared.idle.start_search() {
            return false;
        }
        let until = self.shared.clock.ticks().saturating_add(self.spin);
        loop {
            let found = self.steal();
            if found
                || !self.remote.inbox.is_empty()
                || self.with_driver(|driver| driver.cq_ready())
            {
                self.leave_search();
                return true;
            }
            // Deferred completions come out in the enter that we would sleep in.
            if self.with_driver(|driver| driver.has_work_flag())
                || self.shared.clock.ticks() >= until
            {
                // We fall asleep next, and look at everything behind that protocol's fence.
                self.shared.idle.end_search();
                return false;
            }
            core::hint::spin_loop();
        }
    }

    fn search_drafted(&self) {
        self.steal();
        self.leave_search();
    }

    fn leave_search(&self) {
        self.shared.leave_search(|remote| self.rouse(remote));
    }

    /// After fresh work was posted for anyone.
    #[inline]
    pub(crate) fn rouse_anyone(&self) {
        if !self.victims.is_empty() {
            self.shared.rouse_anyone(|remote| self.rouse(remote));
        }
    }

    /// One round over injector and victims, nearest first, random order within a distance.
    fn steal(&self) -> bool {
        if let Some(g) = self.take_injected() {
            self.run_queue.push(g);
            return true;
        }
        for level in &self.victims {
            let start = self.with_choice(|choice| choice.below(level.len()));
            for i in 0..level.len() {
                let victim = &self.shared.remotes[level[(start + i) % level.len()]];
                let Some(stealer) = &victim.stealer else {
                    continue;
                };
                loop {
                    match self.fresh.steal_from(stealer) {
                        Steal::Success(Task(g)) => {
                            bump(&self.remote.counts.stolen, 1 + self.fresh.len() as u64);
                            if let Some(g) = self.start(g) {
                                self.run_queue.push(g);
                            }
                            return true;
                        }
                        Steal::Retry => core::hint::spin_loop(),
                        Steal::Empty => break,
                    }
                }
            }
        }
        false
    }

    // ------------------------------------------------------------------------------------------------------ housekeeping

    #[inline]
    fn plan_trim(&self) {
        if self.trim_at.get() == u64::MAX && self.with_stacks(|stacks| stacks.wants_trim()) {
            self.trim_at
                .set(self.shared.clock.now_ns().saturating_add(TRIM_DELAY_NS));
        }
    }

    /// The earliest moment at which this worker must look around by itself.
    fn deadline(&self) -> Option<u64> {
        self.plan_trim();
        let timer = self
            .with_timers(|timers| timers.earliest())
            .unwrap_or(u64::MAX);
        Some(timer.min(self.trim_at.get())).filter(|&at| at != u64::MAX)
    }

    /// Gives memory back after a peak, one batch at a time.
    fn trim_if_due(&self) {
        if self.trim_at.get() > self.shared.clock.now_ns() {
            return;
        }
        if self.with_stacks(|stacks| stacks.trim()) {
            self.trim_at.set(0);
        } else {
            self.trim_at.set(u64::MAX);
            self.run_queue.trim();
            self.fresh.trim();
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.with_driver(|driver| driver.in_flight())
    }

    /// Copies the ring's counters to where others can read them.
    fn publish_counts(&self) {
        let counts = &self.remote.counts;
        self.with_driver(|driver| {
            let ring = driver.counters();
            counts.operations.store(ring.registered, Ordering::Relaxed);
            counts.completions.store(ring.ended(), Ordering::Relaxed);
            counts.enters.store(ring.enters, Ordering::Relaxed);
            counts.overflows.store(ring.overflows, Ordering::Relaxed);
            counts
                .in_flight
                .store(driver.in_flight(), Ordering::Relaxed);
        });
        counts
            .dispatched
            .store(u64::from(self.ticks.get()), Ordering::Relaxed);
    }
}

/// Owner worker only: adds to a count that others read.
#[inline]
pub(crate) fn bump(count: &AtomicU64, by: u64) {
    // Release pairs with the loads in `Shared::alive`; the owner is the only writer, so no read-modify-write is needed.
    count.store(count.load(Ordering::Relaxed) + by, Ordering::Release);
}
