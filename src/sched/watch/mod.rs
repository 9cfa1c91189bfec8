//! # Purpose
//!
//! Names the goroutine that keeps a worker for too long, and why. Off unless `URGO_REPORT_STUCK` says after how many
//! milliseconds.
//!
//! # Words
//!
//! *Watch thread*: the plain thread that looks, one per runtime. *Watched*: a worker that says what it runs. *Look*: one round
//! over all workers. *Episode*: one dispatch seen at several looks.
//!
//! # Algorithm
//!
//! 1. A watched worker writes at each dispatch which goroutine it runs ([`running`]). One that is not watched has a branch for it.
//! 2. The watch thread looks twice in the time of the limit. What it sees of a worker twice is an episode ([`episode`]).
//! 3. When an episode is too long, the kernel is asked what the worker's thread does ([`thread_state`]), and the worker once more
//!    whether it still runs the same dispatch.
//! 4. One line goes to descriptor 2, past std's lock on stderr, which the stuck goroutine may hold or wait for; then to `tracing`.
//! 5. The last worker to leave ends the thread. It looks once more before, so that ends are said.
//!
//! It only looks: nobody is preempted, and a worker that is stuck on its host stack (a destructor that waits there) is not seen.
//!
//! # Imports
//!
//! `atomic`, `limits`, `seam`, `sched::remote`, `libc` (numbers of system calls), `urgo-sys`, `tracing`.

mod running;

#[cfg(not(urgo_loom))]
mod episode;
#[cfg(not(urgo_loom))]
mod thread;
#[cfg(not(urgo_loom))]
mod thread_state;

pub(crate) use running::Running;
#[cfg(not(urgo_loom))]
pub(crate) use thread::Watch;
