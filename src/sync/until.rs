//! Locking until a moment of the runtime's clock, for calls that a context may cut short.
//!
//! # Safety
//!
//! A guard is made of a lock that was just taken.

#![allow(unsafe_code)]

use super::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// `None` if the deadline passed first. A deadline of 0 is a try.
pub(crate) fn lock_until<T: ?Sized>(mutex: &Mutex<T>, deadline: u64) -> Option<MutexGuard<'_, T>> {
    if deadline == 0 {
        return mutex.try_lock();
    }
    // SAFETY: the raw mutex is only locked; the guard unlocks it, and there is one guard for the lock taken here.
    unsafe {
        mutex
            .raw()
            .lock_until(deadline)
            .then(|| mutex.make_guard_unchecked())
    }
}

/// As [`lock_until`].
pub(crate) fn read_until<T: ?Sized>(
    lock: &RwLock<T>,
    deadline: u64,
) -> Option<RwLockReadGuard<'_, T>> {
    if deadline == 0 {
        return lock.try_read();
    }
    // SAFETY: as above.
    unsafe {
        lock.raw()
            .read_until(deadline)
            .then(|| lock.make_read_guard_unchecked())
    }
}

/// As [`lock_until`].
pub(crate) fn write_until<T: ?Sized>(
    lock: &RwLock<T>,
    deadline: u64,
) -> Option<RwLockWriteGuard<'_, T>> {
    if deadline == 0 {
        return lock.try_write();
    }
    // SAFETY: as above.
    unsafe {
        lock.raw()
            .write_until(deadline)
            .then(|| lock.make_write_guard_unchecked())
    }
}
