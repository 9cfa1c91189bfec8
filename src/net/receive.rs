//! Taking bytes off a stream.
//!
//! # Safety
//!
//! Requests name the caller's buffers and a local message header, all borrowed until the call returns; the kernel
//! writes only bytes of buffers that are initialised already.

#![allow(unsafe_code)]

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, RawFd};

use io_uring::{cqueue, opcode, types};

use crate::atomic::{AtomicBool, Ordering};
use crate::io::{Completion, Descriptor, Wish, has_bytes, length_u32, message};
use crate::park::WaitReason;

/// `IORING_RECVSEND_POLL_FIRST`: wait for readiness before the first try, which would find nothing.
const POLL_FIRST: u16 = 1 << 0;

/// Whether the socket had more bytes when it was last read. A hint: a wrong one costs time, never bytes.
#[derive(Debug)]
pub(super) struct MoreHint(AtomicBool);

impl MoreHint {
    /// Of a fresh connection: the first request usually came with it.
    pub(super) const fn new() -> MoreHint {
        MoreHint(AtomicBool::new(true))
    }

    #[inline]
    fn priority(&self) -> u16 {
        if self.0.load(Ordering::Relaxed) {
            0
        } else {
            POLL_FIRST
        }
    }

    #[inline]
    fn learn(&self, completion: Completion, is_peek: bool) {
        let has_more =
            (is_peek && completion.result > 0) || cqueue::sock_nonempty(completion.flags);
        self.0.store(has_more, Ordering::Relaxed);
    }
}

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
pub(super) fn receive(
    descriptor: &Descriptor,
    hint: &MoreHint,
    buffer: &mut [u8],
    flags: i32,
) -> io::Result<usize> {
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
                .ioprio(if wish.is_nonblocking {
                    0
                } else {
                    hint.priority()
                })
                .build()
        })
    };
    match performed {
        Some(result) => finish(descriptor, hint, result, flags & libc::MSG_PEEK != 0),
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
    hint: &MoreHint,
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
                .ioprio(if wish.is_nonblocking {
                    0
                } else {
                    hint.priority()
                })
                .build()
        })
    };
    match performed {
        Some(result) => finish(descriptor, hint, result, false),
        None => receive_on_thread(descriptor, wish, |fd| {
            // SAFETY: header and buffers are valid during the call, as above.
            unsafe { libc::recvmsg(fd, header_ptr, libc::MSG_DONTWAIT) }
        }),
    }
}

#[inline]
fn finish(
    descriptor: &Descriptor,
    hint: &MoreHint,
    result: io::Result<Completion>,
    is_peek: bool,
) -> io::Result<usize> {
    let completion = result?;
    hint.learn(completion, is_peek);
    received(descriptor, completion.result as usize)
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
