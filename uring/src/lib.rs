//! # urgo-uring: the io_uring door
//!
//! **Purpose.** Owns one `io_uring` instance per thread: sets it up, keeps the table of operations the kernel may still
//! write for, submits, reaps, cancels, sleeps and is woken. It knows no scheduler: it hands back what became ready.
//!
//! **Words.**
//! *op*: one request, from [`Ring::register`] to its last completion record. *Token*: kind, slot and generation of an op,
//! which is also its `user_data`. *Owner*: an opaque pointer given back when the op is ready. *Record*: one CQE.
//! *Control record*: a record of the ring's own requests (cancels, kicks, the sleep word); it resumes nobody.
//! *Owed request*: a control request waiting inside the ring for room in the submission queue. *Chain*: ops of which each
//! starts when the one before has succeeded. *Retire*: to end every op because its owner will be gone.
//!
//! **Algorithm.**
//! 1. `register` takes a slot and stores the owner; only then is an SQE written by `queue`.
//! 2. `flush` submits without waiting; `poll` runs deferred completions without waiting; `wait` does both and sleeps until
//!    a record, a deadline or a signal, all in one `io_uring_enter`.
//! 3. `reap` applies every visible record in order to the table and reports each op once, at its last record.
//! 4. `outcome` takes the result and frees the slot under a new generation.
//! 5. `queue_chain` links several ops. They are written as one piece, and every submission takes all that is written, so
//!    none of ours cuts a chain. Each op keeps a token and a record of its own; one that a broken chain ends with
//!    `-ECANCELED` has not been marked, so that counts as a result.
//! 6. `retire` ends an owner's time: what was not queued is withdrawn, the rest cancelled, waited for and handed to the
//!    caller for release; nobody is resumed. The ring then serves others; late records of the old tokens are `retired`.
//!    Dropping a ring retires it. `abandon` is for ops that never end: it counts them as leaked and does not wait.
//!
//! Rejected: one kernel timeout per deadline (cancelling one walks the list of all); `user_data` holding pointers (a late
//! record would be a wild pointer); freeing on a failed `enter` (the SQE is published, the kernel may still take it);
//! signal masks in `enter` (the wait returns on a signal, and the caller looks).
//!
//! **State.** An op's states are those of [`Phase`]; `table.rs` has the table of state and event.
//!
//! **Ordering.** All ring state is owned by one thread; the only shared words are the kernel's. The submission tail is
//! published with release by `io-uring`'s queue (the kernel acquires it in `enter`), the completion tail is acquired
//! (the kernel releases it after writing the records). [`RingView`] reads the same words from other threads as hints.
//!
//! **Invariants.** `registered = completed + cancelled + faulted + withdrawn + leaked + unfinished`, and nothing is
//! unfinished when a ring has been retired, dropped or abandoned; checked by [`Ring::check`]. Exactly one `Ready` per op; no
//! slot is reused before its outcome was taken. `table_model.rs` walks every state that two ops can reach and checks each;
//! `conformance.rs` compares what it foretells with the running kernel.
//!
//! **Fails when.** Set-up: [`SetupError`]. Submission queue full: [`SqFull`], the entry comes back. Table full:
//! [`TableFull`]. `enter` errors: the table in `enter.rs`; those that mean lost completions or a broken caller are fatal.
//!
//! **Faults.** With the cargo feature `fault-injection`, for tests only, a ring can have a plan of what its kernel does
//! wrong; see `faults.rs`. Without it there is no trace of that in the code.
//!
//! **Imports.** `io-uring`, `libc`, `bitflags`, `urgo-sys`.

#![deny(unsafe_code)]

mod capabilities;
#[cfg(test)]
mod conformance;
mod counters;
mod enter;
#[cfg(feature = "fault-injection")]
pub mod faults;
mod host;
mod kick;
mod ring;
mod setup;
mod setup_error;
mod table;
mod token;
mod view;

pub use capabilities::Capabilities;
pub use counters::Counters;
pub use ring::{ChainFull, Event, Flushed, Reaped, Ring, SqFull, Waited};
pub use setup::Config;
pub use setup_error::SetupError;
pub use table::{Outcome, Phase, TableFull};
pub use token::{Kind, Owner, Token};
pub use view::RingView;

/// The SQE type that [`Ring::queue`] takes, and the builders that make it.
pub use io_uring::{opcode, squeue, types};
