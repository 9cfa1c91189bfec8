//! Making a connection.
//!
//! # Safety
//!
//! The request names an address that lives until the call returns.

#![allow(unsafe_code)]

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::{opcode, types};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use crate::io::{Wish, perform, wait_ready};
use crate::park::WaitReason;
use crate::sched::{self, ContextError};

/// A stream socket for addresses of `address`'s family, closed on exec.
pub(super) fn stream_socket(address: &SocketAddr) -> io::Result<Socket> {
    Socket::new(
        Domain::for_address(*address),
        Type::STREAM,
        Some(Protocol::TCP),
    )
}

/// Connects a new socket to `address`, by `deadline`.
pub(super) fn connect(address: &SocketAddr, deadline: u64) -> io::Result<OwnedFd> {
    let socket = stream_socket(address)?;
    let target = SockAddr::from(*address);
    let fd = socket.as_raw_fd();
    let wish = Wish {
        reason: WaitReason::Connect,
        events: libc::POLLOUT,
        deadline,
        is_nonblocking: true,
    };
    // SAFETY: the entry names `target`, which lives until this function returns or unwinds. A cancel can only be a stray
    // one, because no handle of the socket exists yet; the attempt goes on in the kernel, so it is not repeated.
    let performed = unsafe {
        perform(fd, wish, &|| false, || {
            opcode::Connect::new(types::Fd(fd), target.as_ptr().cast(), target.len()).build()
        })
    };
    let begun = match performed {
        Some(result) => result.map(|_| ()),
        None => match ended() {
            Some(error) => Err(error.into()),
            None => begin_on_thread(&socket, &target),
        },
    };
    match begun {
        Ok(()) => {}
        // A repeat after EINTR that came too late.
        Err(error) if error.raw_os_error() == Some(libc::EISCONN) => {}
        Err(error) if is_under_way(&error) => finish(&socket, wish)?,
        Err(error) => return Err(error),
    }
    Ok(OwnedFd::from(socket))
}

/// Why the caller's context is over, if it is.
fn ended() -> Option<ContextError> {
    sched::ambient::ended(&*sched::ambient::in_force()?)
}

/// `connect(2)` that does not wait.
fn begin_on_thread(socket: &Socket, target: &SockAddr) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let begun = socket.connect(target);
    socket.set_nonblocking(false)?;
    begun
}

/// The kernel goes on connecting although the call ended.
fn is_under_way(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINPROGRESS | libc::EALREADY | libc::EINTR | libc::ECANCELED)
    )
}

/// Waits for the end of an attempt under way.
fn finish(socket: &Socket, wish: Wish) -> io::Result<()> {
    loop {
        wait_ready(socket.as_raw_fd(), wish)?;
        let options = SockRef::from(socket);
        if let Some(error) = options.take_error()? {
            return Err(error);
        }
        match options.peer_addr() {
            Ok(_) => return Ok(()),
            // Readiness that was not the end of the attempt (a poll ended by a stray cancel).
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
            Err(error) => return Err(error),
        }
    }
}
