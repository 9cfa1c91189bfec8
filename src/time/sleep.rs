//! Sleeping.

use super::instant::{Instant, duration_ns};
use crate::park::{Outcome, WaitReason};
use crate::sched;
use std::time::Duration;

/// Waits for `duration`.
///
/// Blocks the calling goroutine (or plain thread), not its worker. Never returns early; how late it returns depends on
/// what else the worker runs. `Duration::ZERO` lets others run once; `Duration::MAX` is for ever.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// urgo::run(|| {
///     let start = Instant::now();
///     urgo::sleep(Duration::from_millis(2));
///     assert!(start.elapsed() >= Duration::from_millis(2));
/// });
/// ```
pub fn sleep(duration: Duration) {
    if duration.is_zero() {
        crate::go::yield_now();
    } else {
        until(sched::now_ns().saturating_add(duration_ns(duration)));
    }
}

/// Waits until `deadline`; returns at once if it has passed. Otherwise as [`sleep`].
///
/// ```
/// use urgo::time::{Duration, Instant, sleep_until};
///
/// urgo::run(|| {
///     let mut next = Instant::now();
///     for _ in 0..3 {
///         next += Duration::from_millis(1); // a steady beat, whatever the loop's body takes
///         sleep_until(next);
///     }
/// });
/// ```
pub fn sleep_until(deadline: Instant) {
    if deadline.as_ns() > sched::now_ns() {
        until(deadline.as_ns());
    }
}

fn until(deadline: u64) {
    let waiter = sched::new_waiter();
    if sched::wait(&waiter, WaitReason::Timer, deadline) == Outcome::Cancelled {
        sched::unwind_if_cancelled();
    }
}
