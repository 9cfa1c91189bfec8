//! What calls on channels fail with. Send errors give the message back.

use std::error::Error;
use std::fmt;

/// A [`send`](super::Sender::send) failed: there are no receivers, or the channel was closed. Holds the message.
///
/// ```
/// use urgo::chan::{SendError, bounded};
///
/// let (s, r) = bounded(1);
/// drop(r);
/// assert_eq!(s.send("late"), Err(SendError("late")));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SendError<T>(pub T);

/// A [`try_send`](super::Sender::try_send) failed. Holds the message.
///
/// ```
/// use urgo::chan::{TrySendError, bounded};
///
/// let (s, r) = bounded(1);
/// s.send(1).unwrap();
/// assert_eq!(s.try_send(2), Err(TrySendError::Full(2)));
/// drop(r);
/// assert_eq!(s.try_send(3), Err(TrySendError::Disconnected(3)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrySendError<T> {
    /// There was no room, or, on a rendezvous channel, nobody who waited for a message.
    Full(T),
    /// There are no receivers, or the channel was closed.
    Disconnected(T),
}

/// A [`send_timeout`](super::Sender::send_timeout) or [`send_deadline`](super::Sender::send_deadline) failed. Holds the
/// message.
///
/// ```
/// use std::time::Duration;
/// use urgo::chan::{SendTimeoutError, bounded};
///
/// let (s, _r) = bounded(0);
/// assert_eq!(s.send_timeout(1, Duration::from_millis(1)), Err(SendTimeoutError::Timeout(1)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendTimeoutError<T> {
    /// Time was up before there was room or, on a rendezvous channel, a receiver.
    Timeout(T),
    /// There are no receivers, or the channel was closed.
    Disconnected(T),
}

/// A [`recv`](super::Receiver::recv) failed: the channel is empty, and nothing more can come.
///
/// ```
/// use urgo::chan::{RecvError, bounded};
///
/// let (s, r) = bounded(1);
/// s.send(1).unwrap();
/// drop(s);
/// assert_eq!(r.recv(), Ok(1));
/// assert_eq!(r.recv(), Err(RecvError));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecvError;

/// A [`try_recv`](super::Receiver::try_recv) failed.
///
/// ```
/// use urgo::chan::{TryRecvError, bounded};
///
/// let (s, r) = bounded::<i32>(1);
/// assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
/// drop(s);
/// assert_eq!(r.try_recv(), Err(TryRecvError::Disconnected));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TryRecvError {
    /// There was no message, or, on a rendezvous channel, nobody who waited to send one.
    Empty,
    /// The channel is empty, and nothing more can come.
    Disconnected,
}

/// A [`recv_timeout`](super::Receiver::recv_timeout) or [`recv_deadline`](super::Receiver::recv_deadline) failed.
///
/// ```
/// use std::time::Duration;
/// use urgo::chan::{RecvTimeoutError, bounded};
///
/// let (_s, r) = bounded::<i32>(1);
/// assert_eq!(r.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecvTimeoutError {
    /// Time was up before a message came.
    Timeout,
    /// The channel is empty, and nothing more can come.
    Disconnected,
}

/// A [`try_select`](super::Select::try_select) failed: every operation would have waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrySelectError;

/// A [`select_timeout`](super::Select::select_timeout) or [`select_deadline`](super::Select::select_deadline) failed: time
/// was up before an operation could go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SelectTimeoutError;

/// A [`try_ready`](super::Select::try_ready) failed: every operation would have waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TryReadyError;

/// A [`ready_timeout`](super::Select::ready_timeout) or [`ready_deadline`](super::Select::ready_deadline) failed: time was
/// up before an operation could go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadyTimeoutError;

const SEND_GONE: &str = "sending on a disconnected channel";
const SEND_FULL: &str = "sending on a full channel";
const SEND_LATE: &str = "timed out waiting to send";
const RECV_GONE: &str = "receiving on an empty and disconnected channel";
const RECV_EMPTY: &str = "receiving on an empty channel";
const RECV_LATE: &str = "timed out waiting to receive";
const SELECT_BLOCKED: &str = "every operation of the select would block";
const SELECT_LATE: &str = "timed out waiting on a select";

impl<T> SendError<T> {
    /// The message.
    ///
    /// ```
    /// let (s, r) = urgo::chan::unbounded();
    /// drop(r);
    /// assert_eq!(s.send("late").unwrap_err().into_inner(), "late");
    /// ```
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> TrySendError<T> {
    /// The message.
    ///
    /// ```
    /// let (s, _r) = urgo::chan::bounded(0);
    /// assert_eq!(s.try_send("early").unwrap_err().into_inner(), "early");
    /// ```
    pub fn into_inner(self) -> T {
        match self {
            TrySendError::Full(message) | TrySendError::Disconnected(message) => message,
        }
    }

    /// Whether a later attempt may succeed.
    pub fn is_full(&self) -> bool {
        matches!(self, TrySendError::Full(_))
    }

    /// Whether no later attempt can succeed.
    pub fn is_disconnected(&self) -> bool {
        matches!(self, TrySendError::Disconnected(_))
    }
}

impl<T> SendTimeoutError<T> {
    /// The message.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let (s, _r) = urgo::chan::bounded(0);
    /// let error = s.send_timeout("early", Duration::from_millis(1)).unwrap_err();
    /// assert_eq!(error.into_inner(), "early");
    /// ```
    pub fn into_inner(self) -> T {
        match self {
            SendTimeoutError::Timeout(message) | SendTimeoutError::Disconnected(message) => message,
        }
    }

    /// Whether time was up.
    pub fn is_timeout(&self) -> bool {
        matches!(self, SendTimeoutError::Timeout(_))
    }

    /// Whether no later attempt can succeed.
    pub fn is_disconnected(&self) -> bool {
        matches!(self, SendTimeoutError::Disconnected(_))
    }
}

impl TryRecvError {
    /// Whether a later attempt may succeed.
    pub fn is_empty(&self) -> bool {
        matches!(self, TryRecvError::Empty)
    }

    /// Whether no later attempt can succeed.
    pub fn is_disconnected(&self) -> bool {
        matches!(self, TryRecvError::Disconnected)
    }
}

impl RecvTimeoutError {
    /// Whether time was up.
    pub fn is_timeout(&self) -> bool {
        matches!(self, RecvTimeoutError::Timeout)
    }

    /// Whether no later attempt can succeed.
    pub fn is_disconnected(&self) -> bool {
        matches!(self, RecvTimeoutError::Disconnected)
    }
}

impl<T> From<SendError<T>> for TrySendError<T> {
    fn from(error: SendError<T>) -> TrySendError<T> {
        TrySendError::Disconnected(error.0)
    }
}

impl<T> From<SendError<T>> for SendTimeoutError<T> {
    fn from(error: SendError<T>) -> SendTimeoutError<T> {
        SendTimeoutError::Disconnected(error.0)
    }
}

impl From<RecvError> for TryRecvError {
    fn from(_: RecvError) -> TryRecvError {
        TryRecvError::Disconnected
    }
}

impl From<RecvError> for RecvTimeoutError {
    fn from(_: RecvError) -> RecvTimeoutError {
        RecvTimeoutError::Disconnected
    }
}

// A message need not be printable, so `Debug` of what holds one leaves it out.

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("SendError(..)")
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TrySendError::Full(_) => "Full(..)",
            TrySendError::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("SendTimeoutError(..)")
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(SEND_GONE)
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TrySendError::Full(_) => SEND_FULL,
            TrySendError::Disconnected(_) => SEND_GONE,
        })
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SendTimeoutError::Timeout(_) => SEND_LATE,
            SendTimeoutError::Disconnected(_) => SEND_GONE,
        })
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(RECV_GONE)
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TryRecvError::Empty => RECV_EMPTY,
            TryRecvError::Disconnected => RECV_GONE,
        })
    }
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            RecvTimeoutError::Timeout => RECV_LATE,
            RecvTimeoutError::Disconnected => RECV_GONE,
        })
    }
}

impl fmt::Display for TrySelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(SELECT_BLOCKED)
    }
}

impl fmt::Display for SelectTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(SELECT_LATE)
    }
}

impl fmt::Display for TryReadyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(SELECT_BLOCKED)
    }
}

impl fmt::Display for ReadyTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(SELECT_LATE)
    }
}

impl<T: Send> Error for SendError<T> {}
impl<T: Send> Error for TrySendError<T> {}
impl<T: Send> Error for SendTimeoutError<T> {}
impl Error for RecvError {}
impl Error for TryRecvError {}
impl Error for RecvTimeoutError {}
impl Error for TrySelectError {}
impl Error for SelectTimeoutError {}
impl Error for TryReadyError {}
impl Error for ReadyTimeoutError {}
