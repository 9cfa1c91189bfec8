//! Channels between goroutines and plain threads, and waiting for several of them at once.
//!
//! A channel carries messages from its [`Sender`]s to its [`Receiver`]s; each message goes to one receiver. Both ends can be
//! cloned, moved, and used by goroutines of any runtime and by plain threads at once, before, during and after the life of a
//! runtime. Names, types, errors and meaning are those of the crate crossbeam-channel: `use urgo::chan as
//! crossbeam_channel` is enough for programs that were written for it.
//!
//! ```
//! use std::time::Duration;
//! use urgo::chan::{after, bounded};
//!
//! urgo::run(|| {
//!     let (jobs, queue) = bounded(16);
//!     let (results, sums) = bounded(0);
//!     urgo::spawn(move || {
//!         let mut sum = 0;
//!         for job in queue {
//!             sum += job; // until the channel is empty and `jobs` is gone
//!         }
//!         results.send(sum)
//!     });
//!     (1..=100).for_each(|n| jobs.send(n).unwrap());
//!     drop(jobs);
//!
//!     urgo::select! {
//!         recv(sums) -> sum => assert_eq!(sum, Ok(5050)),
//!         recv(after(Duration::from_secs(60))) -> _ => panic!("nothing came"),
//!     }
//! });
//! ```
//!
//! # Channels
//!
//! | made by | a send blocks | a receive blocks |
//! |---|---|---|
//! | [`bounded(n)`](bounded) | while *n* messages are queued | while nothing is queued |
//! | [`bounded(0)`](bounded), *rendezvous* | until a receiver has taken the message | until a sender comes |
//! | [`unbounded`] | never | while nothing is queued |
//! | [`oneshot`] | never; there is only one | until it has come |
//! | [`after`], [`at`], [`tick`] | | until the time of the next message |
//! | [`never()`] | | always |
//!
//! To block means that the calling goroutine waits and its worker runs others; a plain thread sleeps. The `try_` forms
//! block nothing, the `_timeout` and `_deadline` forms no longer than they say. [`select!`](crate::select!) and [`Select`]
//! wait for several operations and do one of them.
//!
//! With one exception: a select that has chosen to send on a rendezvous channel makes its message only then, and its
//! receiver waits for it, also in a `try_recv` and past its time-out, as long as that takes.
//!
//! # The end of a channel
//!
//! | what happens | sends, also waiting ones | what is queued | receives |
//! |---|---|---|---|
//! | the last sender is dropped | | can be received | then fail |
//! | [`close`](Sender::close), from either side | fail | can be received | then fail |
//! | the last receiver is dropped | fail | is dropped | |
//!
//! A send that fails gives its message back. Nothing panics: what is a panic in Go (a send on a closed channel, a second
//! close) is an error or a `false` here. Go's nil channel is [`never()`]. A message that was sent and not received is
//! dropped exactly once, at the latest with the channel.
//!
//! # Ordering
//!
//! * The messages of one sender are received in the order in which it sent them; with one receiver that is the order of its
//!   receives. Between senders the order is that in which they found room.
//! * A send happens before the receive that gets its message returns.
//! * On a channel of capacity *n*, the *k*-th receive happens before the *(k + n)*-th send returns. So the receive on a
//!   rendezvous channel happens before its send returns.
//! * Closing, and the drop of the last sender, happen before a receive that fails because of it.
//!
//! # Fairness
//!
//! Those who wait on one side of a channel are served in the order in which they came, but someone who comes while a message
//! or room is there may take it before the one who was woken for it has run; that one then goes on waiting. `select!`
//! chooses by lot among the operations that can go on, [`select_biased!`](crate::select_biased!) takes the first.
//!
//! A goroutine whose operations never wait lets the others of its worker run now and then: at every 64th `select!`, failed `try_`
//! form or message of a clock, and at every 1024th message through a queue.
//!
//! # Cancellation
//!
//! A goroutine that is cancelled unwinds from its current or next wait on a channel. A receive that was cut short has taken
//! no message. A send that was cut short has sent nothing, and its message is dropped. The same holds for time-outs, except
//! that the message comes back with the error.
//!
//! # How it differs from crossbeam-channel
//!
//! * A wait parks a goroutine, not its thread.
//! * [`oneshot`] and `close` exist.
//! * `select! {}` without any arm is a wait for ever, and the number of arms is not limited to 32.
//! * [`tick`] keeps its beat: the message after a late one comes at the next multiple of the period, not one period after the
//!   late one was received.
//! * Deadlines may be [`urgo::time::Instant`](crate::time::Instant)s too.
//! * On a [`Select`] without any operation, `select` and `ready` panic here as well, but only the macro knows at compile
//!   time that there are none.
//!
//! # Words
//!
//! *Flavor*: what is behind a handle, a buffered channel, a rendezvous (`Zero`) or a clock. *End*: one counted handle on one
//! side. *Line*, *entry*: those who wait on one side, and one wait. *Token*: what a select holds between choosing an
//! operation and completing it.
//!
//! # Layout
//!
//! `handles` counts who holds a channel; `buffered` (over `store`) and `zero` are the channels; `timed` the clocks; `line`
//! and `token` what waiting and selecting leave in a channel; `select` waits for several; `macros` writes its calls.
//!
//! # Imports
//!
//! `park` (waiters, biased lock), `sched` (waiting), `time` (deadlines), `atomic`; crossbeam-utils.

mod buffered;
mod counted;
mod ending;
mod error;
mod handles;
mod iter;
mod line;
mod list;
mod macros;
#[cfg(all(test, urgo_loom))]
mod models;
mod patience;
mod receiver;
mod select;
mod sender;
mod spin;
mod store;
mod timed;
mod token;
mod zero;

pub use crate::{select, select_biased};
pub use error::{
    ReadyTimeoutError, RecvError, RecvTimeoutError, SelectTimeoutError, SendError,
    SendTimeoutError, TryReadyError, TryRecvError, TrySelectError, TrySendError,
};
pub use iter::{IntoIter, Iter, TryIter};
pub use receiver::Receiver;
pub use select::{Select, SelectedOperation};
pub use sender::Sender;

/// What the macros call.
#[doc(hidden)]
pub mod internal {
    pub use super::macros::{no_such_arm, wait_for_ever};
    pub use super::select::Case;
    pub use super::select::engine::{select, select_timeout, try_select};
}

use buffered::Buffered;
use counted::Counted;
#[cfg(not(urgo_loom))]
pub(crate) use ending::End;
use handles::{TwoSided, pair};
use receiver::ReceiverFlavor;
use sender::SenderFlavor;
use std::time::{Duration, Instant};
use timed::{At, Tick};
use zero::Zero;

fn buffered<T>(channel: Buffered<T>) -> (Sender<T>, Receiver<T>)
where
    Buffered<T>: TwoSided,
{
    let (sender, receiver) = pair(channel);
    (
        Sender {
            flavor: SenderFlavor::Buffered(sender),
        },
        Receiver {
            flavor: ReceiverFlavor::Buffered(receiver),
        },
    )
}

/// A channel without a limit: a send never blocks, and memory grows with what is queued. It shrinks again when the messages
/// are received.
///
/// ```
/// let (s, r) = urgo::chan::unbounded();
/// (1..=1000).for_each(|n| s.send(n).unwrap());
/// assert_eq!(r.recv(), Ok(1));
/// assert_eq!(r.len(), 999);
/// ```
#[must_use]
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    buffered(Buffered::unbounded())
}

/// A channel that queues up to `cap` messages.
///
/// With a capacity of 0 it is a *rendezvous*: it queues nothing, and a message goes from a waiting sender to a waiting
/// receiver directly. A receiver on the sender's worker runs next, as soon as the sender waits.
///
/// # Panics
///
/// If a queue of `cap` messages is larger than the address space.
///
/// ```
/// use urgo::chan::{TrySendError, bounded};
///
/// let (s, r) = bounded(1);
/// s.send(1).unwrap();
/// assert_eq!(s.try_send(2), Err(TrySendError::Full(2)));
/// assert_eq!(r.recv(), Ok(1));
///
/// urgo::run(|| {
///     let (s, r) = bounded(0);
///     urgo::spawn(move || s.send("now").unwrap()); // waits for the receiver
///     assert_eq!(r.recv(), Ok("now"));
/// });
/// ```
#[must_use]
pub fn bounded<T>(cap: usize) -> (Sender<T>, Receiver<T>) {
    if cap > 0 {
        return buffered(Buffered::bounded(cap));
    }
    let (sender, receiver) = pair(Zero::new());
    (
        Sender {
            flavor: SenderFlavor::Zero(sender),
        },
        Receiver {
            flavor: ReceiverFlavor::Zero(receiver),
        },
    )
}

/// A channel for one message: an answer, or the word that something is over.
///
/// No send blocks: the first succeeds (unless there are no receivers), and closes the channel, so that all others, also
/// those of clones, fail. A receive after the message has been taken fails.
///
/// ```
/// use urgo::chan::{RecvError, SendError, oneshot};
///
/// let (s, r) = oneshot();
/// assert_eq!(s.send("done"), Ok(()));
/// assert_eq!(s.send("again"), Err(SendError("again")));
/// assert_eq!(r.recv(), Ok("done"));
/// assert_eq!(r.recv(), Err(RecvError));
/// ```
#[must_use]
pub fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    buffered(Buffered::oneshot())
}

/// A receiver that gets one message, `duration` from now: the moment at which it was due. After that it is empty for ever,
/// and never disconnected. Clones share the message.
///
/// Costs no thread and no timer until somebody waits for it. A duration that ends too late to say is for ever.
///
/// ```
/// use std::time::{Duration, Instant};
/// use urgo::chan::after;
///
/// let start = Instant::now();
/// let due = after(Duration::from_millis(2)).recv().unwrap();
/// assert!(due >= start + Duration::from_millis(2));
/// assert!(Instant::now() >= due);
/// ```
#[must_use]
pub fn after(duration: Duration) -> Receiver<Instant> {
    match At::after(duration) {
        Some(at) => Receiver {
            flavor: ReceiverFlavor::At(Counted::new((at, |moment| moment))),
        },
        None => never(),
    }
}

/// As [`after`], at a given moment. If that has passed, the message is there at once. The message is `when`.
///
/// ```
/// use std::time::{Duration, Instant};
/// use urgo::chan::at;
///
/// let when = Instant::now() + Duration::from_millis(2);
/// assert_eq!(at(when).recv(), Ok(when));
/// ```
#[must_use]
pub fn at(when: Instant) -> Receiver<Instant> {
    Receiver {
        flavor: ReceiverFlavor::At(Counted::new((At::due(when), |moment| moment))),
    }
}

/// A receiver that gets a message every `duration`: the moment at which it was due, the first `duration` from now.
///
/// At most one message waits: beats that nobody took in time are skipped, and those to come keep to the multiples of
/// `duration`. Never disconnected. Clones share the messages. Costs no thread and no timer until somebody waits.
///
/// ```
/// use std::time::{Duration, Instant};
/// use urgo::chan::tick;
///
/// let beat = Duration::from_millis(1);
/// let ticker = tick(beat);
/// let first = ticker.recv().unwrap();
/// let second = ticker.recv().unwrap();
/// assert!(second >= first + beat);
/// assert!(Instant::now() >= second);
/// ```
#[must_use]
pub fn tick(duration: Duration) -> Receiver<Instant> {
    match Tick::every(duration) {
        Some(tick) => Receiver {
            flavor: ReceiverFlavor::Tick(Counted::new((tick, |moment| moment))),
        },
        None => never(),
    }
}

/// A receiver that never gets a message and is never disconnected, as Go's nil channel. Of use as an arm of a select that is
/// switched off.
///
/// ```
/// use std::time::Duration;
/// use urgo::chan::{Receiver, RecvTimeoutError, never};
///
/// let off: Receiver<i32> = never();
/// assert_eq!(off.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
/// ```
#[must_use]
pub const fn never<T>() -> Receiver<T> {
    Receiver {
        flavor: ReceiverFlavor::Never,
    }
}
