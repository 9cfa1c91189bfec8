//! What the calls of a context return when it is over, or when what they wait for fails.

use crate::ambient::ContextError;
use crate::go::JoinHandle;
use std::error::Error;
use std::fmt;

/// Why [`Context::recv`](super::Context::recv) received nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// The channel is empty and disconnected.
    Disconnected,
    /// The context is over. No message was taken.
    Context(ContextError),
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Disconnected => {
                f.write_str("receiving on an empty and disconnected channel")
            }
            RecvError::Context(error) => write!(f, "receiving was cut short: {error}"),
        }
    }
}

impl Error for RecvError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            RecvError::Disconnected => None,
            RecvError::Context(error) => Some(error),
        }
    }
}

/// Why [`Context::send`](super::Context::send) sent nothing, and the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendError<T> {
    /// Nobody receives any more, or the channel was closed.
    Disconnected(T),
    /// The context is over. The message was not, and will not be, received.
    Context(T, ContextError),
}

impl<T> SendError<T> {
    /// The message.
    pub fn into_inner(self) -> T {
        match self {
            SendError::Disconnected(message) | SendError::Context(message, _) => message,
        }
    }
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Disconnected(_) => f.write_str("Disconnected(..)"),
            SendError::Context(_, error) => write!(f, "Context(.., {error:?})"),
        }
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Disconnected(_) => f.write_str("sending on a disconnected channel"),
            SendError::Context(_, error) => write!(f, "sending was cut short: {error}"),
        }
    }
}

impl<T> Error for SendError<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            SendError::Disconnected(_) => None,
            SendError::Context(_, error) => Some(error),
        }
    }
}

/// [`Context::join`](super::Context::join) was cut short; the goroutine runs on.
pub struct JoinInterrupted<T> {
    /// The goroutine's handle, to join or detach it.
    pub handle: JoinHandle<T>,
    /// Why.
    pub error: ContextError,
}

impl<T> fmt::Debug for JoinInterrupted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinInterrupted")
            .field("handle", &self.handle)
            .field("error", &self.error)
            .finish()
    }
}

impl<T> fmt::Display for JoinInterrupted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "joining was cut short: {}", self.error)
    }
}

impl<T> Error for JoinInterrupted<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}
