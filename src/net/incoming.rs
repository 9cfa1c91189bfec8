//! Connections of a listener as an iterator.

use std::io;
use std::iter::FusedIterator;

use crate::net::{ClosedError, TcpListener, TcpStream};

fn next_of(listener: &TcpListener) -> Option<io::Result<TcpStream>> {
    match listener.accept() {
        Ok((stream, _)) => Some(Ok(stream)),
        Err(error) if ClosedError::is_in(&error) => None,
        Err(error) => Some(Err(error)),
    }
}

/// The connections of a listener, one [`accept`](TcpListener::accept) per item. It ends when the listener is closed.
#[derive(Debug)]
#[must_use = "iterators are lazy and do nothing unless consumed"]
pub struct Incoming<'a> {
    pub(super) listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        next_of(self.listener)
    }
}

impl FusedIterator for Incoming<'_> {}

/// The connections of a listener that the iterator owns. It ends when the listener is closed.
#[derive(Debug)]
#[must_use = "iterators are lazy and do nothing unless consumed"]
pub struct IntoIncoming {
    pub(super) listener: TcpListener,
}

impl Iterator for IntoIncoming {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        next_of(&self.listener)
    }
}

impl FusedIterator for IntoIncoming {}
