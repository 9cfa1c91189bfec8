//! # Purpose
//!
//! What every descriptor-based API shares: one operation from request to `io::Result`, on a goroutine through the
//! worker's ring and on a plain thread through system calls; deadlines; and closing while others still use a descriptor.
//!
//! # Words
//!
//! *Descriptor*: a descriptor number we own, for as long as its handle lives. *Description*: the kernel's open file
//! behind it, which clones share. *Dead socket*: an unconnected socket on which every operation fails at once.
//! *Wish*: how a call wants to wait.
//!
//! # Algorithm
//!
//! An operation: if the descriptor is closed, fail. On a goroutine, `sched::perform` it until the kernel gives a result:
//! repeat on `EINTR`; on `EAGAIN` wait for readiness and repeat; repeat on a cancel that was meant for an earlier owner
//! of the number. On a plain thread, try without waiting, and wait in `ppoll(2)` between tries. A result always wins
//! over the deadline.
//!
//! Closing, from any thread, with operations in flight:
//!
//! 1. set `is_closed`: new calls fail at once;
//! 2. `shutdown(2)` both ways, unless others may share the description: ends what is in flight, frees a listener's port;
//! 3. `dup3(2)` the dead socket over the number: requests that name the number and have not reached the kernel yet
//!    reach the dead socket. The number is never free before the handle is dropped, so it cannot be reused under a call;
//! 4. `sched::cancel_fd`: ends what is in flight where step 2 was left out;
//! 5. wake the plain threads that wait for the descriptor.
//!
//! A call that ends with nothing (no byte, no connection) while `is_closed` is set returns [`ClosedError`].
//!
//! Rejected: `close(2)` at once (operations in flight keep the file alive, the peer gets no end of stream, and the number
//! is reused under queued requests); a reference count that lets the last call close (a reader that waits for ever
//! then keeps the port).
//!
//! # Ordering
//!
//! | tag | store side | load side | publishes |
//! |---|---|---|---|
//! | IO1 | `close` sets `is_closed` | every call | that the number now names the dead socket, or soon will |
//! | IO2 | `close`: `is_closed`, fence, count of handles | `try_clone`: count, fence, `is_closed` | either `close` sees the clone and leaves the description alone, or `try_clone` sees the close and gives its copy back |
//!
//! # Fails when
//!
//! No descriptor is left for the dead socket or a thread's waker (`EMFILE`): the call returns the error.
//!
//! # Imports
//!
//! `atomic`, `sched`, `park` (reasons); io-uring, libc, urgo-sys.

mod blocked_threads;
mod closed;
mod dead_socket;
mod description;
mod descriptor;
mod operation;
mod readiness;
mod timeout;
mod vectors;

pub use closed::ClosedError;
pub(crate) use closed::closed_error;
pub(crate) use description::Description;
pub(crate) use descriptor::Descriptor;
pub(crate) use operation::{Completion, Wish, length_u32, perform, wait_ready};
pub(crate) use timeout::{NEVER, Timeout, nonzero_ns};
pub(crate) use vectors::{has_bytes, message};
