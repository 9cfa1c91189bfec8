//! Instants of the runtime's own clock.

use crate::sched;
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// A moment of the runtime's monotonic clock, as `std::time::Instant` is one of the system's.
///
/// Arithmetic saturates: a moment too far away to say is [`Instant::NEVER`].
///
/// ```
/// use urgo::time::{Duration, Instant};
///
/// let start = Instant::now();
/// assert!(start + Duration::from_secs(1) > start);
/// assert_eq!(start + Duration::MAX, Instant::NEVER);
/// assert!(start.elapsed() < Duration::from_secs(60));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    ns: u64,
}

impl Instant {
    /// Later than every other moment: sleeping until it is sleeping for ever.
    pub const NEVER: Instant = Instant { ns: sched::NEVER };

    /// The present moment. One clock read, about 25 ns.
    #[must_use]
    pub fn now() -> Instant {
        Instant {
            ns: sched::now_ns(),
        }
    }

    /// How long `earlier` was before `self`; zero if it was later.
    #[must_use]
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(earlier.ns))
    }

    /// How long `earlier` was before `self`, if it was.
    #[must_use]
    pub fn checked_duration_since(&self, earlier: Instant) -> Option<Duration> {
        self.ns.checked_sub(earlier.ns).map(Duration::from_nanos)
    }

    /// As [`duration_since`](Self::duration_since), under std's name.
    #[must_use]
    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }

    /// How long ago this moment was; zero if it is to come.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Instant::now().duration_since(*self)
    }

    /// The moment `duration` later, if it can be said.
    #[must_use]
    pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
        Some(*self + duration).filter(|instant| *instant != Instant::NEVER)
    }

    /// The moment `duration` earlier, if it can be said.
    #[must_use]
    pub fn checked_sub(&self, duration: Duration) -> Option<Instant> {
        u64::try_from(duration.as_nanos())
            .ok()
            .and_then(|ns| self.ns.checked_sub(ns))
            .map(|ns| Instant { ns })
    }

    pub(crate) fn from_ns(ns: u64) -> Instant {
        Instant { ns }
    }

    pub(crate) fn as_ns(self) -> u64 {
        self.ns
    }
}

/// `duration` in nanoseconds; what cannot be said is never.
pub(crate) fn duration_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(sched::NEVER)
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        Instant {
            ns: self.ns.saturating_add(duration_ns(duration)),
        }
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        Instant {
            ns: self.ns.saturating_sub(duration_ns(duration)),
        }
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Instant::NEVER {
            f.write_str("Instant::NEVER")
        } else {
            write!(
                f,
                "Instant({}.{:09} s)",
                self.ns / 1_000_000_000,
                self.ns % 1_000_000_000
            )
        }
    }
}
