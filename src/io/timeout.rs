//! A timeout that any thread may change while others wait.

use std::io;
use std::time::Duration;

use crate::atomic::{AtomicU64, Ordering};
use crate::sched;

/// The deadline that never comes, and the timeout that never ends.
pub(crate) const NEVER: u64 = u64::MAX;

/// Nanoseconds, or [`NEVER`]. Never zero.
#[derive(Debug)]
pub(crate) struct Timeout {
    timeout_ns: AtomicU64,
}

impl Timeout {
    pub(crate) const fn never() -> Timeout {
        Timeout {
            timeout_ns: AtomicU64::new(NEVER),
        }
    }

    /// Any thread. Calls that wait already keep their deadline. Durations too long for the clock mean never.
    ///
    /// # Errors
    /// `InvalidInput` for a duration of zero, as in std.
    pub(crate) fn set(&self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout_ns = match timeout {
            None => NEVER,
            Some(duration) => nonzero_ns(duration)?,
        };
        self.timeout_ns.store(timeout_ns, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn get(&self) -> Option<Duration> {
        match self.timeout_ns.load(Ordering::Relaxed) {
            NEVER => None,
            timeout_ns => Some(Duration::from_nanos(timeout_ns)),
        }
    }

    /// The deadline of a call that starts now. Reads the clock only if there is a timeout.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        match self.timeout_ns.load(Ordering::Relaxed) {
            NEVER => NEVER,
            timeout_ns => sched::now_ns().saturating_add(timeout_ns),
        }
    }
}

/// `duration` in nanoseconds, saturating to [`NEVER`].
///
/// # Errors
/// `InvalidInput` for zero.
pub(crate) fn nonzero_ns(duration: Duration) -> io::Result<u64> {
    if duration.is_zero() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "cannot set a timeout of zero",
        ));
    }
    Ok(u64::try_from(duration.as_nanos()).unwrap_or(NEVER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_longer_than_the_clock_means_never() {
        let timeout = Timeout::never();
        timeout.set(Some(Duration::MAX)).unwrap();
        assert_eq!(timeout.deadline(), NEVER);
        timeout
            .set(Some(Duration::from_nanos(u64::MAX - 1)))
            .unwrap();
        assert_eq!(timeout.deadline(), NEVER, "the sum saturates");
    }

    #[test]
    fn a_timeout_of_zero_is_refused_and_changes_nothing() {
        let timeout = Timeout::never();
        timeout.set(Some(Duration::from_secs(3))).unwrap();
        let error = timeout.set(Some(Duration::ZERO)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(timeout.get(), Some(Duration::from_secs(3)));
    }
}
