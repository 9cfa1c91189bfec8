//! # Purpose
//!
//! Time as goroutines see it: instants of the runtime's monotonic clock, sleeping until one of them, and limits on waiting.
//!
//! # Imports
//!
//! `sched` and below.

mod deadline;
mod instant;
#[cfg(not(urgo_loom))]
mod sleep;
#[cfg(not(urgo_loom))]
mod timeout;

pub use deadline::Deadline;
pub(crate) use deadline::DeadlineNs;
pub use instant::Instant;
pub(crate) use instant::duration_ns;
#[cfg(not(urgo_loom))]
pub use sleep::{sleep, sleep_until};
pub use std::time::Duration;
#[cfg(not(urgo_loom))]
pub use timeout::timeout;
