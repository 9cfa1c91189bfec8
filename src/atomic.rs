//! The single door for atomics: the real ones, or the model checker's under `--cfg urgo_loom`.
//!
//! Every other file of the crate names atomics through here, so that the same source runs in production and in the
//! exhaustive models. Only the protocol files (`park::word`, `goroutine::join_word`, `sched::inbox`, `sched::idle`)
//! are compiled under the model checker.

#[cfg(not(urgo_loom))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicIsize, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize,
    Ordering, fence,
};

#[cfg(urgo_loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
