//! Why a context is over.

use std::error::Error;
use std::fmt;
use std::io;

/// Why a context is over.
///
/// A call that returns an [`io::Result`](std::io::Result) and was cut short by its context has an error of the kind `TimedOut` (deadline) or `Other`
/// (cancellation) with this as its [source](std::error::Error::source); [`ContextError::of`] finds it. The kind is never
/// `Interrupted`, upon which loops of the standard library try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContextError {
    /// It, or a context it derives from, was cancelled.
    Cancelled,
    /// Its deadline, or that of a context it derives from, has passed.
    DeadlineExceeded,
}

impl ContextError {
    /// The context error in `error`, be it `error` itself, what an [`io::Error`](std::io::Error) carries, or a source of either.
    ///
    /// ```
    /// use std::io::{self, Read};
    /// use std::time::Duration;
    /// use urgo::context::{Context, ContextError};
    /// use urgo::net::{TcpListener, TcpStream};
    ///
    /// urgo::run(|| {
    ///     let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    ///     let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    ///     let context = Context::background().with_timeout(Duration::from_millis(5));
    ///     let error = context.enter(|| stream.read(&mut [0; 8])).unwrap_err();
    ///     assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    ///     assert_eq!(ContextError::of(&error), Some(ContextError::DeadlineExceeded));
    /// });
    /// ```
    pub fn of(error: &(dyn Error + 'static)) -> Option<ContextError> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref::<ContextError>() {
                return Some(*found);
            }
            let carried = error
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref);
            next = match carried {
                Some(carried) => Some(carried),
                None => error.source(),
            };
        }
        None
    }
}

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ContextError::Cancelled => "the context was cancelled",
            ContextError::DeadlineExceeded => "the context's deadline has passed",
        })
    }
}

impl Error for ContextError {}

/// What an `io::Error` carries, so that the context error is its source.
#[derive(Debug)]
struct CutShort(ContextError);

impl fmt::Display for CutShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the call was cut short: {}", self.0)
    }
}

impl Error for CutShort {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

impl From<ContextError> for io::Error {
    fn from(error: ContextError) -> io::Error {
        let kind = match error {
            ContextError::Cancelled => io::ErrorKind::Other,
            ContextError::DeadlineExceeded => io::ErrorKind::TimedOut,
        };
        io::Error::new(kind, CutShort(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_error_is_found_wherever_it_is() {
        for error in [ContextError::Cancelled, ContextError::DeadlineExceeded] {
            let io = io::Error::from(error);
            assert_ne!(io.kind(), io::ErrorKind::Interrupted);
            assert_eq!(io.source().and_then(|e| e.downcast_ref()), Some(&error));
            assert_eq!(ContextError::of(&io), Some(error));
            assert_eq!(ContextError::of(&error), Some(error));
            let wrapped = io::Error::other(io);
            assert_eq!(ContextError::of(&wrapped), Some(error));
        }
        assert_eq!(ContextError::of(&io::Error::other("no context")), None);
    }
}
