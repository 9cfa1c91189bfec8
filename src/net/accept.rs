//! Taking a connection off a listener.
//!
//! # Safety
//!
//! The request names storage for the peer's address that lives until the call returns. A descriptor number in a result
//! is owned by nobody else yet, so it is taken into ownership before anything else can happen.

#![allow(unsafe_code)]

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use io_uring::{opcode, types};
use socket2::SockAddr;

use crate::io::{Descriptor, Wish};
use crate::park::WaitReason;

/// Waits for a connection and returns it with the peer's address.
pub(super) fn accept(descriptor: &Descriptor) -> io::Result<(OwnedFd, SocketAddr)> {
    let description = descriptor.description();
    let wish = Wish {
        reason: WaitReason::Accept,
        events: libc::POLLIN,
        deadline: description.read_timeout.deadline(),
        is_nonblocking: description.is_nonblocking(),
    };
    // SAFETY: the closure gives the storage and its length to the kernel, which writes a whole address of its family or
    // nothing; both live until the closure returns.
    let (connection, address) = unsafe {
        SockAddr::try_init(|storage, length| {
            accept_into(descriptor, wish, storage.cast::<libc::sockaddr>(), length)
        })
    }?;
    let address = address.as_socket().ok_or_else(not_internet)?;
    Ok((connection, address))
}

fn accept_into(
    descriptor: &Descriptor,
    wish: Wish,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) -> io::Result<OwnedFd> {
    // A listener that must not wait goes the system call's road on goroutines as well: the file is O_NONBLOCK then, and
    // kernels before 6.10 have no accept request that does not wait.
    if !wish.is_nonblocking {
        let fd = types::Fd(descriptor.as_raw_fd());
        // SAFETY: the entry names `address` and `length`, which live until the caller's closure returns or unwinds.
        let performed = unsafe {
            descriptor.perform(wish, || {
                opcode::Accept::new(fd, address, length)
                    .flags(libc::SOCK_CLOEXEC)
                    .build()
            })
        };
        if let Some(result) = performed {
            // SAFETY: the kernel made the descriptor for this request, and nobody else has seen the number.
            return result.map(|completion| unsafe { OwnedFd::from_raw_fd(completion.result) });
        }
    }
    if !descriptor.description().is_file_lent() {
        // After readiness another caller may take the connection, and then `accept4` would wait past deadline and close.
        descriptor.lend_file()?;
    }
    descriptor.attempt(wish, |fd| accept_now(fd, address, length))
}

/// `accept4(2)` on an O_NONBLOCK listener.
fn accept_now(
    fd: RawFd,
    address: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
) -> io::Result<OwnedFd> {
    // SAFETY: `address` and `length` come from `accept`, which keeps them alive and sized for any address.
    let accepted = unsafe { libc::accept4(fd, address, length, libc::SOCK_CLOEXEC) };
    if accepted < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `accept4` just returned the number, and nobody else has seen it.
    Ok(unsafe { OwnedFd::from_raw_fd(accepted) })
}

/// The error for an address of another family, which only a descriptor from outside can have.
#[cold]
pub(super) fn not_internet() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "the socket's address is neither IPv4 nor IPv6",
    )
}
