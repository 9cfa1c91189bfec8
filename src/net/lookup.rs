//! From what a user calls an address to socket addresses.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use crate::blocking::blocking;
use crate::net::literal::is_literal;

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

/// A lookup may ask servers over the network through the C library, which blocks its thread: it runs on the pool.
fn resolve<A: ToSocketAddrs + Sync>(target: &A) -> io::Result<Vec<SocketAddr>> {
    let resolve = || target.to_socket_addrs().map(Iterator::collect);
    if is_literal(target) {
        resolve()
    } else {
        blocking(resolve)
    }
}
