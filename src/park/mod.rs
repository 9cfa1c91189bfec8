//! # Purpose
//!
//! What it takes to wait: the wait word, the waiter around it, and queues of waiters. Goroutines and OS threads wait
//! through the same records; only how they are put to sleep and woken differs, and that is the scheduler's part.
//!
//! # Words
//!
//! *Waiter*: the record of one wait, on the waiter's own stack. *Wait word*: its atomic. *Outcome*: how the wait ended.
//! *Wake*: the debt of whoever ended it.
//!
//! # Algorithm
//!
//! 1. The waiter makes a [`Waiter`], publishes its address under whatever protects the thing waited for.
//! 2. It parks (`EMPTY` → `PARKED`) and leaves its stack (goroutine) or enters `futex(2)` (thread).
//! 3. Whoever has what it waits for takes it off the queue *under the lock* and ends the wait by an exchange on the
//!    word. Only one such exchange wins; a loser has delivered nothing.
//! 4. The winner settles the returned [`Wake`] *outside the lock*: mark under the lock, wake outside it.
//! 5. A waiter that timed out or was cancelled takes the lock and removes itself before its frame goes.
//!
//! A goroutine cannot be resumed before it has left its stack, because only its own worker resumes it, and that
//! worker's thread is the one that is leaving. So waiting needs no commit step.
//!
//! # Imports
//!
//! `atomic`, `crossbeam-utils`, `urgo-sys`.

mod biased;
pub(crate) mod lot;
#[cfg(not(urgo_loom))]
mod queue;
mod reason;
mod waiter;
pub(crate) mod word;

pub(crate) use biased::{BiasedLock, Presence, Token};
#[cfg(not(urgo_loom))]
pub(crate) use queue::WaitQueue;
pub use reason::WaitReason;
pub(crate) use waiter::{Outcome, Target, Waiter, Wake};
pub(crate) use word::CASE_FIRST;
