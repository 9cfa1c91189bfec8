//! The receiving side.
//!
//! # Safety
//!
//! `Send` and `Sync` are asserted here, for messages that may change threads.

#![allow(unsafe_code)]

use super::buffered::{Buffered, Side};
use super::counted::Counted;
use super::ending::Ending;
use super::error::{RecvError, RecvTimeoutError, TryRecvError};
use super::handles::ReceiverEnd;
use super::iter::{Iter, TryIter};
use super::line::Entry;
use super::patience::{deadline_after, deadline_at};
use super::select::{Registered, SelectHandle};
use super::timed::{At, Tick, recv_never};
use super::token::Token;
use super::zero::Zero;
use crate::sched;
use crate::time::Deadline;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The receiving side of a channel.
///
/// Clones receive from the same channel, and each message goes to one of them. When the last is dropped, sends fail, and
/// what is queued is dropped.
///
/// May be used by goroutines of any runtime and by plain threads at once.
///
/// ```
/// use urgo::chan::bounded;
///
/// urgo::run(|| {
///     let (s, r) = bounded(4);
///     let workers: Vec<_> = (0..3)
///         .map(|_| {
///             let r = r.clone();
///             urgo::spawn(move || r.iter().sum::<i32>())
///         })
///         .collect();
///     (1..=10).for_each(|n| s.send(n).unwrap());
///     drop(s);
///     let sum: i32 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
///     assert_eq!(sum, 55);
/// });
/// ```
pub struct Receiver<T> {
    pub(super) flavor: ReceiverFlavor<T>,
}

pub(super) enum ReceiverFlavor<T> {
    Buffered(ReceiverEnd<Buffered<T>>),
    Zero(ReceiverEnd<Zero<T>>),
    At(Counted<(At, Message<T>)>),
    Tick(Counted<(Tick, Message<T>)>),
    Ending(Arc<Ending<T>>),
    Never,
}

/// Makes a message of a moment. Clocks have messages of one type only, which this function knows and `T` does not say.
pub(super) type Message<T> = fn(Instant) -> T;

// SAFETY: a handle moves messages between threads and drops them, so they must be `Send`; what is behind it is locked.
unsafe impl<T: Send> Send for Receiver<T> {}
// SAFETY: as above; a shared handle never gives out a reference to a message.
unsafe impl<T: Send> Sync for Receiver<T> {}

impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> Receiver<T> {
    /// Receives a message, waiting for one.
    ///
    /// Blocks the calling goroutine (or plain thread) while the channel is empty. Among those who wait, who came first is
    /// served first.
    ///
    /// What the sender did before it sent happens before this returns. On a channel of capacity *n*, the *k*-th receive
    /// happens before the *(k + n)*-th send returns.
    ///
    /// A goroutine that is cancelled while it waits unwinds, and has taken no message.
    ///
    /// # Errors
    ///
    /// [`RecvError`] if the channel is empty and there are no senders, or it was closed, be it while this call waits.
    ///
    /// ```
    /// use urgo::chan::{RecvError, bounded};
    ///
    /// urgo::run(|| {
    ///     let (s, r) = bounded(0);
    ///     urgo::spawn(move || s.send("hello").unwrap()); // and drops `s`
    ///     assert_eq!(r.recv(), Ok("hello"));
    ///     assert_eq!(r.recv(), Err(RecvError));
    /// });
    /// ```
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.recv_ns(sched::NEVER).map_err(|_| RecvError)
    }

    /// Receives a message if that takes no waiting. Blocks nothing.
    ///
    /// On a rendezvous channel it succeeds only if a sender waits at this moment.
    ///
    /// # Errors
    ///
    /// [`TryRecvError`]: `Empty` if there is no message (no waiting sender), `Disconnected` if nothing more can come.
    ///
    /// ```
    /// use urgo::chan::{TryRecvError, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
    /// s.send(5).unwrap();
    /// drop(s);
    /// assert_eq!(r.try_recv(), Ok(5));
    /// assert_eq!(r.try_recv(), Err(TryRecvError::Disconnected));
    /// ```
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let received = match &self.flavor {
            ReceiverFlavor::Buffered(channel) => channel.try_recv(),
            ReceiverFlavor::Zero(channel) => channel.try_recv(),
            ReceiverFlavor::At(at) => at.0.try_recv().map(at.1),
            ReceiverFlavor::Tick(tick) => tick.0.try_recv().map(tick.1),
            ReceiverFlavor::Ending(ending) => ending.try_recv(),
            ReceiverFlavor::Never => Err(TryRecvError::Empty),
        };
        if let Err(TryRecvError::Empty) = received {
            sched::spend_turn();
        }
        received
    }

    /// As [`recv`](Self::recv), but waits no longer than `timeout`.
    ///
    /// If there is a message, it is received even with a timeout of zero.
    ///
    /// # Errors
    ///
    /// [`RecvTimeoutError`]: `Timeout` if time was up, `Disconnected` if nothing more can come. After a `Timeout` no message
    /// has been taken.
    ///
    /// ```
    /// use std::time::Duration;
    /// use urgo::chan::{RecvTimeoutError, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// let timeout = Duration::from_millis(1);
    /// assert_eq!(r.recv_timeout(timeout), Err(RecvTimeoutError::Timeout));
    /// s.send(5).unwrap();
    /// assert_eq!(r.recv_timeout(timeout), Ok(5));
    /// ```
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_until(|| deadline_after(timeout))
    }

    /// As [`recv_timeout`](Self::recv_timeout), until a moment of std's clock or of the runtime's.
    ///
    /// # Errors
    ///
    /// As [`recv_timeout`](Self::recv_timeout).
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use urgo::chan::{RecvTimeoutError, unbounded};
    ///
    /// let (_s, r) = unbounded::<i32>();
    /// let deadline = Instant::now() + Duration::from_millis(1);
    /// assert_eq!(r.recv_deadline(deadline), Err(RecvTimeoutError::Timeout));
    /// ```
    pub fn recv_deadline(&self, deadline: impl Deadline) -> Result<T, RecvTimeoutError> {
        self.recv_until(|| deadline_at(deadline.deadline_ns()))
    }

    /// Looks at the clock only if it has to wait.
    fn recv_until(&self, deadline_ns: impl FnOnce() -> u64) -> Result<T, RecvTimeoutError> {
        match self.try_recv() {
            Ok(message) => Ok(message),
            Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
            Err(TryRecvError::Empty) => self.recv_ns(deadline_ns()),
        }
    }

    #[inline]
    pub(crate) fn recv_ns(&self, deadline_ns: u64) -> Result<T, RecvTimeoutError> {
        match &self.flavor {
            ReceiverFlavor::Buffered(channel) => channel.recv(deadline_ns),
            ReceiverFlavor::Zero(channel) => channel.recv(deadline_ns),
            ReceiverFlavor::At(at) => at.0.recv(deadline_ns).map(at.1),
            ReceiverFlavor::Tick(tick) => tick.0.recv(deadline_ns).map(tick.1),
            ReceiverFlavor::Ending(ending) => ending.recv(deadline_ns),
            ReceiverFlavor::Never => Err(recv_never(deadline_ns)),
        }
    }

    /// Closes the channel from the receiving side: later sends fail, and so do those that wait; what is queued can still be
    /// received, by this receiver and its clones. Blocks nothing.
    ///
    /// This is how a receiver says that it wants no more, without losing what was accepted. Go has no such call. Returns
    /// whether this call closed it, and `false` for [`after`](super::after), [`at`](super::at), [`tick`](super::tick),
    /// [`never`](super::never) and a context's `done`, which have no senders to be told.
    ///
    /// ```
    /// use urgo::chan::{RecvError, SendError, unbounded};
    ///
    /// let (s, r) = unbounded();
    /// s.send(1).unwrap();
    /// assert!(r.close());
    /// assert_eq!(s.send(2), Err(SendError(2)));
    /// assert_eq!(r.recv(), Ok(1));
    /// assert_eq!(r.recv(), Err(RecvError));
    /// ```
    pub fn close(&self) -> bool {
        match &self.flavor {
            ReceiverFlavor::Buffered(channel) => channel.close(),
            ReceiverFlavor::Zero(channel) => channel.close(),
            ReceiverFlavor::Ending(_)
            | ReceiverFlavor::At(..)
            | ReceiverFlavor::Tick(..)
            | ReceiverFlavor::Never => false,
        }
    }

    /// Whether nothing is queued. Always `true` on a rendezvous channel. Blocks nothing; others may change it at once.
    ///
    /// ```
    /// let (s, r) = urgo::chan::unbounded();
    /// assert!(r.is_empty());
    /// s.send(1).unwrap();
    /// assert!(!r.is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        match &self.flavor {
            ReceiverFlavor::Buffered(channel) => channel.is_empty(),
            ReceiverFlavor::Zero(channel) => channel.is_empty(),
            ReceiverFlavor::At(at) => at.0.is_empty(),
            ReceiverFlavor::Tick(tick) => tick.0.is_empty(),
            ReceiverFlavor::Ending(_) | ReceiverFlavor::Never => true,
        }
    }

    /// Whether there is no room. Always `true` on a rendezvous channel. Blocks nothing; others may change it at once.
    ///
    /// ```
    /// let (s, r) = urgo::chan::bounded(1);
    /// assert!(!r.is_full());
    /// s.send(1).unwrap();
    /// assert!(r.is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        match &self.flavor {
            ReceiverFlavor::Buffered(channel) => channel.is_full(),
            ReceiverFlavor::Zero(channel) => channel.is_full(),
            ReceiverFlavor::At(at) => !at.0.is_empty(),
            ReceiverFlavor::Tick(tick) => !tick.0.is_empty(),
            ReceiverFlavor::Ending(_) | ReceiverFlavor::Never => true,
        }
    }

    /// How many messages are queued. Blocks nothing; others may change it at once.
    ///
    /// ```
    /// let (s, r) = urgo::chan::unbounded();
    /// s.send(1).unwrap();
    /// s.send(2).unwrap();
    /// assert_eq!(r.len(), 2);
    /// ```
    pub fn len(&self) -> usize {
        match &self.flavor {
            ReceiverFlavor::Buffered(channel) => channel.len(),
            ReceiverFlavor::Zero(channel) => channel.len(),
            ReceiverFlavor::At(at) => usize::from(!at.0.is_empty()),
            ReceiverFlavor::Tick(tick) => usize::from(!tick.0.is_empty()),
            ReceiverFlavor::Ending(_) | ReceiverFlavor::Never => 0,
        }
    }

    /// How many messages the channel has room for; `None` if that is not limited.
    ///
    /// ```
    /// use urgo::chan::{bounded, never, unbounded};
    ///
    /// assert_eq!(unbounded::<i32>().1.capacity(), None);
    /// assert_eq!(bounded::<i32>(5).1.capacity(), Some(5));
    /// assert_eq!(never::<i32>().capacity(), Some(0));
    /// ```
    pub fn capacity(&self) -> Option<usize> {
        match &self.flavor {
            ReceiverFlavor::Buffered(channel) => channel.capacity(),
            ReceiverFlavor::Zero(channel) => channel.capacity(),
            ReceiverFlavor::At(..) | ReceiverFlavor::Tick(..) => Some(1),
            ReceiverFlavor::Ending(_) | ReceiverFlavor::Never => Some(0),
        }
    }

    /// An iterator that waits for each message, as [`recv`](Self::recv) does, and ends when the channel is empty and
    /// disconnected. `for message in &receiver` is the same.
    ///
    /// ```
    /// urgo::run(|| {
    ///     let (s, r) = urgo::chan::bounded(1);
    ///     urgo::spawn(move || (1..=3).for_each(|n| s.send(n).unwrap()));
    ///     assert_eq!(r.iter().collect::<Vec<i32>>(), [1, 2, 3]);
    /// });
    /// ```
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// An iterator over what can be received without waiting. It ends when there is no message, and may have more later.
    ///
    /// ```
    /// let (s, r) = urgo::chan::unbounded();
    /// (1..=3).for_each(|n| s.send(n).unwrap());
    /// assert_eq!(r.try_iter().collect::<Vec<i32>>(), [1, 2, 3]);
    /// ```
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }

    /// Whether both receive from the same channel. Any two of [`never`](super::never) do.
    ///
    /// ```
    /// let (_s, r) = urgo::chan::unbounded::<i32>();
    /// let (_s, other) = urgo::chan::unbounded::<i32>();
    /// assert!(r.same_channel(&r.clone()));
    /// assert!(!r.same_channel(&other));
    /// ```
    pub fn same_channel(&self, other: &Receiver<T>) -> bool {
        match (&self.flavor, &other.flavor) {
            (ReceiverFlavor::Buffered(a), ReceiverFlavor::Buffered(b)) => a.is_same(b),
            (ReceiverFlavor::Zero(a), ReceiverFlavor::Zero(b)) => a.is_same(b),
            (ReceiverFlavor::At(a), ReceiverFlavor::At(b)) => a.is_same(b),
            (ReceiverFlavor::Tick(a), ReceiverFlavor::Tick(b)) => a.is_same(b),
            (ReceiverFlavor::Ending(a), ReceiverFlavor::Ending(b)) => a.is_same(b),
            (ReceiverFlavor::Never, ReceiverFlavor::Never) => true,
            _ => false,
        }
    }
}

impl<T> Clone for Receiver<T> {
    #[inline]
    fn clone(&self) -> Receiver<T> {
        Receiver {
            flavor: match &self.flavor {
                ReceiverFlavor::Buffered(end) => ReceiverFlavor::Buffered(end.clone()),
                ReceiverFlavor::Zero(end) => ReceiverFlavor::Zero(end.clone()),
                ReceiverFlavor::At(at) => ReceiverFlavor::At(at.clone()),
                ReceiverFlavor::Tick(tick) => ReceiverFlavor::Tick(tick.clone()),
                ReceiverFlavor::Ending(ending) => ReceiverFlavor::Ending(ending.clone()),
                ReceiverFlavor::Never => ReceiverFlavor::Never,
            },
        }
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Receiver { .. }")
    }
}

impl<T> SelectHandle for Receiver<T> {
    #[inline]
    fn attempt(&self, token: &mut Token) -> bool {
        let due = match &self.flavor {
            ReceiverFlavor::Buffered(channel) => return channel.attempt(Side::Receive, token),
            ReceiverFlavor::Zero(channel) => return channel.attempt(Side::Receive, token),
            ReceiverFlavor::At(at) => at.0.try_recv().map(at.1),
            ReceiverFlavor::Tick(tick) => tick.0.try_recv().map(tick.1),
            ReceiverFlavor::Ending(ending) => return ending.now().attempt(Side::Receive, token),
            ReceiverFlavor::Never => return false,
        };
        due.map(|message| token.put(message)).is_ok()
    }

    fn deadline(&self) -> u64 {
        match &self.flavor {
            ReceiverFlavor::Buffered(_) | ReceiverFlavor::Zero(_) => sched::NEVER,
            ReceiverFlavor::At(at) => at.0.next_ns(),
            ReceiverFlavor::Tick(tick) => tick.0.next_ns(),
            ReceiverFlavor::Ending(ending) => ending.end_ns(),
            ReceiverFlavor::Never => sched::NEVER,
        }
    }

    fn is_worth_a_look(&self) -> bool {
        match &self.flavor {
            ReceiverFlavor::Buffered(channel) => channel.is_worth_a_look(Side::Receive),
            ReceiverFlavor::Zero(channel) => channel.is_worth_a_look(Side::Receive),
            ReceiverFlavor::At(_)
            | ReceiverFlavor::Tick(_)
            | ReceiverFlavor::Ending(_)
            | ReceiverFlavor::Never => false,
        }
    }

    fn depth(&self) -> usize {
        match &self.flavor {
            ReceiverFlavor::Buffered(channel) => channel.depth(Side::Receive),
            ReceiverFlavor::Zero(channel) => channel.depth(Side::Receive),
            ReceiverFlavor::At(_)
            | ReceiverFlavor::Tick(_)
            | ReceiverFlavor::Ending(_)
            | ReceiverFlavor::Never => 0,
        }
    }

    fn stamp(&self) -> usize {
        match &self.flavor {
            ReceiverFlavor::Buffered(channel) => channel.stamp(Side::Receive),
            ReceiverFlavor::Zero(channel) => channel.stamp(Side::Receive),
            ReceiverFlavor::Ending(ending) => ending.now().stamp(Side::Receive),
            ReceiverFlavor::At(_) | ReceiverFlavor::Tick(_) | ReceiverFlavor::Never => 0,
        }
    }

    // A clock has no line: whoever waits for it comes back at its time.

    fn register(&self, entry: &Entry, token: *mut Token) -> Registered {
        match &self.flavor {
            ReceiverFlavor::Buffered(channel) => {
                registered(channel.register(Side::Receive, entry, false))
            }
            ReceiverFlavor::Ending(ending) => {
                registered(ending.now().register(Side::Receive, entry, false))
            }
            ReceiverFlavor::Zero(channel) => channel.register(Side::Receive, entry, token),
            ReceiverFlavor::At(_) | ReceiverFlavor::Tick(_) | ReceiverFlavor::Never => {
                Registered::Waiting
            }
        }
    }

    fn unregister(&self, entry: &Entry) {
        match &self.flavor {
            ReceiverFlavor::Buffered(channel) => channel.unregister(Side::Receive, entry, false),
            ReceiverFlavor::Zero(channel) => channel.unregister(Side::Receive, entry),
            ReceiverFlavor::Ending(ending) => {
                ending.channel().unregister(Side::Receive, entry, false);
            }
            ReceiverFlavor::At(_) | ReceiverFlavor::Tick(_) | ReceiverFlavor::Never => {}
        }
    }

    fn is_ready(&self) -> bool {
        match &self.flavor {
            ReceiverFlavor::Buffered(channel) => channel.is_ready(Side::Receive),
            ReceiverFlavor::Zero(channel) => channel.is_ready(Side::Receive),
            ReceiverFlavor::At(at) => !at.0.is_empty(),
            ReceiverFlavor::Tick(tick) => !tick.0.is_empty(),
            ReceiverFlavor::Ending(ending) => ending.now().is_ready(Side::Receive),
            ReceiverFlavor::Never => false,
        }
    }

    fn watch(&self, entry: &Entry) -> bool {
        match &self.flavor {
            ReceiverFlavor::Buffered(channel) => channel.register(Side::Receive, entry, true),
            ReceiverFlavor::Zero(channel) => channel.watch(Side::Receive, entry),
            ReceiverFlavor::Ending(ending) => ending.now().register(Side::Receive, entry, true),
            ReceiverFlavor::At(_) | ReceiverFlavor::Tick(_) | ReceiverFlavor::Never => false,
        }
    }

    fn unwatch(&self, entry: &Entry) {
        match &self.flavor {
            ReceiverFlavor::Buffered(channel) => channel.unregister(Side::Receive, entry, true),
            ReceiverFlavor::Zero(channel) => channel.unwatch(Side::Receive, entry),
            ReceiverFlavor::Ending(ending) => {
                ending.channel().unregister(Side::Receive, entry, true);
            }
            ReceiverFlavor::At(_) | ReceiverFlavor::Tick(_) | ReceiverFlavor::Never => {}
        }
    }

    /// A chosen receive has its message; there is no permit.
    fn abandon(&self) {}

    #[inline]
    fn address(&self) -> *const () {
        match &self.flavor {
            ReceiverFlavor::Buffered(end) => end.address(),
            ReceiverFlavor::Zero(end) => end.address(),
            ReceiverFlavor::At(at) => at.address(),
            ReceiverFlavor::Tick(tick) => tick.address(),
            ReceiverFlavor::Ending(ending) => ending.channel().address(),
            // Never chosen, so never asked for.
            ReceiverFlavor::Never => std::ptr::null(),
        }
    }
}

/// What entering a queue's line came to.
fn registered(is_ready: bool) -> Registered {
    if is_ready {
        Registered::Ready
    } else {
        Registered::Waiting
    }
}
