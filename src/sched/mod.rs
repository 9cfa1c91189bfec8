//! # Purpose
//!
//! Runs goroutines: workers pinned to CPUs, each with its run queue, fresh deque, inbox, timers and ring; waiting and
//! waking; operations, of the kernel's and of outside threads; placement and stealing; falling asleep and waking up; and the orderly end.
//!
//! # Words
//!
//! *Worker*: the OS thread of one CPU. *Host stack*: its own stack, where the loop runs. *Run queue*: its homed
//! goroutines that are ready. *Fresh deque*: goroutines that have not started and may be stolen. *Inbox*: what others
//! hand to it. *Command box*: what else they ask of it. *Injector*: fresh goroutines from threads that are no workers. *Dispatch*: to run a goroutine until it
//! leaves.
//!
//! # Algorithm
//!
//! 1. A worker picks: next slot, run queue, fresh deque (a few in a row), inbox, ring and timers, injector, other
//!    workers' fresh deques; then it sleeps in one `io_uring_enter` with its earliest deadline ([`idle`]).
//! 2. Every 61 dispatches, after 500 µs, or after 50 µs if the ring says that something has come, it looks at inbox, ring, timers and
//!    injector first, and lets a burst of fresh goroutines start.
//! 3. A goroutine that leaves switches straight to the next in the run queue; every 16 dispatches, when the ring calls, or
//!    when submissions have waited too long, through the host stack.
//! 4. Submissions collect while goroutines run, and go to the kernel when the worker has nothing to run, when 64 wait, when
//!    the oldest is 50 µs old, or before the last ready goroutine runs.
//! 5. Fresh goroutines start newest first; thieves, and every half millisecond the worker itself, take the oldest.
//!
//! 6. Whoever cancels a goroutine marks it and tells its home, which alone ends its wait (`cancel`).
//!
//! # Invariants
//!
//! A started goroutine is dispatched on its home worker's thread only. A goroutine is in at most one queue. A suspended
//! goroutine is readied exactly once per wait (the wait word has one winner).
//!
//! # Imports
//!
//! `atomic`, `limits`, `seam`, `park`, `ambient`, `goroutine`, `timer`, `urgo-arch`, `urgo-sys`, `urgo-uring`, `crossbeam-deque`.

#[cfg(not(urgo_loom))]
pub(crate) mod ambient;
mod epoch;
pub(crate) mod idle;
pub(crate) mod inbox;
mod watch;

#[cfg(urgo_loom)]
mod model;

#[cfg(not(urgo_loom))]
mod cancel;
#[cfg(not(urgo_loom))]
mod entry;
#[cfg(not(urgo_loom))]
mod fresh;
#[cfg(not(urgo_loom))]
mod operation;
#[cfg(not(urgo_loom))]
pub(crate) mod outside;
#[cfg(not(urgo_loom))]
mod overflow;
#[cfg(not(urgo_loom))]
mod panic_count;
#[cfg(not(urgo_loom))]
mod pool;
#[cfg(not(urgo_loom))]
mod presence;
#[cfg(not(urgo_loom))]
mod remote;
#[cfg(not(urgo_loom))]
mod roll;
#[cfg(not(urgo_loom))]
mod run_queue;
#[cfg(not(urgo_loom))]
mod shared;
#[cfg(not(urgo_loom))]
mod spawn;
#[cfg(not(urgo_loom))]
mod start;
#[cfg(not(urgo_loom))]
mod steal;
#[cfg(not(urgo_loom))]
mod stop;
#[cfg(not(urgo_loom))]
mod task;
#[cfg(not(urgo_loom))]
mod turn;
#[cfg(not(urgo_loom))]
mod wait;
#[cfg(not(urgo_loom))]
mod worker;

#[cfg(not(urgo_loom))]
mod exports {
    pub(crate) use super::cancel::{Marked, cancel, mark_started};
    pub(crate) use super::operation::{Performed, perform};
    pub(crate) use super::roll::Seen;
    pub(crate) use super::shared::{Shared, cancel_fd};
    pub(crate) use super::spawn::{Plan, SpawnRefused, free};
    pub(crate) use super::start::{Plan as StartPlan, StartError, start};
    pub(crate) use super::turn::{give_turn, spend_turn};
    pub(crate) use super::wait::{
        FAR, Here, NEVER, choose, has_others_ready, here, new_parked_waiter, new_waiter, now_ns,
        on_goroutine, settle, thread_token, uncancellable, unwind_if_cancelled, wait, wait_parked,
        wait_uncancellable, yield_now,
    };
    pub(crate) use super::worker::{current, worker};
    pub(crate) use crate::ambient::ContextError;
}
#[cfg(not(urgo_loom))]
pub(crate) use exports::*;
#[cfg(urgo_loom)]
pub(crate) use model::*;
#[cfg(not(urgo_loom))]
pub use spawn::Placement;
