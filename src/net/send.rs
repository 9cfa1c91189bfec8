//! Putting bytes on a stream. Never raises `SIGPIPE`.
//!
//! # Safety
//!
//! Requests name the caller's buffers and a local message header, all borrowed until the call returns; the kernel only
//! reads them.

#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;

use io_uring::{opcode, types};

use crate::io::{Completion, Descriptor, Wish, has_bytes, length_u32, message};
use crate::park::WaitReason;

fn wish(descriptor: &Descriptor) -> Wish {
    let description = descriptor.description();
    Wish {
        reason: WaitReason::Write,
        events: libc::POLLOUT,
        deadline: description.write_timeout.deadline(),
        is_nonblocking: description.is_nonblocking(),
    }
}

/// A handle that waits lets the kernel complete whole writes (`MSG_WAITALL`), as a blocking socket does.
fn flags_of(wish: Wish) -> i32 {
    libc::MSG_NOSIGNAL
        | if wish.is_nonblocking {
            libc::MSG_DONTWAIT
        } else {
            libc::MSG_WAITALL
        }
}

/// Sends `bytes`; fewer than all only at a deadline, an error after the first byte, or on a handle that does not wait.
#[inline]
pub(super) fn send(descriptor: &Descriptor, bytes: &[u8]) -> io::Result<usize> {
    if bytes.is_empty() {
        return descriptor.check_open().map(|()| 0);
    }
    let wish = wish(descriptor);
    let length = length_u32(bytes.len()) as usize;
    match send_on_ring(descriptor, wish, bytes) {
        Some(Ok(sent)) if sent < length && !wish.is_nonblocking => {
            Ok(send_rest(descriptor, wish, bytes, sent))
        }
        Some(result) => result,
        None => send_on_thread(descriptor, wish, &bytes[..length]),
    }
}

/// One request; `None` on a plain thread, where nothing was done.
#[inline]
fn send_on_ring(descriptor: &Descriptor, wish: Wish, bytes: &[u8]) -> Option<io::Result<usize>> {
    let (start, length) = (bytes.as_ptr(), length_u32(bytes.len()));
    let fd = types::Fd(descriptor.as_raw_fd());
    // SAFETY: the entry names `bytes`, which are borrowed until this function returns or unwinds.
    let performed = unsafe {
        descriptor.perform(wish, || {
            opcode::Send::new(fd, start, length)
                .flags(flags_of(wish))
                .build()
        })
    };
    performed.map(|result| result.map(count))
}

/// The kernel tries to send all, but does not promise it: 6.1 stops early when signals come. What was sent counts more
/// than why it stopped; whatever that was comes with the next call.
#[cold]
fn send_rest(descriptor: &Descriptor, wish: Wish, bytes: &[u8], mut sent: usize) -> usize {
    let length = length_u32(bytes.len()) as usize;
    while sent < length {
        match send_on_ring(descriptor, wish, &bytes[sent..length]) {
            Some(Ok(count)) if count > 0 => sent += count,
            _ => break,
        }
    }
    sent
}

/// Sends `buffers` in turn.
pub(super) fn send_vectored(descriptor: &Descriptor, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
    if !has_bytes(buffers) {
        return descriptor.check_open().map(|()| 0);
    }
    let wish = wish(descriptor);
    // `IoSlice` is `iovec` in memory; std promises it. The kernel does not write through a header that is sent.
    let header = message(buffers.as_ptr().cast_mut().cast(), buffers.len());
    let header_ptr = &raw const header;
    let fd = types::Fd(descriptor.as_raw_fd());
    // SAFETY: the entry names `header` and through it `buffers`, which live until this function returns or unwinds.
    let performed = unsafe {
        descriptor.perform(wish, || {
            opcode::SendMsg::new(fd, header_ptr)
                .flags(flags_of(wish).cast_unsigned())
                .build()
        })
    };
    match performed {
        Some(result) => result.map(count),
        None => descriptor.attempt(wish, |fd| {
            // SAFETY: header and buffers are valid during the call, as above.
            match unsafe { libc::sendmsg(fd, header_ptr, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) }
            {
                sent @ 0.. => Ok(sent.cast_unsigned()),
                _ => Err(io::Error::last_os_error()),
            }
        }),
    }
}

fn count(completion: Completion) -> usize {
    completion.result as usize
}

/// Until all is sent, as a blocking socket does; what was sent counts more than why it stopped.
fn send_on_thread(descriptor: &Descriptor, wish: Wish, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        let rest = &bytes[sent..];
        let attempted = descriptor.attempt(wish, |fd| {
            // SAFETY: `rest` is valid for reading during the call.
            match unsafe {
                libc::send(
                    fd,
                    rest.as_ptr().cast(),
                    rest.len(),
                    libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
                )
            } {
                count @ 0.. => Ok(count.cast_unsigned()),
                _ => Err(io::Error::last_os_error()),
            }
        });
        match attempted {
            Ok(count) => sent += count,
            Err(_) if sent > 0 => break,
            Err(error) => return Err(error),
        }
        if wish.is_nonblocking {
            break;
        }
    }
    Ok(sent)
}
