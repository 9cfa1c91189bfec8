//! Waiting on any `u32`: [`wait`], [`wait_until`], [`wake`] and [`requeue`], as `futex(2)` has them, between any mix of
//! goroutines (of one runtime or several) and plain threads.
//!
//! A *word* is any [`AtomicU32`]. Whoever finds in it that it has to wait calls [`wait`] with
//! the value that it saw; whoever changes the word so that others may go on calls [`wake`] afterwards. A change between
//! the look and the wait is noticed, so no wake-up is lost. The locks of [`urgo::sync`](super) are built this way.
//!
//! The words are private to the process, and nothing is known of them but their addresses: this is not the kernel's futex,
//! whose waiters are not seen here.
//!
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering};
//! use urgo::sync::futex;
//!
//! static READY: AtomicU32 = AtomicU32::new(0);
//!
//! urgo::run(|| {
//!     urgo::spawn(|| {
//!         READY.store(1, Ordering::Release);
//!         futex::wake(&READY, usize::MAX);
//!     });
//!     while READY.load(Ordering::Acquire) == 0 {
//!         futex::wait(&READY, 0);
//!     }
//! });
//! ```

use super::waiting::{Ended, Wait, settle};
use crate::atomic::{AtomicU32, Ordering};
use crate::park::WaitReason;
use crate::park::lot::{BATCH, LOT};
use crate::sched::{self, NEVER};
use crate::time::Deadline;
use core::fmt;

/// How a wait ended.
#[must_use = "a wait may end for several reasons; look at the word again"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitOutcome {
    /// A [`wake`] was spent on this waiter. There are no spurious ones: each `Woken` is one that a `wake` or [`requeue`]
    /// has counted.
    Woken,
    /// The word did not hold the expected value; there was no wait.
    ValueChanged,
    /// The deadline passed ([`wait_until`] only). No wake was spent on this waiter.
    TimedOut,
}

/// What [`requeue`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Requeued {
    /// Waiters whose waits were ended.
    pub woken: usize,
    /// Waiters that now wait for the other word.
    pub requeued: usize,
}

/// The word that [`requeue`] was to take waiters from did not hold the expected value; nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueChanged;

impl fmt::Display for ValueChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the word does not hold the expected value")
    }
}

impl std::error::Error for ValueChanged {}

/// Waits for a [`wake`] of `word`, if it holds `expected`.
///
/// Blocks the calling goroutine, or plain thread, until a wake is spent on it; returns at once with
/// [`ValueChanged`](WaitOutcome::ValueChanged) if the word holds something else. Waiters for a word are woken in the order in
/// which they came. The look at the word and the beginning of the wait are one step for every [`wake`].
///
/// A goroutine that is cancelled unwinds from here; a wake is never spent on one that does.
///
/// # Ordering
///
/// What the waker did before `wake` happened before `wait` returns [`Woken`](WaitOutcome::Woken). The look at the word is
/// relaxed: after `ValueChanged`, load it with the ordering that you need.
///
/// ```
/// use std::sync::atomic::AtomicU32;
/// use urgo::sync::futex::{WaitOutcome, wait};
///
/// let word = AtomicU32::new(1);
/// assert_eq!(wait(&word, 0), WaitOutcome::ValueChanged);
/// ```
pub fn wait(word: &AtomicU32, expected: u32) -> WaitOutcome {
    wait_ns(word, expected, NEVER)
}

/// As [`wait`], until `deadline` at the latest; then the outcome is [`TimedOut`](WaitOutcome::TimedOut).
///
/// `deadline` is a moment of std's clock or of the runtime's. One that has passed still compares the word first.
///
/// ```
/// use std::sync::atomic::AtomicU32;
/// use std::time::{Duration, Instant};
/// use urgo::sync::futex::{WaitOutcome, wait_until};
///
/// let word = AtomicU32::new(1);
/// let soon = Instant::now() + Duration::from_millis(1);
/// assert_eq!(wait_until(&word, 1, soon), WaitOutcome::TimedOut);
/// assert_eq!(wait_until(&word, 0, soon), WaitOutcome::ValueChanged);
/// ```
pub fn wait_until(word: &AtomicU32, expected: u32, deadline: impl Deadline) -> WaitOutcome {
    wait_ns(word, expected, deadline.deadline_ns())
}

fn wait_ns(word: &AtomicU32, expected: u32, deadline: u64) -> WaitOutcome {
    let wait = Wait {
        address: key(word),
        tag: 0,
        goes_first: false,
        reason: WaitReason::Futex,
        deadline,
    };
    loop {
        match wait.wait(|| word.load(Ordering::Relaxed) == expected, || {}) {
            Ended::Refused => return WaitOutcome::ValueChanged,
            Ended::Woken(_) => return WaitOutcome::Woken,
            Ended::TimedOut { .. } => return WaitOutcome::TimedOut,
            Ended::Cancelled { .. } => sched::unwind_if_cancelled(),
        }
    }
}

/// Ends up to `count` waits for `word`, oldest first; returns how many.
///
/// Blocks nothing. Waiters whose deadlines have passed, and goroutines that were cancelled, are passed over: they do not
/// count, and take nothing from those behind them. Change the word *before* the call, or a waiter may look at the old value
/// after it.
///
/// ```
/// use std::sync::atomic::AtomicU32;
/// use urgo::sync::futex::wake;
///
/// assert_eq!(wake(&AtomicU32::new(0), 1), 0); // nobody waits
/// ```
pub fn wake(word: &AtomicU32, count: usize) -> usize {
    let (mut woken, mut before) = (0, None);
    loop {
        let (more, wakes) = LOT.wake_some(key(word), count - woken, &mut before);
        settle(wakes);
        woken += more;
        if more < BATCH {
            return woken;
        }
    }
}

/// If `from` holds `expected`, ends up to `wake` waits for it and lets up to `requeue` others wait for `to` instead, behind
/// those that are there; their deadlines stay.
///
/// Blocks nothing. For many waiters that need one lock: they are woken one after the other as it becomes free, by [`wake`]s
/// of `to`, instead of all at once. If `from` and `to` are one word, nobody changes places.
///
/// Those that wait for `to` do not borrow it. Keep it for as long as they may wait: if its memory becomes another word, a wake
/// of that one may be spent on them.
///
/// # Errors
///
/// [`ValueChanged`] if `from` holds something else; then nothing was done.
///
/// ```
/// use std::sync::atomic::AtomicU32;
/// use urgo::sync::futex::{self, Requeued, WaitOutcome};
///
/// urgo::run(|| {
///     let (from, to) = (AtomicU32::new(0), AtomicU32::new(0));
///     urgo::scope(|s| {
///         for _ in 0..3 {
///             s.spawn(|| assert_eq!(futex::wait(&from, 0), WaitOutcome::Woken));
///         }
///         let mut done = Requeued { woken: 0, requeued: 0 };
///         while done.woken + done.requeued < 3 {
///             urgo::yield_now(); // let them come
///             let one = 1 - done.woken;
///             let more = futex::requeue(&from, 0, &to, one, usize::MAX).unwrap();
///             done.woken += more.woken;
///             done.requeued += more.requeued;
///         }
///         assert_eq!(futex::wake(&to, usize::MAX), 2);
///     });
/// });
/// ```
pub fn requeue(
    from: &AtomicU32,
    expected: u32,
    to: &AtomicU32,
    wake: usize,
    requeue: usize,
) -> Result<Requeued, ValueChanged> {
    let validate = || from.load(Ordering::Relaxed) == expected;
    let (woken, requeued, wakes) = LOT
        .requeue(key(from), key(to), validate, wake, requeue)
        .ok_or(ValueChanged)?;
    settle(wakes);
    Ok(Requeued { woken, requeued })
}

/// The key in the lot: an odd number, as those of the locks are even. For [`requeue`] lets waiters wait for a word that they do
/// not borrow, and its memory may become a lock's.
#[inline]
fn key(word: &AtomicU32) -> usize {
    core::ptr::from_ref(word).addr() | 1
}
