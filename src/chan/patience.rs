//! How long an operation waits, as the channels themselves take it: a deadline in nanoseconds of the scheduler's clock,
//! `sched::NEVER`, or [`NO_WAIT`].
//!
//! Whether a deadline has passed is looked at once, where it comes in; from then on it is a wait's timer that ends it. A look at
//! the clock costs as much as half a wait.

use crate::sched;
use crate::time::duration_ns;
use core::time::Duration;

/// The deadline of an operation that does not wait at all.
pub(super) const NO_WAIT: u64 = 0;

/// Of a call that waits no longer than `timeout` from now.
#[inline]
pub(super) fn deadline_after(timeout: Duration) -> u64 {
    if timeout.is_zero() {
        NO_WAIT
    } else {
        sched::now_ns().saturating_add(duration_ns(timeout))
    }
}

/// Of a call that waits until `deadline_ns`.
#[inline]
pub(super) fn deadline_at(deadline_ns: u64) -> u64 {
    if deadline_ns <= sched::now_ns() {
        NO_WAIT
    } else {
        deadline_ns
    }
}
