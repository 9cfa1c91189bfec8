//! The dead socket: what a closed handle's descriptor number names until the handle is dropped.
//!
//! # Safety
//!
//! Calls `socket(2)` and `dup3(2)` through `libc`; a number that `socket` returned is owned by nobody else yet.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

static DEAD_SOCKET: OnceLock<OwnedFd> = OnceLock::new();

/// The process's one unconnected stream socket: reading, writing, accepting and connecting fail on it at once.
fn dead_socket() -> io::Result<&'static OwnedFd> {
    if let Some(dead) = DEAD_SOCKET.get() {
        return Ok(dead);
    }
    // SAFETY: `socket` takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` is open and ours because `socket` just returned it and nobody else has seen the number.
    let made = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok(DEAD_SOCKET.get_or_init(|| made))
}

/// `dup3(dead, fd, O_CLOEXEC)`: from now on `fd` names the dead socket. The number stays taken throughout.
pub(super) fn replace(fd: BorrowedFd<'_>) -> io::Result<()> {
    let dead = dead_socket()?;
    loop {
        // SAFETY: takes no pointers. `fd` stays open (on the dead socket), so its owner's promise that the number is
        // theirs holds; established by the borrow, until it ends.
        if unsafe { libc::dup3(dead.as_raw_fd(), fd.as_raw_fd(), libc::O_CLOEXEC) } >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // EBUSY: a race of the kernel with an `open` that takes the number; it cannot, the number is taken. Both pass.
        if !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY)) {
            return Err(error);
        }
    }
}
