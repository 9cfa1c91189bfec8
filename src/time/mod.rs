//! # Purpose
//!
//! Time as goroutines see it: instants of the runtime's monotonic clock, and sleeping until one of them.
//!
//! # Imports
//!
//! `sched` and below.

mod instant;
mod sleep;

pub use instant::Instant;
pub use sleep::{sleep, sleep_until};
pub use std::time::Duration;
