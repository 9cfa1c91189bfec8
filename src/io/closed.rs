//! The error of a call on a handle that was closed.

use std::error::Error;
use std::fmt;
use std::io;

/// The handle was closed with its `close` method, before the call or while it waited.
///
/// Calls return it inside an [`io::Error`] of kind [`NotConnected`](io::ErrorKind::NotConnected).
///
/// # Examples
///
/// ```
/// use urgo::net::{ClosedError, TcpListener};
///
/// # fn main() -> std::io::Result<()> {
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// listener.close()?;
/// let error = listener.accept().unwrap_err();
/// assert!(ClosedError::is_in(&error));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClosedError;

impl ClosedError {
    /// Whether `error` says that the handle was closed here, rather than by the peer or the kernel.
    pub fn is_in(error: &io::Error) -> bool {
        error
            .get_ref()
            .is_some_and(|inner| inner.is::<ClosedError>())
    }
}

impl fmt::Display for ClosedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("use of a closed socket")
    }
}

impl Error for ClosedError {}

/// A [`ClosedError`] as an I/O error.
#[cold]
pub(crate) fn closed_error() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, ClosedError)
}
