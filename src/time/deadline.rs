//! What calls with a deadline take: moments of std's clock or of the runtime's.

use super::instant::Instant;
use crate::sched;

/// A moment until which a call may wait: [`std::time::Instant`], or [`urgo::time::Instant`](Instant).
///
/// Sealed: there are no others.
pub trait Deadline: Copy + sealed::Sealed {}

impl Deadline for Instant {}
impl Deadline for std::time::Instant {}

mod sealed {
    pub trait Sealed {
        /// Nanoseconds of the runtime's clock.
        fn deadline_ns(self) -> u64;
    }
}
pub(crate) use sealed::Sealed as DeadlineNs;

impl sealed::Sealed for Instant {
    #[inline]
    fn deadline_ns(self) -> u64 {
        self.as_ns()
    }
}

impl sealed::Sealed for std::time::Instant {
    #[inline]
    fn deadline_ns(self) -> u64 {
        let left = self.saturating_duration_since(std::time::Instant::now());
        sched::now_ns().saturating_add(super::instant::duration_ns(left))
    }
}
