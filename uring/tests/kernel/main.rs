//! The ring against the running kernel. Tests wait for conditions, never for time to pass; those that need a process of
//! their own run themselves again as a child.

mod cancel;
mod chains;
#[cfg(feature = "fault-injection")]
mod faults;
mod harness;
mod kicks;
mod life;
mod queues;
mod retirement;
mod set_up;
mod streams;
mod waits;
