//! # Purpose
//!
//! The one door to the outside: clock, choice, kernel operations, entropy and host threads are the only sources of
//! nondeterminism, and each is one seam here, behind one predictable branch per runtime instance. Everything above the
//! seams is the same machine code in every mode.
//!
//! # State
//!
//! | seam | what comes through it | behind it today |
//! |---|---|---|
//! | [`Clock`] | monotonic time, and a coarse tick for ageing | `Live`: `clock_gettime`, the CPU's counter |
//! | [`Choice`] | every decision that the program leaves open: victims, placement | `Live`: a small generator |
//! | [`Driver`] | kernel operations and their completions | `Live`: the worker's io_uring |
//! | [`Entropy`] | seeds | `Live`: the operating system |
//! | [`HostThreads`] | OS threads for workers and the blocking pool | `Live`: `std::thread` |
//!
//! `Record`, `Replay`, `Sim` and `Explore` are not there yet; they become further variants.
//!
//! # Imports
//!
//! `atomic`, `urgo-sys`, `urgo-uring`.

mod choice;
mod clock;
mod driver;
mod entropy;
mod host_threads;

pub(crate) use choice::Choice;
pub(crate) use clock::Clock;
pub(crate) use driver::Driver;
pub(crate) use entropy::Entropy;
pub(crate) use host_threads::HostThreads;
pub(crate) use urgo_uring::Token;
