//! # Purpose
//!
//! Locks and other ways to wait for each other, for goroutines and threads alike, each on one word.

// `turns` and `permits` are compiled under the model checker, too; all else is not.
mod permits;
#[cfg(not(urgo_loom))]
mod semaphore;
mod turns;

#[cfg(not(urgo_loom))]
pub use semaphore::{
    AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit, TryAcquireError,
};
