//! Taking bytes off a stream.
//!
//! A receive is tried before it is waited for, always. (Waiting first where the socket was empty before, by
//! `IORING_RECVSEND_POLL_FIRST`, was rejected: on a busy server the next request is usually there by the time its receive
//! reaches the kernel, and a 64-byte echo became about 6 % dearer.)
//!
//! # Safety
//!
//! Requests name the caller's buffers and a local message header, all borrowed until the call returns; the kernel
//! writes only bytes of buffers that are initialised already.

#![allow(unsafe_code)]

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, RawFd};

use io_uring::{opcode, types};

use crate::io::{Descriptor, Wish, has_bytes, length_u32, message};
use crate::park::WaitReason;

fn wish(descriptor: &Descriptor) -> Wish {
    let description = descriptor.description();
    Wish {
        reason: WaitReason::Read,
        events: libc::POLLIN,
        deadline: description.read_timeout.deadline(),
        is_nonblocking: description.is_nonblocking(),
    }
}

/// `MSG_DONTWAIT` where the handle must not wait.
fn flags_of(wish: Wish) -> i32 {
    if wish.is_nonblocking {
        libc::MSG_DONTWAIT
    } else {
        0
    }
}

/// Receives into `buffer`; with `MSG_PEEK` in `flags`, leaves the bytes where they are.
#[inline]
pub(super) fn receive(descriptor: &Descriptor, buffer: &mut [u8], flags: i32) -> io::Result<usize> {
    if buffer.is_empty() {
        return descriptor.check_open().map(|()| 0);
    }
    let wish = wish(descriptor);
    let (start, length) = (buffer.as_mut_ptr(), length_u32(buffer.len()));
    let fd = types::Fd(descriptor.as_raw_fd());
    // SAFETY: the entry names `buffer`, which is borrowed for us alone until this function returns or unwinds.
    let performed = unsafe {
        descriptor.perform(wish, || {
            opcode::Recv::new(fd, start, length)
                .flags(flags | flags_of(wish))
                .build()
        })
    };
    match performed {
        Some(result) => received(descriptor, result?.result as usize),
        None => receive_on_thread(descriptor, wish, |fd| {
            // SAFETY: `buffer` is valid for `length` bytes of writing during the call.
            unsafe {
                libc::recv(
                    fd,
                    start.cast(),
                    length as usize,
                    flags | libc::MSG_DONTWAIT,
                )
            }
        }),
    }
}

/// Receives into `buffers` in turn.
pub(super) fn receive_vectored(
    descriptor: &Descriptor,
    buffers: &mut [IoSliceMut<'_>],
) -> io::Result<usize> {
    if !has_bytes(buffers) {
        return descriptor.check_open().map(|()| 0);
    }
    let wish = wish(descriptor);
    // `IoSliceMut` is `iovec` in memory; std promises it.
    let mut header = message(buffers.as_mut_ptr().cast(), buffers.len());
    let header_ptr = &raw mut header;
    let fd = types::Fd(descriptor.as_raw_fd());
    // SAFETY: the entry names `header` and through it `buffers`, which live and are ours until this function returns
    // or unwinds.
    let performed = unsafe {
        descriptor.perform(wish, || {
            opcode::RecvMsg::new(fd, header_ptr)
                .flags(flags_of(wish).cast_unsigned())
                .build()
        })
    };
    match performed {
        Some(result) => received(descriptor, result?.result as usize),
        None => receive_on_thread(descriptor, wish, |fd| {
            // SAFETY: header and buffers are valid during the call, as above.
            unsafe { libc::recvmsg(fd, header_ptr, libc::MSG_DONTWAIT) }
        }),
    }
}

fn receive_on_thread(
    descriptor: &Descriptor,
    wish: Wish,
    call: impl Fn(RawFd) -> isize,
) -> io::Result<usize> {
    let count = descriptor.attempt(wish, |fd| match call(fd) {
        count @ 0.. => Ok(count.cast_unsigned()),
        _ => Err(io::Error::last_os_error()),
    })?;
    received(descriptor, count)
}

/// Bytes go first; the end of the stream on a closed handle is our own shutdown, not the peer's.
#[inline]
fn received(descriptor: &Descriptor, count: usize) -> io::Result<usize> {
    if count == 0 {
        descriptor.check_open()?;
    }
    Ok(count)
}
