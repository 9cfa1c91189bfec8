//! # Purpose
//!
//! Locks and other ways to wait for each other, for goroutines and threads alike, each on one word.

#[cfg(not(urgo_loom))]
mod condvar;
mod condvar_word;
#[cfg(not(urgo_loom))]
pub mod futex;
#[cfg(not(urgo_loom))]
mod mutex;
mod mutex_word;
mod waiting;

#[cfg(not(urgo_loom))]
pub use condvar::{Condvar, WaitTimeoutResult};
#[cfg(not(urgo_loom))]
pub use mutex::{ArcMutexGuard, MappedMutexGuard, Mutex, MutexGuard, RawMutex};

mod barrier;
#[cfg(not(urgo_loom))]
mod lazy_lock;
mod once;
#[cfg(not(urgo_loom))]
mod once_lock;
mod permits;
#[cfg(not(urgo_loom))]
mod rw_lock;
#[cfg(not(urgo_loom))]
mod semaphore;
mod wait_group;

#[cfg(not(urgo_loom))]
pub use barrier::{Barrier, BarrierWaitResult};
#[cfg(not(urgo_loom))]
pub use lazy_lock::LazyLock;
#[cfg(not(urgo_loom))]
pub use once::{Once, OnceState};
#[cfg(not(urgo_loom))]
pub use once_lock::OnceLock;
#[cfg(not(urgo_loom))]
pub use rw_lock::{
    ArcRwLockReadGuard, ArcRwLockUpgradableReadGuard, ArcRwLockWriteGuard, MappedRwLockReadGuard,
    MappedRwLockWriteGuard, RawRwLock, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard,
};
#[cfg(not(urgo_loom))]
pub use semaphore::{
    AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError,
};
#[cfg(not(urgo_loom))]
pub use wait_group::{OwnedWaitGroupGuard, WaitGroup, WaitGroupGuard};
