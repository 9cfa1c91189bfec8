//! The lock for readers and a writer: permits of which a reader takes one and a writer all.
//!
//! # Algorithm
//!
//! There are `ALL` permits. A reader takes 1, a writer `ALL`, an upgradable reader one more than half, so that it gets along
//! with readers but not with its like. Changing from one to another takes or gives back the difference.
//!
//! Who waits is served in the order of coming, readers that stand together going in together. A reader that comes while
//! anybody waits queues; so readers do not keep writers out. A writer that comes while the lock is free takes it past those that
//! wait, for a wake-up of another CPU costs more than most sections take; but when one of them has waited for 1 ms, the lock
//! is handed over to it, and nobody overtakes until then. So nobody starves. Before it queues, a caller spins for some
//! microseconds, unless its worker has others to run.
//!
//! Two callers do not queue behind others: a recursive reader, whose goroutine holds the lock already, so that a writer before
//! it would never come to its turn; and an upgradable reader that becomes a writer, for the same reason. Both only make those
//! that wait for the lock to be free wait longer.
//!
//! # Safety
//!
//! `lock_api`'s traits are unsafe to implement: the permits exclude. The models of `permits` show it.

#![allow(unsafe_code)]

use super::permits::{Permits, Rank};
use crate::park::WaitReason;
use crate::sched::{self, NEVER};
use crate::time::{DeadlineNs, duration_ns};
use core::fmt;
use std::time::{Duration, Instant};

const ALL: usize = 1 << 40;
const UPGRADABLE: usize = ALL / 2 + 1;

/// The lock of [`RwLock`], without data: implements `lock_api`'s traits.
pub struct RawRwLock {
    permits: Permits<true>,
}

/// A lock that many readers may hold at once, or one writer. `lock_api`'s type over [`RawRwLock`].
///
/// Neither readers nor writers starve: a reader queues behind whoever waits already, and a writer overtakes others for a
/// millisecond at most. So who holds the lock for reading and wants to read again must use `read_recursive`: a second `read` would wait for the
/// writer, which waits for the first. There is no poisoning: a panic while the lock is held lets go of it.
///
/// A wait blocks the calling goroutine (or plain thread), not its worker. Goroutines of any runtime and plain threads may
/// share one; it may stand in a static. A guard stays on the thread that took it (which its goroutine never leaves).
///
/// `read`, `write` and `upgradable_read` are not cut short: a cancelled goroutine waits until it has the lock, and unwinds at its
/// next wait of another kind. For a guard that let the lock go for a while (`unlocked`, `bump`) must have it again, however that
/// ends. Attempts with a deadline and upgrades are cut short, and take nothing with them.
///
/// What was done before a lock was let go of happens before whatever is done after it is taken, unless both were readers.
///
/// ```
/// use std::sync::Arc;
/// use urgo::sync::RwLock;
///
/// urgo::run(|| {
///     let numbers = Arc::new(RwLock::new(vec![1, 2, 3]));
///     let reader = numbers.clone();
///     let sum = urgo::spawn(move || reader.read().iter().sum::<i32>());
///     assert!(sum.join().unwrap() >= 6);
///     numbers.write().push(4);
///     assert_eq!(*numbers.read(), [1, 2, 3, 4]);
/// });
/// ```
///
/// A guard does not leave its thread:
///
/// ```compile_fail,E0277
/// static LOCK: urgo::sync::RwLock<i32> = urgo::sync::RwLock::new(1);
/// let guard = LOCK.write();
/// std::thread::spawn(move || drop(guard));
/// ```
///
/// Waiting for a time only, becoming a writer, and guards that own the lock:
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use urgo::sync::{RwLock, RwLockUpgradableReadGuard};
///
/// let lock = Arc::new(RwLock::new(5));
/// let first = lock.upgradable_read();
/// assert!(lock.try_write_for(Duration::from_millis(1)).is_none());
/// assert_eq!(*lock.read(), 5); // other readers are let in
/// let mut writer = RwLockUpgradableReadGuard::upgrade(first);
/// *writer += 1;
/// drop(writer);
/// let owned = lock.read_arc();
/// assert_eq!(*owned, 6);
/// ```
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
/// A [`RwLock`] held for reading.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
/// A [`RwLock`] held for writing.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;
/// A [`RwLock`] held for reading, by the one reader that may become its writer.
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;
/// A part of what a [`RwLock`] protects, held for reading.
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;
/// A part of what a [`RwLock`] protects, held for writing.
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;
/// A [`RwLock`] in an `Arc`, held for reading and kept alive.
pub type ArcRwLockReadGuard<T> = lock_api::ArcRwLockReadGuard<RawRwLock, T>;
/// A [`RwLock`] in an `Arc`, held for writing and kept alive.
pub type ArcRwLockWriteGuard<T> = lock_api::ArcRwLockWriteGuard<RawRwLock, T>;
/// A [`RwLock`] in an `Arc`, held and kept alive by the one reader that may become its writer.
pub type ArcRwLockUpgradableReadGuard<T> = lock_api::ArcRwLockUpgradableReadGuard<RawRwLock, T>;

impl RawRwLock {
    pub(super) fn read_until(&self, deadline: u64) -> bool {
        self.read(Rank::Last, deadline)
    }

    pub(super) fn write_until(&self, deadline: u64) -> bool {
        self.write(deadline)
    }

    #[inline]
    fn take(&self, n: usize, rank: Rank, reason: WaitReason, deadline: u64) -> bool {
        self.permits.try_take_as(n, rank).is_ok()
            || self.permits.spin(n, rank)
            || self.permits.take(n, rank, reason, deadline).is_ok()
    }

    /// As [`take`](Self::take) without a deadline, whatever happens: guards call this too, to have again what they let go for a
    /// while (`RwLockWriteGuard::unlocked`, `bump`), and unwinding would drop them without it.
    #[inline]
    fn take_regardless(&self, n: usize, rank: Rank, reason: WaitReason) {
        if self.permits.try_take_as(n, rank).is_err() && !self.permits.spin(n, rank) {
            self.wait_regardless(n, rank, reason);
        }
    }

    #[cold]
    fn wait_regardless(&self, n: usize, rank: Rank, reason: WaitReason) {
        let taken = sched::uncancellable(|| self.permits.take(n, rank, reason, NEVER));
        debug_assert!(taken.is_ok());
    }

    #[inline]
    fn read(&self, rank: Rank, deadline: u64) -> bool {
        self.take(1, rank, WaitReason::RwLockRead, deadline)
    }

    #[inline]
    fn write(&self, deadline: u64) -> bool {
        self.take(ALL, Rank::Quick, WaitReason::RwLockWrite, deadline)
    }

    fn upgradable(&self, deadline: u64) -> bool {
        self.take(UPGRADABLE, Rank::Last, WaitReason::RwLockRead, deadline)
    }

    /// Unwinds if the goroutine is cancelled; its guard stays what it was.
    fn upgrade(&self, deadline: u64) -> bool {
        self.take(
            ALL - UPGRADABLE,
            Rank::First,
            WaitReason::RwLockWrite,
            deadline,
        )
    }

    #[inline]
    fn give_back(&self, n: usize) {
        // All that are given back were taken, so their number needs no look.
        self.permits.add(n);
    }
}

fn after(timeout: Duration) -> u64 {
    sched::now_ns().saturating_add(duration_ns(timeout))
}

// SAFETY: a writer holds all permits, so nobody else holds any; readers hold one each. Waiting ends only by having taken.
unsafe impl lock_api::RawRwLock for RawRwLock {
    const INIT: RawRwLock = RawRwLock {
        permits: Permits::new(ALL),
    };

    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock_shared(&self) {
        self.take_regardless(1, Rank::Last, WaitReason::RwLockRead);
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.permits.try_take(1).is_ok()
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        self.give_back(1);
    }

    #[inline]
    fn lock_exclusive(&self) {
        self.take_regardless(ALL, Rank::Quick, WaitReason::RwLockWrite);
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.permits.try_take_as(ALL, Rank::Quick).is_ok()
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.give_back(ALL);
    }

    fn is_locked(&self) -> bool {
        self.permits.free() != ALL
    }

    fn is_locked_exclusive(&self) -> bool {
        self.permits.free() == 0
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockFair for RawRwLock {
    #[inline]
    unsafe fn unlock_shared_fair(&self) {
        self.permits.add_fairly(1);
    }

    #[inline]
    unsafe fn unlock_exclusive_fair(&self) {
        self.permits.add_fairly(ALL);
    }
}

// SAFETY: one permit is kept throughout, so no writer comes in between.
unsafe impl lock_api::RawRwLockDowngrade for RawRwLock {
    unsafe fn downgrade(&self) {
        self.give_back(ALL - 1);
    }
}

// SAFETY: as for `RawRwLock`; what was not had in time was not taken.
unsafe impl lock_api::RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        self.read(Rank::Last, after(timeout))
    }

    fn try_lock_shared_until(&self, deadline: Instant) -> bool {
        self.read(Rank::Last, deadline.deadline_ns())
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        self.write(after(timeout))
    }

    fn try_lock_exclusive_until(&self, deadline: Instant) -> bool {
        self.write(deadline.deadline_ns())
    }
}

// SAFETY: it is refused only while a writer has the lock, which its caller would have to be.
unsafe impl lock_api::RawRwLockRecursive for RawRwLock {
    fn lock_shared_recursive(&self) {
        self.take_regardless(1, Rank::Passing, WaitReason::RwLockRead);
    }

    fn try_lock_shared_recursive(&self) -> bool {
        self.permits.try_take_passing(1).is_ok()
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockRecursiveTimed for RawRwLock {
    fn try_lock_shared_recursive_for(&self, timeout: Duration) -> bool {
        self.read(Rank::Passing, after(timeout))
    }

    fn try_lock_shared_recursive_until(&self, deadline: Instant) -> bool {
        self.read(Rank::Passing, deadline.deadline_ns())
    }
}

// SAFETY: two upgradable readers want more permits than there are; `upgrade` keeps what it has and adds the rest.
unsafe impl lock_api::RawRwLockUpgrade for RawRwLock {
    fn lock_upgradable(&self) {
        self.take_regardless(UPGRADABLE, Rank::Last, WaitReason::RwLockRead);
    }

    fn try_lock_upgradable(&self) -> bool {
        self.permits.try_take(UPGRADABLE).is_ok()
    }

    unsafe fn unlock_upgradable(&self) {
        self.give_back(UPGRADABLE);
    }

    unsafe fn upgrade(&self) {
        let has = RawRwLock::upgrade(self, NEVER);
        debug_assert!(has);
    }

    unsafe fn try_upgrade(&self) -> bool {
        self.permits.try_take_passing(ALL - UPGRADABLE).is_ok()
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockUpgradeFair for RawRwLock {
    unsafe fn unlock_upgradable_fair(&self) {
        self.permits.add_fairly(UPGRADABLE);
    }
}

// SAFETY: what is kept is what the lesser of the two holds.
unsafe impl lock_api::RawRwLockUpgradeDowngrade for RawRwLock {
    unsafe fn downgrade_upgradable(&self) {
        self.give_back(UPGRADABLE - 1);
    }

    unsafe fn downgrade_to_upgradable(&self) {
        self.give_back(ALL - UPGRADABLE);
    }
}

// SAFETY: as above; what was not had in time was not taken, and what was held is kept.
unsafe impl lock_api::RawRwLockUpgradeTimed for RawRwLock {
    fn try_lock_upgradable_for(&self, timeout: Duration) -> bool {
        self.upgradable(after(timeout))
    }

    fn try_lock_upgradable_until(&self, deadline: Instant) -> bool {
        self.upgradable(deadline.deadline_ns())
    }

    unsafe fn try_upgrade_for(&self, timeout: Duration) -> bool {
        RawRwLock::upgrade(self, after(timeout))
    }

    unsafe fn try_upgrade_until(&self, deadline: Instant) -> bool {
        RawRwLock::upgrade(self, deadline.deadline_ns())
    }
}

impl fmt::Debug for RawRwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawRwLock { .. }")
    }
}
