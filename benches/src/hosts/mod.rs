//! # Purpose
//!
//! The same work on goroutines, threads, coroutines of may, tasks of tokio and a pool of rayon.
//!
//! A workload writes its work once, as jobs over any channel or lock; this room runs the jobs on one host or another, times
//! them and checks what they returned. tokio's work is written apart, because it is made of futures.
//!
//! # Algorithm
//!
//! The work is done twice in the same runtime: a quarter of it to warm up, then all of it between the clocks. These run from
//! the first spawn to the last join. Threads alone wait at a barrier first, so that their birth, a thousand times that of a
//! goroutine, is not counted.
//!
//! # Imports
//!
//! `cell`, `machine`.

mod channels;
mod futures;
mod green;
mod jobs;
mod pool;
mod sleepers;

pub(crate) use channels::{Put, Take};
pub(crate) use futures::{tasks, tokio_runtime};
pub(crate) use green::{Coroutines, Goroutines, Green};
pub(crate) use jobs::{Job, coroutines, goroutines, may_on, runtime, threads};
pub(crate) use pool::pooled;
pub(crate) use sleepers::{sleepers, sleeping_tasks};

/// Operations of the warm-up before `ops`.
pub(crate) fn warm_up(ops: usize) -> usize {
    (ops / 4).max(1)
}
