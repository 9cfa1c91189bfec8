//! # Purpose
//!
//! Locks and other ways to wait for each other, for goroutines and threads alike, each on a word of its own.
//!
//! All of them can be `static`s, need no runtime, and may be shared by goroutines of several runtimes and plain threads.
//! Waiting blocks the calling goroutine, not its worker, or the calling thread. A goroutine that is cancelled while
//! it waits unwinds (but for locking without a deadline, which is not cut short); it takes nothing with it that others wait for.
//!
//! # Words
//!
//! *Barging*: taking a lock that is free while others wait for it. *Handing over*: giving a lock to a waiter without
//! freeing it. *Case*: the number with which a waiter's wait was ended, which says what it was given.
//!
//! # Algorithm
//!
//! Each thing keeps its state in a word and its waiters in the lot (`park::lot`), under the word's address. Files named `*_word` and
//! `permits` hold the protocols, which are model-checked; the others hold the types that users see, and how callers wait
//! (`waiting`). Whoever ends waits does so under the lock of the bucket, and settles the wakes outside it.
//!
//! # Imports
//!
//! `sched`, `time` and below; `lock_api`, `crossbeam-utils`.

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
mod own_lot;
mod permits;
#[cfg(not(urgo_loom))]
mod rw_lock;
#[cfg(not(urgo_loom))]
mod semaphore;
#[cfg(not(urgo_loom))]
mod until;
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
pub(crate) use until::{lock_until, read_until, write_until};
#[cfg(not(urgo_loom))]
pub use wait_group::{OwnedWaitGroupGuard, WaitGroup, WaitGroupGuard};
