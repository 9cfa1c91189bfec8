//! The single door for atomics: the real ones, or the model checker's under `--cfg urgo_loom`.
//!
//! Every other file of the crate names atomics through here, so that the same source runs in production and in the
//! exhaustive models. Only the files that protocols are in (`park`, `chan`, `goroutine::join_word`, `sched::inbox`,
//! `sched::idle` and what locks wait with) are compiled under the model checker.

#[cfg(not(urgo_loom))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize, Ordering, fence,
};
/// The cheap half of an asymmetric barrier; see `urgo_sys::barrier`.
#[cfg(not(urgo_loom))]
pub(crate) use urgo_sys::barrier::{heavy as heavy_barrier, light as light_barrier};

/// The model checker knows no asymmetric barriers. A full fence on both sides promises as much to the two together.
#[cfg(urgo_loom)]
#[inline]
pub(crate) fn light_barrier() {
    // Pairs with `heavy_barrier`.
    fence(Ordering::SeqCst);
}

/// See [`light_barrier`].
#[cfg(urgo_loom)]
pub(crate) fn heavy_barrier() {
    // Pairs with `light_barrier`.
    fence(Ordering::SeqCst);
}

#[cfg(urgo_loom)]
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
/// Where models sleep instead of spinning.
#[cfg(urgo_loom)]
pub(crate) use loom::{
    lazy_static as model_static,
    sync::{Condvar as ModelCondvar, Mutex as ModelMutex, MutexGuard as ModelMutexGuard},
    thread::yield_now as model_yield,
    thread_local as model_thread_local,
};
