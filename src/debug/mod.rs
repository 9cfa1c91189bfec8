//! # Purpose
//!
//! Looking inside a running runtime. Today: counts. Lists of goroutines with their stacks, dumps and traces are not there
//! yet.
//!
//! # Imports
//!
//! `sched` and below.

mod metrics;

pub use crate::park::WaitReason;
pub(crate) use metrics::of as metrics_of;
pub use metrics::{Metrics, RingMetrics, WorkerMetrics, metrics};
