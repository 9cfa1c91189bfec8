//! Operations that are carried out by threads outside the runtime: own threads, C libraries, devices.
//!
//! A goroutine registers an [`Operation`], hands its [`Completer`] (or, to C, its [`Token`], a number) to the outside, and waits. The
//! outside gives one *answer*: a value, a [`Fault`], or, to a request to stop, an acknowledgement. Plain threads can wait in the same
//! way.
//!
//! ```
//! use urgo::host::Operation;
//!
//! urgo::run(|| {
//!     let answer = Operation::register()?
//!         .submit(|completer| {
//!             std::thread::spawn(move || completer.complete(6 * 7));
//!         })
//!         .wait()?;
//!     assert_eq!(answer, 42);
//!     Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! })
//! # .unwrap();
//! ```
//!
//! # Which of the three
//!
//! * A call that blocks: [`blocking`](crate::blocking). It borrows from the caller, and cannot be cut short.
//! * Messages to and from a thread of your own: [`chan`](crate::chan), which works between goroutines and threads.
//! * One request to something that answers in its own time, that may have to be called off, and whose resources must stay until it has let
//!   go of them: an operation.
//!
//! # Rules
//!
//! 1. *Registered before submitted.* The completer exists only inside [`submit`](Operation::submit). An answer that is given while that
//!    still runs (an inline callback) goes the same way as all others.
//! 2. *The first answer counts.* Later ones are counted ([`counters`]) and never delivered, whatever number they name.
//! 3. *An answer stands from the moment at which the goroutine's worker applies it*, between two of its dispatches, in the order in
//!    which answers came to that worker. For plain threads that is at once.
//! 4. *A wait that is called off asks first and reports later.* If the deadline passes, the caller's context ends or the goroutine is cancelled before the answer
//!    stands, the [`on_cancel`](Operation::on_cancel) hook is called, on the goroutine, once. Then the goroutine waits, uncancellably,
//!    until the outside has let go: with [`ack`](Completer::ack), or with any other answer. Only then does the wait return or unwind, so
//!    nothing that was lent to the outside goes away under its feet.
//! 5. *A fault is reported whatever else; else a cancellation that came first; else the value.* A value that comes too late is dropped on
//!    the goroutine, after the outside has let go. A value that stands is never taken back.
//! 6. *An operation that is dropped instead of waited for is called off* in the same way, and so is one whose goroutine unwinds.
//!
//! # Who never answers
//!
//! A dropped [`Completer`] is an answer (a fault, [`FaultKind::Abandoned`]), so panics of the outside do not leave anybody waiting. But an
//! outside that keeps its completer, or C code that loses its token, keeps the goroutine: a deadline does not help, because it is reported
//! only after the outside has let go. The end of a runtime calls all operations off and waits for the outside just as it waits for
//! [`blocking`](crate::blocking) calls, without a limit. Where the outside may be hung and holds nothing that matters, say
//! [`without_ack`](Operation::without_ack): such a wait ends at once, and the answer, if it ever comes, finds nobody.
//!
//! Completers and tokens may outlive the runtime; what they say then is dropped on their own thread and counted as retired. Two runtimes in one
//! process share nothing but the list of owners, from which no number is given twice.
//!
//! # Faults are not errors
//!
//! What the outside has to say about a request (not found, connection refused) is a value: make `T` a `Result`. A [`Fault`] says that
//! the operation itself has failed: the library broke down, the thread is gone.

mod answer;
mod completer;
mod fault;
mod operation;
mod token;

pub use crate::sched::outside::HostCounters;
pub use completer::Completer;
pub use fault::{Fault, FaultKind, RegisterError, WaitError};
pub use operation::{Operation, Submitted};
pub use token::Token;

/// Everything that was counted in this process so far, for all runtimes, ended ones too, and plain threads.
///
/// Blocks nothing. One runtime's part is in [`debug::metrics`](crate::debug::metrics).
#[must_use]
pub fn counters() -> HostCounters {
    crate::sched::outside::total()
}
