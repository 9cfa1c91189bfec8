//! From what a user calls an address to socket addresses.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use crate::blocking::{blocking, on_the_pool};
use crate::host::{Operation, WaitError};
use crate::net::literal::{Name, is_literal};
use crate::sched;

/// Tries `attempt` on each address of `target` until one succeeds.
///
/// # Errors
/// Of the lookup; of the last attempt if all fail; `InvalidInput` if there is no address.
pub(super) fn first_that_works<A, T>(
    target: &A,
    mut attempt: impl FnMut(&SocketAddr) -> io::Result<T>,
) -> io::Result<T>
where
    A: ToSocketAddrs + Sync,
{
    let mut last_error = None;
    for address in resolve(target)? {
        match attempt(&address) {
            Ok(made) => return Ok(made),
            Err(error) => last_error = Some(error),
        }
    }
    Err(last_error.unwrap_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "could not resolve to any addresses",
        )
    }))
}

/// A lookup may ask servers over the network through the C library, which blocks its thread: it runs on the pool. Under a context it may
/// be left to itself there: then it works on a copy of the name.
fn resolve<A: ToSocketAddrs + Sync>(target: &A) -> io::Result<Vec<SocketAddr>> {
    let resolve = || target.to_socket_addrs().map(Iterator::collect);
    if is_literal(target) {
        return resolve();
    }
    match sched::ambient::in_force() {
        None => blocking(resolve),
        Some(context) => {
            if let Some(error) = sched::ambient::ended(&context) {
                return Err(error.into());
            }
            match Name::of(target) {
                Some(name) => look_up(name),
                None => blocking(resolve),
            }
        }
    }
}

/// Waits for the answer no longer than the caller's context lasts.
fn look_up(name: Name) -> io::Result<Vec<SocketAddr>> {
    let asked = Operation::register()
        .map_err(io::Error::other)?
        .without_ack()
        .submit(|completer| {
            on_the_pool(move || {
                // Nobody waits any more: a slow server of names must not keep the pool from others.
                if completer.is_cancelled() {
                    completer.ack();
                } else {
                    completer.complete(name.look_up());
                }
            });
        });
    match asked.wait() {
        Ok(found) => found,
        Err(WaitError::Context(error)) => Err(error.into()),
        Err(error) => Err(io::Error::other(error)),
    }
}
