//! The condition variable.
//!
//! What it does to its word, and why no notification is lost, is in `condvar_word`.
//!
//! # Safety
//!
//! The raw mutex of a guard is unlocked and locked again while the guard lives. The guard is borrowed mutably meanwhile, and the
//! mutex is locked again on every way out, so whoever has the guard has the mutex.

#![allow(unsafe_code)]

use super::condvar_word::CondvarWord;
use super::mutex::{MutexGuard, RawMutex};
use super::mutex_word::CASE_HANDED;
use super::waiting::{Ended, Wait, settle};
use crate::park::WaitReason;
use crate::park::lot::{LOT, WOKEN as CASE_WOKEN};
use crate::sched::{self, NEVER};
use crate::time::{self, Deadline};
use core::fmt;
use lock_api::RawMutex as _;
use std::time::Duration;

/// A condition variable: goroutines and plain threads wait in it, letting a [`Mutex`](super::Mutex) go meanwhile, until they
/// are notified that something under the mutex has changed.
///
/// One word; can be a `static`; needs no runtime. It may be used with several mutexes at once, though one is the rule.
///
/// The waits block the calling goroutine, not its worker, or the calling thread. They return with the mutex locked again, however they
/// end. Waiters are notified in the order in which they came. A notification counts for those that waited when it came; with
/// nobody waiting it has no effect.
///
/// There are no spurious wake-ups but one: a goroutine that is cancelled after it was notified passes its notification on to
/// the next waiter, which may be one that came later. So check the condition in a loop, or use [`wait_while`](Self::wait_while).
///
/// # Cancellation
///
/// A goroutine that is cancelled while it waits locks the mutex, and then unwinds; its guard unlocks.
///
/// # Ordering
///
/// As given by the mutex.
///
/// ```
/// use urgo::sync::{Condvar, Mutex};
///
/// static QUEUE: Mutex<Vec<u32>> = Mutex::new(Vec::new());
/// static CHANGED: Condvar = Condvar::new();
///
/// urgo::run(|| {
///     let consumer = urgo::spawn(|| {
///         let mut queue = QUEUE.lock();
///         CHANGED.wait_while(&mut queue, |queue| queue.is_empty());
///         queue.pop().unwrap()
///     });
///     QUEUE.lock().push(7);
///     CHANGED.notify_one();
///     assert_eq!(consumer.join().unwrap(), 7);
/// });
/// ```
pub struct Condvar {
    word: CondvarWord,
}

/// Whether a wait with a deadline ended because the deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// `true`: the deadline passed; no notification was spent on this waiter (after the waits on a condition: the condition still
    /// told it to wait).
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// A condition variable that nobody waits in.
    pub const fn new() -> Condvar {
        Condvar {
            word: CondvarWord::new(),
        }
    }

    /// Unlocks the mutex and waits until notified; returns with the mutex locked. There is no moment between the two at which
    /// a notification could be missed.
    ///
    /// ```
    /// use urgo::sync::{Condvar, Mutex};
    ///
    /// let (open, opened) = (Mutex::new(false), Condvar::new());
    /// std::thread::scope(|s| {
    ///     s.spawn(|| {
    ///         *open.lock() = true;
    ///         opened.notify_all();
    ///     });
    ///     let mut open = open.lock();
    ///     while !*open {
    ///         opened.wait(&mut open);
    ///     }
    /// });
    /// ```
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_ns(guard, NEVER);
    }

    /// As [`wait`](Self::wait), for as long as `condition` says so. It is asked with the mutex locked, before the first wait too.
    ///
    /// # Panics
    ///
    /// If `condition` does; the mutex is locked then, as the guard says.
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// As [`wait`](Self::wait), for `timeout` at most. `Duration::MAX` is for ever.
    ///
    /// ```
    /// use std::time::Duration;
    /// use urgo::sync::{Condvar, Mutex};
    ///
    /// let (mutex, condvar) = (Mutex::new(()), Condvar::new());
    /// let mut guard = mutex.lock();
    /// assert!(condvar.wait_for(&mut guard, Duration::from_millis(1)).timed_out());
    /// ```
    pub fn wait_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        WaitTimeoutResult(self.wait_ns(guard, after(timeout)))
    }

    /// As [`wait`](Self::wait), until `deadline` at the latest: a moment of std's clock or of the runtime's.
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: impl Deadline,
    ) -> WaitTimeoutResult {
        WaitTimeoutResult(self.wait_ns(guard, deadline.deadline_ns()))
    }

    /// As [`wait_while`](Self::wait_while), for `timeout` at most, over all.
    ///
    /// ```
    /// use std::time::Duration;
    /// use urgo::sync::{Condvar, Mutex};
    ///
    /// let (ready, changed) = (Mutex::new(false), Condvar::new());
    /// let mut ready = ready.lock();
    /// let result = changed.wait_while_for(&mut ready, |ready| !*ready, Duration::from_millis(1));
    /// assert!(result.timed_out());
    /// ```
    pub fn wait_while_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.wait_while_ns(guard, condition, after(timeout))
    }

    /// As [`wait_while`](Self::wait_while), until `deadline` at the latest.
    pub fn wait_while_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: impl FnMut(&mut T) -> bool,
        deadline: impl Deadline,
    ) -> WaitTimeoutResult {
        self.wait_while_ns(guard, condition, deadline.deadline_ns())
    }

    /// Ends the oldest wait; `false` if nobody waited. Waiters whose deadlines have passed, and goroutines that were
    /// cancelled, are passed over. Blocks nothing; the mutex may be locked or not.
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.word.has_waiters() && self.notify(1) == 1
    }

    /// Ends all waits; how many. Blocks nothing.
    ///
    /// They do not fight for the mutex: each wakes when it can have it.
    #[inline]
    pub fn notify_all(&self) -> usize {
        if self.word.has_waiters() {
            self.notify(usize::MAX)
        } else {
            0
        }
    }

    fn notify(&self, max: usize) -> usize {
        let (notified, wakes) = self.word.notify(&LOT, max);
        settle(wakes);
        notified
    }

    fn wait_while_ns<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        deadline: u64,
    ) -> WaitTimeoutResult {
        while condition(guard) {
            if self.wait_ns(guard, deadline) {
                return WaitTimeoutResult(condition(guard));
            }
        }
        WaitTimeoutResult(false)
    }

    fn wait_ns<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: u64) -> bool {
        // SAFETY: the guard says that we hold the mutex; see the module for what is done with it.
        self.wait_raw(unsafe { MutexGuard::mutex(guard).raw() }, deadline)
    }

    /// `true` if the deadline passed. The caller holds `mutex`, before and after.
    fn wait_raw(&self, mutex: &RawMutex, deadline: u64) -> bool {
        let wait = Wait {
            address: self.word.address(),
            tag: mutex.address(),
            goes_first: false,
            reason: WaitReason::Condvar,
            deadline,
        };
        let announce = || {
            self.word.announce();
            true
        };
        // SAFETY: held by the caller, and locked again below.
        let ended = wait.wait(announce, || unsafe { mutex.unlock() });
        match ended {
            Ended::Woken(CASE_HANDED) => false,
            Ended::Woken(case) => {
                mutex.lock_again(case == CASE_WOKEN);
                false
            }
            Ended::TimedOut { moved } => {
                mutex.lock_again(false);
                // One that was requeued had been notified.
                !moved
            }
            Ended::Cancelled { moved } => {
                mutex.lock_again(false);
                if moved {
                    self.notify(1);
                }
                sched::unwind_if_cancelled();
                false
            }
            Ended::Refused => unreachable!("the wait is announced in any case"),
        }
    }
}

fn after(timeout: Duration) -> u64 {
    sched::now_ns().saturating_add(time::duration_ns(timeout))
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
