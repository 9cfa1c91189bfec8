//! The children of a scope: how many are not over, who has started, who waits for room and who for the last.
//!
//! # Algorithm
//!
//! A child is counted when it is spawned. When it starts it adds itself to those that can be cancelled, unless the scope has been cancelled: then it ends
//! at once. When its closure and its result are gone it takes itself off and counts out. So whoever is on the list is alive
//! for as long as the lock is held, and can be marked as cancelled under it.
//!
//! The scope waits for the last child twice at most. Its first wait may be cut short, by a cancellation of the scope's own goroutine, which
//! it passes on to the children; the second may not. The child that counts out last ends whichever is not over. The two
//! waiters are in the record that the children share, so that a child which is late to look at the first finds it there.
//!
//! # Safety
//!
//! Control blocks and waiters are reached through pointers; the lock, and the order above, keep them alive.

#![allow(unsafe_code)]

use crate::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::goroutine::Goroutine;
use crate::park::{Outcome, WaitQueue, WaitReason, Waiter, Wake};
use crate::sched::{self, Marked};
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

/// See the module.
pub(super) struct Children {
    /// Spawned and not over. Added to by whoever spawns, who is a child or keeps the scope from waiting; taken from under the lock.
    alive: AtomicUsize,
    /// Whether there is a limit, and so a look at the state before each spawn.
    is_limited: AtomicBool,
    state: Mutex<State>,
    waiters: [Waiter; 2],
    kin: Kin,
    panicked: AtomicBool,
    unstarted: AtomicBool,
}

/// What one child's failure means for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kin {
    /// Nothing.
    Apart,
    /// They are cancelled.
    Together,
}

struct State {
    /// Started and not over.
    started: Vec<Option<NonNull<Goroutine>>>,
    /// Places in `started` that are free.
    vacant: Vec<usize>,
    limit: usize,
    /// Who waits for room under the limit.
    line: WaitQueue,
    /// The scope waits for the last.
    is_awaited: bool,
    is_cancelled: bool,
}

// SAFETY: the pointers are followed under the lock only, which those that they lead to take before they go.
unsafe impl Send for Children {}
// SAFETY: as above; of the waiters other threads use the wait word only, which is atomic.
unsafe impl Sync for Children {}

/// Whom a cancellation spares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spared {
    /// Nobody.
    Nobody,
    /// The running goroutine.
    Caller,
}

impl Children {
    /// For a scope of the calling goroutine (or thread).
    pub(super) fn new(kin: Kin) -> Arc<Children> {
        Arc::new(Children {
            alive: AtomicUsize::new(0),
            is_limited: AtomicBool::new(false),
            state: Mutex::new(State {
                started: Vec::new(),
                vacant: Vec::new(),
                limit: usize::MAX,
                line: WaitQueue::new(),
                is_awaited: false,
                is_cancelled: false,
            }),
            waiters: [sched::new_waiter(), sched::new_waiter()],
            kin,
            panicked: AtomicBool::new(false),
            unstarted: AtomicBool::new(false),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Counts a child in. Blocks the calling goroutine while there are as many as the limit allows. Unwinds if the caller
    /// is cancelled meanwhile.
    pub(super) fn enter(self: &Arc<Self>) -> Membership {
        if self.is_limited.load(Ordering::Relaxed) {
            self.enter_slow();
        } else {
            self.alive.fetch_add(1, Ordering::Relaxed);
        }
        Membership {
            children: self.clone(),
            place: None,
        }
    }

    #[cold]
    fn enter_slow(&self) {
        loop {
            let waiter = sched::new_waiter();
            {
                let state = self.lock();
                if self.has_room(&state) {
                    self.alive.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                // SAFETY: under the lock; removed below unless it was popped, and not moved meanwhile.
                unsafe { state.line.push(&waiter) };
            }
            if sched::wait(&waiter, WaitReason::ScopeRoom, sched::NEVER) != Outcome::Woken {
                // SAFETY: under the lock, and pushed on this queue.
                unsafe { self.lock().line.remove(&waiter) };
                sched::unwind_if_cancelled();
            }
        }
    }

    /// In a scope that was cancelled there is room for all: they do not run.
    fn has_room(&self, state: &State) -> bool {
        self.alive.load(Ordering::Relaxed) < state.limit || state.is_cancelled
    }

    /// Sets how many may be alive when one more is spawned.
    pub(super) fn set_limit(&self, limit: usize) {
        let wakes = {
            let mut state = self.lock();
            state.limit = limit;
            self.is_limited.store(true, Ordering::Relaxed);
            state.wake_all()
        };
        wakes.into_iter().for_each(sched::settle);
    }

    /// Cancels all children in the order of their ids, those that have not started or been spawned included.
    ///
    /// Marks them under the lock, and tells their homes outside it: those that end meanwhile need it.
    pub(super) fn cancel(&self, spared: Spared) {
        let (marked, wakes) = {
            let mut state = self.lock();
            state.is_cancelled = true;
            let caller = match spared {
                Spared::Nobody => None,
                Spared::Caller => sched::current().map(Goroutine::id),
            };
            // SAFETY: each takes itself off the list, under the lock, before it ends.
            let started = state
                .started
                .iter()
                .flatten()
                .map(|g| unsafe { g.as_ref() });
            let mut started = Vec::from_iter(started.filter(|g| Some(g.id()) != caller));
            started.sort_unstable_by_key(|g| g.id());
            let marked = started.into_iter().filter_map(sched::mark_started);
            (Vec::from_iter(marked), state.wake_all())
        };
        marked.into_iter().for_each(Marked::tell_home);
        wakes.into_iter().for_each(sched::settle);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.lock().is_cancelled
    }

    /// As the scope's own goroutine is cancelled. At the end of the runtime all are, each in its turn.
    pub(super) fn follow_parent(&self) {
        if !sched::worker().is_some_and(|worker| worker.shared.stop.is_stopping()) {
            self.cancel(Spared::Nobody);
        }
    }

    /// The scope's goroutine, last: waits for all children, whatever happens.
    pub(super) fn wait(&self) {
        {
            let mut state = self.lock();
            if self.alive.load(Ordering::Relaxed) == 0 {
                return;
            }
            state.is_awaited = true;
        }
        let [first, second] = &self.waiters;
        if sched::wait(first, WaitReason::Scope, sched::NEVER) != Outcome::Woken {
            self.follow_parent();
            sched::wait_uncancellable(second, WaitReason::Scope);
        }
    }

    /// A child panicked, and nobody will join it.
    pub(super) fn note_panic(&self, panicked: bool) {
        self.panicked.fetch_or(panicked, Ordering::Relaxed);
    }

    /// After [`wait`](Self::wait): whether a child panicked that nobody has joined.
    pub(super) fn has_panicked(&self) -> bool {
        // What the children stored came before their counting out, under the lock.
        self.panicked.load(Ordering::Relaxed)
    }

    /// There was no stack for a child, and nobody will join it. On its worker's host stack, or that of whoever drops its handle.
    pub(super) fn note_unstarted(&self) {
        self.unstarted.store(true, Ordering::Relaxed);
        if self.kin == Kin::Together {
            self.cancel(Spared::Nobody);
        }
    }

    /// After [`wait`](Self::wait): whether there was no stack for a child that nobody has joined.
    pub(super) fn has_unstarted(&self) -> bool {
        // As in `has_panicked`.
        self.unstarted.load(Ordering::Relaxed)
    }

    fn leave(&self, place: Option<usize>) {
        let (for_room, is_last) = {
            let mut state = self.lock();
            if let Some(place) = place {
                state.started[place] = None;
                state.vacant.push(place);
            }
            // Release pairs with the load in `Joined::drop`.
            let was_last = self.alive.fetch_sub(1, Ordering::Release) == 1;
            let for_room = if self.has_room(&state) {
                // SAFETY: under the lock; waiters remove themselves before they go.
                unsafe { state.line.wake_one() }
            } else {
                None
            };
            (for_room, was_last && state.is_awaited)
        };
        if let Some(wake) = for_room {
            sched::settle(wake);
        }
        if is_last && let Some(wake) = self.waiters.iter().find_map(|w| w.finish(Outcome::Woken)) {
            sched::settle(wake);
        }
    }
}

impl State {
    fn wake_all(&self) -> Vec<Wake> {
        // SAFETY: the caller has the lock, through which alone a state is reached; waiters remove themselves before they go.
        std::iter::from_fn(|| unsafe { self.line.wake_one() }).collect()
    }
}

impl fmt::Debug for Children {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Children")
            .field("alive", &self.alive.load(Ordering::Relaxed))
            .field("limit", &state.limit)
            .field("is_cancelled", &state.is_cancelled)
            .finish_non_exhaustive()
    }
}

/// The children of a scope, in the frame of whoever has opened it: nobody leaves that, by return or by unwinding, before they have ended.
pub(super) struct Joined(pub(super) Arc<Children>);

impl Deref for Joined {
    type Target = Arc<Children>;

    fn deref(&self) -> &Arc<Children> {
        &self.0
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        // Acquire pairs with the release in `leave`, as the lock does otherwise. None is left if the scope came to its end.
        if self.0.alive.load(Ordering::Acquire) != 0 {
            self.0.cancel(Spared::Nobody);
            self.0.wait();
        }
    }
}

/// One child's place among the children; counts it out when it goes.
#[derive(Debug)]
pub(super) struct Membership {
    pub(super) children: Arc<Children>,
    /// Where it stands among those that have started, if it has.
    place: Option<usize>,
}

impl Membership {
    /// The child, as it goes: whether that is so because it got no stack. Then it goes on its worker's host stack, on which no goroutine
    /// runs; one that could not be spawned goes on its spawner's, one that was cancelled on its own.
    pub(super) fn is_without_stack(&self) -> bool {
        self.place.is_none()
            && sched::current().is_none()
            && sched::worker().is_some_and(|worker| !worker.shared.stop.is_stopping())
            && !self.children.is_cancelled()
    }

    /// The child, on its own goroutine, first. `false`: the scope was cancelled, and it is not to run.
    pub(super) fn start(&mut self) -> bool {
        let g = sched::current().expect("a child is a goroutine");
        let mut state = self.children.lock();
        if !state.is_cancelled {
            let place = state.vacant.pop().unwrap_or_else(|| {
                state.started.push(None);
                state.started.len() - 1
            });
            state.started[place] = Some(NonNull::from(g));
            self.place = Some(place);
        }
        !state.is_cancelled
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.children.leave(self.place);
    }
}
