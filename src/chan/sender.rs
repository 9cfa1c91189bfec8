//! The sending side.
//!
//! # Safety
//!
//! `Send` and `Sync` are asserted here, for messages that may change threads.

#![allow(unsafe_code)]

use super::buffered::{Buffered, Side};
use super::error::{SendError, SendTimeoutError, TrySendError};
use super::handles::SenderEnd;
use super::line::Entry;
use super::patience::{deadline_after, deadline_at};
use super::select::{Registered, SelectHandle};
use super::token::Token;
use super::zero::Zero;
use crate::sched;
use crate::time::Deadline;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

/// The sending side of a channel.
///
/// Clones send on the same channel. When the last is dropped, receivers get what is queued and then learn that the channel
/// is disconnected.
///
/// May be used by goroutines of any runtime and by plain threads at once.
///
/// ```
/// use urgo::chan::unbounded;
///
/// urgo::run(|| {
///     let (s, r) = unbounded();
///     for n in 1..=3 {
///         let s = s.clone();
///         urgo::spawn(move || s.send(n).unwrap());
///     }
///     drop(s);
///     assert_eq!(r.iter().sum::<i32>(), 6);
/// });
/// ```
pub struct Sender<T> {
    pub(super) flavor: SenderFlavor<T>,
}

pub(super) enum SenderFlavor<T> {
    Buffered(SenderEnd<Buffered<T>>),
    Zero(SenderEnd<Zero<T>>),
}

// SAFETY: a handle moves messages between threads and drops them, so they must be `Send`; what is behind it is locked.
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: as above; a shared handle never gives out a reference to a message.
unsafe impl<T: Send> Sync for Sender<T> {}

impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}

/// `$call` on whatever channel `$self` is a handle of.
macro_rules! on_channel {
    ($self:ident, $channel:ident => $call:expr) => {
        match &$self.flavor {
            SenderFlavor::Buffered($channel) => $call,
            SenderFlavor::Zero($channel) => $call,
        }
    };
}

impl<T> Sender<T> {
    /// Sends a message, waiting for room.
    ///
    /// Blocks the calling goroutine (or plain thread) while a bounded channel is full. On a rendezvous channel (capacity 0)
    /// it blocks until a receiver has taken the message. An unbounded channel and a `oneshot` never block.
    ///
    /// The send happens before the receive that gets the message returns. The messages of one sender arrive in the order
    /// they were sent.
    ///
    /// A goroutine that is cancelled while it waits drops the message, and unwinds.
    ///
    /// # Errors
    ///
    /// [`SendError`] with the message if there are no receivers or the channel was closed, be it while this call waits.
    ///
    /// ```
    /// use urgo::chan::{SendError, bounded};
    ///
    /// urgo::run(|| {
    ///     let (s, r) = bounded(1);
    ///     s.send(1).unwrap();
    ///     urgo::spawn(move || assert_eq!(r.recv(), Ok(1))); // and drops `r`
    ///     let second = s.send(2); // waits for room
    ///     assert!(second.is_ok() || second == Err(SendError(2)));
    ///     while s.send(3).is_ok() {}
    /// });
    /// ```
    #[inline]
    pub fn send(&self, msg: T) -> Result<(), SendError<T>> {
        on_channel!(self, channel => channel.send(msg, sched::NEVER))
            .map_err(|error| SendError(error.into_inner()))
    }

    /// Sends a message if that takes no waiting. Blocks nothing.
    ///
    /// On a rendezvous channel it succeeds only if a receiver waits at this moment.
    ///
    /// # Errors
    ///
    /// [`TrySendError`] with the message: `Full` if there is no room (no waiting receiver), `Disconnected` if there are no
    /// receivers or the channel was closed.
    ///
    /// ```
    /// use urgo::chan::{TrySendError, bounded};
    ///
    /// let (s, _r) = bounded(1);
    /// assert_eq!(s.try_send(1), Ok(()));
    /// assert_eq!(s.try_send(2), Err(TrySendError::Full(2)));
    /// ```
    #[inline]
    pub fn try_send(&self, msg: T) -> Result<(), TrySendError<T>> {
        let sent = on_channel!(self, channel => channel.try_send(msg));
        if let Err(TrySendError::Full(_)) = sent {
            sched::spend_turn();
        }
        sent
    }

    /// As [`send`](Self::send), but waits no longer than `timeout`.
    ///
    /// If there is room, the message is sent even with a timeout of zero.
    ///
    /// # Errors
    ///
    /// [`SendTimeoutError`] with the message: `Timeout` if time was up, `Disconnected` if there are no receivers or the
    /// channel was closed. After a `Timeout` the message was not, and will not be, received.
    ///
    /// ```
    /// use std::time::Duration;
    /// use urgo::chan::{SendTimeoutError, bounded};
    ///
    /// let (s, _r) = bounded(1);
    /// let timeout = Duration::from_millis(1);
    /// assert_eq!(s.send_timeout(1, timeout), Ok(()));
    /// assert_eq!(s.send_timeout(2, timeout), Err(SendTimeoutError::Timeout(2)));
    /// ```
    pub fn send_timeout(&self, msg: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        self.send_until(msg, || deadline_after(timeout))
    }

    /// As [`send_timeout`](Self::send_timeout), until a moment of std's clock or of the runtime's.
    ///
    /// # Errors
    ///
    /// As [`send_timeout`](Self::send_timeout).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use urgo::chan::{SendTimeoutError, bounded};
    ///
    /// let (s, _r) = bounded(1);
    /// let deadline = Instant::now() + Duration::from_millis(1);
    /// assert_eq!(s.send_deadline(1, deadline), Ok(()));
    /// assert_eq!(s.send_deadline(2, deadline), Err(SendTimeoutError::Timeout(2)));
    /// ```
    pub fn send_deadline(
        &self,
        msg: T,
        deadline: impl Deadline,
    ) -> Result<(), SendTimeoutError<T>> {
        self.send_until(msg, || deadline_at(deadline.deadline_ns()))
    }

    #[cfg(not(urgo_loom))]
    pub(crate) fn send_ns(&self, msg: T, deadline_ns: u64) -> Result<(), SendTimeoutError<T>> {
        on_channel!(self, channel => channel.send(msg, deadline_ns))
    }

    /// Looks at the clock only if it has to wait.
    fn send_until(
        &self,
        msg: T,
        deadline_ns: impl FnOnce() -> u64,
    ) -> Result<(), SendTimeoutError<T>> {
        match self.try_send(msg) {
            Ok(()) => Ok(()),
            Err(TrySendError::Disconnected(msg)) => Err(SendTimeoutError::Disconnected(msg)),
            Err(TrySendError::Full(msg)) => {
                on_channel!(self, channel => channel.send(msg, deadline_ns()))
            }
        }
    }

    /// Closes the channel, as Go's `close` does: later sends fail, and so do those that wait; receivers get what is queued
    /// and then learn that the channel is disconnected. Blocks nothing.
    ///
    /// Returns whether this call closed it; where Go panics, on a second close, this returns `false`. Closing happens
    /// before a receive that returns because of it.
    ///
    /// ```
    /// use urgo::chan::{RecvError, SendError, bounded};
    ///
    /// let (s, r) = bounded(2);
    /// s.send(1).unwrap();
    /// assert!(s.close());
    /// assert!(!s.close());
    /// assert_eq!(s.send(2), Err(SendError(2)));
    /// assert_eq!(r.recv(), Ok(1));
    /// assert_eq!(r.recv(), Err(RecvError));
    /// ```
    pub fn close(&self) -> bool {
        on_channel!(self, channel => channel.close())
    }

    /// Whether nothing is queued. Always `true` on a rendezvous channel. Blocks nothing; others may change it at once.
    ///
    /// ```
    /// let (s, _r) = urgo::chan::unbounded();
    /// assert!(s.is_empty());
    /// s.send(1).unwrap();
    /// assert!(!s.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        on_channel!(self, channel => channel.is_empty())
    }

    /// Whether there is no room. Always `true` on a rendezvous channel. Blocks nothing; others may change it at once.
    ///
    /// ```
    /// let (s, _r) = urgo::chan::bounded(1);
    /// assert!(!s.is_full());
    /// s.send(1).unwrap();
    /// assert!(s.is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        on_channel!(self, channel => channel.is_full())
    }

    /// How many messages are queued. Blocks nothing; others may change it at once.
    ///
    /// ```
    /// let (s, _r) = urgo::chan::unbounded();
    /// s.send(1).unwrap();
    /// s.send(2).unwrap();
    /// assert_eq!(s.len(), 2);
    /// ```
    pub fn len(&self) -> usize {
        on_channel!(self, channel => channel.len())
    }

    /// How many messages the channel has room for; `None` if that is not limited.
    ///
    /// ```
    /// use urgo::chan::{bounded, unbounded};
    ///
    /// assert_eq!(unbounded::<i32>().0.capacity(), None);
    /// assert_eq!(bounded::<i32>(5).0.capacity(), Some(5));
    /// assert_eq!(bounded::<i32>(0).0.capacity(), Some(0));
    /// ```
    pub fn capacity(&self) -> Option<usize> {
        on_channel!(self, channel => channel.capacity())
    }

    /// Whether both send on the same channel.
    ///
    /// ```
    /// let (s, _r) = urgo::chan::unbounded::<i32>();
    /// let (other, _r) = urgo::chan::unbounded::<i32>();
    /// assert!(s.same_channel(&s.clone()));
    /// assert!(!s.same_channel(&other));
    /// ```
    pub fn same_channel(&self, other: &Sender<T>) -> bool {
        match (&self.flavor, &other.flavor) {
            (SenderFlavor::Buffered(a), SenderFlavor::Buffered(b)) => a.is_same(b),
            (SenderFlavor::Zero(a), SenderFlavor::Zero(b)) => a.is_same(b),
            _ => false,
        }
    }
}

impl<T> Clone for Sender<T> {
    #[inline]
    fn clone(&self) -> Sender<T> {
        Sender {
            flavor: match &self.flavor {
                SenderFlavor::Buffered(end) => SenderFlavor::Buffered(end.clone()),
                SenderFlavor::Zero(end) => SenderFlavor::Zero(end.clone()),
            },
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Sender { .. }")
    }
}

impl<T> Sender<T> {
    /// Completes a send that a select has chosen; `token` is what it chose it with.
    #[inline]
    pub(super) fn complete_send(&self, token: &mut Token, value: T) -> Result<(), T> {
        on_channel!(self, channel => channel.complete_send(token, value))
    }
}

impl<T> SelectHandle for Sender<T> {
    #[inline]
    fn attempt(&self, token: &mut Token) -> bool {
        on_channel!(self, channel => channel.attempt(Side::Send, token))
    }

    fn is_worth_a_look(&self) -> bool {
        on_channel!(self, channel => channel.is_worth_a_look(Side::Send))
    }

    fn depth(&self) -> usize {
        on_channel!(self, channel => channel.depth(Side::Send))
    }

    fn stamp(&self) -> usize {
        on_channel!(self, channel => channel.stamp(Side::Send))
    }

    fn register(&self, entry: &Entry, token: *mut Token) -> Registered {
        match &self.flavor {
            SenderFlavor::Buffered(channel) => {
                if channel.register(Side::Send, entry, false) {
                    Registered::Ready
                } else {
                    Registered::Waiting
                }
            }
            SenderFlavor::Zero(channel) => channel.register(Side::Send, entry, token),
        }
    }

    fn unregister(&self, entry: &Entry) {
        match &self.flavor {
            SenderFlavor::Buffered(channel) => channel.unregister(Side::Send, entry, false),
            SenderFlavor::Zero(channel) => channel.unregister(Side::Send, entry),
        }
    }

    fn is_ready(&self) -> bool {
        on_channel!(self, channel => channel.is_ready(Side::Send))
    }

    fn watch(&self, entry: &Entry) -> bool {
        match &self.flavor {
            SenderFlavor::Buffered(channel) => channel.register(Side::Send, entry, true),
            SenderFlavor::Zero(channel) => channel.watch(Side::Send, entry),
        }
    }

    fn unwatch(&self, entry: &Entry) {
        match &self.flavor {
            SenderFlavor::Buffered(channel) => channel.unregister(Side::Send, entry, true),
            SenderFlavor::Zero(channel) => channel.unwatch(Side::Send, entry),
        }
    }

    fn abandon(&self) {
        match &self.flavor {
            SenderFlavor::Buffered(channel) => channel.abandon_send(),
            SenderFlavor::Zero(_) => {}
        }
    }

    #[inline]
    fn address(&self) -> *const () {
        match &self.flavor {
            SenderFlavor::Buffered(end) => end.address(),
            SenderFlavor::Zero(end) => end.address(),
        }
    }
}
