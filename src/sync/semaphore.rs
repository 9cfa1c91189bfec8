//! The semaphore: permits with an API.
//!
//! All of the protocol is in `permits`.

use super::permits::{PERMITS_MAX, Permits, Rank, Refused};
use crate::park::WaitReason;
use crate::sched;
use crate::time::{Deadline, duration_ns};
use core::fmt;
use core::mem;
use std::sync::Arc;
use std::time::Duration;

/// A number of permits that callers take, and wait for when there are too few.
///
/// Weighted: a caller may take several at once. First come, first served: a request is not overtaken by a later one, not
/// even by a smaller one that could be had at once. A waiter that times out or is cancelled takes nothing with it, and those
/// behind it move up.
///
/// A wait blocks the calling goroutine (or plain thread), not its worker. Goroutines of any runtime and plain threads may
/// share one; it may stand in a static.
///
/// What was done before a permit was given back happens before whatever its next holder does.
///
/// ```
/// use std::sync::Arc;
/// use urgo::sync::Semaphore;
///
/// urgo::run(|| {
///     let at_once = Arc::new(Semaphore::new(2));
///     let handles: Vec<_> = (0..10)
///         .map(|n| {
///             let at_once = at_once.clone();
///             urgo::spawn(move || {
///                 let _permit = at_once.acquire().unwrap();
///                 n // never more than two goroutines are here
///             })
///         })
///         .collect();
///     let sum: i32 = handles.into_iter().map(|h| h.join().unwrap()).sum();
///     assert_eq!(sum, 45);
///     assert_eq!(at_once.available_permits(), 2);
/// });
/// ```
pub struct Semaphore {
    permits: Permits,
}

/// The semaphore is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquireError(());

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the semaphore is closed")
    }
}

impl core::error::Error for AcquireError {}

/// Why no permit was had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryAcquireError {
    /// The semaphore is closed.
    Closed,
    /// There were too few permits, or others waited before; for calls that wait, until the deadline.
    NoPermits,
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryAcquireError::Closed => "the semaphore is closed",
            TryAcquireError::NoPermits => "the semaphore has too few free permits",
        })
    }
}

impl core::error::Error for TryAcquireError {}

impl From<Refused> for TryAcquireError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::TooFew => TryAcquireError::NoPermits,
            Refused::Closed => TryAcquireError::Closed,
        }
    }
}

impl From<AcquireError> for TryAcquireError {
    fn from(_: AcquireError) -> Self {
        TryAcquireError::Closed
    }
}

impl Semaphore {
    /// As many permits as a semaphore may have.
    pub const MAX_PERMITS: usize = PERMITS_MAX;

    /// A semaphore with `permits` free permits.
    ///
    /// # Panics
    ///
    /// If `permits` is above [`MAX_PERMITS`](Self::MAX_PERMITS).
    ///
    /// ```
    /// static GATE: urgo::sync::Semaphore = urgo::sync::Semaphore::new(1);
    /// assert!(GATE.try_acquire().is_ok());
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn new(permits: usize) -> Semaphore {
        assert!(
            permits <= PERMITS_MAX,
            "a semaphore cannot have more than Semaphore::MAX_PERMITS permits"
        );
        Semaphore {
            permits: Permits::new(permits),
        }
    }

    /// How many permits are free now. While somebody waits, these are kept for the first one in line, who wants more.
    #[must_use]
    pub fn available_permits(&self) -> usize {
        self.permits.free()
    }

    /// Takes a permit; waits for it if none is free or others wait.
    ///
    /// Blocks the calling goroutine or thread. The permit is given back when the value is dropped.
    ///
    /// # Errors
    ///
    /// The semaphore is [closed](Self::close), before or while waiting.
    #[inline]
    pub fn acquire(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.acquire_many(1)
    }

    /// Takes `n` permits at once. Otherwise as [`acquire`](Self::acquire). If there will never be as many, it waits until
    /// the semaphore is closed. `n` may be 0.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// ```
    /// use urgo::sync::Semaphore;
    ///
    /// let semaphore = Semaphore::new(5);
    /// let three = semaphore.acquire_many(3)?;
    /// assert_eq!(semaphore.available_permits(), 2);
    /// drop(three);
    /// assert_eq!(semaphore.available_permits(), 5);
    /// # Ok::<(), urgo::sync::AcquireError>(())
    /// ```
    #[inline]
    pub fn acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.take(n, sched::NEVER)
            .map(|()| self.permit(n))
            .map_err(|_| AcquireError(()))
    }

    /// Takes a permit if one is free and nobody waits. Blocks nothing.
    ///
    /// # Errors
    ///
    /// None is free, others wait, or the semaphore is closed.
    #[inline]
    pub fn try_acquire(&self) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_acquire_many(1)
    }

    /// Takes `n` permits if as many are free and nobody waits. Blocks nothing.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    #[inline]
    pub fn try_acquire_many(&self, n: u32) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.permits.try_take(n as usize)?;
        Ok(self.permit(n))
    }

    /// As [`acquire`](Self::acquire), for `timeout` at most.
    ///
    /// # Errors
    ///
    /// [`NoPermits`](TryAcquireError::NoPermits) if the time is over: then nothing was taken.
    ///
    /// ```
    /// use std::time::Duration;
    /// use urgo::sync::{Semaphore, TryAcquireError};
    ///
    /// let semaphore = Semaphore::new(1);
    /// let permit = semaphore.acquire().unwrap();
    /// let late = semaphore.try_acquire_for(Duration::from_millis(1));
    /// assert_eq!(late.unwrap_err(), TryAcquireError::NoPermits);
    /// ```
    pub fn try_acquire_for(
        &self,
        timeout: Duration,
    ) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_acquire_many_for(1, timeout)
    }

    /// As [`acquire`](Self::acquire), until `deadline` at the latest.
    ///
    /// # Errors
    ///
    /// As [`try_acquire_for`](Self::try_acquire_for).
    pub fn try_acquire_until(
        &self,
        deadline: impl Deadline,
    ) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.try_acquire_many_until(1, deadline)
    }

    /// As [`acquire_many`](Self::acquire_many), for `timeout` at most.
    ///
    /// # Errors
    ///
    /// As [`try_acquire_for`](Self::try_acquire_for).
    pub fn try_acquire_many_for(
        &self,
        n: u32,
        timeout: Duration,
    ) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.take(n, after(timeout))?;
        Ok(self.permit(n))
    }

    /// As [`acquire_many`](Self::acquire_many), until `deadline` at the latest.
    ///
    /// # Errors
    ///
    /// As [`try_acquire_for`](Self::try_acquire_for).
    pub fn try_acquire_many_until(
        &self,
        n: u32,
        deadline: impl Deadline,
    ) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.take(n, deadline.deadline_ns())?;
        Ok(self.permit(n))
    }

    /// As [`acquire`](Self::acquire); the permit keeps the semaphore alive and may go anywhere.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use urgo::sync::Semaphore;
    ///
    /// urgo::run(|| {
    ///     let semaphore = Arc::new(Semaphore::new(1));
    ///     let permit = semaphore.acquire_owned().unwrap();
    ///     urgo::spawn(move || drop(permit)).join().unwrap();
    ///     assert_eq!(semaphore.available_permits(), 1);
    /// });
    /// ```
    pub fn acquire_owned(self: &Arc<Self>) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.acquire_many_owned(1)
    }

    /// As [`acquire_many`](Self::acquire_many), with an owned permit.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub fn acquire_many_owned(
        self: &Arc<Self>,
        n: u32,
    ) -> Result<OwnedSemaphorePermit, AcquireError> {
        self.take(n, sched::NEVER)
            .map(|()| self.owned_permit(n))
            .map_err(|_| AcquireError(()))
    }

    /// As [`try_acquire`](Self::try_acquire), with an owned permit.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    pub fn try_acquire_owned(self: &Arc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.try_acquire_many_owned(1)
    }

    /// As [`try_acquire_many`](Self::try_acquire_many), with an owned permit.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    pub fn try_acquire_many_owned(
        self: &Arc<Self>,
        n: u32,
    ) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.permits.try_take(n as usize)?;
        Ok(self.owned_permit(n))
    }

    /// As [`try_acquire_many_for`](Self::try_acquire_many_for), with an owned permit.
    ///
    /// # Errors
    ///
    /// As [`try_acquire_for`](Self::try_acquire_for).
    pub fn try_acquire_many_owned_for(
        self: &Arc<Self>,
        n: u32,
        timeout: Duration,
    ) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.take(n, after(timeout))?;
        Ok(self.owned_permit(n))
    }

    /// As [`try_acquire_many_until`](Self::try_acquire_many_until), with an owned permit.
    ///
    /// # Errors
    ///
    /// As [`try_acquire_for`](Self::try_acquire_for).
    pub fn try_acquire_many_owned_until(
        self: &Arc<Self>,
        n: u32,
        deadline: impl Deadline,
    ) -> Result<OwnedSemaphorePermit, TryAcquireError> {
        self.take(n, deadline.deadline_ns())?;
        Ok(self.owned_permit(n))
    }

    /// Adds `n` free permits. Blocks nothing.
    ///
    /// # Panics
    ///
    /// If there would be more than [`MAX_PERMITS`](Self::MAX_PERMITS) free ones; then none is added.
    #[track_caller]
    pub fn add_permits(&self, n: usize) {
        assert!(
            n <= PERMITS_MAX && (n == 0 || self.permits.try_add(n)),
            "more than Semaphore::MAX_PERMITS permits"
        );
    }

    /// Takes up to `n` free permits away for good, without waiting; returns how many. Blocks nothing.
    ///
    /// ```
    /// let semaphore = urgo::sync::Semaphore::new(3);
    /// assert_eq!(semaphore.forget_permits(5), 3);
    /// assert_eq!(semaphore.available_permits(), 0);
    /// ```
    pub fn forget_permits(&self, n: usize) -> usize {
        self.permits.forget(n)
    }

    /// Closes the semaphore: nobody gets a permit any more, and all that wait are woken with an error. Permits that are
    /// held can be given back as before. Blocks nothing; closing again does nothing.
    ///
    /// ```
    /// use urgo::sync::{Semaphore, TryAcquireError};
    ///
    /// let semaphore = Semaphore::new(1);
    /// semaphore.close();
    /// assert!(semaphore.acquire().is_err());
    /// assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::Closed);
    /// ```
    pub fn close(&self) {
        self.permits.close();
    }

    /// Whether [`close`](Self::close) was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.permits.is_closed()
    }

    #[inline]
    fn take(&self, n: u32, deadline: u64) -> Result<(), Refused> {
        self.permits
            .take(n as usize, Rank::Last, WaitReason::Semaphore, deadline)
    }

    #[inline]
    #[track_caller]
    fn give_back(&self, n: usize) {
        if n == 0 {
            return;
        }
        let before = self.permits.add(n);
        assert!(
            before <= PERMITS_MAX - n,
            "more than Semaphore::MAX_PERMITS permits"
        );
    }

    fn permit(&self, n: u32) -> SemaphorePermit<'_> {
        SemaphorePermit {
            semaphore: self,
            permits: n as usize,
        }
    }

    fn owned_permit(self: &Arc<Self>, n: u32) -> OwnedSemaphorePermit {
        OwnedSemaphorePermit {
            semaphore: self.clone(),
            permits: n as usize,
        }
    }
}

fn after(timeout: Duration) -> u64 {
    sched::now_ns().saturating_add(duration_ns(timeout))
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available_permits", &self.available_permits())
            .field("is_closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// Permits of a [`Semaphore`]; they are given back when this is dropped.
#[must_use = "the permits are given back when this is dropped"]
pub struct SemaphorePermit<'a> {
    semaphore: &'a Semaphore,
    permits: usize,
}

impl<'a> SemaphorePermit<'a> {
    /// Never gives the permits back: the semaphore has that many fewer from now on.
    ///
    /// ```
    /// let semaphore = urgo::sync::Semaphore::new(2);
    /// semaphore.acquire().unwrap().forget();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// How many permits these are.
    #[must_use]
    pub fn num_permits(&self) -> usize {
        self.permits
    }

    /// Parts with `n` of the permits; `None` if these are fewer.
    ///
    /// ```
    /// let semaphore = urgo::sync::Semaphore::new(3);
    /// let mut three = semaphore.acquire_many(3).unwrap();
    /// let one = three.split(1).unwrap();
    /// drop(three);
    /// assert_eq!(semaphore.available_permits(), 2);
    /// let mut one = one;
    /// one.merge(semaphore.acquire_many(2).unwrap());
    /// assert_eq!(one.num_permits(), 3);
    /// ```
    #[must_use]
    pub fn split(&mut self, n: usize) -> Option<SemaphorePermit<'a>> {
        self.permits = self.permits.checked_sub(n)?;
        Some(SemaphorePermit {
            semaphore: self.semaphore,
            permits: n,
        })
    }

    /// Makes one of these and `other`.
    ///
    /// # Panics
    ///
    /// If `other` is of another semaphore.
    #[track_caller]
    pub fn merge(&mut self, mut other: SemaphorePermit<'a>) {
        assert!(
            core::ptr::eq(self.semaphore, other.semaphore),
            "permits of two semaphores cannot be merged"
        );
        self.permits += mem::take(&mut other.permits);
    }
}

impl Drop for SemaphorePermit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.give_back(self.permits);
    }
}

impl fmt::Debug for SemaphorePermit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemaphorePermit")
            .field("permits", &self.permits)
            .finish_non_exhaustive()
    }
}

/// Permits of a [`Semaphore`] that they keep alive; they are given back when this is dropped.
#[must_use = "the permits are given back when this is dropped"]
pub struct OwnedSemaphorePermit {
    semaphore: Arc<Semaphore>,
    permits: usize,
}

impl OwnedSemaphorePermit {
    /// As [`SemaphorePermit::forget`].
    pub fn forget(mut self) {
        self.permits = 0;
    }

    /// How many permits these are.
    #[must_use]
    pub fn num_permits(&self) -> usize {
        self.permits
    }

    /// The semaphore they are of.
    #[must_use]
    pub fn semaphore(&self) -> &Arc<Semaphore> {
        &self.semaphore
    }

    /// As [`SemaphorePermit::split`].
    #[must_use]
    pub fn split(&mut self, n: usize) -> Option<OwnedSemaphorePermit> {
        self.permits = self.permits.checked_sub(n)?;
        Some(OwnedSemaphorePermit {
            semaphore: self.semaphore.clone(),
            permits: n,
        })
    }

    /// As [`SemaphorePermit::merge`].
    ///
    /// # Panics
    ///
    /// If `other` is of another semaphore.
    #[track_caller]
    pub fn merge(&mut self, mut other: OwnedSemaphorePermit) {
        assert!(
            Arc::ptr_eq(&self.semaphore, &other.semaphore),
            "permits of two semaphores cannot be merged"
        );
        self.permits += mem::take(&mut other.permits);
    }
}

impl Drop for OwnedSemaphorePermit {
    fn drop(&mut self) {
        self.semaphore.give_back(self.permits);
    }
}

impl fmt::Debug for OwnedSemaphorePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedSemaphorePermit")
            .field("permits", &self.permits)
            .finish_non_exhaustive()
    }
}
