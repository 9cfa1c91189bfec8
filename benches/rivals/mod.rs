//! The same work on goroutines, threads, coroutines of may and tasks of tokio.
//!
//! # Purpose
//! A bench writes its work once, as jobs over any channel; this room runs the jobs on one host or another, times them, and
//! checks what they returned. tokio's work is written apart, because it is made of futures.
//!
//! # Algorithm
//! The clock runs from the first spawn to the last join. Threads alone wait at a barrier first, so that their birth, a
//! thousand times that of a goroutine, is not counted.

#![allow(
    dead_code,
    reason = "each bench is its own crate and uses its own part of this room"
)]

mod channels;
mod hosts;

#[allow(unused_imports, reason = "not every bench uses channels")]
pub(crate) use channels::{Put, Take};
#[allow(unused_imports, reason = "not every bench has every host")]
pub(crate) use hosts::{Job, Work, coroutines, goroutines, tasks, threads};
