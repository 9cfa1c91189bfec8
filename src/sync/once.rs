//! Doing something once.
//!
//! # State
//!
//! | bits of `word` | meaning | who stores it |
//! |---|---|---|
//! | `INCOMPLETE` 0 | nobody has begun | |
//! | `POISONED` 1 | who began has unwound | who ran, from `RUNNING` |
//! | `RUNNING` 2 | somebody runs; the upper bits say who | whoever came first, from `INCOMPLETE` or `POISONED` |
//! | `COMPLETE` 3 | done, for good | who ran, from `RUNNING` |
//! | `WAITERS` 4 | somebody may be in the queue of the lot | a waiter, while it is not `COMPLETE`; cleared by who ran |
//!
//! Who runs is told by its goroutine's address, or that of a thread-local of a plain thread: both are unique while it runs,
//! and multiples of 8. It costs nothing to keep, and turns a call from inside itself, which could only wait for ever, into a
//! panic.
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | ON1 | the end of `RUNNING`, release | `is_completed`, the loads and the exchange in `call`: acquire | what was done |
//!
//! # No lost wake-up
//!
//! A waiter sets `WAITERS`, and queues only if the word, seen under the lock of its bucket, is still what it was then. Who
//! ran swaps the word and then wakes all in the bucket, if it saw `WAITERS`.
//!
//! # Safety
//!
//! A node is queued by reference: it stays in its frame until its wait has ended, and is taken out unless it was woken.

#![allow(unsafe_code)]

use super::own_lot::OwnLot;
use crate::atomic::{AtomicUsize, Ordering};
use crate::park::lot::Node;
use crate::park::{Outcome, WaitReason};
use crate::sched::{self, NEVER};
use core::cell::Cell;
use core::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

const INCOMPLETE: usize = 0;
const POISONED: usize = 1;
const RUNNING: usize = 2;
const COMPLETE: usize = 3;
const STATE: usize = 3;
const WAITERS: usize = 4;
const WHO: usize = !7;

/// Lets a closure be run once, whoever comes first; the others wait until it is done. std's API.
///
/// As std's it is *poisoned* if the closure unwinds: by a panic, or because its goroutine was cancelled. Then
/// [`call_once`](Self::call_once) panics from then on, and [`call_once_force`](Self::call_once_force) tries again.
///
/// A wait blocks the calling goroutine (or plain thread), not its worker; both may be mixed. It may stand in a static.
///
/// What the closure did happens before whatever comes after a call that found it done.
///
/// ```
/// use urgo::sync::Once;
///
/// static START: Once = Once::new();
///
/// urgo::run(|| {
///     for _ in 0..3 {
///         START.call_once(|| println!("once only"));
///     }
///     assert!(START.is_completed());
/// });
/// ```
pub struct Once {
    word: AtomicUsize,
    lot: OwnLot,
}

/// What the closure of [`Once::call_once_force`] is told.
pub struct OnceState {
    is_poisoned: bool,
}

impl UnwindSafe for Once {}
impl RefUnwindSafe for Once {}

impl Once {
    /// One whose closure has not run.
    #[cfg(not(urgo_loom))]
    #[must_use]
    pub const fn new() -> Once {
        Once {
            word: AtomicUsize::new(INCOMPLETE),
            lot: OwnLot::new(),
        }
    }

    #[cfg(urgo_loom)]
    pub(crate) fn new() -> Once {
        Once {
            word: AtomicUsize::new(INCOMPLETE),
            lot: OwnLot::new(),
        }
    }

    /// The key in the lot.
    #[inline]
    fn address(&self) -> usize {
        (&raw const self.word).addr()
    }

    /// Runs `f` if nobody has begun; waits until it is done if somebody has.
    ///
    /// Blocks the calling goroutine or thread while another runs its closure.
    ///
    /// # Panics
    ///
    /// If it is poisoned; with `f`'s own panic; if it is called from inside its own closure.
    #[inline]
    #[track_caller]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        if !self.is_completed() {
            let mut f = Some(f);
            self.call(false, &mut |_| take(&mut f)());
        }
    }

    /// As [`call_once`](Self::call_once), also if it is poisoned: `f` is told whether.
    ///
    /// # Panics
    ///
    /// With `f`'s own panic; if it is called from inside its own closure.
    ///
    /// ```
    /// use std::panic::{AssertUnwindSafe, catch_unwind};
    /// use urgo::sync::Once;
    ///
    /// let once = Once::new();
    /// assert!(catch_unwind(|| once.call_once(|| panic!("not today"))).is_err());
    /// assert!(catch_unwind(|| once.call_once(|| ())).is_err());
    /// once.call_once_force(|state| assert!(state.is_poisoned()));
    /// once.call_once(|| unreachable!());
    /// ```
    #[inline]
    #[track_caller]
    pub fn call_once_force<F: FnOnce(&OnceState)>(&self, f: F) {
        if !self.is_completed() {
            let mut f = Some(f);
            self.call(true, &mut |state| take(&mut f)(state));
        }
    }

    /// Whether a closure has run to its end. Blocks nothing.
    #[inline]
    #[must_use]
    pub fn is_completed(&self) -> bool {
        // ON1, pairs with the swap in `Running::drop`.
        self.word.load(Ordering::Acquire) & STATE == COMPLETE
    }

    /// Waits until somebody's closure has run to its end.
    ///
    /// Blocks the calling goroutine or thread.
    ///
    /// # Panics
    ///
    /// If it is or becomes poisoned; if it is called from inside its own closure.
    #[track_caller]
    pub fn wait(&self) {
        self.wait_done(false);
    }

    /// As [`wait`](Self::wait), also if it is poisoned: until somebody has run
    /// [`call_once_force`](Self::call_once_force) to its end.
    ///
    /// # Panics
    ///
    /// If it is called from inside its own closure.
    #[track_caller]
    pub fn wait_force(&self) {
        self.wait_done(true);
    }

    #[cold]
    #[track_caller]
    fn call(&self, is_forced: bool, f: &mut dyn FnMut(&OnceState)) {
        // ON1, pairs with the swap in `Running::drop`.
        let mut seen = self.word.load(Ordering::Acquire);
        loop {
            match seen & STATE {
                COMPLETE => return,
                POISONED if !is_forced => poisoned(),
                RUNNING => seen = self.wait_while(seen),
                state => {
                    let running = RUNNING | seen & WAITERS | who();
                    // ON1, pairs with the swap of whoever was poisoned.
                    match self.word.compare_exchange_weak(
                        seen,
                        running,
                        Ordering::Acquire,
                        Ordering::Acquire, // pairs with ON1
                    ) {
                        Ok(_) => {
                            let end = Running {
                                once: self,
                                becomes: Cell::new(POISONED),
                            };
                            f(&OnceState {
                                is_poisoned: state == POISONED,
                            });
                            end.becomes.set(COMPLETE);
                            return;
                        }
                        Err(now) => seen = now,
                    }
                }
            }
        }
    }

    #[track_caller]
    fn wait_done(&self, is_forced: bool) {
        // ON1, pairs with the swap in `Running::drop`.
        let mut seen = self.word.load(Ordering::Acquire);
        loop {
            match seen & STATE {
                COMPLETE => return,
                POISONED if !is_forced => poisoned(),
                _ => seen = self.wait_while(seen),
            }
        }
    }

    /// Waits if the word is still `seen`, until somebody has run or unwound; returns it as it is then.
    #[track_caller]
    fn wait_while(&self, seen: usize) -> usize {
        assert!(
            seen & STATE != RUNNING || seen & WHO != who(),
            "called from inside its own initialisation, which would wait for itself"
        );
        let expected = seen | WAITERS;
        if seen == expected
            || self
                .word
                .compare_exchange(seen, expected, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            let node = Node::new(sched::new_parked_waiter(), 0);
            // SAFETY: the node stays in this frame, which does not go before the wait is over; if that was not by a wake, it
            // is taken out below. Nothing in between unwinds.
            let waits = unsafe {
                self.lot.enqueue(self.address(), &node, || {
                    self.word.load(Ordering::Relaxed) == expected
                })
            };
            if waits && sched::wait_parked(&node.waiter, WaitReason::Once, NEVER) != Outcome::Woken
            {
                self.lot.remove(&node);
                sched::unwind_if_cancelled();
            }
        }
        // ON1, pairs with the swap in `Running::drop`.
        self.word.load(Ordering::Acquire)
    }
}

impl Default for Once {
    fn default() -> Self {
        Once::new()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once")
            .field("is_completed", &self.is_completed())
            .finish_non_exhaustive()
    }
}

impl OnceState {
    /// Whether a closure has unwound before.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.is_poisoned
    }
}

impl fmt::Debug for OnceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceState")
            .field("is_poisoned", &self.is_poisoned)
            .finish()
    }
}

fn take<F>(f: &mut Option<F>) -> F {
    f.take().expect("called once only")
}

#[cold]
#[track_caller]
fn poisoned() -> ! {
    panic!("the initialisation has unwound before: it is poisoned")
}

/// Tells the caller from all others that run at the same time.
#[cfg(not(urgo_loom))]
fn who() -> usize {
    match sched::new_parked_waiter().target {
        crate::park::Target::Goroutine(g) => g.addr().get() & WHO,
        crate::park::Target::Thread => {
            thread_local!(static HERE: u64 = const { 0 });
            // Without a destructor, so it is there until the thread ends.
            HERE.with(|here| (&raw const *here).addr() & WHO)
        }
    }
}

#[cfg(urgo_loom)]
fn who() -> usize {
    sched::worker_number() * !WHO & WHO
}

/// The closure runs; whatever it comes to is said when this goes.
struct Running<'a> {
    once: &'a Once,
    becomes: Cell<usize>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // ON1, pairs with the loads in `is_completed`, `call`, `wait_while` and `wait_done`.
        let before = self.once.word.swap(self.becomes.get(), Ordering::Release);
        if before & WAITERS != 0 {
            let (_, wakes) = self.once.lot.wake(self.once.address(), usize::MAX);
            wakes.for_each(sched::settle);
        }
    }
}

#[cfg(all(test, urgo_loom))]
mod tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// An initialiser, and another or one that only waits: one runs, nobody waits for ever, both see what was done.
    #[test]
    fn loom_once_runs_once_and_wakes_all() {
        for is_waiter in [true, false] {
            loom::model(move || {
                let shared = Arc::new((Once::new(), AtomicUsize::new(0)));
                let call = |shared: &(Once, AtomicUsize)| {
                    shared.0.call_once(|| {
                        // Relaxed and in two steps: two at once would be seen, and so would one that is not published.
                        let seen = shared.1.load(Ordering::Relaxed);
                        shared.1.store(seen + 1, Ordering::Relaxed);
                    });
                    assert_eq!(shared.1.load(Ordering::Relaxed), 1);
                };
                let other = {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        sched::become_worker(2);
                        if is_waiter {
                            shared.0.wait();
                        }
                        call(&shared);
                    })
                };
                sched::become_worker(1);
                call(&shared);
                other.join().unwrap();
            });
        }
    }

    /// The first gives up; who waits meanwhile tries itself.
    #[test]
    fn loom_once_is_tried_again_by_who_waited() {
        loom::model(|| {
            let shared = Arc::new((Once::new(), AtomicUsize::new(0)));
            let second = {
                let shared = shared.clone();
                thread::spawn(move || {
                    sched::become_worker(2);
                    shared
                        .0
                        .call_once_force(|_| shared.1.store(1, Ordering::Relaxed));
                })
            };
            sched::become_worker(1);
            let running = RUNNING | who();
            // Pairs with the swap in `Running::drop`.
            if shared
                .0
                .word
                .compare_exchange(INCOMPLETE, running, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                drop(Running {
                    once: &shared.0,
                    becomes: Cell::new(POISONED),
                });
            }
            shared.0.wait_force();
            assert_eq!(shared.1.load(Ordering::Relaxed), 1);
            second.join().unwrap();
        });
    }
}
